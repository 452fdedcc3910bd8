// Kernels that walk over rows: embed, norms, elementwise, concat, select_rows, rope.
#include "test/codegen/x86/Harness.h"

#include "runtime/reference/Linear.h"
#include "runtime/reference/Norm.h"
#include "runtime/reference/Rope.h"

#include <gtest/gtest.h>

namespace dsv3::codegen::test {
namespace {

constexpr int64_t kRows = 9, kCapacity = 160;
const int64_t kWidths[] = {1, 17, 40, 96, 160};
const Elem kElems[] = {Elem::F32, Elem::BF16};

std::string label(Elem e, int64_t n, const Code &code) { return std::string(name(e)) + " " + std::to_string(n) + " " + code.variant; }

/// One input of a launch and what it holds.
struct Input {
  Array<double> values;
  Elem elem;
};

/// All rows at once, then row 5 alone (`rowInputs` first inputs have rows): equal to the reference, and equal bits.
void check(const Kernel &kernel, const std::vector<Input> &inputs, size_t rowInputs, const std::vector<Input> &refs) {
  forEachRun(kernel, [&](const Code &code, Split split) {
    std::vector<Buffer> all, one;
    for (size_t i = 0; i < inputs.size() + refs.size(); ++i) {
      const Input &in = i < inputs.size() ? inputs[i] : refs[i - inputs.size()];
      bool isOut = i >= inputs.size();
      Array<double> row = firstRows(in.values, isOut || i < rowInputs ? 1 : in.values.dim(0));
      if (i < rowInputs)
        std::copy_n(in.values.data.begin() + 5 * row.size(), row.size(), row.data.begin());
      all.push_back(isOut ? Buffer(in.values.size() * bytesOf(in.elem)) : Buffer::of(in.values, in.elem));
      one.push_back(isOut ? Buffer(row.size() * bytesOf(in.elem)) : Buffer::of(row, in.elem));
    }
    kernel.run(code, Buffers().add(all).list, {kRows}, split);
    kernel.run(code, Buffers().add(one).list, {1}, split);
    for (size_t o = 0; o < refs.size(); ++o) {
      const Buffer &out = all[inputs.size() + o], &alone = one[inputs.size() + o];
      expectClose(out, refs[o].elem, refs[o].values, label(refs[o].elem, refs[o].values.cols(), code));
      EXPECT_EQ(std::memcmp(alone.data(), static_cast<char *>(out.data()) + 5 * alone.size(), size_t(alone.size())), 0) << code.variant;
    }
  });
}

TEST(Norm, MatchesReference) {
  for (int64_t n : kWidths)
    for (Elem e : kElems) {
      std::string t = tensorText({kCapacity, n}, e), g = tensorText({n}, e);
      auto kernel = Kernel::compile("%x: " + t + ", %g: " + g, "%o = kernel.empty : " + t + "\n%r = kernel.norm ins(%x, %g : " + t + ", " + g +
                                                                   ") outs(%o : " + t + ") eps 1.0e-06 site \"s\"");
      ASSERT_TRUE(kernel);
      Array<double> x = randomValues({kRows, n}, e, 1), gamma = randomValues({n}, e, 2);
      check(*kernel, {{x, e}, {gamma, e}}, 1, {{*reference::rmsNorm(x, gamma, 1e-6), e}});
    }
}

TEST(Norm, OfLanesOfEachHead) {
  auto kernel = Kernel::compile("%x: tensor<160x3x70xf32>, %g: tensor<33xf32>",
                                "%v = kernel.view %x at 5 : tensor<160x3x70xf32> -> tensor<160x3x33xf32>\n%o = kernel.empty : tensor<160x3x33xf32>\n"
                                "%r = kernel.norm ins(%v, %g : tensor<160x3x33xf32>, tensor<33xf32>) outs(%o : tensor<160x3x33xf32>) eps 0.5 site \"s\"");
  ASSERT_TRUE(kernel);
  Array<double> x = randomValues({kRows, 3, 70}, Elem::F32, 1), gamma = randomValues({33}, Elem::F32, 2);
  check(*kernel, {{x, Elem::F32}, {gamma, Elem::F32}}, 1, {{*reference::rmsNorm(lanes(x, 5, 33), gamma, 0.5), Elem::F32}});
}

TEST(AddNorm, MatchesReference) {
  for (int64_t n : kWidths)
    for (Elem e : kElems) {
      std::string t = tensorText({kCapacity, n}, e), g = tensorText({n}, e);
      auto kernel = Kernel::compile("%x: " + t + ", %y: " + t + ", %g: " + g,
                                    "%s = kernel.empty : " + t + "\n%o = kernel.empty : " + t + "\n%a, %b = kernel.add_norm ins(%x, %y, %g : " + t +
                                        ", " + t + ", " + g + ") outs(%s, %o : " + t + ", " + t + ") eps 1.0e-06 site \"s\" -> " + t + ", " + t);
      ASSERT_TRUE(kernel);
      Array<double> x = randomValues({kRows, n}, e, 1), y = randomValues({kRows, n}, e, 3), gamma = randomValues({n}, e, 2);
      auto ref = *reference::rmsNorm(x, y, gamma, 1e-6, e == Elem::F32 ? reference::Rounding::F32 : reference::Rounding::BF16);
      check(*kernel, {{x, e}, {y, e}, {gamma, e}}, 2, {{ref.sum, e}, {ref.y, e}});
    }
}

TEST(Elementwise, MatchesReference) {
  for (const char *op : {"add", "swiglu"})
    for (int64_t n : kWidths)
      for (Elem e : kElems) {
        std::string t = tensorText({kCapacity, n}, e);
        auto kernel = Kernel::compile("%x: " + t + ", %y: " + t, "%o = kernel.empty : " + t + "\n%r = kernel." + op + " ins(%x, %y : " + t + ", " + t +
                                                                     ") outs(%o : " + t + ") site \"s\"");
        ASSERT_TRUE(kernel);
        Array<double> x = randomValues({kRows, n}, e, 1, 8), y = randomValues({kRows, n}, e, 3);
        Array<double> ref = op == std::string("add") ? *reference::add(x, y) : *reference::swiglu(x, y);
        check(*kernel, {{x, e}, {y, e}}, 2, {{ref, e}});
      }
}

TEST(Concat, CopiesExactly) {
  for (Elem e : kElems) {
    std::string a = tensorText({kCapacity, 40}, e), b = tensorText({kCapacity, 17}, e), t = tensorText({kCapacity, 57}, e);
    auto kernel = Kernel::compile("%x: " + a + ", %y: " + b, "%o = kernel.empty : " + t + "\n%r = kernel.concat ins(%x, %y : " + a + ", " + b +
                                                                 ") outs(%o : " + t + ") site \"s\"");
    ASSERT_TRUE(kernel);
    Array<double> x = randomValues({kRows, 40}, e, 1), y = randomValues({kRows, 17}, e, 3);
    Array<double> ref = *reference::concat<double>({x, y});
    check(*kernel, {{x, e}, {y, e}}, 2, {{ref, e}});
    for (const Code &code : kernel->codes()) {
      Buffer in = Buffer::of(x, e), in2 = Buffer::of(y, e), out(ref.size() * bytesOf(e));
      kernel->run(code, Buffers().add(in).add(in2).add(out).list, {kRows});
      EXPECT_EQ(out.values(ref.shape, e).data, ref.data) << code.variant;
    }
  }
}

TEST(Embed, CopiesRowsInBothTypes) {
  for (Elem from : kElems)
    for (Elem to : kElems) {
      std::string table = tensorText({50, 41}, from), t = tensorText({kCapacity, 41}, to);
      auto kernel = Kernel::compile("%i: tensor<160xi32>, %t: " + table, "%o = kernel.empty : " + t + "\n%r = kernel.embed ins(%i, %t : tensor<160xi32>, " +
                                                                             table + ") outs(%o : " + t + ") site \"s\"");
      ASSERT_TRUE(kernel);
      Array<double> values = randomValues({50, 41}, from, 1);
      std::vector<int32_t> ids = {49, 0, 7, 7, 12};
      Array<double> ref = rounded(*reference::embed(Ids({5}, ids), values), to);
      Buffer in = Buffer::of(ids), rows = Buffer::of(values, from);
      forEachRun(*kernel, [&](const Code &code, Split split) {
        Buffer out(ref.size() * bytesOf(to));
        kernel->run(code, Buffers().add(in).add(rows).add(out).list, {5}, split);
        EXPECT_EQ(out.values(ref.shape, to).data, ref.data) << code.variant;
      });
    }
}

TEST(SelectRows, CopiesLogitRows) {
  for (Elem e : kElems) {
    std::string x = tensorText({kCapacity, 41}, e), t = tensorText({8, 41}, e);
    auto kernel = Kernel::compile("%x: " + x + ", %s: !dsv3.seq", "%o = kernel.empty : " + t + "\n%r = kernel.select_rows ins(%x, %s : " + x +
                                                                      ") outs(%o : " + t + ") site \"s\"");
    ASSERT_TRUE(kernel);
    Array<double> values = randomValues({kRows, 41}, e, 1);
    std::vector<int32_t> picks = {8, 0, 3};
    Array<double> ref = *reference::selectRows(values, Ids({3}, picks));
    Buffer in = Buffer::of(values, e), rows = Buffer::of(picks);
    forEachRun(*kernel, [&](const Code &code, Split split) {
      Buffer out(ref.size() * bytesOf(e));
      kernel->run(code, Buffers().add(in).add(rows).add(out).list, {kRows, 3}, split);
      EXPECT_EQ(out.values(ref.shape, e).data, ref.data) << code.variant;
    });
  }
}

//===-- Rope --------------------------------------------------------------===//

struct RopeCase {
  Elem elem;
  int64_t heads, last, at, dims;
  bool interleaved, inPlace;
};

class RopeTest : public ::testing::TestWithParam<RopeCase> {};

TEST_P(RopeTest, MatchesReference) {
  RopeCase c = GetParam();
  reference::RopeParams params;
  params.dims = c.dims;
  reference::RopeTable angles = *reference::ropeTable(params);
  Array<double> table({64, c.dims});
  for (int64_t p = 0; p < 64; ++p)
    for (int64_t i = 0; i < c.dims / 2; ++i) {
      table.row(p)[i] = angles.at(p, i).cos;
      table.row(p)[i + c.dims / 2] = angles.at(p, i).sin;
    }
  std::string t = tensorText({kCapacity, c.heads, c.last}, c.elem), tt = tensorText({64, c.dims}, Elem::F32);
  std::string rope = "#dsv3.rope<dims = " + std::to_string(c.dims) + ", theta = 10000.0, interleaved = " + (c.interleaved ? "true" : "false") + ">";
  auto kernel = Kernel::compile("%x: " + t + ", %t: " + tt + ", %s: !dsv3.seq",
                                "%o = kernel.empty : " + t + "\n%r = kernel.rope ins(%x, %t, %s : " + t + ", " + tt + ") outs(" +
                                    (c.inPlace ? "%x" : "%o") + " : " + t + ") at " + std::to_string(c.at) + " " + rope + " site \"s\"");
  ASSERT_TRUE(kernel);
  Array<double> x = randomValues({kRows, c.heads, c.last}, c.elem, 1);
  std::vector<int32_t> positions = {0, 63, 1, 2, 40, 41, 7, 7, 30};
  Array<double> ref = *reference::rope(x, Ids({kRows}, positions), angles, c.at, c.interleaved);
  Buffer tableBuffer = Buffer::of(table, Elem::F32), pos = Buffer::of(positions);
  forEachRun(*kernel, [&](const Code &code, Split split) {
    Buffer in = Buffer::of(x, c.elem), out(ref.size() * bytesOf(c.elem));
    const Buffer &result = c.inPlace ? in : out;
    kernel->run(code, Buffers().add(in).add(tableBuffer).add(pos).add(result).list, {kRows}, split);
    expectClose(result, c.elem, ref, code.variant);
    // Lanes outside the rotation pass as they are.
    Array<double> got = result.values(ref.shape, c.elem);
    EXPECT_EQ(lanes(got, 0, c.at).data, lanes(x, 0, c.at).data);
    int64_t after = c.at + c.dims;
    EXPECT_EQ(lanes(got, after, c.last - after).data, lanes(x, after, c.last - after).data);
  });
}

INSTANTIATE_TEST_SUITE_P(Forms, RopeTest,
                         ::testing::Values(RopeCase{Elem::F32, 3, 80, 48, 32, true, true}, RopeCase{Elem::F32, 3, 85, 48, 32, false, false},
                                           RopeCase{Elem::BF16, 1, 192, 128, 64, true, false}, RopeCase{Elem::BF16, 2, 90, 5, 64, false, true},
                                           RopeCase{Elem::F32, 1, 6, 0, 6, true, false}));

} // namespace
} // namespace dsv3::codegen::test
