// UTF-8 as the tokenizer needs it: lossy decoding and code point positions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dsv3::text {

/// One step of the decoder over a byte string.
struct Utf8Step {
  enum Kind {
    Valid,     ///< `length` bytes form `codePoint`
    Invalid,   ///< `length` bytes can never become a character
    Truncated, ///< the string ends inside a sequence that is well formed so far
  };
  Kind kind = Invalid;
  size_t length = 1;
  char32_t codePoint = 0xFFFD;
};

/// Decodes what starts at `bytes[pos]`; `pos` must be inside the string. Ill-formed
/// input is cut into maximal subparts (Unicode 15, section 3.9, table 3-7), which is
/// also what HuggingFace's lossy decoding does, so each becomes one U+FFFD.
Utf8Step decodeUtf8(std::string_view bytes, size_t pos);

/// `codePoint` as UTF-8, appended. Surrogates and values above U+10FFFF give U+FFFD.
void appendUtf8(std::string &out, char32_t codePoint);

/// `bytes` with every ill-formed subpart replaced by U+FFFD.
std::string toValidUtf8(std::string_view bytes);

/// Length of the longest prefix that does not end inside a character still being
/// received; at most three bytes are left over.
size_t completeUtf8Prefix(std::string_view bytes);

} // namespace dsv3::text
