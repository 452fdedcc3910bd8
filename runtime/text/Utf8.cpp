#include "runtime/text/Utf8.h"

#include <algorithm>

namespace dsv3::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// What a lead byte promises: the sequence's length and the range of its second byte.
/// The range is what excludes overlong forms, surrogates and values above U+10FFFF.
struct Lead {
  size_t length;
  unsigned char low, high;
};

Lead classifyLead(unsigned char c) {
  if (c >= 0xC2 && c <= 0xDF)
    return {2, 0x80, 0xBF};
  if (c >= 0xE0 && c <= 0xEF)
    return {3, static_cast<unsigned char>(c == 0xE0 ? 0xA0 : 0x80),
            static_cast<unsigned char>(c == 0xED ? 0x9F : 0xBF)};
  if (c >= 0xF0 && c <= 0xF4)
    return {4, static_cast<unsigned char>(c == 0xF0 ? 0x90 : 0x80),
            static_cast<unsigned char>(c == 0xF4 ? 0x8F : 0xBF)};
  return {0, 0, 0};
}

} // namespace

Utf8Step decodeUtf8(std::string_view bytes, size_t pos) {
  auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  unsigned char c = at(pos);
  if (c < 0x80)
    return {Utf8Step::Valid, 1, c};
  Lead lead = classifyLead(c);
  if (lead.length == 0)
    return {Utf8Step::Invalid, 1, 0xFFFD};
  char32_t value = c & (0x7F >> lead.length);
  for (size_t i = 1; i < lead.length; ++i) {
    if (pos + i >= bytes.size())
      return {Utf8Step::Truncated, i, 0xFFFD};
    unsigned char next = at(pos + i);
    unsigned char low = i == 1 ? lead.low : 0x80, high = i == 1 ? lead.high : 0xBF;
    if (next < low || next > high)
      return {Utf8Step::Invalid, i, 0xFFFD};
    value = value << 6 | (next & 0x3F);
  }
  return {Utf8Step::Valid, lead.length, value};
}

void appendUtf8(std::string &out, char32_t c) {
  if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
    c = 0xFFFD;
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  int continuation = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr unsigned char marks[] = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(marks[continuation] | c >> (6 * continuation));
  while (continuation-- > 0)
    out += static_cast<char>(0x80 | (c >> (6 * continuation) & 0x3F));
}

std::string toValidUtf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  size_t copied = 0, pos = 0;
  while (pos < bytes.size()) {
    Utf8Step step = decodeUtf8(bytes, pos);
    if (step.kind != Utf8Step::Valid) {
      out.append(bytes.substr(copied, pos - copied)).append(kReplacement);
      copied = pos + step.length;
    }
    pos += step.length;
  }
  out.append(bytes.substr(copied));
  return out;
}

size_t completeUtf8Prefix(std::string_view bytes) {
  // A sequence has at most four bytes, so only the last three can be unfinished.
  size_t first = bytes.size() - std::min<size_t>(bytes.size(), 3);
  for (size_t pos = first; pos < bytes.size(); ++pos) {
    bool continuation = (static_cast<unsigned char>(bytes[pos]) & 0xC0) == 0x80;
    if (!continuation && decodeUtf8(bytes, pos).kind == Utf8Step::Truncated)
      return pos;
  }
  return bytes.size();
}

} // namespace dsv3::text
