// The file format: HuggingFace's tokenizer.json, the part the DeepSeek family uses.
#pragma once

#include "runtime/core/Result.h"
#include "runtime/text/AddedTokens.h"
#include "runtime/text/Bpe.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dsv3::text {

/// What a tokenizer.json says, checked: ids are unique and below `kMaxTokenId`, every
/// merge and every byte of UTF-8 text has its token.
struct TokenizerSpec {
  static constexpr int32_t kMaxTokenId = 1 << 24;

  std::unordered_map<std::string, int32_t> ids; ///< token as written -> id, added ones too
  std::array<int32_t, 256> byteIds;             ///< -1: a byte no UTF-8 text contains
  std::vector<Bpe::Merge> merges;               ///< in rank order
  std::vector<AddedToken> added;
  std::vector<std::string> regexes; ///< of the pre_tokenizer's Split steps, in order
};

/// Parses the text of a tokenizer.json; `source` is its name in messages.
/// Supported: model BPE without unk, dropout, affixes or byte fallback; normalizer null
/// or an empty Sequence; pre_tokenizer a Sequence of Split(Regex, Isolated) ended by
/// ByteLevel(add_prefix_space false, use_regex false); decoder ByteLevel; post_processor
/// null or ByteLevel; truncation and padding null; added tokens that match verbatim.
/// Errors: BadCheckpoint for a damaged file, Unsupported for anything else, by name.
Result<TokenizerSpec> parseTokenizerJson(std::string_view json, const std::string &source);

} // namespace dsv3::text
