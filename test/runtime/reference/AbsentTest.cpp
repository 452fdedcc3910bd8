// A chain of calls runs on over absent arrays after its first error: every
// function must refuse them, whatever else it is given.
#include "Util.h"
#include "runtime/reference/Attention.h"
#include "runtime/reference/Linear.h"
#include "runtime/reference/Moe.h"
#include "runtime/reference/Norm.h"
#include "runtime/reference/Rope.h"
#include "runtime/reference/Sampling.h"

using namespace dsv3;
using namespace dsv3::reference;

TEST(Absent, IsRefusedByEveryFunction) {
  const Array<float> none, some({2, 2}, {1, 2, 3, 4}), vector({2}, {1, 2});
  const Ids noIds, ids({2}, {0, 1});
  SeqMeta seq;
  seq.addSequence(0, 2, {0});
  Cache<float> cache(1, 1, {1, 1});
  MlaShape shape{1, 1, 1, 1, 1};
  EXPECT_FALSE(embed(ids, none));
  EXPECT_FALSE(embed(noIds, some));
  EXPECT_FALSE(linear(none, some));
  EXPECT_FALSE(linear(some, none));
  EXPECT_FALSE(batchedLinear(none, Array<float>({1, 2, 2})));
  EXPECT_FALSE(batchedLinear(some, none));
  EXPECT_FALSE(groupedLinear(none, Array<float>({1, 2, 2}), Ids({2})));
  EXPECT_FALSE(groupedLinear(some, Array<float>({1, 2, 2}), noIds));
  EXPECT_FALSE(add(none, none));
  EXPECT_FALSE(add(some, none));
  EXPECT_FALSE(split(none, {0, 0}));
  EXPECT_FALSE(concat<float>({}));
  EXPECT_FALSE(concat<float>({none, none}));
  EXPECT_FALSE(selectRows(none, ids));
  EXPECT_FALSE(rmsNorm(none, vector, 1e-6));
  EXPECT_FALSE(rmsNorm(some, none, 1e-6));
  EXPECT_FALSE(swiglu(none, none));
  EXPECT_FALSE(swiglu(none));
  EXPECT_FALSE(rope(none, ids, RopeTable{{1.0f}, 1}, 0, true));
  EXPECT_FALSE(rope(none, ids, RopeTable(), 0, true));
  EXPECT_FALSE(quantize(none, {}));
  EXPECT_FALSE(dequantize(Quantized<float>()));
  EXPECT_FALSE(kvAppend(cache, 0, {none, none}, seq));
  EXPECT_FALSE(kvAppend<float>(cache, 0, {}, seq));
  EXPECT_FALSE(kvAppend(cache, 0, {none, none}, SeqMeta()));
  EXPECT_FALSE(gatherRows(cache, 0, SeqMeta(), 0));
  EXPECT_FALSE(mlaAttention(none, cache, 0, some, seq, 1, shape));
  EXPECT_FALSE(mlaAttention(Array<float>({2, 1, 2}), cache, 0, none, seq, 1, shape));
  EXPECT_FALSE(latentAttention(none, none, cache, 0, seq, 1));
  EXPECT_FALSE(absorb(none, shape));
  EXPECT_FALSE(route(none, vector, {1, 1, 1, true, 1}));
  EXPECT_FALSE(route(some, none, {1, 1, 1, true, 1}));
  EXPECT_FALSE(dispatch(none, ids, 2));
  EXPECT_FALSE(dispatch(some, noIds, 2));
  EXPECT_FALSE(combine(none, Ids({2, 1}), some));
  EXPECT_FALSE(combine(some, noIds, some));
  EXPECT_FALSE(routedExperts(none, none, none, none, none, none, {}));
  EXPECT_FALSE(greedy(none));
  EXPECT_FALSE(logSoftmax(none));
  EXPECT_FALSE(sample(none, SamplingParams(), 0, 0, 0));
}

TEST(Absent, LayersOutsideTheCacheAreRefused) {
  SeqMeta seq;
  seq.addSequence(0, 1, {0});
  Cache<float> cache(2, 1, {1, 1});
  Array<float> one({1, 1}, {1});
  EXPECT_EQ(errorOf(gatherRows(cache, 2, seq, 0)), "gather_rows: expected a layer below 2, got 2");
  Status appended = kvAppend(cache, -1, {one, one}, seq);
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().message, "kv_append: expected a layer below 2, got -1");
}
