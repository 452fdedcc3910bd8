// Bytes on the wire: heads, chunks, events, metrics.
#include "runtime/server/Http.h"
#include "runtime/server/Metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace dsv3;
using namespace dsv3::server;
using testing::HasSubstr;
using testing::Not;

namespace {

RequestHead parseHead(std::string text) {
  Parser parser;
  SystemError error;
  parser.put(asio::buffer(text), error);
  EXPECT_FALSE(error) << error.message();
  return readHead(parser);
}

TEST(Http, ReadsAHead) {
  RequestHead head = parseHead("POST /v1/completions?x=1 HTTP/1.1\r\nAuthorization: Bearer k\r\nX-Request-Id: a-1\r\n"
                               "Expect: 100-Continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(head.method, "POST");
  EXPECT_EQ(head.path, "/v1/completions");
  EXPECT_EQ(head.requestId, "a-1");
  EXPECT_EQ(head.authorization, "Bearer k");
  EXPECT_TRUE(head.keepAlive && head.expectsContinue && head.hasBody && head.http11);
}

TEST(Http, MakesAnIdWhereTheClientsIsNotAWord) {
  for (const char *id : {"", "a b", "\xc3\xa4"}) {
    std::string made = parseHead("GET / HTTP/1.1\r\nx-request-id: " + std::string(id) + "\r\n\r\n").requestId;
    EXPECT_EQ(made.size(), 16u);
    EXPECT_EQ(made.find_first_not_of("0123456789abcdef"), made.npos) << made;
  }
}

TEST(Http, StreamsInChunksOnlyToHttp11) {
  RequestHead head = parseHead("GET / HTTP/1.1\r\n\r\n");
  EXPECT_THAT(responseHead(head, 200, "a/b", std::nullopt, true, {}), HasSubstr("Transfer-Encoding: chunked\r\n"));
  head.http11 = false;
  EXPECT_THAT(responseHead(head, 200, "a/b", std::nullopt, false, {}), Not(HasSubstr("chunked")));
  EXPECT_THAT(responseHead(head, 429, "a/b", 5, false, {{"Retry-After", "1"}}),
              testing::AllOf(testing::StartsWith("HTTP/1.1 429 Too Many Requests\r\n"), HasSubstr("Content-Length: 5\r\n"),
                             HasSubstr("Retry-After: 1\r\n"), testing::EndsWith("\r\n\r\n")));
}

TEST(Http, ChunksAndEvents) {
  std::string out;
  appendChunk(out, std::string(26, 'a'));
  EXPECT_EQ(out, "1a\r\n" + std::string(26, 'a') + "\r\n");
  EXPECT_EQ(sseEvent("[DONE]"), "data: [DONE]\n\n");
}

TEST(Http, ComparesSecrets) {
  EXPECT_TRUE(sameSecret("Bearer abc", "Bearer abc"));
  for (const char *other : {"", "Bearer abd", "Bearer ab", "Bearer abcabc", "bearer abc"})
    EXPECT_FALSE(sameSecret(other, "Bearer abc")) << other;
}

TEST(Errors, HaveOpenAisShape) {
  EXPECT_EQ(badField("n", "expected 1, got 2").json(),
            R"({"error":{"message":"n: expected 1, got 2","type":"invalid_request_error","param":"n","code":null}})");
  EXPECT_EQ(fromEngine(busyError("x"), "prompt").status, 429u);
  EXPECT_TRUE(fromEngine(busyError("x"), "prompt").retryAfter);
  EXPECT_EQ(fromEngine(unavailableError("x"), "prompt").status, 503u);
  EXPECT_EQ(fromEngine(usageError("x"), "prompt").param, "prompt");
  EXPECT_EQ(fromEngine(internalError("x"), "prompt").status, 500u);
}

TEST(Metrics, HistogramsAreCumulative) {
  Histogram h({1, 2.5});
  for (double x : {0.5, 1.0, 2.0, 99.0})
    h.observe(x);
  std::string out;
  h.write(out, "m", "l=\"v\"");
  EXPECT_EQ(out, "m_bucket{l=\"v\",le=\"1\"} 2\nm_bucket{l=\"v\",le=\"2.5\"} 3\nm_bucket{l=\"v\",le=\"+Inf\"} 4\n"
                 "m_sum{l=\"v\"} 102.5\nm_count{l=\"v\"} 4\n");
}

TEST(Metrics, NameTheModelAndTheReason) {
  Metrics metrics("a\"b\\c\nd", 4096);
  metrics.finished(FinishReason::Cancelled);
  metrics.responded(429);
  EngineSnapshot engine;
  engine.running = 3;
  engine.totalPages = 8;
  engine.freePages = 6;
  std::string text = metrics.text(engine, true, false);
  const std::string labels = "model_name=\"a\\\"b\\\\c\\nd\",engine=\"0\"";
  EXPECT_THAT(text, HasSubstr("vllm:num_requests_running{" + labels + "} 3\n"));
  EXPECT_THAT(text, HasSubstr("vllm:kv_cache_usage_perc{" + labels + "} 0.25\n"));
  EXPECT_THAT(text, HasSubstr("vllm:request_success_total{" + labels + ",finished_reason=\"abort\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("dsv3:engine_stuck{" + labels + "} 1\n"));
  EXPECT_THAT(text, HasSubstr("dsv3:http_responses_total{" + labels + ",code=\"429\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE vllm:time_to_first_token_seconds histogram\n"));
}

} // namespace
