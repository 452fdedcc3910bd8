// A small HTTP/1.1 client for load: any number of requests at a time on one thread.
//
// One thread is enough for a few hundred streams, and it takes the time of every chunk with the same clock. Connections
// are kept and used again, as clients of the OpenAI API do.
#pragma once

#include "runtime/core/Result.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dsv3::bench::serve {

using Clock = std::chrono::steady_clock;

/// `http://HOST[:PORT][/PATH]`; an IPv6 host is in brackets.
struct Url {
  std::string host, port, path; ///< path: without a slash at the end
};
/// TLS is not supported: `https://` is an error.
Result<Url> parseUrl(const std::string &text);

struct HttpRequest {
  std::string method, target; ///< target: after the URL's own path, with a slash in front
  std::string body;           ///< JSON; empty: none
  std::vector<std::pair<std::string, std::string>> headers;
};

struct HttpReply {
  int status = 0;
  std::string body;
};

/// What happens to a request, all called from HttpLoop::run. onEnd is called once and last; its error is null when the
/// whole reply has arrived, whatever its status.
struct HttpHandlers {
  std::function<void(int status)> onStatus;
  std::function<void(std::string_view)> onBody;
  std::function<void(const Error *)> onEnd;
};

class HttpLoop {
public:
  /// Looks the host up. `timeout`: how long a request may be silent before it fails.
  static Result<std::unique_ptr<HttpLoop>> open(const Url &url, std::chrono::milliseconds timeout);
  ~HttpLoop();

  /// Starts a request; also from a handler.
  void send(HttpRequest request, HttpHandlers handlers);
  /// Calls `then` at `time` (at once when it has passed).
  void at(Clock::time_point time, std::function<void()> then);
  /// Returns when no request and no timer is left.
  void run();
  /// One request and its whole reply. Not from a handler.
  Result<HttpReply> call(HttpRequest request);

private:
  struct State;
  explicit HttpLoop(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace dsv3::bench::serve
