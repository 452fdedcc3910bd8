// kernel.sample against runtime/core/TokenChoice: the same bytes for every row, however unkind.
#include "test/codegen/sm90/simt/DeviceTest.h"

#include "runtime/core/TokenChoice.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace dsv3::codegen::test {
namespace {

using Row = std::vector<float>;

std::string text(const dsv3_sampling &s) {
  return "flags " + std::to_string(s.flags) + " top_k " + std::to_string(s.top_k) + " scale " + std::to_string(s.scale) + " top_p " +
         std::to_string(s.top_p) + " min_weight " + std::to_string(s.min_weight) + " random " + std::to_string(s.random);
}

struct Rows {
  std::vector<Row> logits;
  std::vector<dsv3_sampling> how;

  void add(Row row, dsv3_sampling s, bool onDevice = true) {
    if (onDevice)
      s.flags |= DSV3_SAMPLE_ROW;
    logits.push_back(std::move(row));
    how.push_back(s);
  }
};

class SampleTest : public DeviceTest {
protected:
  /// Runs all rows in one launch and expects what the host chooses; untouched rows keep their bytes.
  void check(const Rows &rows, Elem elem, bool backwards = false) {
    int64_t n = int64_t(rows.logits.size()), vocab = int64_t(rows.logits[0].size());
    std::string x = tensorText({n + 1, vocab}, elem), y = "tensor<" + std::to_string(n + 1) + "x8xi32>";
    auto grid = compile("%x: " + x + ", %s: !dsv3.seq",
                        "%o = kernel.empty : " + y + "\n%r = kernel.sample ins(%x, %s : " + x + ") outs(%o : " + y + ") site \"s\"", n + 1);
    ASSERT_TRUE(grid);
    Array<double> values({n, vocab});
    for (int64_t r = 0; r < n; ++r)
      std::copy(rows.logits[size_t(r)].begin(), rows.logits[size_t(r)].end(), values.row(r));
    Buffer in = Buffer::of(values, elem), how{n * int64_t(sizeof(dsv3_sampling))}, out{n * int64_t(sizeof(dsv3_sampled))};
    std::memcpy(how.data(), rows.how.data(), rows.how.size() * sizeof(dsv3_sampling));
    grid->run({in.data(), how.data(), out.data()}, step(n, n), backwards);
    EXPECT_TRUE(out.intact());
    Array<double> seen = in.values({n, vocab}, elem);
    TokenChooser chooser;
    for (int64_t r = 0; r < n; ++r) {
      Row row(seen.row(r), seen.row(r) + vocab);
      dsv3_sampled want, got;
      std::memset(&want, 0xff, sizeof want);
      if (rows.how[size_t(r)].flags & DSV3_SAMPLE_ROW)
        want = chooser.choose(row.data(), vocab, rows.how[size_t(r)]);
      std::memcpy(&got, static_cast<dsv3_sampled *>(out.data()) + r, sizeof got);
      ASSERT_EQ(std::memcmp(&got, &want, sizeof got), 0)
          << "row " << r << " of " << vocab << ": expected id " << want.id << " fault " << want.fault << " mass " << want.mass << " top " << want.top
          << ", got id " << got.id << " fault " << got.fault << " mass " << got.mass << " top " << got.top << "; "
          << text(rows.how[size_t(r)]);
    }
  }

  std::mt19937_64 random{7};
  double uniform() { return std::uniform_real_distribution<double>()(random); }
  Row normal(int64_t n, double spread) {
    std::normal_distribution<float> d(0, float(spread));
    Row row(static_cast<size_t>(n));
    for (float &x : row)
      x = d(random);
    return row;
  }
  dsv3_sampling draw(double temperature, int64_t k = 0, double p = 1, double m = 0) { return samplingOf(temperature, k, p, m, random() >> 11); }
};

TEST_F(SampleTest, EveryParameterAlone) {
  for (Elem elem : {Elem::F32, Elem::BF16})
    for (int64_t vocab : {int64_t(1), int64_t(5), int64_t(64), int64_t(1000), int64_t(1023)}) {
      Rows rows;
      for (double spread : {0.3, 3.0, 30.0}) {
        rows.add(normal(vocab, spread), draw(0));
        rows.add(normal(vocab, spread), draw(0), /*onDevice=*/false);
        for (double t : {1.0, 0.6, 1.7, 1e-30, 1e5})
          rows.add(normal(vocab, spread), draw(t));
        for (int64_t k : {1, 3, 40, 2000})
          rows.add(normal(vocab, spread), draw(0.8, k));
        for (double p : {0.95, 0.5, 1e-9, 0.999999})
          rows.add(normal(vocab, spread), draw(0.8, 0, p));
        for (double m : {1.0, 0.5, 0.01, 1e-15})
          rows.add(normal(vocab, spread), draw(0.8, 0, 1, m));
      }
      check(rows, elem, elem == Elem::BF16);
    }
}

TEST_F(SampleTest, AllParametersTogether) {
  for (Elem elem : {Elem::F32, Elem::BF16})
    for (int64_t vocab : {int64_t(257), int64_t(2000)}) {
      Rows rows;
      for (int i = 0; i < 60; ++i) {
        int64_t k = uniform() < 0.3 ? 0 : int64_t(std::pow(2 * double(vocab), uniform()));
        double p = uniform() < 0.3 ? 1 : 1 - std::pow(uniform(), 3), m = uniform() < 0.5 ? 0 : std::pow(uniform(), 6);
        rows.add(normal(vocab, std::exp(4 * uniform() - 2)), draw(std::exp(3 * uniform() - 1.5), k, std::max(p, 1e-6), m));
      }
      check(rows, elem, elem == Elem::F32);
    }
}

/// Ties everywhere that a rule speaks of them.
TEST_F(SampleTest, Ties) {
  for (int64_t vocab : {int64_t(37), int64_t(768)}) {
    Rows rows;
    auto add = [&](const Row &row) {
      rows.add(row, draw(0));
      rows.add(row, draw(1));
      for (int64_t k : {1, 2, 7, 30})
        rows.add(row, draw(1, k));
      for (double p : {0.1, 0.25, 0.5, 0.75, 0.99})
        rows.add(row, draw(1, 0, p)), rows.add(row, draw(1, 9, p)), rows.add(row, draw(0.7, 0, p, 0.5));
    };
    add(Row(size_t(vocab), 0.0f));
    add(Row(size_t(vocab), -7.25f));
    Row steps(static_cast<size_t>(vocab)), zeros(static_cast<size_t>(vocab)), hot(size_t(vocab), -3.0f), two(size_t(vocab), 1.0f);
    for (size_t i = 0; i < steps.size(); ++i)
      steps[i] = float(int(i * 7 % 5)), zeros[i] = i % 2 ? 0.0f : -0.0f;
    hot[size_t(vocab / 2)] = 40;
    two[3] = two[size_t(vocab - 1)] = 2;
    for (const Row &row : {steps, zeros, hot, two})
      add(row);
    check(rows, Elem::F32);
  }
}

/// Rows whose candidates do not suffice: sorted, so that some threads see only small logits; flat with a nucleus that
/// is most of the row; far apart, so that differences overflow.
TEST_F(SampleTest, CandidatesThatDoNotSuffice) {
  const int64_t vocab = 1500;
  Rows rows;
  Row rising(static_cast<size_t>(vocab)), far(size_t(vocab), -3e38f), flat = normal(vocab, 0.01);
  for (size_t i = 0; i < rising.size(); ++i)
    rising[i] = float(i) * 0.01f;
  far[700] = 3e38f, far[701] = 2.9999998e38f;
  Row falling(rising.rbegin(), rising.rend());
  for (const Row &row : {rising, falling, far, flat})
    for (int i = 0; i < 3; ++i) {
      rows.add(row, draw(1, 1400));
      rows.add(row, draw(1, 0, 0.97));
      rows.add(row, draw(1, 1200, 0.9));
      rows.add(row, draw(2, 0, 0.9, 1e-6));
      rows.add(row, draw(1, 1499, 0.5));
    }
  check(rows, Elem::F32);
}

/// Rows that a cluster of blocks shares, two and eight of them. Few: each is some thousand coroutines.
TEST_F(SampleTest, Clusters) {
  for (int64_t vocab : {int64_t(16387), int64_t(65540)}) {
    Rows rows;
    Row bad = normal(vocab, 3), flat = normal(vocab, 0.02), hot(size_t(vocab), -100.0f);
    bad[size_t(vocab - 2)] = bad[size_t(vocab - 1)] = std::numeric_limits<float>::infinity();
    hot[size_t(vocab - 1)] = hot[size_t(vocab / 2)] = 5;
    rows.add(normal(vocab, 3), draw(0));
    rows.add(hot, draw(0));
    rows.add(hot, draw(2));
    rows.add(normal(vocab, 3), draw(1));
    rows.add(normal(vocab, 3), draw(1.3, 0, 1, 0.01), /*onDevice=*/false);
    rows.add(normal(vocab, 3), draw(0.9, 60, 0.9, 0.01));
    rows.add(normal(vocab, 3), draw(0.7, 0, 0.9));
    rows.add(bad, draw(0.7, 0, 0.9));
    if (vocab < 20000)
      rows.add(flat, draw(1, 0, 0.8)), rows.add(flat, draw(1, 9000, 0.8));
    check(rows, Elem::F32, vocab > 20000);
  }
}

/// The first and the last number that a generator gives, and a mass that only the first or the last id has.
TEST_F(SampleTest, EndsOfTheDraw) {
  Rows rows;
  for (uint64_t r : {uint64_t(0), (uint64_t(1) << 53) - 1})
    for (size_t place : {size_t(0), size_t(511)}) {
      Row row(512, -200.0f);
      row[place] = 1;
      for (double p : {1.0, 0.9})
        rows.add(row, samplingOf(1, 0, p, 0, r)), rows.add(Row(512, 2.0f), samplingOf(1, 0, p, 0, r));
    }
  check(rows, Elem::F32);
}

TEST_F(SampleTest, TheFirstLogitThatIsNotFiniteIsNamed) {
  float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (Elem elem : {Elem::F32, Elem::BF16}) {
    Rows rows;
    for (float bad : {nan, -nan, inf, -inf})
      for (size_t place : {size_t(0), size_t(299), size_t(598)}) {
        Row row = normal(599, 2);
        row[place] = bad;
        row[598] = bad;
        rows.add(row, draw(0));
        rows.add(row, draw(0.5, 10, 0.9));
      }
    rows.add(Row(599, nan), draw(0));
    check(rows, elem);
  }
}

} // namespace
} // namespace dsv3::codegen::test
