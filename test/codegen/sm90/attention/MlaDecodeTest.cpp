// kernel.attn_split on the host: values, the barrier protocol in several schedules, bits.
#include "test/codegen/sm90/attention/DecodeWork.h"

namespace dsv3::codegen {
namespace {

/// Rows of bf16; what lies beyond a context is NaN.
struct DecodeStep : DecodeWork {
  Bf16 qLatent, q, kv;

  DecodeStep(int64_t heads, std::vector<int32_t> lengths, float amplitude = 1)
      : DecodeWork(heads, std::move(lengths), 64 * 576 * 2), qLatent({seqs, heads, 512}, 1, amplitude), q({seqs, heads, 192}, 2, amplitude),
        kv({kLayers, poolPages, 64, 576}, 3, 0.3f) {
    eachRow([&](int64_t, int64_t page, int64_t r, bool real) {
      if (!real)
        std::fill_n(kv.row({kLayer, page, r}), 576, kNan);
    });
  }

  void run(int64_t chunks, uint64_t seed) {
    MlaDecodeShape shape;
    shape.heads = heads, shape.pages = kTablePages, shape.chunks = chunks, shape.scale = kScale;
    KernelModule module([&](TileBuilder &t) { buildMlaDecode(t, "mla_decode", shape); });
    ASSERT_TRUE(module.valid());
    // The kernel's map of q_rope is that of a view; the simulator takes whole tensors.
    Bf16 rope({seqs, heads, 64}, 0);
    for (int64_t s = 0; s < seqs; ++s)
      for (int64_t h = 0; h < heads; ++h)
        std::copy_n(q.row({s, h}) + 128, 64, rope.row({s, h}));
    std::vector<tile::SimArgument> args = {tile::SimArgument::memory(scalars.data(), {8}), qLatent.argument(), rope.argument(),
                                           kv.argument({kLayers * poolPages * 64, 576})};
    llvm::append_range(args, workArguments());
    EXPECT_EQ(findings(module.kernel(), args, partCount() * shape.headTiles(), seed), "") << "seed " << seed;
  }

  Attended want(int64_t seq, int64_t head, int64_t begin, int64_t end) const override {
    std::vector<double> x = widened(qLatent.row({seq, head}), 512), r = widened(q.row({seq, head}) + 128, 64);
    x.insert(x.end(), r.begin(), r.end());
    auto row = [&](int64_t i) { return kv.row({kLayer, table[seq * kTablePages + begin + i / 64], i % 64}); };
    return attend(x, std::min<int64_t>(lens[seq], end * 64) - begin * 64, 512, row, row);
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
  alone.clear(), alone.add(1, 0, 3, -1), alone.endPart();
  many.run(1, 1), alone.run(1, 2);
  many.checkWhole(1);
  many.checkSame(alone, 1);
}

} // namespace dsv3::codegen
