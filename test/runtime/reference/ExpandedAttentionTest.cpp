#include "runtime/reference/ExpandedAttention.h"
#include "Util.h"

using namespace dsv3;
using namespace dsv3::reference;
using testing::HasSubstr;

namespace {

/// Two sequences, of 70 tokens (two blocks) and of 3, over odd head sizes.
struct Step {
  MlaShape shape{3, 5, 4, 6, 7};
  SeqMeta seq;
  Cache<float> cache{1, 4, {7, 4}};
  Array<float> q, wKvB = noise<float>({33, 7}, 99);

  Step() {
    seq.addSequence(0, 70, {2, 0});
    seq.addSequence(0, 3, {3});
    q = noise<float>({73, 3, 9}, 1);
    ok(kvAppend(cache, 0, {noise<float>({73, 7}, 2), noise<float>({73, 4}, 3)}, seq));
  }
  /// Rows of w_kvb [H * (nope + v), latent] as [H, count, latent], from `first` of each head.
  Array<float> heads(int64_t first, int64_t count) const {
    Array<float> w({3, count, 7});
    for (int64_t h = 0; h < 3; ++h)
      std::copy_n(wKvB.row(h * 11 + first), count * 7, w.row(h * count));
    return w;
  }
};

} // namespace

TEST(ExpandedAttention, HasTheBitsOfMlaAttention) {
  Step step;
  auto kv = ok(expandKeys(step.cache, 0, step.heads(0, 5), step.heads(5, 6), step.seq));
  EXPECT_EQ(kv.keys.shape, (Shape{3, 3, 9, 64}));
  EXPECT_EQ(kv.keys.data[(2 * 3 * 9) * 64 + 3], 0) << "past the context of the short sequence";
  auto y = ok(expandedAttention(step.q, kv, step.seq, 0.7, 4));
  auto want = ok(mlaAttention(step.q, step.cache, 0, step.wKvB, step.seq, 0.7, step.shape));
  EXPECT_EQ(y.data, want.data);
}

TEST(ExpandedAttention, NamesWhatDoesNotFit) {
  Step step;
  EXPECT_THAT(errorOf(expandKeys(step.cache, 0, noise<float>({3, 5, 8}, 1), step.heads(5, 6), step.seq)),
              HasSubstr("w_k of shape [?, ?, 7]"));
  auto kv = ok(expandKeys(step.cache, 0, step.heads(0, 5), step.heads(5, 6), step.seq));
  kv.keys.shape[0] = 2;
  EXPECT_THAT(errorOf(expandedAttention(step.q, kv, step.seq, 1, 4)), HasSubstr("keys of shape [3, 3, 9, 64]"));
}
