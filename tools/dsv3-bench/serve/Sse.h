// Server-sent events, the stream format of the OpenAI API.
// https://html.spec.whatwg.org/multipage/server-sent-events.html; only `data` fields matter here.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace dsv3::bench::serve {

/// Takes a stream in pieces of any length and gives the data of each event. Comments and other fields are left out;
/// an event that has not ended with an empty line is not given.
class SseReader {
public:
  explicit SseReader(std::function<void(const std::string &data)> onData) : onData(std::move(onData)) {}
  void feed(std::string_view piece);

private:
  void takeLine();

  std::function<void(const std::string &)> onData;
  std::string line, data;
  bool hasData = false, afterReturn = false;
};

} // namespace dsv3::bench::serve
