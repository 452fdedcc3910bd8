// What a client did wrong, or what we cannot do for it, in OpenAI's shape.
#pragma once

#include "runtime/core/Result.h"

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace dsv3::server {

struct ApiError {
  unsigned status = 400; ///< of HTTP
  std::string message;   ///< "temperature: expected a number from 0 to 2, got -1"
  std::string type = "invalid_request_error";
  std::optional<std::string> param; ///< the field it is about, "messages[0].content"
  std::optional<std::string> code;  ///< for programs: "context_length_exceeded"
  std::optional<int> retryAfter;    ///< seconds, of 429 and 503

  /// {"error": {"message", "type", "param", "code"}}
  std::string json() const;
};

/// 400 for one field.
ApiError badField(std::string param, std::string message);
/// 404 for a path, 405 for its method.
ApiError notFound(const std::string &path);
ApiError wrongMethod(const std::string &method, const std::string &path, const std::string &allowed);
/// The engine's own errors: a usage error is the client's (400), Busy is 429, Unavailable 503, the rest 500.
ApiError fromEngine(const Error &error, std::string param);

/// A value or an ApiError. `if (!r) return r.error();` passes an error on.
template <typename T> class [[nodiscard]] Outcome {
public:
  Outcome(T value) : storage(std::in_place_index<0>, std::move(value)) {}
  Outcome(ApiError error) : storage(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return storage.index() == 0; }
  T &operator*() { return std::get<0>(storage); }
  T *operator->() { return &std::get<0>(storage); }
  const ApiError &error() const { return std::get<1>(storage); }

private:
  std::variant<T, ApiError> storage;
};

} // namespace dsv3::server
