// The device draws the same bytes as the host.
#include "codegen/sm90/simt/DummyFill.h"
#include "runtime/core/DummyFill.h"
#include "test/codegen/sm90/simt/DeviceTest.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace dsv3::codegen::test {
namespace {

class DummyFillTest : public DeviceTest {
protected:
  void SetUp() override {
    module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
    mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(module->getBody());
    auto device = mlir::gpu::GPUModuleOp::create(builder, module->getLoc(), "sm_90a");
    addDummyFill(device);
    kernel = Emulator::create(device, kDummyFill);
    ASSERT_TRUE(kernel);
  }

  void expectSame(const DummyFill &fill) {
    std::vector<uint8_t> want(fill.end() + 64, 0xee), got = want;
    fill.run(0, fill.rows(), want.data());
    std::vector<int64_t> words = fill.words();
    for (bool backwards : {false, true}) {
      std::fill(got.begin(), got.end(), uint8_t(0xee));
      kernel->run(fill.rows(), kDummyFillThreads, 1, {0, int64_t(words.data()), int64_t(got.data())}, backwards);
      ASSERT_EQ(got, want);
    }
  }

  std::unique_ptr<Emulator> kernel;
};

/// Members 2 and 3 of stacked FP8 matrices [rows, 300] in fragment order, without their first 3 columns.
DummyFill fragments() {
  DummyFill f;
  f.kind = DummyFill::Kind::Codes;
  f.elem = DType::F8E4M3;
  f.tensor = "experts.{}.weight", f.scale = "experts.{}.weight_scale_inv";
  f.memberDim = 0, f.memberFirst = 2;
  f.spread = DummyTensor::ofScales(300, false);
  f.dims = {{0, 1, 2, 0, 0}, {0, 1, 21, 1, 0}, {0, 1, 297, 0, 1}};
  f.col = 3, f.cols = 300;
  f.blockRows = 4, f.blockCols = 16;
  f.offset = 48;
  int64_t all = DummyFill::kMostIndex;
  f.terms = {{0, 1, all, 32 * 384}, {1, 16, all, 16 * 384}, {2, 8, all, 128}, {1, 1, 8, 16}, {2, 2, 4, 4}, {1, 8, 2, 2}, {2, 1, 2, 1}};
  return f;
}

TEST_F(DummyFillTest, Codes) { expectSame(fragments()); }

TEST_F(DummyFillTest, Scales) {
  for (bool powersOfTwo : {false, true}) {
    DummyFill f = fragments();
    f.kind = DummyFill::Kind::Scales;
    f.elem = DType::F32;
    f.spread = DummyTensor::ofScales(300, powersOfTwo);
    f.dims[1].step = 4, f.dims[1].count = 6;
    f.terms = {{0, 1, DummyFill::kMostIndex, 6 * 297}, {1, 4, DummyFill::kMostIndex, 297}, {2, 1, DummyFill::kMostIndex, 1}};
    expectSame(f);
  }
}

TEST_F(DummyFillTest, DequantisedAndTransposed) {
  for (DType elem : {DType::F32, DType::BF16}) {
    DummyFill f = fragments();
    f.kind = DummyFill::Kind::Dequantised;
    f.elem = f.stored = elem;
    f.dims = {{0, 1, 2, 0, 0}, {0, 1, 297, 0, 1}, {0, 1, 21, 1, 0}};
    f.terms = {{0, 1, DummyFill::kMostIndex, 297 * 21}, {1, 1, DummyFill::kMostIndex, 21}, {2, 1, DummyFill::kMostIndex, 1}};
    expectSame(f);
  }
}

TEST_F(DummyFillTest, PlainInEveryType) {
  for (DType stored : {DType::F32, DType::BF16})
    for (DType elem : {DType::F32, DType::BF16}) {
      DummyFill f;
      f.tensor = "model.norm.weight";
      f.spread = DummyTensor::ofData(f.tensor, {700});
      f.stored = stored, f.elem = elem;
      f.dims = {{10, 1, 690, 0, 1}};
      f.cols = 700;
      f.terms = {{0, 1, DummyFill::kMostIndex, 1}};
      expectSame(f);
    }
}

/// Rows of a joined weight: the tensor's first row is at index 7, behind 2^32 elements of it.
TEST_F(DummyFillTest, IndicesOf64Bits) {
  DummyFill f;
  f.tensor = "model.embed_tokens.weight";
  f.spread = DummyTensor::ofData(f.tensor, {1 << 20, 7168});
  f.dims = {{7, 1, 3, 1, 0}, {0, 1, 40, 0, 1}};
  f.row = 700000, f.cols = 7168;
  f.terms = {{0, 1, DummyFill::kMostIndex, 40}, {1, 1, DummyFill::kMostIndex, 1}};
  expectSame(f);
  f.row = -7;
  expectSame(f);
}

} // namespace
} // namespace dsv3::codegen::test
