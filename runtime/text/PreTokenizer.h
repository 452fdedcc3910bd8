// Cuts text into the words that BPE works on.
#pragma once

#include "runtime/core/Result.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dsv3::text {

/// A sequence of `Split(Regex, Isolated)` steps, as tokenizer.json stores them. Each
/// step cuts every piece of the step before it into matches and the text between
/// them, so a later regex never sees across an earlier cut (look-ahead included).
///
/// The engine is Oniguruma in its default syntax, as in HuggingFace tokenizers: the
/// stored regexes mean what they mean there. Immutable; `split` is thread-safe.
class PreTokenizer {
public:
  /// Error BadCheckpoint: a regex that does not compile (`source` names the file).
  static Result<PreTokenizer> create(const std::vector<std::string> &regexes,
                                     const std::string &source);

  /// The non-empty pieces of `text` in order; together they are `text`. Views into
  /// `text`, which must be valid UTF-8.
  std::vector<std::string_view> split(std::string_view text) const;

private:
  class Regex; // hides oniguruma.h
  std::vector<std::shared_ptr<const Regex>> regexes;
};

} // namespace dsv3::text
