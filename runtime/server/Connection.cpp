#include "runtime/server/Connection.h"

#include "runtime/server/Log.h"
#include "runtime/server/Routes.h"
#include "runtime/server/Server.h"

#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>

namespace dsv3::server {

namespace {

constexpr uint32_t kMaxHeader = 16 << 10;
/// Of following requests that a client may send before the answer to the first.
constexpr size_t kMaxReadAhead = 64 << 10;
/// How long and how much a client may go on sending what we refused to read, so that it gets to see the answer.
constexpr std::chrono::seconds kLinger{2};
constexpr size_t kMaxLinger = 8 << 20;

} // namespace

Connection::Connection(tcp::socket s, Server &server)
    : socket(std::move(s)), server(server), timer(socket.get_executor()), watchEnded(socket.get_executor()) {
  server.opened(this);
  ++server.numbers().connections;
  SystemError ignored;
  socket.set_option(tcp::no_delay(true), ignored);
}

Connection::~Connection() {
  --server.numbers().connections;
  server.closed(this);
}

void Connection::abort() {
  SystemError ignored;
  socket.close(ignored);
  clientGone();
}

void Connection::cutOff() {
  if (generation)
    generation->cancel();
}

awaitable<void> Connection::run() {
  auto self = shared_from_this();
  for (bool first = true; keepAlive && !gone && co_await waitForRequest(first); first = false) {
    Parser parser;
    parser.header_limit(kMaxHeader);
    parser.body_limit(uint64_t(server.settings().maxBodyBytes));
    std::optional<RequestHead> head = co_await readHeader(parser);
    if (!head)
      break;
    keepAlive = head->keepAlive;
    try { // libraries throw where memory is short; others' requests go on
      co_await serveOne(parser, *head);
    } catch (const std::exception &e) {
      log(LogLevel::Error, "a request failed", {{"id", head->requestId}, {"error", e.what()}});
      abort();
    }
  }
  co_await stopWatch();
  disarm();
  if (generation) { // only after an exception: it must not call us any more
    generation->onOverflow = nullptr;
    generation->cancel();
  }
  SystemError ignored;
  socket.shutdown(tcp::socket::shutdown_both, ignored);
  socket.close(ignored);
}

//===-- Reading -----------------------------------------------------------===//

awaitable<bool> Connection::waitForRequest(bool first) {
  if (buffer.size() > 0)
    co_return true;
  if (!first && server.draining())
    co_return false;
  arm(first ? server.settings().headerTimeout : server.settings().idleTimeout, false);
  SystemError error;
  size_t n = co_await socket.async_read_some(buffer.prepare(4096), into(error));
  buffer.commit(n);
  disarm();
  co_return !error;
}

awaitable<std::optional<RequestHead>> Connection::readHeader(Parser &parser) {
  begun = Clock::now();
  arm(server.settings().headerTimeout, false);
  SystemError error;
  co_await http::async_read_header(socket, buffer, parser, into(error));
  disarm();
  if (!error)
    co_return server::readHead(parser);
  co_await refuseBadRequest(error);
  co_return std::nullopt;
}

awaitable<bool> Connection::readBody(Parser &parser, const RequestHead &head) {
  if (parser.is_done())
    co_return true;
  if (head.expectsContinue && !co_await write("HTTP/1.1 100 Continue\r\n\r\n"))
    co_return false;
  arm(server.settings().bodyTimeout, false);
  SystemError error;
  co_await http::async_read(socket, buffer, parser, into(error));
  disarm();
  if (!error)
    co_return true;
  co_await refuseBadRequest(error);
  co_return false;
}

/// Answers what is not a request, where there is somebody to answer.
awaitable<void> Connection::refuseBadRequest(SystemError error) {
  keepAlive = false;
  ApiError answer;
  if (timedOut) {
    answer.status = 408;
    answer.message = "the request did not come in time";
    answer.code = "request_timeout";
  } else if (error == http::error::body_limit) {
    answer.status = 413;
    answer.message = "the body: expected at most " + std::to_string(server.settings().maxBodyBytes) + " bytes";
    answer.code = "body_too_large";
  } else if (error == http::error::header_limit) {
    answer.status = 431;
    answer.message = "the header: expected at most " + std::to_string(kMaxHeader) + " bytes";
    answer.code = "header_too_large";
  } else if (error.category() == http::make_error_code(http::error::bad_method).category() && error != http::error::end_of_stream) {
    answer.message = "not an HTTP/1.1 request: " + error.message();
    answer.code = "bad_request";
  } else {
    co_return; // the connection is broken
  }
  RequestHead head;
  head.requestId = newRequestId();
  co_await respond(head, errorResponse(answer));
  co_await lingeringClose();
}

/// What can be refused before the body is read.
std::optional<ApiError> Connection::checkHead(const RequestHead &head) const {
  const Route *route = findRoute(head.path);
  if (!route)
    return notFound(head.path);
  if (!route->allows(head.method))
    return wrongMethod(head.method, head.path, route->method);
  const std::string &key = server.settings().apiKey;
  if (!route->open && !key.empty() && !sameSecret(head.authorization, "Bearer " + key)) {
    ApiError error;
    error.status = 401;
    error.message = "the API key is wrong or missing: expected a header \"Authorization: Bearer KEY\"";
    error.code = "invalid_api_key";
    return error;
  }
  if (route->needsEngine)
    return server.refusal();
  return {};
}

awaitable<void> Connection::serveOne(Parser &parser, const RequestHead &head) {
  if (std::optional<ApiError> error = checkHead(head)) {
    keepAlive = keepAlive && !head.hasBody;
    co_await respond(head, errorResponse(*error));
    if (head.hasBody)
      co_await lingeringClose();
    co_return;
  }
  if (!co_await readBody(parser, head))
    co_return;
  const Route &route = *findRoute(head.path);
  if (route.answer) {
    co_await respond(head, route.answer(server, head));
    co_return;
  }
  Server::ActiveRequest counted(server);
  startWatch();
  co_await answer(head, std::move(parser.get().body()));
  co_await stopWatch();
}

/// Closing a socket with unread input makes the system throw away output that is still on its way.
awaitable<void> Connection::lingeringClose() {
  SystemError error;
  socket.shutdown(tcp::socket::shutdown_send, error);
  arm(kLinger, true);
  for (size_t total = 0; !error && total < kMaxLinger;) {
    buffer.clear();
    total += co_await socket.async_read_some(buffer.prepare(64 << 10), into(error));
  }
  disarm();
  keepAlive = false;
}

//===-- Writing -----------------------------------------------------------===//

/// `closes`: the socket is closed when time is up, which ends writes too; else reads are cancelled and a reply is possible.
void Connection::arm(Seconds time, bool closes) {
  timedOut = false;
  timer.expires_after(std::chrono::duration_cast<Clock::duration>(time));
  timer.async_wait([self = shared_from_this(), this, closes, round = ++timerRound](SystemError error) {
    if (error || round != timerRound)
      return;
    timedOut = true;
    SystemError ignored;
    if (closes)
      socket.close(ignored);
    else
      socket.cancel(ignored);
  });
}

void Connection::disarm() {
  ++timerRound;
  timer.cancel();
}

awaitable<bool> Connection::write(std::string data) {
  size_t done = 0;
  SystemError error;
  while (done < data.size() && !error) {
    arm(server.settings().writeTimeout, true);
    done += co_await socket.async_write_some(asio::buffer(data.data() + done, data.size() - done), into(error));
  }
  disarm();
  if (error)
    keepAlive = false;
  co_return !error;
}

awaitable<void> Connection::respond(const RequestHead &head, Response response) {
  server.numbers().responded(response.status);
  logRequest(head, response.status);
  std::string out = responseHead(head, response.status, response.contentType, response.body.size(), keepAlive, response.headers);
  if (head.method != "HEAD")
    out += response.body;
  co_await write(std::move(out));
}

void Connection::logRequest(const RequestHead &head, unsigned status) {
  if (head.method.empty())
    return log(LogLevel::Info, "bad request", {{"status", status}});
  double ms = std::chrono::duration<double, std::milli>(Clock::now() - begun).count();
  const Route *route = findRoute(head.path);
  LogLevel level = route && !route->needsEngine && status < 400 ? LogLevel::Debug : LogLevel::Info; // probes are many
  if (generation) {
    Generation::Usage usage = generation->usage();
    log(level, "request", {{"id", head.requestId}, {"path", head.path}, {"status", status}, {"ms", int64_t(ms)},
                           {"prompt_tokens", usage.prompt}, {"cached_tokens", usage.cached}, {"completion_tokens", usage.completion}});
  } else {
    log(level, "request", {{"id", head.requestId}, {"method", head.method}, {"path", printable(head.path)}, {"status", status}, {"ms", int64_t(ms)}});
  }
}

//===-- The client's presence ---------------------------------------------===//

void Connection::startWatch() {
  wantWatch = watching = true;
  socket.async_read_some(buffer.prepare(4096), [self = shared_from_this(), this](SystemError error, size_t n) {
    buffer.commit(n);
    watching = false;
    if (error && error != asio::error::operation_aborted)
      clientGone();
    else if (!error && buffer.size() > kMaxReadAhead)
      abort(); // the socket can no longer tell us whether the client is there
    else if (!error && wantWatch)
      startWatch();
    watchEnded.notify();
  });
}

awaitable<void> Connection::stopWatch() {
  wantWatch = false;
  while (watching) {
    SystemError ignored;
    socket.cancel(ignored);
    co_await watchEnded.wait();
  }
}

void Connection::clientGone() {
  keepAlive = false;
  if (std::exchange(gone, true) || !generation)
    return;
  ++server.numbers().disconnects;
  generation->cancel();
  generation->interrupt();
}

} // namespace dsv3::server
