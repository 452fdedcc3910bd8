// kernel.attn_split on the host: values, the barrier protocol in several schedules, bits.
#include "test/codegen/sm90/attention/Fixture.h"

#include <cmath>
#include <numeric>
#include <random>

namespace dsv3::codegen {
namespace {

constexpr int64_t kLayers = 2, kLayer = 1, kTablePages = 16;

/// A decode step: sequences of these lengths in a shuffled pool of pages; what lies beyond a context is NaN.
struct DecodeStep {
  int64_t heads, seqs, poolPages = 0;
  std::vector<int32_t> lens, table;
  Bf16 qLatent, q, kv, out;
  std::vector<int32_t> items, parts;
  std::vector<float> partial, lse;
  std::vector<int64_t> scalars;

  static int64_t pagesOf(int64_t n) { return (n + 63) / 64; }
  static int64_t totalPages(const std::vector<int32_t> &lens) {
    int64_t n = 0;
    for (int32_t len : lens)
      n += pagesOf(len);
    return n;
  }

  DecodeStep(int64_t heads, std::vector<int32_t> lengths, float amplitude = 1)
      : heads(heads), seqs(lengths.size()), poolPages(totalPages(lengths) + 2), lens(std::move(lengths)), table(seqs * kTablePages, 0x7fffff),
        qLatent({seqs, heads, 512}, 1, amplitude), q({seqs, heads, 192}, 2, amplitude), kv({kLayers, poolPages, 64, 576}, 3, 0.3f),
        out({seqs, heads, 512}, 0), scalars(8) {
    scalars[4] = poolPages * 64 * 576 * 2;
    out.fill(kNan);
    std::vector<int32_t> pages(poolPages);
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), std::mt19937(7));
    for (int64_t s = 0, next = 0; s < seqs; ++s)
      for (int64_t p = 0; p < pagesOf(lens[s]); ++p) {
        int32_t page = table[s * kTablePages + p] = pages[next++];
        for (int64_t r = std::min<int64_t>(lens[s] - p * 64, 64); r < 64; ++r)
          std::fill_n(kv.row({kLayer, page, r}), 576, kNan);
      }
  }

  /// An item; `slot` -1 writes `out`. Items are added part by part.
  void add(int32_t seq, int32_t begin, int32_t end, int32_t slot) {
    items.insert(items.end(), {seq, begin, end, slot, lens[seq]});
    int64_t slots = slot + 1;
    if (int64_t(lse.size()) < slots * heads) {
      partial.resize(slots * heads * 512, NAN);
      lse.resize(slots * heads, NAN);
    }
  }
  void endPart() { parts.push_back(items.size() / 5); }

  void run(int64_t chunks, uint64_t seed) {
    MlaDecodeShape shape;
    shape.heads = heads, shape.pages = kTablePages, shape.chunks = chunks, shape.scale = kScale;
    KernelModule module([&](TileBuilder &t) { buildMlaDecode(t, "mla_decode", shape); });
    ASSERT_TRUE(module.valid());
    if (partial.empty())
      partial.resize(heads * 512), lse.resize(heads);
    std::vector<int32_t> starts = parts;
    starts.insert(starts.begin(), 0);
    // The kernel's map of q_rope is that of a view; the simulator takes whole tensors.
    Bf16 rope({seqs, heads, 64}, 0);
    for (int64_t s = 0; s < seqs; ++s)
      for (int64_t h = 0; h < heads; ++h)
        std::copy_n(q.row({s, h}) + 128, 64, rope.row({s, h}));
    int64_t slots = lse.size() / heads, parts = starts.size() - 1;
    using Arg = tile::SimArgument;
    std::vector<Arg> args = {Arg::memory(scalars.data(), {8}),
                             qLatent.argument(),
                             rope.argument(),
                             kv.argument({kLayers * poolPages * 64, 576}),
                             Arg::memory(table.data(), {seqs, kTablePages}),
                             Arg::memory(items.data(), {int64_t(items.size()) / 5, 5}),
                             Arg::memory(starts.data(), {parts + 1}),
                             out.argument(),
                             Arg::memory(partial.data(), {slots, heads, 512}),
                             Arg::memory(lse.data(), {slots, heads}),
                             Arg::scalar(kLayer)};
    EXPECT_EQ(findings(module.kernel(), args, parts * shape.headTiles(), seed), "") << "seed " << seed;
  }

  /// Pages [begin, end) of a sequence, one head.
  Attended want(int64_t seq, int64_t head, int64_t begin, int64_t end) {
    std::vector<double> x = widened(qLatent.row({seq, head}), 512), r = widened(q.row({seq, head}) + 128, 64);
    x.insert(x.end(), r.begin(), r.end());
    auto row = [&](int64_t i) { return kv.row({kLayer, table[seq * kTablePages + begin + i / 64], i % 64}); };
    return attend(x, std::min<int64_t>(lens[seq], end * 64) - begin * 64, 512, row, row);
  }

  void checkWhole(int64_t seq) {
    for (int64_t h = 0; h < heads; ++h)
      EXPECT_LT(relativeError(widened(out.row({seq, h}), 512), want(seq, h, 0, pagesOf(lens[seq])).out), 5e-3) << "sequence " << seq << " head " << h;
  }
  void checkPart(int64_t seq, int64_t begin, int64_t end, int64_t slot) {
    for (int64_t h = 0; h < heads; ++h) {
      Attended a = want(seq, h, begin, end);
      const float *row = partial.data() + (slot * heads + h) * 512;
      EXPECT_LT(relativeError({row, row + 512}, a.out), 5e-3) << "slot " << slot << " head " << h;
      EXPECT_NEAR(lse[slot * heads + h], a.logSum, 1e-3) << "slot " << slot << " head " << h;
    }
  }
};

} // namespace

TEST(MlaDecode, WholeSequencesOfRaggedLengths) {
  for (int64_t chunks : {1, 2})
    for (uint64_t seed : {0, 1, 2, 3}) {
      DecodeStep step(4, {1, 63, 64, 65, 129, 200});
      for (int32_t s = 0; s < step.seqs; ++s) {
        step.add(s, 0, DecodeStep::pagesOf(step.lens[s]), -1);
        if (s % 2) // two parts of several items, and an idle one
          step.endPart();
      }
      step.endPart();
      step.run(chunks, seed);
      for (int64_t s = 0; s < step.seqs; ++s)
        step.checkWhole(s);
    }
}

TEST(MlaDecode, PartsOfASequence) {
  DecodeStep step(4, {300, 70});
  step.add(0, 0, 2, 0), step.endPart();
  step.add(0, 2, 4, 1), step.add(0, 4, 5, 2), step.endPart(); // an odd last part, of 44 keys
  step.add(1, 0, 2, -1), step.endPart();
  step.run(1, 1);
  step.checkPart(0, 0, 2, 0), step.checkPart(0, 2, 4, 1), step.checkPart(0, 4, 5, 2);
  step.checkWhole(1);
  EXPECT_EQ(*step.out.row({0, 0}), kNan) << "the row of a sequence that was cut is left for the combine";
}

TEST(MlaDecode, HeadsBeyondATile) {
  DecodeStep step(72, {100});
  step.add(0, 0, 2, -1), step.endPart();
  step.run(1, 2);
  step.checkWhole(0);
}

/// Maxima that jump move the reference and rescale the accumulator.
TEST(MlaDecode, LargeScores) {
  DecodeStep step(4, {320}, 12);
  step.add(0, 0, 5, -1), step.endPart();
  step.run(1, 3);
  step.checkWhole(0);
}

TEST(MlaDecode, BitsDoNotDependOnTheBatch) {
  DecodeStep many(4, {200, 130, 77});
  for (int32_t s = 0; s < many.seqs; ++s)
    many.add(s, 0, DecodeStep::pagesOf(many.lens[s]), -1);
  many.endPart();
  DecodeStep alone = many;
  alone.items.clear(), alone.parts.clear();
  alone.add(1, 0, 3, -1), alone.endPart();
  many.run(1, 1), alone.run(1, 2);
  many.checkWhole(1);
  for (int64_t h = 0; h < many.heads; ++h)
    EXPECT_TRUE(std::equal(many.out.row({1, h}), many.out.row({1, h}) + 512, alone.out.row({1, h})));
}

} // namespace dsv3::codegen
