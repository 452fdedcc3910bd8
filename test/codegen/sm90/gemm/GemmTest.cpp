// Products of sm_90a on the tile simulator: values, edges, and that no row past the true count is written.
#include "test/codegen/sm90/gemm/GemmHarness.h"

#include "runtime/core/DType.h"

#include <cmath>
#include <cstring>
#include <set>

using namespace mlir;

namespace dsv3::codegen::test {
namespace {

std::string tensor(std::vector<int64_t> shape, const std::string &elem, const std::string &encoding = "") {
  std::string text = "tensor<";
  for (int64_t d : shape)
    text += std::to_string(d) + "x";
  return text + elem + (encoding.empty() ? "" : ", " + encoding) + ">";
}

/// How x and w are stored.
enum class Stored { Bf16, Fp8Weights, Fp8, Int8, Int8Groups };

/// y[t, h, n] = x[t, h, :] . w[h, n, :], or silu of a first times a second product.
struct Case {
  int64_t capacity = 0, tokens = 0, n = 0, k = 0;
  int64_t heads = 0;      ///< 0: not batched
  bool gated = false;
  Stored stored = Stored::Bf16;
  std::string out = "bf16", phase = "decode", via = "f32";
  int64_t xLanes = 0;     ///< of a wider row that x is a view of, at 8

  int64_t h() const { return std::max<int64_t>(heads, 1); }
  size_t weights() const { return gated ? 2 : 1; }
  bool int8() const { return stored == Stored::Int8 || stored == Stored::Int8Groups; }
  bool xCodes() const { return int8() || stored == Stored::Fp8; }
  /// Blocks of scales of a weight, and k that share one of x.
  int64_t blockRows() const { return int8() ? 1 : 128; }
  int64_t blockCols() const { return int8() ? k : 128; }
  int64_t xBlock() const { return stored == Stored::Int8 ? k : 128; }

  std::string weightType() const {
    std::vector<int64_t> shape{n, k};
    if (heads)
      shape.insert(shape.begin(), heads);
    return tensor(shape, "bf16", int8() ? "#dsv3.blocked<i8, 1x?, f32>" : stored == Stored::Bf16 ? "" : "#dsv3.blocked<f8E4M3FN, 128x128, f32>");
  }
  std::string xType(int64_t lanes) const {
    if (heads)
      return tensor({capacity, heads, lanes}, "bf16");
    std::string block = stored == Stored::Int8 ? "1x?" : "1x128";
    return tensor({capacity, lanes}, "bf16", xCodes() ? std::string("#dsv3.blocked<") + (int8() ? "i8, " : "f8E4M3FN, ") + block + ", f32>" : "");
  }
  std::string args() const {
    std::string text = "%x0: " + xType(xLanes ? xLanes : k) + ", %w0: " + weightType();
    return gated ? text + ", %w1: " + weightType() : text;
  }
  std::string body() const {
    std::string outType = heads ? tensor({capacity, heads, n}, out) : tensor({capacity, n}, out);
    std::string text = xLanes ? "%x = kernel.view %x0 at 8 : " + xType(xLanes) + " -> " + xType(k) + "\n" : "";
    std::string x = xLanes ? "%x" : "%x0";
    text += "%o = kernel.empty : " + outType + "\n";
    if (gated)
      return text + "%y = kernel.gated_gemm ins(" + x + ", %w0, %w1 : " + xType(k) + ", " + weightType() + ", " + weightType() +
             ") outs(%o : " + outType + ") via " + via + " site \"s\"";
    return text + "%y = kernel." + (heads ? "batched_gemm" : "gemm") + " ins(" + x + ", %w0 : " + xType(k) + ", " + weightType() +
           ") outs(%o : " + outType + ") site \"s\"";
  }
  std::string attributes() const {
    return "phase = \"" + phase + "\", tokens = " + std::to_string(capacity) + " : i64, seqs = " + std::to_string(capacity) + " : i64";
  }
};

double rounded(const std::string &elem, double x) { return elem == "bf16" ? bf16ToFloat(floatToBf16(float(x))) : x; }

/// A weight: codes or values, and the scale of every block.
struct Weight {
  Numbers numbers;
  std::vector<float> scales;
  int64_t n, k, blockRows, blockCols, across, down;

  Weight(const Case &c, unsigned seed)
      : n(c.n), k(c.k), blockRows(c.blockRows()), blockCols(c.blockCols()), across((k + blockCols - 1) / blockCols), down((n + blockRows - 1) / blockRows) {
    numbers = c.int8() ? randomI8(n * k, seed) : c.stored != Stored::Bf16 ? randomE4m3(c.h() * n * k, seed) : randomBf16(c.h() * n * k, seed);
    for (int64_t i = 0; i < c.h() * across * down; ++i)
      scales.push_back(c.stored != Stored::Bf16 ? 0.001f * float(1 + (i * 37 + seed) % 29) : 1.0f);
  }
  const float &scale(int64_t head, int64_t row, int64_t col) const {
    return scales[size_t((head * down + row / blockRows) * across + col / blockCols)];
  }
  double value(int64_t head, int64_t row, int64_t col) const {
    return double(numbers.values[size_t((head * n + row) * k + col)]) * double(scale(head, row, col));
  }
};

class Product {
public:
  explicit Product(const Case &c, ArrayRef<std::pair<StringRef, int64_t>> force = {}, StringRef emitter = {})
      : c(c), kernel(LaunchKernel::compile(c.args(), c.body(), c.attributes(), force, emitter)) {
    int64_t lanes = c.xLanes ? c.xLanes : c.k;
    x = c.int8() ? randomI8(c.capacity * lanes, 1) : c.xCodes() ? randomE4m3(c.capacity * lanes, 1) : randomBf16(c.capacity * c.h() * lanes, 1);
    if (c.xCodes()) {
      for (int64_t i = 0; i < c.capacity * across(); ++i)
        xScales.push_back(0.01f * float(1 + i * 31 % 17));
      x.bytes.resize(llvm::alignTo(x.bytes.size(), 256)); // parts of a value
      auto *raw = reinterpret_cast<const uint8_t *>(xScales.data());
      x.bytes.insert(x.bytes.end(), raw, raw + xScales.size() * 4);
    }
    for (size_t i = 0; i < c.weights(); ++i)
      w.emplace_back(c, unsigned(2 + i));
  }

  void check(uint64_t seed = 1, int64_t ctas = 0) {
    ASSERT_TRUE(kernel);
    SCOPED_TRACE(kernel->schedule());
    launch([&](ArrayRef<Bytes *> refs) { kernel->run(refs, {c.tokens, c.tokens}, seed, ctas); });
    compare(out);
  }

  /// Every wait and release is needed: without one, or out of place, the simulator sees a race or a deadlock.
  void expectMutantsReported(size_t least, const std::set<std::string> &harmless = {}) {
    ASSERT_TRUE(kernel);
    std::vector<tile::Mutant> mutants = tile::mutantsOf(kernel->kernel());
    EXPECT_GE(mutants.size(), least);
    for (const tile::Mutant &mutant : mutants)
      launch([&](ArrayRef<Bytes *> refs) {
        EXPECT_EQ(kernel->findings(refs, {c.tokens, c.tokens}, mutant, 2).empty(), harmless.count(mutant.name) != 0) << mutant.name;
      });
  }

  Case c;
  std::unique_ptr<LaunchKernel> kernel;
  Numbers x;
  std::vector<float> xScales; ///< of codes: [row, block]
  std::vector<Weight> w;
  Bytes out;

private:
  /// Calls `run` with everything the launch refers to.
  void launch(llvm::function_ref<void(ArrayRef<Bytes *>)> run) {
    std::vector<Bytes> parts = packed();
    out.assign(size_t(c.capacity * c.h() * c.n) * (c.out == "bf16" ? 2 : 4), 0x7f);
    std::vector<Bytes *> refs{&x.bytes};
    for (Bytes &part : parts)
      refs.push_back(&part);
    refs.push_back(&out);
    run(refs);
  }

  int64_t across() const { return (c.k + c.xBlock() - 1) / c.xBlock(); }
  double xValue(int64_t t, int64_t h, int64_t k) const {
    int64_t lanes = c.xLanes ? c.xLanes : c.k, first = c.xLanes ? 8 : 0;
    double scale = c.xCodes() ? double(xScales[size_t(t * across() + k / c.xBlock())]) : 1;
    return scale * double(x.values[size_t((t * c.h() + h) * lanes + first + k)]);
  }

  std::vector<Bytes> packed() {
    std::vector<Bytes> parts;
    for (size_t i = 0; i < w.size(); ++i) {
      const Weight &weight = w[i];
      if (c.stored == Stored::Bf16) {
        parts.push_back(weight.numbers.bytes);
        continue;
      }
      auto place = [&](ArrayRef<int64_t> at) { return std::array<int64_t, 3>{c.heads ? at[0] : 0, at[at.size() - 2], at.back()}; };
      parts.push_back(kernel->pack(unsigned(1 + i), 0, [&](ArrayRef<int64_t> at) {
        auto [h, n, k] = place(at);
        return &weight.numbers.bytes[size_t((h * c.n + n) * c.k + k)];
      }));
      parts.push_back(kernel->pack(unsigned(1 + i), 1, [&](ArrayRef<int64_t> at) {
        auto [h, n, k] = place(at);
        return reinterpret_cast<const uint8_t *>(&weight.scale(h, n, k));
      }));
    }
    return parts;
  }

  double expected(int64_t t, int64_t h, int64_t n, double &size) const {
    double product[2] = {0, 0};
    size = 0;
    for (size_t i = 0; i < w.size(); ++i)
      for (int64_t k = 0; k < c.k; ++k) {
        double term = xValue(t, h, k) * w[i].value(h, n, k);
        product[i] += term, size += std::fabs(term);
      }
    if (!c.gated)
      return product[0];
    double gate = rounded(c.via, product[0]), up = rounded(c.via, product[1]);
    size = size * (1 + std::fabs(gate) + std::fabs(up));
    return gate / (1 + std::exp(-gate)) * up;
  }

  void compare(const Bytes &y) const {
    int64_t wrong = 0, touched = 0;
    for (int64_t t = 0; t < c.capacity; ++t)
      for (int64_t i = 0; i < c.h() * c.n; ++i) {
        size_t at = size_t(t * c.h() * c.n + i);
        uint32_t bits = 0;
        size_t width = c.out == "bf16" ? 2 : 4;
        std::memcpy(&bits, &y[at * width], width);
        if (t >= c.tokens) {
          touched += bits != (width == 2 ? 0x7f7fu : 0x7f7f7f7fu);
          continue;
        }
        float got = width == 2 ? bf16ToFloat(uint16_t(bits)) : 0;
        if (width == 4)
          std::memcpy(&got, &bits, 4);
        double size = 0, want = expected(t, i / c.n, i % c.n, size);
        wrong += !(std::fabs(double(got) - want) <= size * 1e-6 + std::fabs(want) * (width == 2 ? 1.0 / 256 : 1e-6) * (c.via == "bf16" ? 4 : 1));
      }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(touched, 0) << "rows past the true count";
  }
};

void check(const Case &c) { Product(c).check(); }

} // namespace

TEST(RowsGemm, Values) {
  for (auto out : {"bf16", "f32"})
    for (int64_t tokens : {1, 130, 200})
      check({.capacity = 200, .tokens = tokens, .n = 264, .k = 320, .out = out, .phase = "prefill"});
}

TEST(RowsGemm, EverySchedule) {
  Case c{.capacity = 200, .tokens = 131, .n = 72, .k = 136, .phase = "prefill"};
  for (uint64_t seed : {0, 1, 2, 3})
    Product(c).check(seed, 2);
}

TEST(RowsGemm, ViewOfWiderRows) {
  check({.capacity = 96, .tokens = 70, .n = 64, .k = 128, .phase = "prefill", .xLanes = 200});
}

TEST(ColsGemm, Values) {
  for (auto out : {"bf16", "f32"})
    for (int64_t capacity : {1, 16, 40})
      check({.capacity = capacity, .tokens = (capacity + 1) / 2, .n = 200, .k = 200, .out = out});
}

TEST(ColsGemm, EverySchedule) {
  for (uint64_t seed : {0, 1, 2, 3})
    Product({.capacity = 24, .tokens = 19, .n = 520, .k = 192}).check(seed, 2);
}

TEST(ColsGemm, Gated) {
  for (auto via : {"f32", "bf16"})
    for (auto phase : {"decode", "prefill"})
      check({.capacity = 72, .tokens = 70, .n = 96, .k = 136, .gated = true, .phase = phase, .via = via});
}

TEST(ColsGemm, Heads) {
  check({.capacity = 12, .tokens = 9, .n = 72, .k = 128, .heads = 3});
  check({.capacity = 12, .tokens = 9, .n = 72, .k = 64, .heads = 3, .xLanes = 96});
}

TEST(ColsGemm, SharesK) {
  // 1024 = 8 parts of 128, of which 8 tokens leave nothing to sum for ranks 1 to 7, and 100 tokens something for all.
  for (int64_t capacity : {8, 100}) {
    Case c{.capacity = capacity, .tokens = capacity - 3, .n = 64, .k = 2048};
    Product p(c);
    EXPECT_EQ(p.kernel->param("split"), 8);
    p.check();
  }
  check({.capacity = 40, .tokens = 33, .n = 80, .k = 2048, .gated = true, .out = "f32"});
  check({.capacity = 16, .tokens = 16, .n = 64, .k = 2048, .stored = Stored::Fp8Weights});
}

TEST(ColsGemm, SplitDoesNotDependOnTheBucket) {
  Bytes first;
  for (int64_t capacity : {3, 8, 20, 60}) {
    Case c{.capacity = capacity, .tokens = 3, .n = 64, .k = 2048, .out = "f32"};
    Product p(c);
    p.check();
    p.out.resize(3 * 64 * 4);
    if (first.empty())
      first = p.out;
    EXPECT_EQ(p.out, first) << capacity;
  }
}

TEST(ColsGemm, BlockScaled) {
  for (auto phase : {"decode", "prefill"})
    check({.capacity = 24, .tokens = 20, .n = 200, .k = 320, .stored = Stored::Fp8Weights, .phase = phase});
  check({.capacity = 12, .tokens = 9, .n = 72, .k = 200, .heads = 2, .stored = Stored::Fp8Weights});
  check({.capacity = 12, .tokens = 9, .n = 136, .k = 128, .gated = true, .stored = Stored::Fp8Weights});
}

TEST(RowsGemm, BothScaled) {
  check({.capacity = 140, .tokens = 133, .n = 200, .k = 320, .stored = Stored::Fp8, .phase = "prefill"});
  check({.capacity = 70, .tokens = 70, .n = 192, .k = 256, .stored = Stored::Fp8, .out = "f32", .phase = "prefill"});
}

TEST(RowsGemm, PairsOfScaledWeights) {
  for (auto via : {"f32", "bf16"})
    check({.capacity = 140, .tokens = 133, .n = 200, .k = 320, .gated = true, .stored = Stored::Fp8, .phase = "prefill", .via = via});
  check({.capacity = 130, .tokens = 129, .n = 288, .k = 256, .gated = true, .stored = Stored::Fp8, .out = "f32", .phase = "prefill"});
}

TEST(RowsGemm, EveryTileOfScaledWeights) {
  for (bool gated : {false, true})
    for (int64_t bn : {64, 96, 128, 192})
      for (int64_t warpgroups : {1, 2}) {
        if (gated && bn == 96)
          continue;
        Case c{.capacity = 140, .tokens = 139, .n = 320, .k = 256, .gated = gated, .stored = Stored::Fp8, .phase = "prefill"};
        Product(c, {{"bn", bn}, {"warpgroups", warpgroups}, {"stages", 3}}).check();
      }
}

/// Few tokens take weights as M, more of them tokens: a row's bits are the same.
TEST(Gemm, ScaledBitsDoNotDependOnTheBucket) {
  for (bool gated : {false, true}) {
    Bytes first;
    std::set<std::string> tiles;
    for (int64_t capacity : {3, 8, 24, 60, 130}) {
      Case c{.capacity = capacity, .tokens = 3, .n = 320, .k = 640, .gated = gated, .stored = Stored::Fp8, .out = "f32"};
      Product p(c);
      p.check();
      tiles.insert(p.kernel->schedule().substr(0, p.kernel->schedule().find(',')));
      p.out.resize(3 * 320 * 4);
      if (first.empty())
        first = p.out;
      EXPECT_EQ(p.out, first) << capacity;
    }
    EXPECT_GT(tiles.size(), 1u) << "expected both families";
  }
}

TEST(ColsGemm, BothScaled) {
  check({.capacity = 24, .tokens = 20, .n = 200, .k = 320, .stored = Stored::Fp8});
  check({.capacity = 12, .tokens = 9, .n = 136, .k = 256, .gated = true, .stored = Stored::Fp8});
  check({.capacity = 16, .tokens = 16, .n = 64, .k = 2048, .stored = Stored::Fp8, .out = "f32"});
}

TEST(ColsGemm, Int8) {
  for (auto out : {"bf16", "f32"})
    for (int64_t capacity : {1, 16, 40})
      Product({.capacity = capacity, .tokens = (capacity + 1) / 2, .n = 200, .k = 208, .stored = Stored::Int8, .out = out}, {}, "sm90.gemm_wm").check();
  for (auto via : {"f32", "bf16"})
    Product({.capacity = 72, .tokens = 70, .n = 96, .k = 144, .gated = true, .stored = Stored::Int8, .via = via}, {}, "sm90.gated_gemm_wm").check();
}

TEST(ColsGemm, Int8EverySchedule) {
  for (uint64_t seed : {0, 1, 2, 3})
    Product({.capacity = 24, .tokens = 19, .n = 520, .k = 384, .stored = Stored::Int8}, {{"split", 1}}, "sm90.gemm_wm").check(seed, 2);
}

TEST(ColsGemm, Int8Groups) {
  check({.capacity = 24, .tokens = 20, .n = 200, .k = 320, .stored = Stored::Int8Groups});
  check({.capacity = 12, .tokens = 9, .n = 136, .k = 256, .gated = true, .stored = Stored::Int8Groups});
  check({.capacity = 16, .tokens = 16, .n = 64, .k = 2048, .stored = Stored::Int8Groups, .out = "f32"});
}

TEST(RowsGemm, Int8) {
  for (auto out : {"bf16", "f32"})
    for (int64_t bn : {64, 96, 256})
      Product({.capacity = 200, .tokens = 131, .n = 264, .k = 336, .stored = Stored::Int8, .out = out, .phase = "prefill"}, {{"bn", bn}, {"stages", 3}}, "sm90.gemm").check();
  for (auto via : {"f32", "bf16"})
    for (int64_t n : {320, 328})
      Product({.capacity = 140, .tokens = 133, .n = n, .k = 320, .gated = true, .stored = Stored::Int8, .phase = "prefill", .via = via}, {{"bn", 192}, {"stages", 3}},
              "sm90.gated_gemm").check(3, 2);
}

/// How a tile ends - through shared memory, in parts, behind the next one's products - changes no bit, whether N ends inside a
/// tile or not.
TEST(RowsGemm, EndsOfTilesDoNotChangeBits) {
  using Force = std::vector<std::pair<StringRef, int64_t>>;
  const std::vector<Force> ends{{{"staged", 1}}, {{"later", 1}}, {{"ahead", 1}}, {{"staged", 1}, {"ahead", 1}, {"parts", 2}}, {{"staged", 1}, {"ahead", 1}, {"parts", 2}, {"later", 1}},
                                {{"narrow", 1}, {"staged", 1}, {"ahead", 1}, {"parts", 2}, {"later", 1}}};
  struct Kind {
    Stored stored;
    bool gated;
  };
  for (Kind kind : {Kind{Stored::Bf16, false}, {Stored::Fp8, false}, {Stored::Fp8, true}, {Stored::Int8, false}, {Stored::Int8, true}})
    for (int64_t n : {256, 320}) {
      Case c{.capacity = 80, .tokens = 67, .n = n, .k = 384, .gated = kind.gated, .stored = kind.stored, .phase = "prefill"};
      auto run = [&](Force force, uint64_t seed) {
        for (auto &[name, number] : force)
          number = name == "narrow" ? 128 + n % 128 : number;
        force.insert(force.begin(), {{"warpgroups", 1}, {"bn", 128}, {"stages", 3}, {"narrow", 0}, {"staged", 0}, {"ahead", 0}, {"parts", 1}, {"later", 0}});
        Product p(c, force, c.gated ? "sm90.gated_gemm" : "sm90.gemm");
        p.check(seed, 2);
        return p.out;
      };
      Bytes plain = run({}, 1);
      for (auto [seed, end] : llvm::enumerate(ends))
        if (!kind.gated || end.front().first != "narrow")
          EXPECT_EQ(run(end, seed), plain) << seed;
    }
}

TEST(RowsGemm, MutantsAreReported) {
  Case c{.capacity = 150, .tokens = 135, .n = 256, .k = 384, .stored = Stored::Int8, .phase = "prefill"};
  Product(c, {{"warpgroups", 2}, {"bn", 128}, {"stages", 2}, {"narrow", 128}, {"staged", 1}, {"ahead", 1}, {"parts", 2}, {"later", 1}}, "sm90.gemm")
      .expectMutantsReported(10);
}

TEST(RowsGemm, Int8Groups) {
  check({.capacity = 140, .tokens = 133, .n = 200, .k = 320, .stored = Stored::Int8Groups, .phase = "prefill"});
  check({.capacity = 130, .tokens = 129, .n = 288, .k = 256, .gated = true, .stored = Stored::Int8Groups, .out = "f32", .phase = "prefill"});
}

/// Sums of integers have no order: tiles, parts of K and which operand is M change no bit.
TEST(Gemm, Int8BitsDoNotDependOnTheSchedule) {
  for (bool gated : {false, true}) {
    Bytes first;
    Case c{.capacity = 60, .tokens = 3, .n = 320, .k = 1024, .gated = gated, .stored = Stored::Int8, .out = "f32"};
    auto check = [&](ArrayRef<std::pair<StringRef, int64_t>> force, const char *emitter) {
      Product p(c, force, emitter);
      p.check();
      p.out.resize(3 * 320 * 4);
      if (first.empty())
        first = p.out;
      EXPECT_EQ(p.out, first) << p.kernel->schedule();
    };
    for (int64_t split : {1, 2, 8})
      check({{"split", split}, {"stages", 3}, {"bk", 128}}, gated ? "sm90.gated_gemm_wm" : "sm90.gemm_wm");
    check({{"split", 1}, {"tokens", 16}, {"stages", 2}}, gated ? "sm90.gated_gemm_wm" : "sm90.gemm_wm");
    check({}, gated ? "sm90.gated_gemm" : "sm90.gemm");
  }
}

TEST(Gemm, SaysWhatTheHardwareCannotDo) {
  auto why = [](const Case &c) { return LaunchKernel::whyIllegal(c.args(), c.body(), c.attributes()); };
  EXPECT_EQ(why({.capacity = 8, .tokens = 8, .n = 64, .k = 100}), "rows of w have K = 100 bf16 values, no multiple of 16 bytes");
  EXPECT_EQ(why({.capacity = 8, .tokens = 8, .n = 64, .k = 64, .xLanes = 100}),
            "rows of x start at element 8 and are 100 bf16 values apart, no multiples of 16 bytes");
  Case narrow{.capacity = 8, .tokens = 8, .n = 64, .k = 64};
  narrow.out = "f16";
  EXPECT_EQ(why(narrow), "the result is f16, neither bf16 nor f32");
}

} // namespace dsv3::codegen::test
