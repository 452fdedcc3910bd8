#include "runtime/text/chat/JsonExtent.h"

namespace dsv3::text {

size_t JsonExtent::take(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (done)
      return i;
    if (inString) {
      if (c == '"' && !escaped)
        inString = false, done = depth == 0;
      escaped = c == '\\' && !escaped;
    } else if (c == '"') {
      inString = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      done = --depth == 0;
    } else if (depth == 0 && (c == '\n' || c == '<')) { // behind a number or a word
      done = true;
      return i;
    }
  }
  return text.size();
}

} // namespace dsv3::text
