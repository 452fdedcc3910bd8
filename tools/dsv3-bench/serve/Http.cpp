#include "tools/dsv3-bench/serve/Http.h"

#include "runtime/core/Json.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <cstdlib>
#include <limits>
#include <optional>

namespace dsv3::bench::serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Connection = std::unique_ptr<beast::tcp_stream>;

Result<Url> parseUrl(const std::string &text) {
  const std::string scheme = "http://";
  if (text.compare(0, scheme.size(), scheme) != 0)
    return usageError("--base-url: expected http://HOST:PORT, got '" + printable(text) + "'");
  Url url;
  std::string rest = text.substr(scheme.size());
  size_t slash = rest.find('/');
  if (slash != std::string::npos) {
    url.path = rest.substr(slash);
    rest.resize(slash);
  }
  while (!url.path.empty() && url.path.back() == '/')
    url.path.pop_back();
  size_t bracket = rest.find(']'), colon = rest.rfind(':');
  bool hasPort = colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  url.port = hasPort ? rest.substr(colon + 1) : "80";
  url.host = hasPort ? rest.substr(0, colon) : rest;
  if (!url.host.empty() && url.host.front() == '[' && url.host.back() == ']')
    url.host = url.host.substr(1, url.host.size() - 2);
  char *end = nullptr;
  long port = std::strtol(url.port.c_str(), &end, 10);
  if (url.host.empty() || url.port.empty() || *end || port < 1 || port > 65535)
    return usageError("--base-url: expected http://HOST:PORT, got '" + printable(text) + "'");
  return url;
}

struct HttpLoop::State {
  asio::io_context io{1};
  asio::ip::tcp::resolver::results_type addresses;
  std::vector<Connection> idle;
  Url url;
  std::chrono::milliseconds timeout{};
};

namespace {
/// One request from connect to the last byte of the reply. Keeps itself alive through its handlers.
template <typename State> class Exchange : public std::enable_shared_from_this<Exchange<State>> {
public:
  Exchange(State &state, HttpRequest from, HttpHandlers handlers) : state(state), handlers(std::move(handlers)) {
    request.version(11);
    request.method_string(from.method);
    request.target(state.url.path + from.target);
    request.set(http::field::host, state.url.host + ":" + state.url.port);
    request.set(http::field::user_agent, "dsv3-bench");
    if (!from.body.empty())
      request.set(http::field::content_type, "application/json");
    for (const auto &[name, value] : from.headers)
      request.set(name, value);
    request.body() = std::move(from.body);
    request.prepare_payload();
  }

  void start() {
    if (state.idle.empty())
      return connect();
    connection = std::move(state.idle.back());
    state.idle.pop_back();
    reused = true;
    write();
  }

private:
  auto self() { return this->shared_from_this(); }

  void connect() {
    reused = false;
    connection = std::make_unique<beast::tcp_stream>(state.io);
    connection->expires_after(state.timeout);
    connection->async_connect(state.addresses, [me = self()](beast::error_code failed, const auto &) {
      if (failed)
        return me->fail(failed, "cannot connect");
      beast::error_code ignored;
      me->connection->socket().set_option(asio::ip::tcp::no_delay(true), ignored);
      me->write();
    });
  }

  void write() {
    buffer.clear();
    parser.emplace();
    parser->body_limit(std::numeric_limits<uint64_t>::max());
    connection->expires_after(state.timeout);
    http::async_write(*connection, request, [me = self()](beast::error_code failed, size_t) {
      if (failed)
        return me->fail(failed, "cannot send");
      http::async_read_header(*me->connection, me->buffer, *me->parser, [me](beast::error_code failed, size_t) {
        if (failed)
          return me->fail(failed, "no reply");
        me->started = true;
        if (me->handlers.onStatus)
          me->handlers.onStatus(int(me->parser->get().result_int()));
        me->read();
      });
    });
  }

  void read() {
    if (parser->is_done())
      return finish();
    connection->expires_after(state.timeout);
    http::async_read_some(*connection, buffer, *parser, [me = self()](beast::error_code failed, size_t) {
      std::string &body = me->parser->get().body();
      if (!body.empty() && me->handlers.onBody)
        me->handlers.onBody(body);
      body.clear();
      if (failed)
        return me->fail(failed, "the reply broke off");
      me->read();
    });
  }

  void finish() {
    connection->expires_never();
    if (parser->get().keep_alive() && buffer.size() == 0)
      state.idle.push_back(std::move(connection));
    else
      connection.reset();
    handlers.onEnd(nullptr);
  }

  void fail(beast::error_code failed, const char *what) {
    connection.reset();
    // The server may have closed a connection that was idle: that says nothing about this request.
    if (reused && !started && failed != beast::error::timeout)
      return connect();
    Error error = usageError("http://" + state.url.host + ":" + state.url.port + ": " + what + ": " +
                             (failed == beast::error::timeout ? std::string("timed out") : failed.message()));
    handlers.onEnd(&error);
  }

  State &state;
  HttpHandlers handlers;
  http::request<http::string_body> request;
  std::optional<http::response_parser<http::string_body>> parser;
  beast::flat_buffer buffer;
  Connection connection;
  bool reused = false, started = false;
};
} // namespace

HttpLoop::HttpLoop(std::unique_ptr<State> state) : state(std::move(state)) {}
HttpLoop::~HttpLoop() = default;

Result<std::unique_ptr<HttpLoop>> HttpLoop::open(const Url &url, std::chrono::milliseconds timeout) {
  auto state = std::make_unique<State>();
  state->url = url;
  state->timeout = timeout;
  beast::error_code failed;
  asio::ip::tcp::resolver resolver(state->io);
  state->addresses = resolver.resolve(url.host, url.port, failed);
  if (failed)
    return usageError("cannot find host '" + printable(url.host) + "': " + failed.message());
  return std::unique_ptr<HttpLoop>(new HttpLoop(std::move(state)));
}

void HttpLoop::send(HttpRequest request, HttpHandlers handlers) {
  std::make_shared<Exchange<State>>(*state, std::move(request), std::move(handlers))->start();
}

void HttpLoop::at(Clock::time_point time, std::function<void()> then) {
  auto timer = std::make_shared<asio::steady_timer>(state->io, time);
  timer->async_wait([timer, then = std::move(then)](beast::error_code failed) {
    if (!failed)
      then();
  });
}

void HttpLoop::run() {
  state->io.restart();
  state->io.run();
}

Result<HttpReply> HttpLoop::call(HttpRequest request) {
  HttpReply reply;
  std::optional<Error> error;
  send(std::move(request), {[&](int status) { reply.status = status; }, [&](std::string_view text) { reply.body += text; },
                            [&](const Error *failed) {
                              if (failed)
                                error = *failed;
                            }});
  run();
  if (error)
    return *error;
  return reply;
}

} // namespace dsv3::bench::serve
