// The parts of dsv3-bench serve that need no server; test/e2e/test_bench_serve.py runs the whole.
#include "tools/dsv3-bench/serve/Metrics.h"
#include "tools/dsv3-bench/serve/Plot.h"
#include "tools/dsv3-bench/serve/Sse.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace dsv3::bench::serve;

namespace {
std::vector<std::string> eventsOf(const std::string &stream, size_t cut) {
  std::vector<std::string> events;
  SseReader reader([&](const std::string &data) { events.push_back(data); });
  reader.feed(std::string_view(stream).substr(0, cut));
  reader.feed(std::string_view(stream).substr(cut));
  return events;
}

TEST(SseTest, AnyCutGivesTheSameEvents) {
  std::string stream = ": comment\n\ndata: {\"a\": 1}\n\nevent: x\r\ndata:two\r\ndata: lines\r\n\r\nid: 3\n\ndata: é\r\rdata: unfinished";
  std::vector<std::string> expected = {"{\"a\": 1}", "two\nlines", "é"};
  for (size_t cut = 0; cut <= stream.size(); ++cut)
    EXPECT_EQ(eventsOf(stream, cut), expected) << cut;
}

TEST(MetricsTest, PercentilesLieBetweenValues) {
  std::vector<double> sorted = {1, 2, 3, 10};
  EXPECT_DOUBLE_EQ(percentile(sorted, 0), 1);
  EXPECT_DOUBLE_EQ(percentile(sorted, 50), 2.5);
  EXPECT_DOUBLE_EQ(percentile(sorted, 90), 3 + 0.7 * 7);
  EXPECT_DOUBLE_EQ(percentile(sorted, 100), 10);
  EXPECT_DOUBLE_EQ(percentile({4}, 99), 4);
  Summary s = summarize({3, 1, 2, 10}, {100});
  EXPECT_DOUBLE_EQ(s.mean, 4000);
  EXPECT_DOUBLE_EQ(s.median, 2500);
  EXPECT_DOUBLE_EQ(s.deviation, 1000 * std::sqrt(50.0 / 4));
  EXPECT_DOUBLE_EQ(summarize({}, {99}).percentiles[0], 0); // no request succeeded
}

TEST(MetricsTest, PeakCountsOverlap) {
  Load load;
  load.duration = 3;
  for (double start : {0.0, 0.5, 1.0}) {
    Outcome r;
    r.success = true;
    r.start = start;
    r.ttft = 0.25;
    r.latency = 1;
    r.itl = {0.75};
    load.outcomes.push_back(r);
  }
  Metrics m = measure(ServeOptions(), load, 0);
  EXPECT_EQ(m.peakConcurrency, 2); // the third starts when the first ends
  EXPECT_EQ(m.totalOutput, 6);
  EXPECT_EQ(m.peakOutput, 3); // at 1.0, 1.25 and 1.5
  EXPECT_EQ(tokensPerSecond(load), (std::vector<double>{2, 3, 1}));
  EXPECT_DOUBLE_EQ(m.outputThroughput, 2);
}

TEST(LoadTest, ArrivalsEndWhenTheRateSays) {
  TrafficOptions t;
  EXPECT_EQ(arrivals(t, 3, 1), (std::vector<double>{0, 0, 0}));
  t.requestRate = 20;
  for (double burstiness : {0.2, 1.0, 7.0}) {
    t.burstiness = burstiness;
    std::vector<double> times = arrivals(t, 100, 1);
    EXPECT_NEAR(times.back(), 5, 1e-9);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    EXPECT_EQ(times, arrivals(t, 100, 1));
    EXPECT_NE(times, arrivals(t, 100, 2));
  }
}

TEST(LoadTest, StreamsWithOddEventsFail) {
  for (const char *data : {"not json", "[1]", "{\"error\": \"x\"}"}) {
    Outcome out;
    StreamRecord record(out, Clock::now());
    record.take("{\"choices\": [{\"text\": \"a\", \"finish_reason\": null}], \"usage\": {\"completion_tokens\": \"many\"}}", Clock::now());
    record.take(data, Clock::now());
    record.take("[DONE]", Clock::now());
    record.end();
    EXPECT_FALSE(out.success) << data;
    EXPECT_NE(out.error, "");
    EXPECT_EQ(out.outputLen, 0);
  }
}

TEST(LoadTest, AnEndWithoutTextIsNoGap) {
  Outcome out;
  auto begin = Clock::now();
  StreamRecord record(out, begin);
  auto after = [&](int ms) { return begin + std::chrono::milliseconds(ms); };
  record.take("{\"choices\": [{\"text\": \"a\", \"finish_reason\": null}]}", after(100));
  record.take("{\"choices\": [{\"text\": \"b\", \"finish_reason\": null}]}", after(150));
  record.take("{\"choices\": [{\"text\": \"\", \"finish_reason\": \"stop\"}]}", after(170));
  record.take("[DONE]", after(400));
  record.end();
  EXPECT_TRUE(out.success);
  EXPECT_NEAR(out.ttft, 0.1, 1e-6);
  ASSERT_EQ(out.itl.size(), 1u);
  EXPECT_NEAR(out.itl[0], 0.05, 1e-6);
  EXPECT_NEAR(out.latency, 0.17, 1e-6);
}

TEST(UrlTest, Parts) {
  auto url = parseUrl("http://[::1]:80/base/");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host + " " + url->port + " " + url->path, "::1 80 /base");
  EXPECT_EQ(parseUrl("http://host")->port, "80");
  for (const char *bad : {"", "host:80", "https://host", "http://", "http://:80", "http://h:0", "http://h:65536", "http://h:8x"})
    EXPECT_FALSE(parseUrl(bad)) << bad;
}

TEST(PlotTest, EmptySeriesAreFine) {
  EXPECT_NE(svg({{"t <&>", "x", "y", {{"s", {}}}, {}}}).find("t &lt;&amp;&gt;"), std::string::npos);
}
} // namespace
