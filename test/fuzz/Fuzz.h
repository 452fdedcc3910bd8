// What the fuzz targets share.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

/// A property that must hold. Not assert: it also counts in builds without it.
#define FUZZ_CHECK(condition)                                                                                          \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                              \
      std::abort();                                                                                                    \
    }                                                                                                                  \
  } while (false)

/// The input up to the next zero byte; `rest` goes on behind it.
inline std::string_view nextPart(std::string_view &rest) {
  size_t end = rest.find('\0');
  std::string_view part = rest.substr(0, end);
  rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  return part;
}

/// The next byte as a number, 0 past the end.
inline unsigned nextByte(std::string_view &rest) {
  unsigned byte = rest.empty() ? 0 : static_cast<unsigned char>(rest.front());
  rest.remove_prefix(rest.empty() ? 0 : 1);
  return byte;
}
