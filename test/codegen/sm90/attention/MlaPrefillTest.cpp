// kernel.attn_prefill on the host: values, the barrier protocol in several schedules, bits.
#include "test/codegen/sm90/attention/Fixture.h"
#include "test/passes/tile/Mutants.h"

#include <cmath>

namespace dsv3::codegen {
namespace {

/// A sequence of a step: its chunk's rows are the last `rows` of `length` tokens.
struct Chunk {
  int32_t rows, length;
};

/// A prefill step. Keys beyond a context are zero, as kv_expand writes them; blocks beyond the last hold NaN.
struct PrefillStep {
  static constexpr int64_t kSeqs = 6;
  int64_t heads, lanes, values, tokens = 0, blocks = 0;
  std::vector<Chunk> chunks;
  std::vector<int32_t> qStart = {0}, context, firstBlock = {0};
  Bf16 q, k, v, out;
  std::vector<int64_t> scalars;

  static int64_t sum(const std::vector<Chunk> &chunks, int64_t (*f)(const Chunk &)) {
    int64_t n = 0;
    for (const Chunk &c : chunks)
      n += f(c);
    return n;
  }
  static int64_t rowsOf(const Chunk &c) { return c.rows; }
  static int64_t blocksOf(const Chunk &c) { return (c.length + 63) / 64; }

  /// Keys are a function of (sequence's `identity`, position), queries too: so another step can have the same sequence.
  PrefillStep(int64_t heads, std::vector<Chunk> list, std::vector<unsigned> identity, int64_t lanes = 192, int64_t values = 128)
      : heads(heads), lanes(lanes), values(values), tokens(sum(list, rowsOf)), blocks(sum(list, blocksOf)), chunks(std::move(list)),
        q({tokens, heads, lanes}, 0), k({blocks + 2, heads, 64, lanes}, 0), v({blocks + 2, heads, 64, values}, 0),
        out({tokens + 1, heads, values}, 0), scalars(8) {
    k.fill(kNan), v.fill(kNan), out.fill(kNan);
    for (size_t s = 0; s < chunks.size(); ++s) {
      const Chunk &c = chunks[s];
      Bf16 qs({c.length, heads, lanes}, 10 * identity[s] + 1), ks({c.length, heads, lanes}, 10 * identity[s] + 2), vs({c.length, heads, values}, 10 * identity[s] + 3);
      for (int64_t i = 0; i < c.rows; ++i)
        std::copy_n(qs.row({c.length - c.rows + i}), heads * lanes, q.row({qStart.back() + i}));
      for (int64_t i = 0; i < blocksOf(c) * 64; ++i)
        for (int64_t h = 0; h < heads; ++h) {
          uint16_t *key = k.row({firstBlock.back() + i / 64, h, i % 64}), *value = v.row({firstBlock.back() + i / 64, h, i % 64});
          std::fill_n(key, lanes, 0), std::fill_n(value, values, 0);
          if (i < c.length)
            std::copy_n(ks.row({i, h}), lanes, key), std::copy_n(vs.row({i, h}), values, value);
        }
      context.push_back(c.length);
      qStart.push_back(qStart.back() + c.rows);
      firstBlock.push_back(firstBlock.back() + blocksOf(c));
    }
    scalars[0] = tokens, scalars[1] = chunks.size(), scalars[3] = blocks;
  }

  void run(uint64_t seed) { EXPECT_EQ(findings(seed, nullptr), ""); }

  /// What the simulator finds in the kernel after a mutation.
  std::string findings(uint64_t seed, const tile::Mutant *mutant) {
    MlaPrefillShape shape;
    shape.heads = heads, shape.lanes = lanes, shape.values = values, shape.seqs = kSeqs, shape.scale = kScale;
    KernelModule module([&](TileBuilder &t) { buildMlaPrefill(t, "mla_prefill", shape); });
    EXPECT_TRUE(module.valid());
    if (mutant)
      mutant->apply(module.kernel());
    using Arg = tile::SimArgument;
    int64_t rows = (blocks + 2) * heads * 64;
    auto numbers = [](std::vector<int32_t> &x) { return Arg::memory(x.data(), {int64_t(x.size())}); };
    std::vector<Arg> args = {Arg::memory(scalars.data(), {8}), q.argument({tokens, heads * lanes}), k.argument({rows, lanes}), v.argument({rows, values}),
                             numbers(qStart), numbers(context), numbers(firstBlock), out.argument({tokens + 1, heads * values})};
    return codegen::findings(module.kernel(), args, heads * MlaPrefillShape::tiles(tokens, chunks.size()) + 3, seed);
  }

  void check() {
    for (size_t s = 0; s < chunks.size(); ++s)
      for (int64_t i = 0; i < chunks[s].rows; ++i)
        for (int64_t h = 0; h < heads; ++h) {
          int64_t position = chunks[s].length - chunks[s].rows + i;
          auto key = [&](int64_t j) { return k.row({firstBlock[s] + j / 64, h, j % 64}); };
          auto value = [&](int64_t j) { return v.row({firstBlock[s] + j / 64, h, j % 64}); };
          Attended want = attend(widened(q.row({qStart[s] + i, h}), lanes), position + 1, values, key, value);
          ASSERT_LT(relativeError(widened(out.row({qStart[s] + i, h}), values), want.out), 5e-3) << "sequence " << s << " row " << i << " head " << h;
        }
    EXPECT_EQ(*out.row({tokens}), kNan) << "a row past the last was written";
  }
};

} // namespace

TEST(MlaPrefill, NewPromptsOfRaggedLengths) {
  for (uint64_t seed : {0, 1, 2, 3}) {
    PrefillStep step(2, {{1, 1}, {130, 130}, {64, 64}, {129, 129}}, {0, 1, 2, 3});
    step.run(seed);
    step.check();
  }
}

TEST(MlaPrefill, ChunksThatContinue) {
  for (uint64_t seed : {0, 1}) {
    PrefillStep step(1, {{100, 400}, {3, 259}, {128, 256}, {0, 77}, {70, 513}}, {0, 1, 2, 3, 4});
    step.run(seed);
    step.check();
  }
}

TEST(MlaPrefill, SmallerHeads) {
  PrefillStep step(3, {{140, 150}}, {5}, 128, 64);
  step.run(1);
  step.check();
}

/// The same rows, cut in other chunks and among other sequences.
TEST(MlaPrefill, BitsDoNotDependOnChunks) {
  PrefillStep whole(1, {{300, 300}}, {9});
  whole.run(1);
  PrefillStep first(1, {{150, 150}}, {9}), rest(1, {{20, 90}, {150, 300}}, {4, 9});
  // A shorter prompt of the same identity holds the same numbers: they are drawn in order of position.
  first.run(2), rest.run(3);
  whole.check();
  for (int64_t i = 0; i < 300; ++i) {
    const uint16_t *part = i < 150 ? first.out.row({i}) : rest.out.row({20 + i - 150});
    ASSERT_TRUE(std::equal(part, part + 128, whole.out.row({i}))) << "row " << i;
  }
}

/// Every wait and release is needed: without one, or out of place, the simulator sees a race or a deadlock.
TEST(MlaPrefill, MutantsAreReported) {
  MlaPrefillShape shape;
  shape.heads = 1, shape.seqs = PrefillStep::kSeqs, shape.scale = kScale;
  KernelModule module([&](TileBuilder &t) { buildMlaPrefill(t, "mla_prefill", shape); });
  std::vector<tile::Mutant> mutants = tile::mutantsOf(module.kernel());
  EXPECT_GE(mutants.size(), 12u);
  for (const tile::Mutant &mutant : mutants) {
    std::string found;
    for (uint64_t seed = 1; seed <= 4 && found.empty(); ++seed)
      found = PrefillStep(1, {{70, 600}}, {1}).findings(seed, &mutant);
    EXPECT_NE(found, "") << mutant.name;
  }
}

} // namespace dsv3::codegen
