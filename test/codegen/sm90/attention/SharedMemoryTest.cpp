// The shared memory that a launch asks for is what the kernel's buffers and barriers take.
#include "codegen/sm90/attention/MlaDecodeCodes.h"
#include "test/codegen/sm90/attention/Fixture.h"

namespace dsv3::codegen {

TEST(AttentionSharedMemory, Decode) {
  for (int64_t chunks : {1, 2}) {
    MlaDecodeShape shape;
    shape.heads = 16, shape.pages = 512, shape.chunks = chunks, shape.scale = kScale;
    KernelModule module([&](TileBuilder &t) { buildMlaDecode(t, "mla_decode", shape); });
    EXPECT_EQ(module.allocate(), shape.smemBytes()) << chunks;
  }
}

TEST(AttentionSharedMemory, DecodeOfCodes) {
  MlaDecodeCodesShape shape;
  shape.heads = 16, shape.pages = 512, shape.scale = kScale;
  KernelModule module([&](TileBuilder &t) {
    shape.codes = mlir::Float8E4M3FNType::get(t.b.getContext());
    buildMlaDecodeCodes(t, "mla_decode", shape);
  });
  EXPECT_EQ(module.allocate(), shape.smemBytes());
}

TEST(AttentionSharedMemory, Prefill) {
  for (auto [lanes, values] : {std::pair<int64_t, int64_t>{192, 128}, {128, 128}, {64, 64}}) {
    MlaPrefillShape shape;
    shape.heads = 2, shape.lanes = lanes, shape.values = values, shape.seqs = 64, shape.scale = kScale;
    KernelModule module([&](TileBuilder &t) { buildMlaPrefill(t, "mla_prefill", shape); });
    EXPECT_EQ(module.allocate(), shape.smemBytes()) << lanes << " " << values;
  }
}

} // namespace dsv3::codegen
