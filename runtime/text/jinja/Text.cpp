#include "runtime/text/jinja/Text.h"

#include "runtime/text/Utf8.h"

namespace dsv3::text::jinja {

bool isSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

Text &Text::operator+=(const Text &other) {
  data += other.data;
  marks += other.marks;
  return *this;
}

Text Text::sub(size_t begin, size_t end) const {
  Text result;
  result.data = data.substr(begin, end - begin);
  result.marks = marks.substr(begin, end - begin);
  return result;
}

size_t Text::length() const {
  size_t count = 0;
  for (size_t pos = 0; pos < data.size(); pos += decodeUtf8(data, pos).length)
    ++count;
  return count;
}

std::vector<Text> Text::characters() const {
  std::vector<Text> result;
  for (size_t pos = 0; pos < data.size();) {
    size_t end = pos + decodeUtf8(data, pos).length;
    result.push_back(sub(pos, end));
    pos = end;
  }
  return result;
}

std::vector<Text> Text::split(std::string_view separator, long limit) const {
  std::vector<Text> result;
  size_t done = 0;
  while (limit != 0) {
    size_t found = data.find(separator, done);
    if (found == std::string::npos)
      break;
    result.push_back(sub(done, found));
    done = found + separator.size();
    --limit;
  }
  result.push_back(sub(done, data.size()));
  return result;
}

Text Text::slice(size_t begin, size_t end) const {
  size_t from = data.size(), pos = 0;
  for (size_t i = 0; pos < data.size() && i < end; ++i) {
    if (i == begin)
      from = pos;
    pos += decodeUtf8(data, pos).length;
  }
  return sub(std::min(from, pos), pos);
}

std::vector<Text> Text::splitWhitespace(long limit) const {
  std::vector<Text> result;
  Text rest = strip(true, false, nullptr);
  while (!rest.empty()) {
    size_t end = 0;
    while (end < rest.size() && limit != 0) {
      Utf8Step step = decodeUtf8(rest.data, end);
      if (isSpace(step.codePoint))
        break;
      end += step.length;
    }
    if (limit == 0)
      end = rest.size();
    result.push_back(rest.sub(0, end));
    rest = rest.sub(end, rest.size()).strip(true, false, nullptr);
    --limit;
  }
  return result;
}

Text Text::strip(bool left, bool right, const Text *characters) const {
  std::u32string set;
  for (size_t pos = 0; characters && pos < characters->size();) {
    Utf8Step step = decodeUtf8(characters->data, pos);
    set += step.codePoint;
    pos += step.length;
  }
  auto drops = [&](char32_t c) {
    return characters ? set.find(c) != std::u32string::npos : isSpace(c);
  };
  size_t begin = 0;
  while (left && begin < data.size()) {
    Utf8Step step = decodeUtf8(data, begin);
    if (!drops(step.codePoint))
      break;
    begin += step.length;
  }
  size_t end = begin; // behind the last character that stays
  for (size_t pos = begin; pos < data.size();) {
    Utf8Step step = decodeUtf8(data, pos);
    pos += step.length;
    if (!right || !drops(step.codePoint))
      end = pos;
  }
  return sub(begin, end);
}

Text Text::replace(std::string_view from, const Text &to, long limit) const {
  Text result;
  bool first = true;
  for (const Text &part : split(from, limit)) {
    if (!first)
      result += to;
    result += part;
    first = false;
  }
  return result;
}

Text Text::withBytes(std::string bytes) const {
  Text result = *this;
  result.data = std::move(bytes);
  return result;
}

std::vector<Segment> Text::segments() const {
  std::vector<Segment> result;
  for (size_t begin = 0; begin < data.size();) {
    size_t end = marks.find(marks[begin] == kTrusted ? kUntrusted : kTrusted, begin);
    if (end == std::string::npos)
      end = data.size();
    result.push_back({data.substr(begin, end - begin), marks[begin] == kTrusted});
    begin = end;
  }
  return result;
}

} // namespace dsv3::text::jinja
