// Token ids to text while they are being generated.
#pragma once

#include "runtime/text/Tokenizer.h"

#include <string>

namespace dsv3::text {

/// Joins what `push` and `flush` return to exactly `Tokenizer::decode` of all ids, and
/// each return value is valid UTF-8: bytes of an unfinished character wait for the rest.
/// Keeps a reference to the tokenizer. One object per stream; not thread-safe.
class StreamDecoder {
public:
  explicit StreamDecoder(const Tokenizer &tokenizer, bool skipSpecial = false)
      : tokenizer(tokenizer), skipSpecial(skipSpecial) {}

  /// Takes one id and returns the text that is certain now, perhaps none.
  std::string push(int32_t id);

  /// Ends the stream: an unfinished character becomes U+FFFD.
  std::string flush();

private:
  const Tokenizer &tokenizer;
  bool skipSpecial;
  std::string pending; ///< at most three bytes between calls
};

} // namespace dsv3::text
