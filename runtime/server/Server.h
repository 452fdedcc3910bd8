// The HTTP server: accepts connections, watches over the engine, shuts down.
//
// One thread runs all of it (run()'s caller); tokenising has a small pool and the engine its own thread. Nothing here blocks.
#pragma once

#include "runtime/server/Connection.h"
#include "runtime/server/Http.h"
#include "runtime/server/Metrics.h"
#include "runtime/server/Options.h"
#include "runtime/server/ServedModel.h"

#include <boost/asio/signal_set.hpp>

#include <memory>
#include <optional>
#include <unordered_set>

namespace dsv3::server {

/// Of the process, beside ExitCode.
constexpr int kExitCutOff = 1; ///< requests still ran when --shutdown-timeout was over

class Server {
public:
  /// `model`, `loop` and `metrics` must outlive it.
  Server(const ServedModel &model, EngineLoop &loop, Metrics &metrics, ServerOptions options);
  ~Server();

  /// Binds. Usage error for a host that is no address of this machine or a port that is taken.
  Status listen();
  int port() const;
  std::string address() const; ///< "127.0.0.1:8000"

  /// Serves until a signal (SIGTERM, SIGINT) has been obeyed or the engine has failed. Returns the exit code: 0 when all
  /// requests were finished, kExitCutOff, or that of the engine's error. A second signal ends the process at once with
  /// 128 + its number.
  int run();

  // What connections need.
  const ServedModel &servedModel() const { return model; }
  EngineLoop &engine() { return loop; }
  Metrics &numbers() { return metrics; }
  const ServerOptions &settings() const { return options; }
  asio::thread_pool &pool() { return tokenizers; }
  /// For /tokenize, whose texts no context bounds: megabytes take seconds, which prompts must not wait for.
  asio::thread_pool &slowPool() { return longTexts; }
  bool draining() const { return isDraining; }
  uint64_t nextSeed();
  /// 503 while requests are not taken: draining, stuck or failed.
  std::optional<ApiError> refusal() const;

  void opened(Connection *connection) { connections.insert(connection); }
  void closed(Connection *connection) { connections.erase(connection); }
  /// Counts a request for the engine, from its body to the end of its answer, while it lives.
  class ActiveRequest {
  public:
    explicit ActiveRequest(Server &server) : server(server) { ++server.active; }
    ~ActiveRequest() { --server.active; }
    ActiveRequest(const ActiveRequest &) = delete;

  private:
    Server &server;
  };

private:
  awaitable<void> acceptLoop();
  awaitable<void> turnAway(tcp::socket socket);
  awaitable<void> watch();
  awaitable<void> waitForSignals();
  void drain(const char *why);
  void stop(int code);
  void watchEngine();

  const ServedModel &model;
  EngineLoop &loop;
  Metrics &metrics;
  ServerOptions options;
  std::unordered_set<Connection *> connections; // before `io`, whose coroutines sign off here
  asio::io_context io;
  asio::thread_pool tokenizers, longTexts{1};
  tcp::acceptor acceptor;
  asio::signal_set signals;
  size_t active = 0;
  size_t turningAway = 0;
  bool isDraining = false, wasStuck = false, stopped = false;
  std::chrono::steady_clock::time_point deadline;
  std::optional<std::chrono::steady_clock::time_point> cutOff;
  int exitCode = 0;
  uint64_t seedState;
};

} // namespace dsv3::server
