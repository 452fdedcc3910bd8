// What the benchmark asks of a server apart from the load: its model, its tokenizer.
#pragma once

#include "runtime/core/Json.h"
#include "tools/dsv3-bench/serve/Http.h"

#include <cstdint>

namespace dsv3::bench::serve {

class Server {
public:
  /// `headers` go with every request.
  Server(HttpLoop &http, std::vector<std::pair<std::string, std::string>> headers) : http(http), headers(std::move(headers)) {}

  /// The first of /v1/models.
  Result<std::string> firstModel();
  /// /tokenize, without special tokens.
  Result<std::vector<int32_t>> tokenize(const std::string &model, const std::string &text);
  /// /detokenize
  Result<std::string> detokenize(const std::string &model, const std::vector<int32_t> &ids);
  /// Asks for /health until it answers, for `seconds`.
  Status waitReady(double seconds);

private:
  Result<Json> ask(const std::string &method, const std::string &target, const Json &body);

  HttpLoop &http;
  std::vector<std::pair<std::string, std::string>> headers;
};

/// What an error reply says, for one line: "HTTP 429: ..."
std::string replyError(int status, const std::string &body);

} // namespace dsv3::bench::serve
