// A string that remembers, for every byte, whether it can be trusted.
#pragma once

#include "runtime/text/Segment.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dsv3::text::jinja {

/// UTF-8 text of a template evaluation. Every operation that cuts or joins text carries
/// the marks along, so that rendered text can be split into `Segment`s by origin.
class Text {
public:
  Text() = default;
  Text(std::string bytes, bool trusted)
      : data(std::move(bytes)), marks(data.size(), trusted ? kTrusted : kUntrusted) {}

  const std::string &bytes() const { return data; }
  size_t size() const { return data.size(); }
  bool empty() const { return data.empty(); }

  Text &operator+=(const Text &other);

  /// Bytes [begin, end).
  Text sub(size_t begin, size_t end) const;

  /// Code points [begin, end), cut to what there is.
  Text slice(size_t begin, size_t end) const;

  /// Number of code points.
  size_t length() const;

  /// One text per code point.
  std::vector<Text> characters() const;

  /// As Python's str.split: at every `separator` (which must not be empty), at most
  /// `limit` times when that is not negative.
  std::vector<Text> split(std::string_view separator, long limit) const;

  /// As Python's str.split without a separator: at runs of white space.
  std::vector<Text> splitWhitespace(long limit) const;

  /// Without the code points of `characters` at its ends; white space when that is null.
  Text strip(bool left, bool right, const Text *characters) const;

  /// Every `from` (not empty) replaced by `to`, at most `limit` times if not negative.
  Text replace(std::string_view from, const Text &to, long limit) const;

  /// The same marks under other bytes of the same number (case mapping of ASCII).
  Text withBytes(std::string bytes) const;

  /// Runs of equal trust, none empty.
  std::vector<Segment> segments() const;

private:
  static constexpr char kTrusted = 1, kUntrusted = 0;
  std::string data;
  std::string marks; ///< one per byte of `data`
};

/// Python's idea of white space.
bool isSpace(char32_t codePoint);

} // namespace dsv3::text::jinja
