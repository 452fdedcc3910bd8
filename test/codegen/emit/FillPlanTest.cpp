// What is drawn at load must be what packing writes from the same numbers, for every recipe and layout.
#include "codegen/emit/PackWeights.h"
#include "test/runtime/core/TempDir.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dsv3::test {
namespace {

class FillPlan : public ::testing::Test {
protected:
  FillPlan() { context.loadDialect<ir::Dsv3Dialect, kernel::KernelDialect>(); }

  /// Tensors with 4 x 8 blocks, edge blocks partial; experts e.0 to e.4, plain norms and matrices.
  void open(const std::string &text) {
    std::vector<StoredTensor> tensors;
    auto fp8 = [&](const std::string &name, int64_t n, int64_t k) {
      tensors.push_back({name, DType::F8E4M3, {n, k}, {}});
      tensors.push_back({name + "_s", DType::F32, {(n + 3) / 4, (k + 7) / 8}, {}});
    };
    fp8("a", 24, 40);
    fp8("odd", 10, 21);
    for (int e = 0; e < 5; ++e)
      fp8("e." + std::to_string(e), 16, 24);
    tensors.push_back({"x.weight", DType::BF16, {12, 20}, {}});
    tensors.push_back({"norm.weight", DType::BF16, {20}, {}});
    tensors.push_back({"bias", DType::F32, {20}, {}});
    auto drawn = hf::Checkpoint::drawn("dummy", std::move(tensors));
    ASSERT_TRUE(bool(drawn)) << drawn.error().message;
    checkpoint.emplace(std::move(*drawn));
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    ASSERT_TRUE(bool(module));
  }

  /// Packs and draws every kernel.weight of the module.
  void expectSame() {
    WeightData data(*module, &*checkpoint);
    for (auto op : module->getOps<kernel::WeightOp>()) {
      std::string name = op.getSymName().str();
      auto reader = data.open(op.getSource());
      ASSERT_TRUE(bool(reader)) << reader.error().message;
      std::string packed(size_t(op.getBytes()), '\0'), pool(size_t(op.getOffset() + op.getBytes()), '\0');
      Status s = packWeight(**reader, op.getTensorType(), packed.data());
      ASSERT_TRUE(bool(s)) << s.error().message;
      auto fills = planFills(*module, op, *checkpoint);
      ASSERT_TRUE(bool(fills)) << fills.error().message;
      for (const DummyFill &fill : *fills) {
        ASSERT_LE(fill.end(), pool.size()) << name;
        fill.run(0, fill.rows(), reinterpret_cast<uint8_t *>(pool.data()));
      }
      EXPECT_EQ(pool.substr(size_t(op.getOffset())), packed) << name;
      EXPECT_NE(packed, std::string(packed.size(), '\0')) << name;
    }
  }

  std::string refusal() {
    auto fills = planFills(*module, *module->getOps<kernel::WeightOp>().begin(), *checkpoint);
    return fills ? "" : fills.error().message;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<hf::Checkpoint> checkpoint;
};

TEST_F(FillPlan, PlainNormsAndBiases) {
  open(R"(
    dsv3.weight @x : tensor<12x20xbf16> from #dsv3.file<"x.weight">
    dsv3.weight @g : tensor<20xbf16> from #dsv3.file<"norm.weight">
    dsv3.weight @b : tensor<20xf32> from #dsv3.file<"bias">
    kernel.weight @xp at 4096 bytes 768 : tensor<12x20xbf16, #kernel.packed<none, #kernel.layout<"(n, k) -> [n/16, k/4, n%16, k%4] pad n:16 k:8">>> from @x
    kernel.weight @gp at 0 bytes 40 : tensor<20xbf16, #kernel.packed<none, #kernel.layout<"(n) -> [n]">>> from @g
    kernel.weight @bp at 8192 bytes 80 : tensor<20xf32, #kernel.packed<none, #kernel.layout<"(n) -> [n]">>> from @b)");
  expectSame();
}

/// As experts and joined projections are packed for tensor cores and for the CPU.
TEST_F(FillPlan, StacksAndConcatsInBlocks) {
  open(R"(
    #b = #dsv3.blocked<f8E4M3FN, 4x8, f32>
    #e = #dsv3.blocked<f8E4M3FN, 1x4x8, f32>
    #fragments = #kernel.layout<"(n, k) -> [n/16, k/8, n%8, k/2%4, n/8%2, k%2] pad n:16 k:8">
    dsv3.weight @a : tensor<24x40xbf16, #b> from #dsv3.file<"a", scale "a_s">
    dsv3.weight @odd : tensor<10x21xbf16, #b> from #dsv3.file<"odd", scale "odd_s">
    dsv3.weight @e : tensor<3x16x24xbf16, #e> from #dsv3.stack<1 to 4, #dsv3.file<"e.{}", scale "e.{}_s">>
    dsv3.weight @two : tensor<48x40xbf16, #b> from #dsv3.concat<0, [#dsv3.ref<@a>, #dsv3.ref<@a>]>
    kernel.weight @ep at 8192 bytes 1424 : tensor<3x16x24xbf16, #kernel.packed<#e, #fragments, scale = #kernel.layout<"(n, k) -> [n/4, k/8]">>> from @e
    kernel.weight @panels at 0 bytes 704 : tensor<10x21xbf16, #kernel.packed<#b, #kernel.layout<"(n, k) -> [n/16, k/4, n%16, k%4] pad n:16 k:4">, scale = #kernel.layout<"(n, k) -> [n/16, k/8, n%16] pad n:16">>> from @odd
    kernel.weight @twop at 0 bytes 2288 : tensor<48x40xbf16, #kernel.packed<#b, #kernel.layout<"(n, k) -> [n, k]">, scale = #kernel.layout<"(n, k) -> [n/4, k/8]">>> from @two)");
  expectSame();
}

/// As absorb-mla cuts kv_b: heads of [keys | values], one of the halves transposed and dequantised.
TEST_F(FillPlan, SlicesTransposesAndReshapes) {
  open(R"(
    #b = #dsv3.blocked<f8E4M3FN, 4x8, f32>
    #h = #dsv3.blocked<f8E4M3FN, 1x4x8, f32>
    #rows = #kernel.layout<"(n, k) -> [n, k]">
    dsv3.weight @a : tensor<24x40xbf16, #b> from #dsv3.file<"a", scale "a_s">
    dsv3.weight @v : tensor<2x8x40xbf16, #h> from #dsv3.slice<1, 4, 8, #dsv3.reshape<[2, 12, 40], #dsv3.ref<@a>>>
    dsv3.weight @k : tensor<2x40x4xbf16> from #dsv3.transpose<#dsv3.slice<1, 0, 4, #dsv3.reshape<[2, 12, 40], #dsv3.ref<@a>>>>
    dsv3.weight @cut : tensor<24x18xbf16> from #dsv3.slice<1, 3, 18, #dsv3.ref<@a>>
    kernel.weight @vp at 0 bytes 848 : tensor<2x8x40xbf16, #kernel.packed<#h, #rows, scale = #kernel.layout<"(n, k) -> [n/4, k/8]">>> from @v
    kernel.weight @kp at 4096 bytes 640 : tensor<2x40x4xbf16, #kernel.packed<none, #rows>> from @k
    kernel.weight @cutp at 0 bytes 864 : tensor<24x18xbf16, #kernel.packed<none, #rows>> from @cut)");
  expectSame();
}

TEST_F(FillPlan, RefusesWhatIsNoSum) {
  open(R"(
    dsv3.weight @x : tensor<12x20xbf16> from #dsv3.file<"x.weight">
    kernel.weight @xp at 0 bytes 480 : tensor<12x20xbf16, #kernel.packed<none, #kernel.layout<"(n, k) -> [n, k ^ n%4]">>> from @x)");
  EXPECT_THAT(refusal(), ::testing::HasSubstr("expected a layout without xor"));
  open(R"(
    #b = #dsv3.blocked<f8E4M3FN, 4x8, f32>
    dsv3.weight @a : tensor<24x40xbf16, #b> from #dsv3.file<"a", scale "a_s">
    kernel.weight @ap at 0 bytes 1096 : tensor<24x40xbf16, #kernel.packed<#b, #kernel.layout<"(n, k) -> [n, k]">, scale = #kernel.layout<"(n, k) -> [n/4, k/16]">>> from @a)");
  EXPECT_THAT(refusal(), ::testing::HasSubstr("joins elements with different scales"));
}

/// A rope table is no checkpoint tensor: it is stored.
TEST_F(FillPlan, TheFileHoldsWhatIsNotDrawn) {
  open(R"(
    #rope = #dsv3.rope<dims = 4, theta = 10000.0, interleaved = true>
    dsv3.weight @t : tensor<3x4xf32> from #dsv3.rope_table<#rope, 3>
    dsv3.weight @x : tensor<12x20xbf16> from #dsv3.file<"x.weight">
    kernel.weight @xp at 0 bytes 480 : tensor<12x20xbf16, #kernel.packed<none, #kernel.layout<"(n, k) -> [n, k]">>> from @x
    kernel.weight @tp at 4096 bytes 48 : tensor<3x4xf32, #kernel.packed<none, #kernel.layout<"(n, k) -> [n, k]">>> from @t)");
  TempDir dir;
  auto file = writeDrawn(*module, WeightData(*module, &*checkpoint), *checkpoint, dir / "rank-0.bin");
  ASSERT_TRUE(bool(file)) << file.error().message;
  ASSERT_EQ(file->weights.size(), 2u);
  EXPECT_EQ(file->weights[0].fills.size(), 1u);
  EXPECT_EQ(file->weights[0].storedAt, -1);
  EXPECT_TRUE(file->weights[1].fills.empty());
  EXPECT_EQ(file->weights[1].storedAt, 0);
  EXPECT_EQ(file->bytes, 48);
}

} // namespace
} // namespace dsv3::test
