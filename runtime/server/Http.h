// HTTP/1.1 around Beast's parser: what a request says, and the bytes of a response.
#pragma once

#include "runtime/server/ApiError.h"
#include "runtime/server/Asio.h"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dsv3::server {

namespace http = boost::beast::http;
using Parser = http::request_parser<http::string_body>;

/// The head of a request, copied out of the parser.
struct RequestHead {
  std::string method, path; ///< path without the query
  std::string requestId;    ///< of the client if it is fit to be echoed, else ours
  std::string authorization;
  bool http11 = true, keepAlive = true, expectsContinue = false, hasBody = false;
};

RequestHead readHead(const Parser &parser);
/// Sixteen hexadecimal digits, drawn.
std::string newRequestId();

using Headers = std::vector<std::pair<std::string, std::string>>;

/// A response that is made in one piece.
struct Response {
  unsigned status = 200;
  std::string contentType = "application/json";
  std::string body;
  Headers headers;
};

Response errorResponse(const ApiError &error);
Response jsonResponse(std::string body);

/// Status line and header of a response of `length` bytes, or of a stream when `length` is absent: in chunks for HTTP/1.1,
/// to the end of the connection for older clients.
std::string responseHead(const RequestHead &request, unsigned status, std::string_view contentType,
                         std::optional<size_t> length, bool keepAlive, const Headers &headers);

/// `data` as one chunk of the chunked transfer coding.
void appendChunk(std::string &out, std::string_view data);
constexpr std::string_view kLastChunk = "0\r\n\r\n";

/// "data: TEXT\n\n", an event of a stream. `text` has no line ends.
std::string sseEvent(std::string_view text);

/// Compares in a time that depends on the lengths only.
bool sameSecret(std::string_view a, std::string_view b);

} // namespace dsv3::server
