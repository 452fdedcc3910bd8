// Rows in int8 and FP8: the reference's codes and scales, byte by byte.
#include "test/codegen/x86/Codes.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dsv3::codegen::test {
namespace {

using reference::QuantStorage;

constexpr int64_t kCapacity = 160, kRows = 9;

/// The rows of `q` and nothing else have been written, the same in every variant and partition.
void expectRows(const Kernel &kernel, const Buffer &in, const QuantizedRows &q, int64_t rows, const std::string &what) {
  Buffer want = bufferOf(q, kCapacity);
  forEachRun(kernel, [&](const Code &code, Split split) {
    Buffer out(want.size());
    kernel.run(code, {&in, &out}, {rows}, split);
    EXPECT_EQ(std::memcmp(out.data(), want.data(), size_t(want.size())), 0) << what << " " << code.variant;
  });
}

struct QuantCase {
  QuantStorage storage;
  int64_t width, group;
  Elem elem;
  bool pow2 = false;
};

class QuantizeTest : public ::testing::TestWithParam<QuantCase> {};

TEST_P(QuantizeTest, GivesTheReferencesBytes) {
  QuantCase c = GetParam();
  std::string x = tensorText({kCapacity, c.width}, c.elem), q = codesText({kCapacity, c.width}, c.elem, c.storage, c.group, c.pow2);
  // The GPU target has a test of its own for these bytes.
  auto kernel = Kernel::compile("%x: " + x, "%o = kernel.empty : " + q + "\n%r = kernel.quantize ins(%x : " + x + ") outs(%o : " + q + ") site \"s\"", false);
  ASSERT_TRUE(kernel);
  Array<double> values = randomValues({kRows, c.width}, c.elem, 1, 30);
  for (int64_t i = 0; i < c.width; ++i) {
    values.row(1)[i] = 0;     // no scale
    values.row(4)[i] *= 1024; // beside rows that are small: a scale is of its own row
  }
  values.row(2)[c.width - 1] = 65536; // an outlier: its neighbours become small codes, subnormal ones too
  values.row(3)[0] = 0x1p-100;
  expectRows(*kernel, Buffer::of(values, c.elem), quantized(values, c.storage, c.group, c.pow2), kRows, q);
}

INSTANTIATE_TEST_SUITE_P(Schemes, QuantizeTest,
                         ::testing::Values(QuantCase{QuantStorage::I8, 512, 0, Elem::BF16}, QuantCase{QuantStorage::I8, 1, 0, Elem::F32},
                                           QuantCase{QuantStorage::I8, 77, 0, Elem::F32}, QuantCase{QuantStorage::I8, 384, 128, Elem::BF16},
                                           QuantCase{QuantStorage::I8, 215, 128, Elem::F32}, QuantCase{QuantStorage::F8E4M3, 384, 128, Elem::BF16},
                                           QuantCase{QuantStorage::F8E4M3, 77, 0, Elem::F32}, QuantCase{QuantStorage::F8E4M3, 256, 128, Elem::BF16, true}));

/// Scales that are subnormal or underflow, numbers near the end of float32, halves between codes, and both zeros.
TEST(Quantize, EveryMagnitude) {
  constexpr int64_t kMagnitudes = 140, kWidth = 128;
  for (QuantStorage storage : {QuantStorage::I8, QuantStorage::F8E4M3})
    for (bool pow2 : {false, true}) {
      std::string x = tensorText({kCapacity, kWidth}, Elem::F32), q = codesText({kCapacity, kWidth}, Elem::F32, storage, 128, pow2);
      auto kernel = Kernel::compile("%x: " + x, "%o = kernel.empty : " + q + "\n%r = kernel.quantize ins(%x : " + x + ") outs(%o : " + q + ") site \"s\"", false);
      ASSERT_TRUE(kernel);
      Array<double> values = randomValues({kMagnitudes, kWidth}, Elem::F32, 4);
      for (int64_t r = 0; r < kMagnitudes; ++r)
        for (int64_t i = 0; i < kWidth; ++i)
          values.row(r)[i] = double(float(std::ldexp(values.row(r)[i], int(2 * r) - 160 - int(i % 5))));
      for (int64_t i = 0; i < kWidth; ++i) // scale 1: integers and halves
        values.row(100)[i] = i ? double(i - 64) * 0.5 : storage == QuantStorage::I8 ? 127 : 448;
      values.row(1)[0] = -0.0;
      expectRows(*kernel, Buffer::of(values, Elem::F32), quantized(values, storage, 128, pow2), kMagnitudes, q);
    }
}

/// A scale for each head of a token, and one for all of its heads.
TEST(Quantize, RowsOfHeads) {
  for (bool all : {false, true}) {
    std::string x = tensorText({kCapacity, 3, 40}, Elem::BF16);
    std::string q = x.substr(0, x.size() - 1) + ", #dsv3.blocked<i8, " + (all ? "1x?x?" : "1x?") + ", f32>>";
    auto kernel = Kernel::compile("%x: " + x, "%o = kernel.empty : " + q + "\n%r = kernel.quantize ins(%x : " + x + ") outs(%o : " + q + ") site \"s\"", false);
    ASSERT_TRUE(kernel);
    Array<double> values = randomValues({kRows, 120}, Elem::BF16, 1);
    expectRows(*kernel, Buffer::of(values, Elem::BF16), quantized(values, QuantStorage::I8, all ? 0 : 40), kRows, q);
  }
}

//===-- Where rows are made -----------------------------------------------===//

/// Launches that make rows and quantise them store what the plain launch's rows are quantised to, byte for byte.
class FusedQuantize : public ::testing::TestWithParam<QuantCase> {
protected:
  /// `plain` and `fused` have the same inputs; destinations before the last are bf16 rows, and the plain launch's last is too.
  /// `both`: the fused launch has the plain last destination in front of the codes.
  void check(const std::string &args, const std::string &plain, const std::string &fused, const std::vector<Buffer> &inputs, size_t before, bool both) {
    QuantCase c = GetParam();
    auto one = Kernel::compile(args, plain), other = Kernel::compile(args, fused, false);
    ASSERT_TRUE(one && other);
    for (const Code &code : other->codes()) {
      const Code *same = nullptr;
      for (const Code &candidate : one->codes())
        if (candidate.variant == code.variant)
          same = &candidate;
      ASSERT_TRUE(same);
      std::vector<Buffer> rows, again;
      for (size_t i = 0; i <= before; ++i) {
        rows.emplace_back(kRows * c.width * 2);
        again.emplace_back(kRows * c.width * 2);
      }
      one->run(*same, Buffers().add(inputs).add(rows).list, {kRows});
      Buffer want = bufferOf(quantized(rows[before].values({kRows, c.width}, Elem::BF16), c.storage, c.group, c.pow2), kCapacity), got(want.size());
      if (!both)
        again.pop_back();
      other->run(code, Buffers().add(inputs).add(again).add(got).list, {kRows});
      EXPECT_EQ(std::memcmp(got.data(), want.data(), size_t(want.size())), 0) << code.variant;
      for (size_t i = 0; i < again.size(); ++i)
        expectSameBits(again[i], rows[i], code.variant + " plain destination");
    }
  }
};

TEST_P(FusedQuantize, NormsAndActivations) {
  QuantCase c = GetParam();
  std::string t = tensorText({kCapacity, c.width}, Elem::BF16), g = tensorText({c.width}, Elem::BF16);
  std::string q = codesText({kCapacity, c.width}, Elem::BF16, c.storage, c.group, c.pow2);
  std::string empty = "%o = kernel.empty : " + t + "\n%p = kernel.empty : " + t + "\n%q = kernel.empty : " + q + "\n";
  Buffer x = Buffer::of(randomValues({kRows, c.width}, Elem::BF16, 1), Elem::BF16), y = Buffer::of(randomValues({kRows, c.width}, Elem::BF16, 2), Elem::BF16);
  Buffer gamma = Buffer::of(randomValues({c.width}, Elem::BF16, 3), Elem::BF16);

  std::string norm = "%r = kernel.norm ins(%x, %g : " + t + ", " + g + ") outs(", tail = ") eps 1.0e-06 site \"s\"";
  check("%x: " + t + ", %g: " + g, empty + norm + "%o : " + t + tail, empty + norm + "%q : " + q + tail, {x, gamma}, 0, false);

  std::string ins = " ins(%x, %y, %g : " + t + ", " + t + ", " + g + ") outs(%o, ", args = "%x: " + t + ", %y: " + t + ", %g: " + g;
  std::string plain = empty + "%r:2 = kernel.add_norm" + ins + "%p : " + t + ", " + t + tail + " -> " + t + ", " + t;
  check(args, plain, empty + "%r:2 = kernel.add_norm" + ins + "%q : " + t + ", " + q + tail + " -> " + t + ", " + q, {x, y, gamma}, 1, false);
  check(args, plain, empty + "%r:3 = kernel.add_norm_quantize" + ins + "%p, %q : " + t + ", " + t + ", " + q + tail + " -> " + t + ", " + t + ", " + q,
        {x, y, gamma}, 1, true);

  std::string act = "%r = kernel.swiglu ins(%x, %y : " + t + ", " + t + ") outs(";
  check("%x: " + t + ", %y: " + t, empty + act + "%o : " + t + ") site \"s\"", empty + act + "%q : " + q + ") site \"s\"", {x, y}, 0, false);
}

INSTANTIATE_TEST_SUITE_P(Schemes, FusedQuantize,
                         ::testing::Values(QuantCase{QuantStorage::I8, 256, 0, Elem::BF16}, QuantCase{QuantStorage::I8, 200, 128, Elem::BF16},
                                           QuantCase{QuantStorage::F8E4M3, 384, 128, Elem::BF16}));

} // namespace
} // namespace dsv3::codegen::test
