#include "runtime/server/Http.h"

#include <algorithm>
#include <charconv>
#include <random>

namespace dsv3::server {

namespace {

constexpr size_t kMaxRequestId = 128;

/// An id is echoed and logged, so it must be a word.
bool isEchoable(std::string_view id) {
  auto fit = [](char c) { return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '-' || c == '_' || c == '.' || c == ':'; };
  return !id.empty() && id.size() <= kMaxRequestId && std::all_of(id.begin(), id.end(), fit);
}

std::string text(boost::beast::string_view view) { return {view.data(), view.size()}; }

} // namespace

std::string newRequestId() {
  static std::mt19937_64 random{std::random_device{}()}; // on the server's thread only
  char text[17];
  snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(random()));
  return text;
}

RequestHead readHead(const Parser &parser) {
  const auto &message = parser.get();
  RequestHead head;
  head.method = text(message.method_string());
  head.path = text(message.target());
  head.path.resize(std::min(head.path.find('?'), head.path.size()));
  head.requestId = text(message["x-request-id"]);
  if (!isEchoable(head.requestId))
    head.requestId = newRequestId();
  head.authorization = text(message[http::field::authorization]);
  head.http11 = message.version() >= 11;
  head.keepAlive = message.keep_alive();
  head.expectsContinue = head.http11 && boost::beast::iequals(message[http::field::expect], "100-continue");
  head.hasBody = !parser.is_done();
  return head;
}

Response errorResponse(const ApiError &error) {
  Response response;
  response.status = error.status;
  response.body = error.json();
  if (error.retryAfter)
    response.headers.emplace_back("Retry-After", std::to_string(*error.retryAfter));
  if (error.status == 401)
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

Response jsonResponse(std::string body) {
  Response response;
  response.body = std::move(body);
  return response;
}

std::string responseHead(const RequestHead &request, unsigned status, std::string_view contentType,
                         std::optional<size_t> length, bool keepAlive, const Headers &headers) {
  std::string out = "HTTP/1.1 " + std::to_string(status) + " " + text(http::obsolete_reason(http::int_to_status(status))) + "\r\n";
  auto add = [&](std::string_view name, std::string_view value) { out.append(name).append(": ").append(value).append("\r\n"); };
  add("Content-Type", contentType);
  if (length)
    add("Content-Length", std::to_string(*length));
  else if (request.http11)
    add("Transfer-Encoding", "chunked");
  add("Connection", keepAlive ? "keep-alive" : "close");
  if (!request.requestId.empty())
    add("x-request-id", request.requestId);
  for (const auto &[name, value] : headers)
    add(name, value);
  return out + "\r\n";
}

void appendChunk(std::string &out, std::string_view data) {
  char size[20];
  out.append(size, std::to_chars(size, size + sizeof size, data.size(), 16).ptr).append("\r\n").append(data).append("\r\n");
}

std::string sseEvent(std::string_view text) { return std::string("data: ").append(text).append("\n\n"); }

bool sameSecret(std::string_view a, std::string_view b) {
  unsigned char differing = a.size() != b.size();
  for (size_t i = 0; i < a.size(); ++i)
    differing |= static_cast<unsigned char>(a[i] ^ b[b.empty() ? 0 : i % b.size()]);
  return !differing;
}

} // namespace dsv3::server
