// Where a JSON value ends in a stream of text that begins with one.
#pragma once

#include <cstddef>
#include <string_view>

namespace dsv3::text {

/// For text that is known to be JSON (a guide saw to it), whatever its strings contain. No white space comes before the value.
class JsonExtent {
public:
  /// How many bytes of `text` belong to the value; fewer than all when it has ended.
  size_t take(std::string_view text);
  bool ended() const { return done; }

private:
  int depth = 0;
  bool inString = false, escaped = false, done = false;
};

} // namespace dsv3::text
