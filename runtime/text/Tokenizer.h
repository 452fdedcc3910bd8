// Text to token ids and back, as HuggingFace tokenizers does for the DeepSeek family.
#pragma once

#include "runtime/core/Result.h"
#include "runtime/text/AddedTokens.h"
#include "runtime/text/Bpe.h"
#include "runtime/text/PreTokenizer.h"
#include "runtime/text/Segment.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dsv3::text {

struct TokenizerSpec;

/// What an added token's name in the text means.
enum class SpecialTokens {
  Parse,  ///< the token
  AsText, ///< the characters it is written with: for text of unknown origin
};

/// Immutable after loading; all methods are thread-safe. Movable, not copied by accident
/// (vocabularies are large).
class Tokenizer {
public:
  /// Reads a tokenizer.json. Errors as `parseTokenizerJson`; BadCheckpoint when the
  /// file cannot be read.
  static Result<Tokenizer> load(const std::string &path);

  /// The same for a text in memory; `source` names it in messages.
  static Result<Tokenizer> loadFromMemory(std::string_view json, const std::string &source);

  Tokenizer(Tokenizer &&) = default;
  Tokenizer &operator=(Tokenizer &&) = default;
  Tokenizer(const Tokenizer &) = delete;
  Tokenizer &operator=(const Tokenizer &) = delete;

  /// The ids of `text`; adds no begin or end token. Ill-formed UTF-8 counts as U+FFFD.
  std::vector<int32_t> encode(std::string_view text, SpecialTokens policy) const;

  /// As one text, except that added tokens are recognised only where a name lies wholly
  /// inside trusted segments. Plain text is not cut where segments meet.
  std::vector<int32_t> encode(const std::vector<Segment> &segments) const;

  /// The text of `ids`, ill-formed UTF-8 replaced by U+FFFD. An id without a token (an
  /// unused row of the embedding) gives nothing; `skipSpecial` leaves special ones out.
  std::string decode(const std::vector<int32_t> &ids, bool skipSpecial = false) const;

  /// The bytes of one token, which need not be valid UTF-8 by themselves.
  const std::string &idToBytes(int32_t id) const;

  /// The id of a token as tokenizer.json writes it ("<｜User｜>", "Ġthe").
  std::optional<int32_t> tokenToId(const std::string &token) const;

  /// One more than the largest id. The model may have more rows than that.
  int32_t vocabSize() const { return static_cast<int32_t>(bytes.size()); }

  /// True for added tokens marked special, which `skipSpecial` leaves out.
  bool isSpecial(int32_t id) const;

private:
  Tokenizer(TokenizerSpec spec, PreTokenizer preTokenizer);

  std::unordered_map<std::string, int32_t> ids;
  std::vector<std::string> bytes; ///< by id
  std::vector<bool> special;      ///< by id
  /// Names are searched in two rounds, as upstream does: first the tokens that skip
  /// normalisation, then, in what is left over, those that do not.
  TokenMatcher verbatim, normalized;
  PreTokenizer preTokenizer;
  Bpe bpe;
};

} // namespace dsv3::text
