// Products with int4 weights on the tile simulator: integer sums to the bit, and the machine code of DeepSeek-V3's.
#include "test/codegen/sm90/gemm/GemmHarness.h"

#include "runtime/core/DType.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

using namespace mlir;

namespace dsv3::codegen::test {
namespace {

std::string tensor(std::vector<int64_t> shape, const std::string &elem, const std::string &scheme = "") {
  std::string text = "tensor<";
  for (int64_t d : shape)
    text += std::to_string(d) + "x";
  return text + elem + (scheme.empty() ? "" : ", #dsv3.blocked<" + scheme + ">") + ">";
}

struct Case {
  std::vector<int64_t> rows; ///< of each expert; one number: of a dense product
  int64_t capacity = 0, n = 0, k = 0;
  bool experts = true, gated = false;
  std::string w = "1x?", x = "1x?"; ///< blocks of i4 weights and of i8 rows; x "": bf16
  std::string out = "f32", via = "f32";
  bool zeros = false; ///< of the weights
  bool codes = false; ///< y as int8, a scale per row and 128 columns

  int64_t stack() const { return int64_t(rows.size()); }
  int64_t weights() const { return gated ? 2 : 1; }
  bool wide() const { return x.empty(); }
  bool wGrouped() const { return w != "1x?"; }
  bool xGrouped() const { return x == "1x128"; }
  std::string xType() const { return tensor({capacity, k}, "bf16", wide() ? "" : "i8, " + x + ", f32"); }
  std::string wType() const { return tensor(experts ? std::vector<int64_t>{stack(), n, k} : std::vector<int64_t>{n, k}, "bf16", "i4, " + w + ", f32" + (zeros ? ", zero i8" : "")); }
  std::string args() const {
    return "%x: " + xType() + ", %w0: " + wType() + (gated ? ", %w1: " + wType() : "") + (experts ? ", %o: " + tensor({stack() + 1}, "i32") : "");
  }
  std::string body() const {
    std::string y = tensor({capacity, n}, out, codes ? "i8, 1x128, f32" : "");
    return "%d = kernel.empty : " + y + "\n%y = kernel." + (experts ? "grouped_" : "") + (gated ? "gated_" : "") + "gemm ins(%x, %w0" + (gated ? ", %w1" : "") +
           (experts ? ", %o" : "") + " : " + xType() + ", " + wType() + (gated ? ", " + wType() : "") + (experts ? ", " + tensor({stack() + 1}, "i32") : "") +
           ") outs(%d : " + y + ")" + (gated ? " via " + via : "") + " site \"s\"";
  }
  std::string attributes() const {
    return std::string("phase = \"") + (capacity > 256 ? "prefill" : "decode") + "\", tokens = " + std::to_string(capacity) + " : i64, seqs = " +
           std::to_string(capacity) + " : i64";
  }
  std::unique_ptr<LaunchKernel> compile(ArrayRef<std::pair<StringRef, int64_t>> force = {}) const {
    return LaunchKernel::compile(args(), body(), attributes(), force);
  }
};

float rounded(const std::string &elem, float x) { return elem == "bf16" ? bf16ToFloat(floatToBf16(x)) : x; }

class Product {
public:
  explicit Product(const Case &c, ArrayRef<std::pair<StringRef, int64_t>> force = {})
      : c(c), kernel(c.compile(force)), total(std::accumulate(c.rows.begin(), c.rows.end(), int64_t(0))), across((c.k + 127) / 128) {
    std::mt19937 random(7);
    auto integer = [&](int low, int high) { return int8_t(low + int(random() % unsigned(high - low + 1))); };
    for (int64_t i = 0; i < c.capacity * c.k; ++i)
      x.push_back(c.wide() ? bf16ToFloat(floatToBf16(float(integer(-127, 127)) / 32)) : float(integer(-127, 127)));
    for (int64_t i = 0; i < c.capacity * across; ++i)
      xScales.push_back(0.01f * float(1 + i * 31 % 17));
    for (int64_t i = 0; i < c.weights(); ++i) {
      codes.emplace_back(), scales.emplace_back();
      for (int64_t j = 0; j < c.stack() * c.n * c.k; ++j)
        codes.back().push_back(uint8_t(integer(-8, 7)));
      for (int64_t j = 0; j < c.stack() * c.n * across; ++j)
        scales.back().push_back(0.001f * float(1 + (j * 37 + i) % 29));
    }
  }

  /// Runs it on weights packed as the kernel asks; `change` may spoil the packed codes.
  void run(uint64_t seed = 1, int64_t ctas = 0, llvm::function_ref<void(Bytes &)> change = nullptr) {
    ASSERT_TRUE(kernel);
    SCOPED_TRACE(kernel->schedule());
    Bytes xBytes = rowBytes(), offsets;
    std::vector<Bytes> parts;
    for (int64_t i = 0; i < c.weights(); ++i) {
      parts.push_back(kernel->pack(unsigned(1 + i), 0, [&](ArrayRef<int64_t> at) { return &codes[size_t(i)][size_t(rowOf(at) * c.k + at.back())]; }));
      if (change)
        change(parts.back());
      parts.push_back(kernel->pack(unsigned(1 + i), 1, [&](ArrayRef<int64_t> at) { return reinterpret_cast<const uint8_t *>(&scale(i, rowOf(at), at.back())); }));
      if (c.zeros)
        parts.push_back(kernel->pack(unsigned(1 + i), 2, [&](ArrayRef<int64_t> at) { return reinterpret_cast<const uint8_t *>(&zero(i, rowOf(at), at.back())); }));
    }
    int32_t first = 0;
    for (int64_t e = 0; e <= c.stack(); first += e < c.stack() ? int32_t(c.rows[size_t(e)]) : 0, ++e)
      offsets.insert(offsets.end(), reinterpret_cast<uint8_t *>(&first), reinterpret_cast<uint8_t *>(&first) + 4);
    y.assign(size_t(c.codes ? scalesAt() + c.capacity * (c.n / 128) * 4 : c.capacity * c.n * width()), 0x7f);
    std::vector<Bytes *> refs{&xBytes};
    for (Bytes &part : parts)
      refs.push_back(&part);
    if (c.experts)
      refs.push_back(&offsets);
    refs.push_back(&y);
    if (!mutant)
      return kernel->run(refs, {total}, seed, ctas);
    found = kernel->findings(refs, {total}, *mutant, ctas);
  }

  /// Every wait and release is needed: without one, or out of place, the simulator sees a race or a deadlock.
  void expectMutantsReported(size_t least, const std::set<std::string> &harmless = {}) {
    ASSERT_TRUE(kernel);
    std::vector<tile::Mutant> mutants = tile::mutantsOf(kernel->kernel());
    EXPECT_GE(mutants.size(), least);
    for (const tile::Mutant &m : mutants) {
      mutant = &m;
      run(1, 2);
      EXPECT_EQ(found.empty(), harmless.count(m.name) != 0) << m.name << ": " << found;
    }
  }

  /// Elements that differ from the reference: to the bit where `exact`.
  int64_t wrong(bool exact) const {
    int64_t bad = 0, row = 0;
    for (int64_t e = 0; e < c.stack(); ++e)
      for (int64_t r = 0; r < c.rows[size_t(e)]; ++r, ++row)
        for (int64_t n = 0; n < c.n; ++n) {
          double size = 0;
          float want = expected(e * c.n + n, row, size), got = at(row, n);
          double rounding = c.out == "bf16" || c.via == "bf16" ? 1.0 / 128 : 1e-5;
          bad += exact ? got != rounded(c.out, want) : !(std::fabs(double(got) - double(want)) <= size * 1e-6 + std::fabs(double(want)) * rounding);
        }
    EXPECT_EQ(std::count_if(y.begin() + row * c.n * width(), y.end(), [](uint8_t b) { return b != 0x7f; }), 0) << "rows past the last";
    return bad;
  }

  /// Codes and scales that are not those of what `plain` stored.
  int64_t wrongCodes(const Product &plain) const {
    int64_t bad = 0;
    for (int64_t row = 0; row < total; ++row)
      for (int64_t first = 0; first < c.n; first += 128) {
        float most = 0;
        for (int64_t n = first; n < first + 128; ++n)
          most = std::max(most, std::fabs(plain.at(row, n)));
        float scale = most > 0 ? most / 127 : 1, got;
        std::memcpy(&got, &y[size_t(scalesAt() + (row * (c.n / 128) + first / 128) * 4)], 4);
        bad += got != scale;
        for (int64_t n = first; n < first + 128; ++n)
          bad += int8_t(y[size_t(row * c.n + n)]) != int8_t(std::nearbyint(plain.at(row, n) / scale));
      }
    for (int64_t i = total * c.n; i < c.capacity * c.n; ++i)
      bad += y[size_t(i)] != 0x7f;
    return bad;
  }

  Case c;
  std::unique_ptr<LaunchKernel> kernel;

private:
  int64_t scalesAt() const { return int64_t(llvm::alignTo(uint64_t(c.capacity * c.n), 256)); }
  int64_t width() const { return c.out == "bf16" ? 2 : 4; }
  int64_t rowOf(ArrayRef<int64_t> at) const { return at.size() == 3 ? at[0] * c.n + at[1] : at[0]; }
  const float &scale(int64_t i, int64_t row, int64_t k) const { return scales[size_t(i)][size_t(row * across + (c.wGrouped() ? k / 128 : 0))]; }
  const int8_t &zero(int64_t i, int64_t row, int64_t k) const {
    static const int8_t values[16] = {-8, 7, 0, 3, -1, 5, -7, 2, 6, -3, 1, -5, 4, -2, -6, -4};
    static const int8_t none = 0;
    return c.zeros ? values[(row * 5 + (c.wGrouped() ? k / 128 : 0) + i) % 16] : none;
  }
  float xScale(int64_t row, int64_t k) const { return c.wide() ? 1 : xScales[size_t(row * (c.xGrouped() ? across : 1) + (c.xGrouped() ? k / 128 : 0))]; }

  /// Rows of nobody hold what no sum may meet.
  Bytes rowBytes() const {
    Bytes bytes;
    for (size_t i = 0; i < x.size(); ++i) {
      bool nobody = int64_t(i) >= total * c.k;
      uint16_t wide = nobody ? 0xffff : floatToBf16(x[i]);
      bytes.push_back(c.wide() ? uint8_t(wide) : nobody ? 0x80 : uint8_t(int8_t(x[i])));
      if (c.wide())
        bytes.push_back(uint8_t(wide >> 8));
    }
    if (c.wide())
      return bytes;
    bytes.resize(llvm::alignTo(bytes.size(), 256)); // parts of a value
    auto *raw = reinterpret_cast<const uint8_t *>(xScales.data());
    bytes.insert(bytes.end(), raw, raw + size_t(c.capacity * (c.xGrouped() ? across : 1)) * 4);
    return bytes;
  }

  /// quantizedLinear of the reference, in f32; `size` bounds the error of another order of roundings.
  float expected(int64_t w, int64_t row, double &size) const {
    float product[2] = {0, 0};
    for (int64_t i = 0; i < c.weights(); ++i)
      for (int64_t from = 0, to; from < c.k; from = to) {
        to = c.wGrouped() || c.xGrouped() ? std::min(c.k, from + 128) : c.k;
        double sum = 0;
        for (int64_t k = from; k < to; ++k) {
          double term = double(x[size_t(row * c.k + k)]) * (int8_t(codes[size_t(i)][size_t(w * c.k + k)]) - zero(i, w, from));
          sum += term, size += std::fabs(term * double(xScale(row, from)) * double(scale(i, w, from)));
        }
        product[i] += float(sum) * (xScale(row, from) * scale(i, w, from));
      }
    if (!c.gated)
      return product[0];
    float gate = rounded(c.via, product[0]), up = rounded(c.via, product[1]);
    size *= 1 + std::fabs(gate) + std::fabs(up);
    return float(double(gate) / (1 + std::exp(-double(gate))) * double(up));
  }

  float at(int64_t row, int64_t n) const {
    uint32_t bits = 0;
    std::memcpy(&bits, &y[size_t((row * c.n + n) * width())], size_t(width()));
    return width() == 2 ? bf16ToFloat(uint16_t(bits)) : floatFromBits(bits);
  }

  const tile::Mutant *mutant = nullptr; ///< that `run` applies
  std::string found;                    ///< in it
  int64_t total, across;
  std::vector<float> x, xScales;
  std::vector<std::vector<uint8_t>> codes;
  std::vector<std::vector<float>> scales;
  Bytes y;
};

void check(const Case &c, bool exact, ArrayRef<std::pair<StringRef, int64_t>> force = {}, uint64_t seed = 1, int64_t ctas = 0) {
  Product p(c, force);
  p.run(seed, ctas);
  EXPECT_EQ(p.wrong(exact), 0) << p.kernel->schedule();
}

} // namespace

/// A scale per row of both: one integer sum over K, and f32 in the reference's order.
TEST(Int4, SumsAreExact) {
  check({.rows = {0, 19, 1, 0, 33}, .capacity = 64, .n = 200, .k = 336}, true);
  check({.rows = {40, 0, 0}, .capacity = 40, .n = 128, .k = 128, .out = "bf16"}, true);
  check({.rows = {11}, .capacity = 16, .n = 136, .k = 512, .experts = false}, true);
  check({.rows = {11}, .capacity = 16, .n = 136, .k = 512, .experts = false}, true, {{"split", 4}, {"bk", 128}, {"warpgroups", 2}});
}

/// What a mistake of the packing would do is seen: halves of bytes exchanged, a code that is not negative.
TEST(Int4, MistakesOfPackingAreSeen) {
  Case c{.rows = {5, 3}, .capacity = 8, .n = 64, .k = 128};
  Product p(c);
  p.run();
  EXPECT_EQ(p.wrong(true), 0);
  p.run(1, 0, [](Bytes &codes) {
    for (uint8_t &b : codes)
      b = uint8_t(b << 4 | b >> 4);
  });
  EXPECT_GT(p.wrong(true), 400);
  p.run(1, 0, [](Bytes &codes) {
    for (uint8_t &b : codes)
      b = (b & 15) == 8 ? uint8_t((b & 0xf0) | 7) : b; // -8 as if it were out of range
  });
  EXPECT_GT(p.wrong(true), 200); // of the rows in low halves
}

TEST(Int4, Gated) {
  for (auto via : {"f32", "bf16"})
    check({.rows = {5, 0, 50, 17}, .capacity = 80, .n = 96, .k = 144, .gated = true, .out = "bf16", .via = via}, false);
}

TEST(Int4, Groups) {
  check({.rows = {0, 19, 1, 0, 33}, .capacity = 64, .n = 200, .k = 336, .w = "1x128"}, false);
  check({.rows = {3, 0, 30}, .capacity = 40, .n = 136, .k = 256, .gated = true, .w = "1x128", .x = "1x128"}, false);
  check({.rows = {19, 1}, .capacity = 24, .n = 72, .k = 400, .x = "1x128"}, false);
}

TEST(Int4, PlainRows) {
  check({.rows = {0, 19, 1}, .capacity = 24, .n = 200, .k = 336, .x = ""}, false);
  check({.rows = {19}, .capacity = 24, .n = 72, .k = 400, .experts = false, .w = "1x128", .x = "", .out = "bf16"}, false);
  check({.rows = {3, 30}, .capacity = 40, .n = 136, .k = 256, .gated = true, .w = "1x128", .x = ""}, false);
}

TEST(Int4, ZeroPoints) {
  check({.rows = {0, 19, 1}, .capacity = 24, .n = 200, .k = 336, .x = "", .zeros = true}, false);
  check({.rows = {3, 30}, .capacity = 40, .n = 136, .k = 256, .gated = true, .w = "1x128", .x = "", .zeros = true}, false);
  Case c{.rows = {8}, .capacity = 8, .n = 64, .k = 128, .zeros = true};
  EXPECT_EQ(LaunchKernel::whyIllegal(c.args(), c.body(), c.attributes()), "x is quantised, and int4 weights with zero points are multiplied with plain rows");
}

TEST(Int4, EverySchedule) {
  Case c{.rows = {7, 0, 18, 5}, .capacity = 40, .n = 264, .k = 512};
  for (int64_t bk : {128, 256, 512})
    for (int64_t warpgroups : {1, 2, 4})
      check(c, true, {{"bk", bk}, {"warpgroups", warpgroups}, {"tokens", 16}, {"stages", 3}, {"row_tiles", 6}}, uint64_t(bk / 128 + warpgroups), 2);
  c.w = "1x128", c.x = "1x128";
  check(c, false, {{"bk", 256}, {"warpgroups", 2}, {"tokens", 8}, {"stages", 3}, {"row_tiles", 8}}, 3, 2);
}

/// Sums that leave no registers for scales of all columns are scaled and stored in pieces.
TEST(Int4, ManyTokensInPieces) {
  Case c{.rows = {290}, .capacity = 300, .n = 136, .k = 256, .experts = false, .out = "bf16"};
  check(c, true, {{"bk", 128}, {"warpgroups", 2}, {"tokens", 256}, {"stages", 3}, {"split", 1}});
  c.gated = true;
  check(c, false, {{"bk", 128}, {"warpgroups", 1}, {"tokens", 128}, {"stages", 3}, {"split", 1}});
}

/// SwiGLU and int8 with a scale per row and 128 columns in one launch: scales and codes of the numbers that would be stored.
TEST(Int4, StoresCodes) {
  for (bool gated : {true, false}) {
    Case c{.rows = {5, 0, 18, 1}, .capacity = 40, .n = 384, .k = 256, .gated = gated, .out = "bf16"};
    Product plain(c);
    plain.run();
    c.codes = true;
    for (auto force : {SmallVector<std::pair<StringRef, int64_t>>{}, SmallVector<std::pair<StringRef, int64_t>>{{"warpgroups", 2}, {"tokens", 16}, {"row_tiles", 5}, {"stages", 3}}}) {
      Product coded(c, force);
      coded.run(2, 3);
      EXPECT_EQ(coded.wrongCodes(plain), 0) << coded.kernel->schedule();
    }
  }
}

/// One sum over K and sums of 128 k, whose scales come with the stages; both epilogues.
TEST(Int4, MutantsAreReported) {
  Case c{.rows = {5, 0, 18}, .capacity = 40, .n = 128, .k = 1024, .gated = true};
  Product(c, {{"warpgroups", 2}, {"tokens", 16}, {"bk", 128}, {"stages", 3}, {"row_tiles", 5}}).expectMutantsReported(7);
  c.codes = true, c.out = "bf16";
  Product(c, {{"warpgroups", 2}, {"tokens", 16}, {"bk", 128}, {"stages", 3}, {"row_tiles", 5}}).expectMutantsReported(7);
  c = {.rows = {5, 0, 18}, .capacity = 40, .n = 128, .k = 1024, .w = "1x128", .x = "1x128"};
  Product(c, {{"warpgroups", 2}, {"tokens", 16}, {"bk", 256}, {"stages", 3}, {"row_tiles", 5}}).expectMutantsReported(3);
}

TEST(Int4, Refusals) {
  auto why = [](Case c) { return LaunchKernel::whyIllegal(c.args(), c.body(), c.attributes()); };
  EXPECT_EQ(why({.rows = {8}, .capacity = 8, .n = 64, .k = 128, .w = "64x128"}), "int4 weights have a scale per 64 rows, not per row");
  EXPECT_EQ(why({.rows = {8}, .capacity = 8, .n = 64, .k = 128, .w = "1x32"}),
            "groups of 32 int4 weights are not a multiple of 128, which products are promoted by");
  EXPECT_EQ(why({.rows = {8}, .capacity = 8, .n = 64, .k = 128, .x = "1x64"}),
            "x is quantised, but not to i8 with an f32 scale per row or per row and 128 channels, which int4 weights are multiplied with");
}

/// Products of DeepSeek-V3 through ptxas: no spill, no serialised wgmma, and the shared memory that the launch asks for.
static void assemble(const Case &c) {
  auto kernel = c.compile();
  ASSERT_TRUE(kernel);
  SCOPED_TRACE(kernel->schedule());
  Result<DeviceCode> code = kernel->assemble();
  ASSERT_TRUE(bool(code)) << code.error().message;
  ASSERT_EQ(code->kernels.size(), 1u);
  EXPECT_EQ(code->kernels[0].dynamicShared, kernel->launch().smem);
  EXPECT_EQ(code->kernels[0].threads, kernel->launch().threads);
}

TEST(Int4Code, Experts) {
  for (int64_t capacity : {1, 64, 512, 4096})
    for (const char *w : {"1x?", "1x128"}) {
      assemble({.rows = std::vector<int64_t>(32), .capacity = capacity, .n = 2048, .k = 7168, .gated = true, .w = w, .out = "bf16"});
      assemble({.rows = std::vector<int64_t>(32), .capacity = capacity, .n = 2048, .k = 7168, .gated = true, .w = w, .out = "bf16", .codes = true});
      assemble({.rows = std::vector<int64_t>(32), .capacity = capacity, .n = 7168, .k = 2048, .w = w, .x = "1x128", .out = "bf16"});
    }
}

TEST(Int4Code, Dense) {
  for (int64_t capacity : {1, 64, 512, 4096})
    for (const char *x : {"", "1x?"})
      assemble({.rows = {capacity}, .capacity = capacity, .n = 7168, .k = 2048, .experts = false, .w = "1x128", .x = x, .out = "bf16"});
}

} // namespace dsv3::codegen::test
