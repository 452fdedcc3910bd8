// kernel.attn_split over a cache of codes, on the host: values, the barrier protocol in several schedules, bits.
#include "codegen/sm90/attention/MlaDecodeCodes.h"
#include "test/codegen/sm90/attention/DecodeWork.h"
#include "test/passes/tile/Mutants.h"

#include "mlir/IR/BuiltinTypes.h"

#include <cmath>
#include <random>

namespace dsv3::codegen {
namespace {

using Shape = MlaDecodeCodesShape;
constexpr int64_t kPageFloats = Shape::kPageBytes / 4;

/// Codes with one scale; of a row of zeros it is 1.
struct CodedRow {
  std::vector<uint8_t> codes;
  float scale = 1;
};
CodedRow coded(const std::vector<double> &row, bool e5m2) {
  double most = 0;
  for (double x : row)
    most = std::max(most, std::fabs(x));
  CodedRow out{{}, most == 0 ? 1 : float(most / (e5m2 ? 57344.0 : 448.0))};
  for (double x : row)
    out.codes.push_back(e5m2 ? floatToE5m2(float(x / out.scale)) : floatToE4m3(float(x / out.scale)));
  return out;
}

/// Magnitude of a cached row's latent by its place in the page: scales of neighbours 100 times apart.
double farApart(int64_t r) { return r % 7 ? 0.3 : 0.003; }

/// Rows of codes; what lies beyond a context is NaN, scales too.
struct CodesStep : DecodeWork {
  bool e5m2;
  std::vector<uint8_t> qCodes, kvCodes;
  std::vector<float> qScales, pages; ///< `pages`: the pool as floats, of which the kernel reads the scales
  Bf16 qRope, kvRope;

  CodesStep(int64_t heads, std::vector<int32_t> lengths, bool e5m2 = false, float amplitude = 1, double (*spread)(int64_t) = farApart)
      : DecodeWork(heads, std::move(lengths), Shape::kPageBytes), e5m2(e5m2), qCodes(seqs * heads * 512),
        kvCodes(kLayers * poolPages * 64 * 512, 0x7f), qScales(seqs * heads), pages(kLayers * poolPages * kPageFloats, NAN),
        qRope({seqs, heads, 64}, 2, amplitude), kvRope({kLayers, poolPages, 64, 64}, 3, 0.3f) {
    std::mt19937 random(5);
    std::normal_distribution<double> normal;
    auto row = [&](double magnitude) {
      std::vector<double> x(512);
      for (double &v : x)
        v = magnitude * normal(random);
      return x;
    };
    for (int64_t i = 0; i < seqs * heads; ++i) {
      CodedRow q = coded(row(amplitude), false);
      std::copy(q.codes.begin(), q.codes.end(), qCodes.begin() + i * 512);
      qScales[i] = q.scale;
    }
    eachRow([&](int64_t, int64_t page, int64_t r, bool real) {
      if (!real) {
        std::fill_n(kvRope.row({kLayer, page, r}), 64, kNan);
        return;
      }
      CodedRow k = coded(row(spread(r)), e5m2);
      std::copy(k.codes.begin(), k.codes.end(), kvCodes.begin() + place(page, r) * 512);
      pages[(kLayer * poolPages + page) * kPageFloats + Shape::kScaleAt / 4 + r] = k.scale;
    });
  }
  int64_t place(int64_t page, int64_t r) const { return (kLayer * poolPages + page) * 64 + r; }

  void run(uint64_t seed) { EXPECT_EQ(findings(seed, nullptr), "") << "seed " << seed; }

  /// What the simulator finds in the kernel after a mutation.
  std::string findings(uint64_t seed, const tile::Mutant *mutant) {
    Shape shape;
    shape.heads = heads, shape.pages = kTablePages, shape.scale = kScale;
    KernelModule module([&](TileBuilder &t) {
      mlir::MLIRContext *ctx = t.b.getContext();
      shape.codes = e5m2 ? mlir::Type(mlir::Float8E5M2Type::get(ctx)) : mlir::Type(mlir::Float8E4M3FNType::get(ctx));
      buildMlaDecodeCodes(t, "mla_decode", shape);
    });
    EXPECT_TRUE(module.valid());
    if (mutant)
      mutant->apply(module.kernel());
    const int64_t all = kLayers * poolPages;
    using Arg = tile::SimArgument;
    std::vector<Arg> args = {Arg::memory(scalars.data(), {8}),
                             Arg::memory(qCodes.data(), {seqs, heads, 512}),
                             qRope.argument(),
                             Arg::memory(qScales.data(), {seqs, heads}),
                             Arg::memory(kvCodes.data(), {all, 64, 512}),
                             kvRope.argument({all, 64, 64}),
                             Arg::memory(pages.data(), {all, kPageFloats})};
    llvm::append_range(args, workArguments());
    return codegen::findings(module.kernel(), args, partCount() * shape.headTiles(), seed);
  }

  /// Codes times their scales in double.
  Attended want(int64_t seq, int64_t head, int64_t begin, int64_t end) const override {
    int64_t n = std::min<int64_t>(lens[seq], end * 64) - begin * 64, h = seq * heads + head;
    std::vector<double> scores, rope = widened(qRope.row({seq, head}), 64);
    std::vector<std::vector<double>> values;
    for (int64_t i = 0; i < n; ++i) {
      int64_t page = table[seq * kTablePages + begin + i / 64], r = i % 64;
      float scale = pages[(kLayer * poolPages + page) * kPageFloats + Shape::kScaleAt / 4 + r];
      std::vector<double> v, k = widened(kvRope.row({kLayer, page, r}), 64);
      double s = 0;
      for (int64_t j = 0; j < 512; ++j) {
        uint8_t code = kvCodes[place(page, r) * 512 + j];
        v.push_back(double(e5m2 ? e5m2ToFloat(code) : e4m3ToFloat(code)) * scale);
        s += double(e4m3ToFloat(qCodes[h * 512 + j])) * qScales[h] * v.back();
      }
      for (int64_t j = 0; j < 64; ++j)
        s += rope[j] * k[j];
      scores.push_back(s * kScale * std::log2(std::exp(1.0)));
      values.push_back(v);
    }
    Attended a{std::vector<double>(512), 0};
    double most = *std::max_element(scores.begin(), scores.end()), sum = 0;
    for (double s : scores)
      sum += std::exp2(s - most);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < 512; ++j)
        a.out[j] += std::exp2(scores[i] - most) / sum * values[i][j];
    a.logSum = most + std::log2(sum);
    return a;
  }
};

} // namespace

TEST(MlaDecodeCodes, WholeSequencesOfRaggedLengths) {
  for (bool e5m2 : {false, true})
    for (uint64_t seed : {0, 1, 2}) {
      CodesStep step(4, {1, 63, 64, 65, 129, 200}, e5m2);
      for (int32_t s = 0; s < step.seqs; ++s) {
        step.add(s, 0, CodesStep::pagesOf(step.lens[s]), -1);
        if (s % 2) // two parts of several items, and an idle one
          step.endPart();
      }
      step.endPart();
      step.run(seed);
      for (int64_t s = 0; s < step.seqs; ++s)
        step.checkWhole(s);
    }
}

TEST(MlaDecodeCodes, PartsOfASequence) {
  CodesStep step(4, {300, 70});
  step.add(0, 0, 2, 0), step.endPart();
  step.add(0, 2, 4, 1), step.add(0, 4, 5, 2), step.endPart(); // an odd last part, of 44 keys
  step.add(1, 0, 2, -1), step.endPart();
  step.run(1);
  step.checkPart(0, 0, 2, 0), step.checkPart(0, 2, 4, 1), step.checkPart(0, 4, 5, 2);
  step.checkWhole(1);
  EXPECT_EQ(*step.out.row({0, 0}), kNan) << "the row of a sequence that was cut is left for the combine";
}

TEST(MlaDecodeCodes, HeadsBeyondATile) {
  CodesStep step(72, {100});
  step.add(0, 0, 2, -1), step.endPart();
  step.run(2);
  step.checkWhole(0);
}

/// Maxima that jump move the reference and rescale the accumulator.
TEST(MlaDecodeCodes, LargeScores) {
  CodesStep step(4, {320}, false, 12);
  step.add(0, 0, 5, -1), step.endPart();
  step.run(3);
  step.checkWhole(0);
}

/// Weights are f16, which ends at 6e-8 and 65504: a token's scale must not push them out of it.
TEST(MlaDecodeCodes, ScalesBeyondHalfPrecision) {
  for (bool e5m2 : {false, true})
    for (auto [magnitude, amplitude] : {std::pair<double (*)(int64_t), float>{[](int64_t) { return 1e-7; }, 1}, {[](int64_t) { return 1e7; }, 1e-8f}}) {
      CodesStep step(4, {130}, e5m2, amplitude, magnitude);
      step.add(0, 0, 3, -1), step.endPart();
      step.run(4);
      step.checkWhole(0);
    }
}

/// A row of zeros has scale 1 and codes 0: its key counts, its value does not.
TEST(MlaDecodeCodes, RowsOfZeros) {
  for (bool e5m2 : {false, true}) {
    CodesStep step(4, {190, 64}, e5m2, 1, [](int64_t r) { return r % 3 ? 0.3 : 0.0; });
    CodesStep zeros(4, {190}, e5m2, 1, [](int64_t) { return 0.0; });
    step.add(0, 0, 3, -1), step.add(1, 0, 1, -1), step.endPart();
    zeros.add(0, 0, 3, -1), zeros.endPart();
    step.run(5), zeros.run(5);
    step.checkWhole(0), step.checkWhole(1);
    for (int64_t h = 0; h < zeros.heads; ++h)
      for (double x : widened(zeros.out.row({0, h}), 512))
        EXPECT_EQ(x, 0);
  }
}

TEST(MlaDecodeCodes, BitsDoNotDependOnTheBatch) {
  CodesStep many(4, {200, 130, 77});
  for (int32_t s = 0; s < many.seqs; ++s)
    many.add(s, 0, CodesStep::pagesOf(many.lens[s]), -1);
  many.endPart();
  CodesStep alone = many;
  alone.clear(), alone.add(1, 0, 3, -1), alone.endPart();
  many.run(1), alone.run(2);
  many.checkWhole(1);
  many.checkSame(alone, 1);
}

/// Every wait and release is needed: without one the simulator sees a race or a deadlock. Awaits of tokens only say when registers
/// are free again, and the barrier in front of clearing codes (the third) is for warps that lag behind their warpgroup's product,
/// which the simulator does not know.
TEST(MlaDecodeCodes, MutantsAreReported) {
  Shape shape;
  shape.heads = 8, shape.pages = CodesStep::kTablePages, shape.scale = kScale;
  KernelModule module([&](TileBuilder &t) {
    shape.codes = t.f8;
    buildMlaDecodeCodes(t, "mla_decode", shape);
  });
  CodesStep step(8, {130, 330, 40});
  for (int32_t s : {0, 1, 2, 2, 0})
    step.add(s, 0, CodesStep::pagesOf(step.lens[s]), -1);
  step.endPart();
  int tried = 0;
  for (const tile::Mutant &mutant : tile::mutantsOf(module.kernel())) {
    llvm::StringRef name = mutant.name;
    if (name.starts_with("earlier") || name.starts_with("later") || name.starts_with("drop await") || name == "drop sync 2")
      continue;
    std::string found;
    for (uint64_t seed = 1; seed <= 4 && found.empty(); ++seed)
      found = step.findings(seed, &mutant);
    EXPECT_NE(found, "") << mutant.name;
    ++tried;
  }
  EXPECT_GE(tried, 16);
}

} // namespace dsv3::codegen
