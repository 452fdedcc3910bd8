// Ends a stream of text at a stop string.
#pragma once

#include "runtime/core/Result.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dsv3::text {

/// Lets text through up to the first stop string, which itself is dropped. Text that may
/// turn out to begin a stop string is held back until that is decided.
///
/// The first match is the one that ends first (of several that end together, the
/// longest), so the result does not depend on how the stream is cut into tokens.
/// The search is Knuth-Morris-Pratt: linear for any text. Not thread-safe.
class StopMatcher {
public:
  /// Usage error for an empty stop string. No strings at all is legal: nothing is held.
  static Result<StopMatcher> create(const std::vector<std::string> &stops);

  /// Takes valid UTF-8 and returns the text that may be shown now, whole characters.
  /// Nothing after a match.
  std::string push(std::string_view text);

  /// The same for text that ends no stream: a stop string that ends in it is text like any other. One that begins in it may end later.
  std::string pass(std::string_view text);

  /// The same as push, and leaves in `text` what follows the match; nothing is left without one.
  std::string take(std::string_view &text);

  /// Forgets what was seen, to search again.
  void reset();

  /// Ends the stream and returns what was still held back.
  std::string flush();

  /// True once a stop string has been seen.
  bool stopped() const { return hit.has_value(); }

  /// The index of that stop string in the list given to `create`.
  std::optional<size_t> matched() const { return hit; }
  /// That string, where one was seen.
  const std::string &matchedText() const { return patterns[*hit].text; }

private:
  std::string release();

  struct Pattern {
    std::string text;
    std::vector<size_t> failure; ///< [i]: longest border of text[0..i]
    size_t state = 0;            ///< how much of `text` the stream ends with
    void advance(char c);
  };

  std::vector<Pattern> patterns;
  std::string held;
  std::optional<size_t> hit;
};

} // namespace dsv3::text
