// The router, the work list and the combination of experts.
#include "test/codegen/x86/Harness.h"

#include "runtime/reference/Moe.h"

#include <gtest/gtest.h>

#include <random>

namespace dsv3::codegen::test {
namespace {

struct RouteCase {
  int64_t experts;
  reference::RouteParams params;
  int ties;      ///< logits are multiples of 1 / ties; 0: any
  double bias;   ///< added to every bias
};

Array<float> toFloat(const Array<double> &a) { return Array<float>(a.shape, std::vector<float>(a.data.begin(), a.data.end())); }

class RouteTest : public ::testing::TestWithParam<RouteCase> {};

TEST_P(RouteTest, MatchesReference) {
  RouteCase c = GetParam();
  const reference::RouteParams &p = c.params;
  std::string logits = tensorText({160, c.experts}, Elem::F32), bias = tensorText({c.experts}, Elem::F32);
  std::string ids = tensorText({160, p.top}, Elem::I32), weights = tensorText({160, p.top}, Elem::F32);
  auto kernel = Kernel::compile("%l: " + logits + ", %b: " + bias,
                                "%i = kernel.empty : " + ids + "\n%w = kernel.empty : " + weights + "\n%r, %q = kernel.route ins(%l, %b : " + logits + ", " +
                                    bias + ") outs(%i, %w : " + ids + ", " + weights + ") groups " + std::to_string(p.groups) + " keep " +
                                    std::to_string(p.keep) + " top " + std::to_string(p.top) + " norm " + (p.norm ? "true" : "false") +
                                    " scale 2.5 site \"s\" -> " + ids + ", " + weights);
  ASSERT_TRUE(kernel);
  constexpr int64_t kTokens = 50;
  Array<double> l = randomValues({kTokens, c.experts}, Elem::F32, 1, 3), b = randomValues({c.experts}, Elem::F32, 2, 0.3);
  for (double &v : l.data)
    v = c.ties ? std::round(v * c.ties) / c.ties : v;
  for (double &v : b.data)
    v = float((c.ties ? 0 : v) + c.bias);
  reference::Routing<float> ref = *reference::route(toFloat(l), toFloat(b), p);
  Array<double> refWeights({kTokens, p.top}, std::vector<double>(ref.weights.data.begin(), ref.weights.data.end()));
  Buffer in = Buffer::of(l, Elem::F32), biasBuffer = Buffer::of(b, Elem::F32);
  forEachRun(*kernel, [&](const Code &code, Split split) {
    Buffer idsOut(kTokens * p.top * 4), weightsOut(kTokens * p.top * 4);
    kernel->run(code, Buffers().add(in).add(biasBuffer).add(idsOut).add(weightsOut).list, {kTokens}, split);
    EXPECT_EQ(std::memcmp(idsOut.data(), ref.ids.data.data(), size_t(idsOut.size())), 0) << code.variant;
    expectClose(weightsOut, Elem::F32, refWeights, code.variant);
  });
}

reference::RouteParams params(int64_t groups, int64_t keep, int64_t top, bool norm) {
  reference::RouteParams p;
  p.groups = groups, p.keep = keep, p.top = top, p.norm = norm, p.scale = 2.5;
  return p;
}

INSTANTIATE_TEST_SUITE_P(Shapes, RouteTest,
                         ::testing::Values(RouteCase{256, params(8, 4, 8, true), 0, 0}, RouteCase{256, params(8, 4, 8, true), 3, 0},
                                           RouteCase{64, params(2, 1, 6, true), 2, 0}, RouteCase{128, params(4, 2, 5, false), 3, -5},
                                           RouteCase{24, params(6, 3, 4, true), 0, 0},
                                           RouteCase{24, params(6, 2, 4, true), 2, 0},   // many ties
                                           RouteCase{24, params(6, 2, 8, false), 1, -5}, // all biased scores negative, ties
                                           RouteCase{24, params(6, 2, 4, true), 0, -5}, RouteCase{16, params(1, 1, 3, true), 0, 0},
                                           RouteCase{17, params(1, 1, 17, false), 1, 0}, RouteCase{8, params(4, 1, 2, true), 0, 0}));

class DispatchTest : public ::testing::TestWithParam<int64_t> {}; // tokens

TEST_P(DispatchTest, MatchesReference) {
  constexpr int64_t kExperts = 24, kTop = 3;
  int64_t tokens = GetParam();
  auto kernel = Kernel::compile("%i: tensor<1600x3xi32>", "%f = kernel.empty : tensor<25xi32>\n%t = kernel.empty : tensor<4800xi32>\n"
                                                         "%r = kernel.empty : tensor<1600x3xi32>\n"
                                                         "%a, %b, %c = kernel.dispatch ins(%i : tensor<1600x3xi32>) outs(%f, %t, %r : tensor<25xi32>, "
                                                         "tensor<4800xi32>, tensor<1600x3xi32>) site \"s\" -> tensor<25xi32>, tensor<4800xi32>, tensor<1600x3xi32>");
  ASSERT_TRUE(kernel);
  std::mt19937 engine(1);
  Ids ids({tokens, kTop});
  for (int64_t i = 0; i < ids.size(); ++i)
    ids.data[size_t(i)] = int32_t((engine() % 7 + size_t(i % kTop) * 8)); // experts 7, 15 and 23 get nothing
  Array<double> rowNumber({tokens, 1});
  for (int64_t t = 0; t < tokens; ++t)
    rowNumber.data[size_t(t)] = double(t);
  auto ref = *reference::dispatch(rowNumber, ids, kExperts);
  for (const Code &code : kernel->codes()) {
    Buffer in = Buffer::of(ids.data), offsets((kExperts + 1) * 4), tokenOf(tokens * kTop * 4), rowOf(tokens * kTop * 4);
    kernel->run(code, Buffers().add(in).add(offsets).add(tokenOf).add(rowOf).list, {tokens});
    EXPECT_EQ(std::memcmp(offsets.data(), ref.offsets.data.data(), size_t(offsets.size())), 0) << code.variant;
    EXPECT_EQ(std::memcmp(rowOf.data(), ref.rowOf.data.data(), size_t(rowOf.size())), 0) << code.variant;
    EXPECT_EQ(tokenOf.values({tokens * kTop}, Elem::I32).data, ref.rows.data) << code.variant;
  }
}

INSTANTIATE_TEST_SUITE_P(Tokens, DispatchTest, ::testing::Values(0, 1, 7, 130, 1490));

TEST(Combine, MatchesReference) {
  constexpr int64_t kTokens = 30, kTop = 3;
  for (Elem e : {Elem::F32, Elem::BF16})
    for (bool plus : {false, true})
      for (int64_t n : {1, 40, 96}) {
        std::string rows = tensorText({480, n}, e), out = tensorText({160, n}, e);
        auto kernel = Kernel::compile("%x: " + rows + ", %r: tensor<160x3xi32>, %w: tensor<160x3xf32>, %p: " + out,
                                      "%o = kernel.empty : " + out + "\n%y = kernel.combine ins(%x, %r, %w : " + rows +
                                          ", tensor<160x3xi32>, tensor<160x3xf32>)" + (plus ? " plus(%p : " + out + ")" : "") + " outs(%o : " + out +
                                          ") site \"s\"");
        ASSERT_TRUE(kernel);
        Array<double> x = randomValues({kTokens * kTop, n}, e, 1), w = randomValues({kTokens, kTop}, Elem::F32, 2), p = randomValues({kTokens, n}, e, 3);
        Ids rowOf({kTokens, kTop});
        for (int64_t i = 0; i < rowOf.size(); ++i)
          rowOf.data[size_t(i)] = int32_t(i * 37 % rowOf.size());
        Array<double> ref = *reference::combine(x, rowOf, w, plus ? p : Array<double>());
        Buffer xb = Buffer::of(x, e), rb = Buffer::of(rowOf.data), wb = Buffer::of(w, Elem::F32), pb = Buffer::of(p, e);
        forEachRun(*kernel, [&](const Code &code, Split split) {
          Buffer y(ref.size() * bytesOf(e));
          Buffers buffers;
          buffers.add(xb).add(rb).add(wb);
          if (plus)
            buffers.add(pb);
          kernel->run(code, buffers.add(y).list, {kTokens}, split);
          expectClose(y, e, ref, code.variant);
        });
      }
}

} // namespace
} // namespace dsv3::codegen::test
