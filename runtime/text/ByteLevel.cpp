#include "runtime/text/ByteLevel.h"

#include "runtime/text/Utf8.h"

#include <array>

namespace dsv3::text {
namespace {

constexpr char32_t kFirstShifted = 0x100;
constexpr size_t kAlphabetEnd = 0x144; // 0x100 + the 68 shifted bytes

bool standsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/// Code point -> byte, -1 outside the alphabet.
std::array<int, kAlphabetEnd> makeAlphabet() {
  std::array<int, kAlphabetEnd> table;
  table.fill(-1);
  char32_t shifted = kFirstShifted;
  for (int byte = 0; byte < 256; ++byte)
    table[standsForItself(byte) ? static_cast<char32_t>(byte) : shifted++] = byte;
  return table;
}

} // namespace

std::optional<std::string> bytesOfToken(std::string_view token) {
  static const std::array<int, kAlphabetEnd> alphabet = makeAlphabet();
  std::string bytes;
  for (size_t pos = 0; pos < token.size();) {
    Utf8Step step = decodeUtf8(token, pos);
    if (step.kind != Utf8Step::Valid || step.codePoint >= kAlphabetEnd ||
        alphabet[step.codePoint] < 0)
      return std::nullopt;
    bytes += static_cast<char>(alphabet[step.codePoint]);
    pos += step.length;
  }
  return bytes;
}

std::string bytesOfTokenOrText(std::string_view token) {
  std::optional<std::string> bytes = bytesOfToken(token);
  return bytes ? std::move(*bytes) : std::string(token);
}

} // namespace dsv3::text
