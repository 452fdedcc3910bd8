// One client's connection: its requests one after another, and what happens when it goes away.
#pragma once

#include "runtime/server/Generation.h"
#include "runtime/server/Http.h"
#include "runtime/server/Reply.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace dsv3::server {

class Server;

/// While a request is worked on, the socket is read on: the end of the client's stream (also of one direction only, which
/// cannot be told from a client that is gone) cancels the request. What it reads meanwhile is the next request.
class Connection : public std::enable_shared_from_this<Connection> {
public:
  Connection(tcp::socket socket, Server &server);
  ~Connection();

  /// Serves requests until the client or we are done.
  awaitable<void> run();

  /// Ends it now, whatever it does.
  void abort();

  /// Cancels the request it works on; the client is told.
  void cutOff();

private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  // Reading (Connection.cpp). False or nothing: the connection is at its end.
  awaitable<bool> waitForRequest(bool first);
  awaitable<std::optional<RequestHead>> readHeader(Parser &parser);
  awaitable<bool> readBody(Parser &parser, const RequestHead &head);
  awaitable<void> refuseBadRequest(SystemError error);
  std::optional<ApiError> checkHead(const RequestHead &head) const;
  awaitable<void> serveOne(Parser &parser, const RequestHead &head);
  awaitable<void> lingeringClose();

  // Writing.
  awaitable<bool> write(std::string data);
  awaitable<void> respond(const RequestHead &head, Response response);
  void arm(Seconds time, bool closes);
  void disarm();

  // The client's presence.
  void startWatch();
  awaitable<void> stopWatch();
  void clientGone();

  // Work of the pool and the engine (ConnectionAnswer.cpp).
  awaitable<void> answer(const RequestHead &head, std::string body);
  awaitable<void> generate(const RequestHead &head, std::string body, bool chat);
  awaitable<void> streamAnswer(const RequestHead &head, const Prepared &prepared, Reply &reply);
  awaitable<void> wholeAnswer(const RequestHead &head, Reply &reply);
  void logRequest(const RequestHead &head, unsigned status);

  tcp::socket socket;
  Server &server;
  boost::beast::flat_buffer buffer;
  asio::steady_timer timer;
  uint64_t timerRound = 0; ///< tells a timer that was set anew from the one before
  bool timedOut = false;
  bool keepAlive = true;
  bool watching = false, wantWatch = false, gone = false;
  Signal watchEnded;
  std::shared_ptr<Generation> generation;
  Clock::time_point begun;
};

} // namespace dsv3::server
