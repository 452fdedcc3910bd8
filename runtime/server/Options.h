// What an operator sets. tools/dsv3-serve reads it from flags, the environment and a file.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dsv3::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int64_t port = 8000; ///< 0: any free one
  std::vector<std::string> names; ///< of the model
  std::string apiKey;             ///< empty: none is asked for
  std::string version;

  int64_t maxBodyBytes = 4 << 20;
  int64_t maxConnections = 1024;
  int64_t streamBufferBytes = 1 << 20; ///< of a stream that its client does not read
  int64_t tokenizerThreads = 1;
  std::optional<uint64_t> seed;        ///< of requests that bring none

  using Seconds = std::chrono::duration<double>;
  Seconds headerTimeout{10};   ///< from the first byte of a request to the end of its header
  Seconds bodyTimeout{60};     ///< from there to the end of its body
  Seconds idleTimeout{75};     ///< between requests of a connection
  Seconds writeTimeout{60};    ///< without the client taking a byte
  Seconds shutdownTimeout{30}; ///< that running requests have after SIGTERM
};

} // namespace dsv3::server
