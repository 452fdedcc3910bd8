// Products over rows of experts on the tile simulator: skewed routings, experts without rows, rows that nobody owns.
#include "test/codegen/sm90/gemm/GemmHarness.h"

#include "runtime/core/DType.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

using namespace mlir;

namespace dsv3::codegen::test {
namespace {

/// How x and w are stored.
enum class Stored { Bf16, Fp8Weights, Fp8, Int8, Int8Groups };

std::string tensor(std::vector<int64_t> shape, const std::string &elem, const std::string &encoding = "") {
  std::string text = "tensor<";
  for (int64_t d : shape)
    text += std::to_string(d) + "x";
  return text + elem + (encoding.empty() ? "" : ", " + encoding) + ">";
}

struct Case {
  std::vector<int64_t> rows; ///< of each expert
  int64_t capacity = 0, n = 0, k = 0;
  bool gated = false;
  Stored stored = Stored::Bf16;
  std::string out = "bf16", via = "f32", phase = "decode";
  bool outCodes = false; ///< y as i8 with a scale per 128 channels
  int64_t tokens = 0;    ///< rows of x, of which token_of picks; 0: rows of x are those of experts

  int64_t experts() const { return int64_t(rows.size()); }
  size_t weights() const { return gated ? 2 : 1; }
  bool int8() const { return stored == Stored::Int8 || stored == Stored::Int8Groups; }
  bool codes() const { return stored != Stored::Bf16; } ///< weights are
  bool xCodes() const { return int8() || stored == Stored::Fp8; }
  /// Blocks of scales of a weight, and k that share one of x.
  int64_t blockRows() const { return int8() ? 1 : 128; }
  int64_t blockCols() const { return int8() ? k : 128; }
  int64_t xRows() const { return tokens ? tokens : capacity; }
  int64_t xBlock() const { return stored == Stored::Int8 ? k : 128; }
  std::string x() const {
    std::string scheme = std::string("#dsv3.blocked<") + (int8() ? "i8" : "f8E4M3FN") + (stored == Stored::Int8 ? ", 1x?" : ", 1x128") + ", f32>";
    return tensor({xRows(), k}, "bf16", xCodes() ? scheme : "");
  }
  std::string w() const {
    return tensor({experts(), n, k}, "bf16", int8() ? "#dsv3.blocked<i8, 1x?, f32>" : codes() ? "#dsv3.blocked<f8E4M3FN, 128x128, f32>" : "");
  }
  std::string offsets() const { return tensor({experts() + 1}, "i32"); }
  std::string args() const {
    return "%x: " + x() + ", %w0: " + w() + (gated ? ", %w1: " + w() : "") + ", %o: " + offsets() + ", %t: " + tensor({capacity}, "i32");
  }
  std::string body() const {
    std::string y = tensor({capacity, n}, out, outCodes ? "#dsv3.blocked<i8, 1x128, f32>" : ""), types = x() + ", " + w() + (gated ? ", " + w() : "") + ", " + offsets();
    if (tokens)
      types += ", " + tensor({capacity}, "i32");
    return "%d = kernel.empty : " + y + "\n%y = kernel." + (gated ? "grouped_gated_gemm ins(%x, %w0, %w1, %o" : "grouped_gemm ins(%x, %w0, %o") +
           (tokens ? ", %t" : "") + " : " + types + ") outs(%d : " + y + ")" + (gated ? " via " + via : "") + " site \"s\"";
  }
  std::string attributes() const {
    return "phase = \"" + phase + "\", tokens = " + std::to_string(capacity) + " : i64, seqs = " + std::to_string(capacity) + " : i64";
  }
  std::unique_ptr<LaunchKernel> compile(ArrayRef<std::pair<StringRef, int64_t>> force = {}, StringRef emitter = {}) const {
    return LaunchKernel::compile(args(), body(), attributes(), force, emitter);
  }
};

double rounded(const std::string &elem, double x) { return elem == "bf16" ? bf16ToFloat(floatToBf16(float(x))) : x; }

class Product {
public:
  explicit Product(const Case &c, ArrayRef<std::pair<StringRef, int64_t>> force = {}, StringRef emitter = {})
      : c(c), kernel(c.compile(force, emitter)), across((c.k + c.blockCols() - 1) / c.blockCols()), down((c.n + c.blockRows() - 1) / c.blockRows()) {
    drawRows();
    for (size_t i = 0; i < c.weights(); ++i) {
      w.push_back((c.int8() ? randomI8 : c.codes() ? randomE4m3 : randomBf16)(c.experts() * c.n * c.k, unsigned(2 + i)));
      scales.emplace_back();
      for (int64_t j = 0; j < c.experts() * down * across; ++j)
        scales.back().push_back(c.codes() ? 0.001f * float(1 + (j * 37 + int64_t(i)) % 29) : 1.0f);
    }
  }

  void check(uint64_t seed = 1, int64_t ctas = 0) {
    ASSERT_TRUE(kernel);
    SCOPED_TRACE(kernel->schedule());
    launch([&](ArrayRef<Bytes *> refs) { kernel->run(refs, {}, seed, ctas); });
    c.outCodes ? compareCodes(y) : compare(y);
  }

  /// Every wait and release is needed: without one, or out of place, the simulator sees a race or a deadlock.
  void expectMutantsReported(size_t least, const std::set<std::string> &harmless = {}) {
    ASSERT_TRUE(kernel);
    std::vector<tile::Mutant> mutants = tile::mutantsOf(kernel->kernel());
    EXPECT_GE(mutants.size(), least);
    for (const tile::Mutant &mutant : mutants)
      launch([&](ArrayRef<Bytes *> refs) { EXPECT_EQ(kernel->findings(refs, {}, mutant, 2).empty(), harmless.count(mutant.name) != 0) << mutant.name; });
  }

  Case c;
  std::unique_ptr<LaunchKernel> kernel;
  Bytes y; ///< of the last run

private:
  /// Calls `run` with everything the launch refers to.
  void launch(llvm::function_ref<void(ArrayRef<Bytes *>)> run) {
    std::vector<Bytes> parts;
    for (size_t i = 0; i < w.size(); ++i)
      packWeight(i, parts);
    Bytes offsets(size_t(c.experts() + 1) * 4);
    y.assign(c.outCodes ? outScalesAt() + size_t(c.capacity * c.n / 128) * 4 : size_t(c.capacity * c.n) * width(), uint8_t(0x7f));
    int32_t at = 0;
    for (int64_t e = 0; e <= c.experts(); ++e) {
      std::memcpy(&offsets[size_t(e) * 4], &at, 4);
      at += e < c.experts() ? int32_t(c.rows[size_t(e)]) : 0;
    }
    std::vector<Bytes *> refs{&x.bytes};
    for (Bytes &part : parts)
      refs.push_back(&part);
    // Places behind the rows of experts hold no token.
    Bytes tokenOf(size_t(c.capacity) * 4, uint8_t(0x7f));
    for (int32_t r = 0; r < int32_t(total()); ++r) {
      const int32_t token = int32_t(tokenOfRow(r));
      std::memcpy(&tokenOf[size_t(r) * 4], &token, 4);
    }
    refs.push_back(&offsets);
    if (c.tokens)
      refs.push_back(&tokenOf);
    refs.push_back(&y);
    run(refs);
  }

  size_t width() const { return c.out == "bf16" ? 2 : 4; }
  int64_t total() const { return std::accumulate(c.rows.begin(), c.rows.end(), int64_t(0)); }

  int64_t tokenOfRow(int64_t row) const { return c.tokens ? (row * 37 + 5) % c.tokens : row; }
  int64_t usedRows() const { return c.tokens ? c.tokens : total(); } ///< of x

  /// Rows of no expert hold NaN.
  void drawRows() {
    x = (c.int8() ? randomI8 : c.xCodes() ? randomE4m3 : randomBf16)(c.xRows() * c.k, 1);
    size_t row = size_t(c.k) * (c.xCodes() ? 1 : 2);
    std::fill(x.bytes.begin() + int64_t(row) * usedRows(), x.bytes.end(), uint8_t(0xff));
    if (!c.xCodes())
      return;
    for (int64_t i = 0; i < c.xRows() * xAcross(); ++i)
      xScales.push_back(i / xAcross() >= usedRows() ? std::nanf("") : 0.01f * float(1 + i * 31 % 17));
    x.bytes.resize(llvm::alignTo(x.bytes.size(), 256)); // parts of a value
    auto *raw = reinterpret_cast<const uint8_t *>(xScales.data());
    x.bytes.insert(x.bytes.end(), raw, raw + xScales.size() * 4);
  }

  int64_t xAcross() const { return (c.k + c.xBlock() - 1) / c.xBlock(); }
  const float &scale(size_t i, int64_t e, int64_t n, int64_t k) const {
    return scales[i][size_t((e * down + n / c.blockRows()) * across + k / c.blockCols())];
  }

  void packWeight(size_t i, std::vector<Bytes> &parts) const {
    if (!c.codes())
      return parts.push_back(w[i].bytes);
    parts.push_back(kernel->pack(unsigned(1 + i), 0, [&](ArrayRef<int64_t> at) { return &w[i].bytes[size_t((at[0] * c.n + at[1]) * c.k + at[2])]; }));
    parts.push_back(kernel->pack(unsigned(1 + i), 1, [&](ArrayRef<int64_t> at) {
      return reinterpret_cast<const uint8_t *>(&scale(i, at[0], at[1], at[2]));
    }));
  }

  double expected(int64_t e, int64_t row, int64_t n, double &size) const {
    double product[2] = {0, 0};
    size = 0;
    row = tokenOfRow(row);
    for (size_t i = 0; i < w.size(); ++i)
      for (int64_t k = 0; k < c.k; ++k) {
        double term = double(x.values[size_t(row * c.k + k)]) * (c.xCodes() ? double(xScales[size_t(row * xAcross() + k / c.xBlock())]) : 1) *
                      double(w[i].values[size_t((e * c.n + n) * c.k + k)]) * double(scale(i, e, n, k));
        product[i] += term, size += std::fabs(term);
      }
    if (!c.gated)
      return product[0];
    double gate = rounded(c.via, product[0]), up = rounded(c.via, product[1]);
    size = size * (1 + std::fabs(gate) + std::fabs(up));
    return gate / (1 + std::exp(-gate)) * up;
  }

  float at(const Bytes &y, int64_t row, int64_t n) const {
    uint32_t bits = 0;
    std::memcpy(&bits, &y[size_t(row * c.n + n) * width()], width());
    float value;
    std::memcpy(&value, &bits, 4);
    return width() == 2 ? bf16ToFloat(uint16_t(bits)) : value;
  }

  void compare(const Bytes &y) const {
    int64_t wrong = 0, row = 0;
    for (int64_t e = 0; e < c.experts(); ++e)
      for (int64_t r = 0; r < c.rows[size_t(e)]; ++r, ++row)
        for (int64_t n = 0; n < c.n; ++n) {
          double size = 0, want = expected(e, row, n, size), got = double(at(y, row, n));
          double rounding = (width() == 2 ? 1.0 / 256 : 1e-6) * (c.via == "bf16" ? 4 : 1);
          wrong += !(std::fabs(got - want) <= size * 1e-6 + std::fabs(want) * rounding);
        }
    EXPECT_EQ(wrong, 0);
    auto touched = std::count_if(y.begin() + row * c.n * int64_t(width()), y.end(), [](uint8_t b) { return b != 0x7f; });
    EXPECT_EQ(touched, 0) << "rows of no expert";
  }

  size_t outScalesAt() const { return size_t(llvm::alignTo(c.capacity * c.n, 256)); }

  /// The largest of 128 channels is 127 steps, and the others are within half a step but for the rounding of what is quantised.
  void compareCodes(const Bytes &y) const {
    int64_t wrong = 0, row = 0;
    for (int64_t e = 0; e < c.experts(); ++e)
      for (int64_t r = 0; r < c.rows[size_t(e)]; ++r, ++row)
        for (int64_t first = 0; first < c.n; first += 128) {
          float scale;
          std::memcpy(&scale, &y[outScalesAt() + size_t(row * c.n + first) / 128 * 4], 4);
          double most = 0;
          for (int64_t n = first; n < first + 128; ++n) {
            double size = 0, want = expected(e, row, n, size), got = double(int8_t(y[size_t(row * c.n + n)])) * double(scale);
            most = std::max(most, std::fabs(want));
            wrong += !(std::fabs(got - want) <= 0.501 * double(scale) + std::fabs(want) / 200 + size * 1e-6);
          }
          wrong += !(std::fabs(127 * double(scale) - most) <= most / 200);
        }
    EXPECT_EQ(wrong, 0);
    auto touched = std::count_if(y.begin() + row * c.n, y.begin() + c.capacity * c.n, [](uint8_t b) { return b != 0x7f; });
    touched += std::count_if(y.begin() + int64_t(outScalesAt()) + row * c.n / 128 * 4, y.end(), [](uint8_t b) { return b != 0x7f; });
    EXPECT_EQ(touched, 0) << "rows of no expert";
  }

  int64_t across, down;
  Numbers x;
  std::vector<float> xScales;
  std::vector<Numbers> w;
  std::vector<std::vector<float>> scales;
};

void check(const Case &c) { Product(c).check(); }

} // namespace

TEST(GroupedGemm, SkewedRows) {
  for (auto out : {"bf16", "f32"})
    check({.rows = {0, 19, 1, 0, 33}, .capacity = 64, .n = 200, .k = 200, .out = out});
  check({.rows = {40, 0, 0, 0, 0, 0, 0, 0}, .capacity = 40, .n = 128, .k = 64});
  check({.rows = {0, 0, 0, 0, 0, 0, 1}, .capacity = 8, .n = 320, .k = 72});
  check({.rows = {13}, .capacity = 16, .n = 64, .k = 64});
}

TEST(GroupedGemm, MoreExpertsThanLanes) {
  std::vector<int64_t> rows(70, 0);
  rows[3] = 9, rows[31] = 1, rows[32] = 20, rows[69] = 2;
  check({.rows = rows, .capacity = 32, .n = 64, .k = 64});
}

TEST(GroupedGemm, NoRows) { check({.rows = {0, 0, 0}, .capacity = 24, .n = 64, .k = 64}); }

TEST(GroupedGemm, EverySchedule) {
  for (uint64_t seed : {0, 1, 2, 3})
    Product({.rows = {7, 0, 18, 5}, .capacity = 40, .n = 264, .k = 192}).check(seed, 2);
}

TEST(GroupedGemm, BlockScaled) {
  check({.rows = {0, 19, 1, 0, 33}, .capacity = 64, .n = 200, .k = 320, .stored = Stored::Fp8Weights});
  check({.rows = {3, 0, 30}, .capacity = 40, .n = 136, .k = 128, .gated = true, .stored = Stored::Fp8Weights});
}

TEST(GroupedGemm, BothScaled) {
  check({.rows = {0, 19, 1, 0, 33}, .capacity = 64, .n = 200, .k = 320, .stored = Stored::Fp8});
  check({.rows = {3, 0, 30}, .capacity = 40, .n = 136, .k = 128, .gated = true, .stored = Stored::Fp8});
}

TEST(GroupedGemm, Int8) {
  for (Stored stored : {Stored::Int8, Stored::Int8Groups}) {
    Product({.rows = {0, 19, 1, 0, 33}, .capacity = 64, .n = 200, .k = 320, .stored = stored}, {}, "sm90.grouped_gemm").check();
    Product({.rows = {3, 0, 30}, .capacity = 40, .n = 136, .k = 272, .gated = true, .stored = stored}, {}, "sm90.grouped_gated_gemm").check(3, 2);
    Product({.rows = {0, 150, 1, 0, 129}, .capacity = 384, .n = 200, .k = 320, .stored = stored, .phase = "prefill"}, {}, "sm90.grouped_gemm_rows").check();
    Product({.rows = {70, 0, 90}, .capacity = 192, .n = 320, .k = 256, .gated = true, .stored = stored, .out = "f32", .phase = "prefill"}, {},
            "sm90.grouped_gated_gemm_rows")
        .check(3, 2);
  }
}

/// A kernel of each family and epilogue of int8.
TEST(GroupedGemm, MutantsOfInt8AreReported) {
  Case c{.rows = {3, 0, 20}, .capacity = 40, .n = 128, .k = 640, .gated = true, .stored = Stored::Int8, .phase = "decode"};
  Product(c, {{"stages", 3}}, "sm90.grouped_gated_gemm").expectMutantsReported(7);
  c.outCodes = true;
  Product(c, {{"stages", 3}}, "sm90.grouped_gated_gemm").expectMutantsReported(7);
  Product(c, {{"stages", 3}}, "sm90.grouped_gated_gemm_rows").expectMutantsReported(7);
}

/// Whether a bucket's kernel has tokens as N, in one piece or several, or as M changes no code and no scale.
TEST(GroupedGemm, CodesDoNotDependOnTheSchedule) {
  Case c{.rows = {3, 0, 150, 1}, .capacity = 170, .n = 256, .k = 272, .gated = true, .stored = Stored::Int8, .outCodes = true};
  Product rows(c, {}, "sm90.grouped_gated_gemm_rows");
  rows.check();
  for (int64_t tokens : {8, 64, 160}) {
    Product cols(c, {{"warpgroups", 2}, {"tokens", tokens}, {"bk", 128}, {"stages", 3}, {"row_tiles", 170 / tokens + 4}}, "sm90.grouped_gated_gemm");
    cols.check(2, 3);
    EXPECT_EQ(cols.y, rows.y) << tokens;
  }
}

/// SwiGLU and requantisation in the epilogue: few rows and many, with edges of both.
TEST(GroupedGemm, Codes) {
  for (int64_t rows : {3, 130})
    for (uint64_t seed : {0, 1, 2, 3}) {
      Case c{.rows = {rows, 0, 7, 1}, .capacity = rows + 20, .n = 256, .k = 272, .gated = true, .stored = Stored::Int8, .outCodes = true};
      Product(c).check(seed, 2);
    }
  auto why = [](const Case &c) { return LaunchKernel::whyIllegal(c.args(), c.body(), c.attributes()); };
  EXPECT_EQ(why({.rows = {4}, .capacity = 8, .n = 192, .k = 256, .gated = true, .stored = Stored::Int8, .outCodes = true}),
            "the result has 192 channels, no multiple of the 128 that share a scale");
  EXPECT_EQ(why({.rows = {4}, .capacity = 8, .n = 256, .k = 256, .gated = true, .stored = Stored::Fp8, .outCodes = true}),
            "the result is quantised, which only a pair of i8 weights on i8 rows with a scale per token does");
}

/// Many rows of an expert take tokens as M.
TEST(GroupedGemm, RowsOfBothScaled) {
  std::vector<int64_t> rows{0, 150, 1, 0, 129};
  for (bool gated : {false, true}) {
    Case c{.rows = rows, .capacity = 384, .n = 200, .k = 320, .gated = gated, .stored = Stored::Fp8, .phase = "prefill"};
    Product p(c);
    EXPECT_GT(p.kernel->param("bn"), 0);
    p.check();
    Product(c, {{"bn", gated ? 192 : 96}, {"warpgroups", 1}, {"row_tiles", 10}, {"stages", 3}}).check();
  }
  Product({.rows = {70, 0, 90}, .capacity = 192, .n = 128, .k = 256, .gated = true, .stored = Stored::Fp8, .phase = "prefill"}).check(3, 2);
}

TEST(GroupedGemm, Gated) {
  for (auto via : {"f32", "bf16"})
    check({.rows = {5, 0, 50, 17}, .capacity = 80, .n = 96, .k = 136, .gated = true, .via = via});
}

TEST(GroupedGemm, EveryRowTile) {
  for (int64_t tokens : {8, 16, 32, 64, 128, 256}) {
    Case c{.rows = {tokens + 3, 0, 2 * tokens - 1, 1}, .capacity = 3 * tokens + 3, .n = 136, .k = 64};
    Product(c, {{"tokens", tokens}, {"bk", 64}, {"stages", 3}, {"warpgroups", tokens > 64 ? 2 : 4}, {"row_tiles", 6}}).check();
  }
}

/// Rows that producers pick: few and many of an expert, an edge of K, K shared by a cluster, codes as the result.
TEST(GroupedGemm, GathersRows) {
  for (uint64_t seed : {0, 1, 2, 3})
    Product({.rows = {7, 0, 18, 5}, .capacity = 40, .n = 136, .k = 192, .gated = true, .tokens = 11}).check(seed, 2);
  Product({.rows = {3, 0, 30}, .capacity = 40, .n = 136, .k = 256, .gated = true, .stored = Stored::Fp8Weights, .tokens = 6}).check(1, 2);
  for (bool codes : {false, true}) {
    Case c{.rows = {3, 0, 150, 1}, .capacity = 170, .n = 256, .k = 272, .gated = true, .stored = Stored::Int8, .outCodes = codes, .tokens = 60};
    Product rows(c, {}, "sm90.grouped_gated_gemm_rows");
    rows.check(1, 2);
    for (int64_t tokens : {8, 64, 160}) {
      Product cols(c, {{"warpgroups", 2}, {"tokens", tokens}, {"bk", 128}, {"stages", 3}, {"row_tiles", 170 / tokens + 4}}, "sm90.grouped_gated_gemm");
      cols.check(2, 3);
      EXPECT_EQ(cols.y, rows.y) << tokens;
    }
  }
  Case c{.rows = {1, 0, 2, 1}, .capacity = 8, .n = 128, .k = 1024, .gated = true, .stored = Stored::Int8, .tokens = 3};
  Product(c, {{"warpgroups", 2}, {"tokens", 8}, {"bk", 128}, {"stages", 3}, {"split", 2}}, "sm90.grouped_gated_gemm").check(1, 4);
}

TEST(GroupedGemm, MutantsOfGatheringAreReported) {
  Case c{.rows = {3, 0, 20}, .capacity = 40, .n = 128, .k = 640, .gated = true, .stored = Stored::Int8, .tokens = 9};
  Product(c, {{"stages", 3}}, "sm90.grouped_gated_gemm").expectMutantsReported(7);
  Product(c, {{"stages", 3}}, "sm90.grouped_gated_gemm_rows").expectMutantsReported(7);
}

/// Scales per 128 channels are picked block by block.
TEST(GroupedGemm, GathersRowsWithScales) {
  for (Stored stored : {Stored::Fp8, Stored::Int8Groups}) {
    Product({.rows = {3, 0, 30}, .capacity = 40, .n = 136, .k = 320, .gated = true, .stored = stored, .tokens = 9}, {}, "sm90.grouped_gated_gemm").check(1, 2);
    Product({.rows = {70, 0, 90}, .capacity = 192, .n = 128, .k = 320, .gated = true, .stored = stored, .phase = "prefill", .tokens = 50}, {},
            "sm90.grouped_gated_gemm_rows")
        .check(3, 2);
  }
}

TEST(GroupedGemm, CountsTheWeightsOfExpertsWithRows) {
  auto bytes = [](int64_t capacity) {
    auto kernel = Case{.rows = std::vector<int64_t>(32), .capacity = capacity, .n = 64, .k = 128}.compile();
    return kernel->cost().bytes;
  };
  EXPECT_EQ(bytes(4), 4 * 64 * 128 * 2 + 4 * (64 + 128) * 2 + 33 * 4);
  EXPECT_EQ(bytes(64), 32 * 64 * 128 * 2 + 64 * (64 + 128) * 2 + 33 * 4);
}

/// Shapes of DeepSeek-V3 through ptxas.
static void assemble(int64_t experts, int64_t capacity, int64_t n, int64_t k, bool gated, Stored stored, bool outCodes = false, int64_t tokens = 0) {
  Case c{.rows = std::vector<int64_t>(size_t(experts)), .capacity = capacity, .n = n, .k = k, .gated = gated, .stored = stored};
  c.outCodes = outCodes, c.tokens = tokens;
  c.phase = capacity > 2048 ? "prefill" : "decode";
  expectAssembles(c.compile().get());
}

TEST(GroupedCode, GateUp) {
  for (int64_t capacity : {1, 8, 256, 512, 1024, 4096})
    for (Stored stored : {Stored::Bf16, Stored::Fp8Weights, Stored::Fp8, Stored::Int8})
      assemble(32, capacity, 2048, 7168, /*gated=*/true, stored);
  for (int64_t capacity : {8, 512, 4096})
    assemble(32, capacity, 2048, 7168, /*gated=*/true, Stored::Int8, /*outCodes=*/true);
}

/// Registers of producers that gather, as well.
TEST(GroupedCode, Gathering) {
  for (int64_t capacity : {1, 8, 256, 1024, 4096}) {
    for (Stored stored : {Stored::Bf16, Stored::Fp8Weights, Stored::Fp8})
      assemble(32, capacity, 2048, 7168, /*gated=*/true, stored, /*outCodes=*/false, capacity);
    for (bool codes : {false, true})
      assemble(32, capacity, 2048, 7168, /*gated=*/true, Stored::Int8, codes, capacity);
  }
  assemble(256, 32768, 256, 7168, /*gated=*/true, Stored::Int8, /*outCodes=*/true, 4096);
  assemble(256, 32768, 256, 7168, /*gated=*/true, Stored::Fp8, /*outCodes=*/false, 4096);
}

TEST(GroupedCode, Down) {
  for (int64_t capacity : {8, 512, 4096})
    for (Stored stored : {Stored::Bf16, Stored::Fp8Weights, Stored::Fp8, Stored::Int8, Stored::Int8Groups})
      assemble(32, capacity, 7168, 2048, /*gated=*/false, stored);
  for (Stored stored : {Stored::Bf16, Stored::Int8, Stored::Int8Groups})
    assemble(256, 32768, 7168, 256, /*gated=*/false, stored);
}

} // namespace dsv3::codegen::test
