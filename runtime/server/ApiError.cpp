#include "runtime/server/ApiError.h"

#include "runtime/core/Json.h"

namespace dsv3::server {

namespace {

OrderedJson orNull(const std::optional<std::string> &text) { return text ? OrderedJson(*text) : OrderedJson(nullptr); }

} // namespace

std::string ApiError::json() const {
  OrderedJson body = {{"error", {{"message", message}, {"type", type}, {"param", orNull(param)}, {"code", orNull(code)}}}};
  // A message may quote the client's bytes.
  return body.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

ApiError badField(std::string param, std::string message) {
  ApiError error;
  error.message = param + ": " + message;
  error.param = std::move(param);
  return error;
}

ApiError notFound(const std::string &path) {
  ApiError error;
  error.status = 404;
  error.message = "there is no " + printable(path, 200);
  error.code = "not_found";
  return error;
}

ApiError wrongMethod(const std::string &method, const std::string &path, const std::string &allowed) {
  ApiError error;
  error.status = 405;
  error.message = printable(path, 200) + ": expected method " + allowed + ", got " + printable(method);
  error.code = "method_not_allowed";
  return error;
}

ApiError fromEngine(const Error &e, std::string param) {
  ApiError error;
  error.message = e.message;
  switch (e.code) {
  case ExitCode::Usage:
  case ExitCode::Unsupported:
  case ExitCode::DoesNotFit:
    error.param = std::move(param);
    return error;
  case ExitCode::Busy:
    error.status = 429;
    error.type = "rate_limit_error";
    error.code = "queue_full";
    error.retryAfter = 1;
    return error;
  case ExitCode::Unavailable:
    error.status = 503;
    error.type = "service_unavailable_error";
    error.code = "unavailable";
    error.retryAfter = 5;
    return error;
  default:
    error.status = 500;
    error.type = "internal_error";
    return error;
  }
}

} // namespace dsv3::server
