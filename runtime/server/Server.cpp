#include "runtime/server/Server.h"

#include "runtime/server/Log.h"

#include <boost/asio/detached.hpp>

#include <cstdlib>
#include <random>

namespace dsv3::server {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{50};
constexpr std::chrono::milliseconds kAcceptPause{100};
/// Refused connections that may still be told so.
constexpr size_t kMaxTurningAway = 64;
/// Time from cutting requests off to leaving without them: their streams are told.
constexpr std::chrono::seconds kCutOffGrace{2};

uint64_t mix(uint64_t x) { // splitmix64: neighbouring seeds give unlike streams
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

} // namespace

Server::Server(const ServedModel &model, EngineLoop &loop, Metrics &metrics, ServerOptions o)
    : model(model), loop(loop), metrics(metrics), options(std::move(o)), io(1), tokenizers(size_t(options.tokenizerThreads)),
      acceptor(io), signals(io), seedState(options.seed.value_or((uint64_t(std::random_device{}()) << 32) | std::random_device{}())) {}

Server::~Server() {
  tokenizers.join();
  longTexts.join();
}

Status Server::listen() {
  SystemError error;
  asio::ip::address address = asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
  if (error)
    return usageError("--host: expected an address such as 127.0.0.1, 0.0.0.0 or ::, got \"" + printable(options.host) + "\"");
  tcp::endpoint where(address, uint16_t(options.port));
  acceptor.open(where.protocol(), error);
  if (!error)
    acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error)
    acceptor.bind(where, error);
  if (!error)
    acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    return usageError("cannot listen on " + options.host + ":" + std::to_string(options.port) + ": " + error.message());
  return {};
}

int Server::port() const { return acceptor.local_endpoint().port(); }

std::string Server::address() const {
  tcp::endpoint e = acceptor.local_endpoint();
  std::string host = e.address().to_string();
  return (e.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(e.port());
}

uint64_t Server::nextSeed() { return mix(seedState += 0x9e3779b97f4a7c15); }

std::optional<ApiError> Server::refusal() const {
  ApiError error;
  error.status = 503;
  error.type = "service_unavailable_error";
  error.code = "unavailable";
  error.retryAfter = 5;
  if (loop.failure())
    error.message = "the engine has failed";
  else if (isDraining)
    error.message = "the server is shutting down";
  else
    return {};
  return error;
}

int Server::run() {
  signals.add(SIGTERM);
  signals.add(SIGINT);
  asio::co_spawn(io, waitForSignals(), asio::detached);
  asio::co_spawn(io, acceptLoop(), asio::detached);
  asio::co_spawn(io, watch(), asio::detached);
  io.run();
  return exitCode;
}

awaitable<void> Server::acceptLoop() {
  while (acceptor.is_open()) {
    SystemError error;
    tcp::socket socket = co_await acceptor.async_accept(into(error));
    if (error == asio::error::operation_aborted)
      break;
    if (error) { // no descriptors left, most likely: connections that end will free some
      log(LogLevel::Warning, "cannot accept", {{"error", error.message()}});
      asio::steady_timer pause(io, kAcceptPause);
      co_await pause.async_wait(into(error));
      continue;
    }
    if (int64_t(connections.size()) < options.maxConnections) {
      asio::co_spawn(io, [c = std::make_shared<Connection>(std::move(socket), *this)] { return c->run(); }, asio::detached);
      continue;
    }
    ++metrics.refusedConnections;
    if (turningAway < kMaxTurningAway)
      asio::co_spawn(io, turnAway(std::move(socket)), asio::detached);
  }
}

/// Tells a client that there are too many, if it listens.
awaitable<void> Server::turnAway(tcp::socket socket) {
  ++turningAway;
  ApiError error;
  error.status = 503;
  error.type = "service_unavailable_error";
  error.message = "too many connections: expected at most " + std::to_string(options.maxConnections);
  error.code = "too_many_connections";
  error.retryAfter = 1;
  Response response = errorResponse(error);
  std::string out = responseHead({}, 503, response.contentType, response.body.size(), false, response.headers) + response.body;
  SystemError ignored;
  co_await socket.async_write_some(asio::buffer(out), into(ignored)); // a new socket takes this much at once
  socket.shutdown(tcp::socket::shutdown_send, ignored);
  asio::steady_timer linger(io, std::chrono::milliseconds(200)); // unread input at close would take the answer with it
  co_await linger.async_wait(into(ignored));
  --turningAway;
}

//===-- Watching and ending -----------------------------------------------===//

awaitable<void> Server::waitForSignals() {
  SystemError error;
  int number = co_await signals.async_wait(into(error));
  if (error)
    co_return;
  drain(number == SIGTERM ? "SIGTERM" : "SIGINT");
  number = co_await signals.async_wait(into(error));
  if (error)
    co_return;
  log(LogLevel::Warning, "aborted by a second signal");
  std::_Exit(128 + number);
}

void Server::drain(const char *why) {
  if (std::exchange(isDraining, true))
    return;
  deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(options.shutdownTimeout);
  loop.drain();
  log(LogLevel::Info, "draining", {{"reason", why}, {"requests", active}, {"timeout_s", options.shutdownTimeout.count()}});
}

awaitable<void> Server::watch() {
  asio::steady_timer tick(io);
  while (!stopped) {
    tick.expires_after(kTick);
    SystemError error;
    co_await tick.async_wait(into(error));
    watchEngine();
    if (!isDraining)
      continue;
    if (active == 0)
      stop(exitCode);
    else if (cutOff && Clock::now() > *cutOff) {
      log(LogLevel::Error, "leaving with requests that do not end", {{"requests", active}});
      std::_Exit(kExitCutOff); // a step that never returns: there is nobody to join
    } else if (!cutOff && Clock::now() > deadline) {
      log(LogLevel::Warning, "shutdown timeout: requests are cut off", {{"requests", active}});
      exitCode = exitCode ? exitCode : kExitCutOff;
      cutOff = Clock::now() + kCutOffGrace;
      for (Connection *c : std::vector<Connection *>(connections.begin(), connections.end()))
        c->cutOff();
    }
  }
}

void Server::watchEngine() {
  bool stuck = loop.stuck();
  if (stuck != wasStuck)
    log(stuck ? LogLevel::Error : LogLevel::Warning, stuck ? "the engine is stuck: a step runs longer than the watchdog allows" : "the engine goes on");
  wasStuck = stuck;
  if (std::optional<Error> failure = loop.failure(); failure && !isDraining) {
    log(LogLevel::Error, "the engine failed", {{"error", failure->message}});
    exitCode = int(failure->code);
    drain("engine failure");
  }
}

void Server::stop(int code) {
  exitCode = code;
  stopped = true;
  SystemError ignored;
  acceptor.close(ignored);
  signals.cancel(ignored);
  for (Connection *c : std::vector<Connection *>(connections.begin(), connections.end()))
    c->abort();
  log(LogLevel::Info, "stopped", {{"exit_code", exitCode}});
}

} // namespace dsv3::server
