#include "tools/dsv3-bench/serve/Sse.h"

namespace dsv3::bench::serve {

void SseReader::feed(std::string_view piece) {
  for (char c : piece) {
    // A line ends with \n, \r or \r\n.
    bool second = afterReturn && c == '\n';
    afterReturn = c == '\r';
    if (second)
      continue;
    if (c == '\n' || c == '\r')
      takeLine();
    else
      line += c;
  }
}

void SseReader::takeLine() {
  if (line.empty()) {
    if (hasData)
      onData(data);
    data.clear();
    hasData = false;
    return;
  }
  const std::string field = "data:";
  if (line.compare(0, field.size(), field) == 0) {
    if (hasData)
      data += '\n';
    size_t from = field.size();
    if (from < line.size() && line[from] == ' ')
      ++from;
    data.append(line, from);
    hasData = true;
  }
  line.clear();
}

} // namespace dsv3::bench::serve
