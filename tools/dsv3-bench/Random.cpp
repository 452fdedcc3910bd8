#include "tools/dsv3-bench/Random.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

namespace dsv3::bench {

uint64_t seedOf(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ull; // FNV-1a
  for (unsigned char c : name)
    hash = (hash ^ c) * 0x100000001b3ull;
  return hash;
}

/// x with P(normal < x) = p, by bisection: 4096 of them are drawn once per table.
static double quantile(double p) {
  double low = -9, high = 9;
  for (int i = 0; i < 60; ++i) {
    double mid = (low + high) / 2;
    (std::erfc(-mid / std::sqrt(2.0)) / 2 < p ? low : high) = mid;
  }
  return (low + high) / 2;
}

Normal::Normal(DType stored, double mean, double deviation) {
  static const std::array<double, 4096> standard = [] {
    std::array<double, 4096> q;
    for (size_t i = 0; i < q.size(); ++i)
      q[i] = quantile((double(i) + 0.5) / double(q.size()));
    return q;
  }();
  for (size_t i = 0; i < values.size(); ++i) {
    float x = float(mean + deviation * standard[i]);
    codes[i] = 0;
    if (stored == DType::I8)
      codes[i] = uint8_t(int8_t(std::clamp(std::nearbyint(x), -127.0f, 127.0f)));
    else
      convertFromFloat(stored, &x, 1, &codes[i]);
    values[i] = loadAsFloat(stored, &codes[i], 0);
  }
}

Normal Normal::integers(int low, int high) {
  Normal n;
  for (size_t i = 0; i < n.values.size(); ++i) {
    int v = low + int(i) % (high - low + 1);
    n.values[i] = float(v);
    n.codes[i] = uint8_t(v);
  }
  return n;
}

void parallelFor(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)> &body) {
  int64_t parts = std::max<int64_t>(1, std::min<int64_t>(n / std::max<int64_t>(1, grain), int64_t(std::thread::hardware_concurrency())));
  std::vector<std::thread> threads;
  for (int64_t p = 1; p < parts; ++p)
    threads.emplace_back([&, p] { body(n * p / parts, n * (p + 1) / parts); });
  body(0, n / parts);
  for (std::thread &t : threads)
    t.join();
}

} // namespace dsv3::bench
