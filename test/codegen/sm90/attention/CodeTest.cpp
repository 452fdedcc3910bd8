// Attention of DeepSeek-V3 through ptxas: no spill and no serialised wgmma (emitDevice refuses them), and the shared memory
// of a launch is what the kernel uses.
#include "test/codegen/sm90/attention/Fixture.h"

namespace dsv3::codegen {
namespace {

void expectCode(KernelModule &module, int64_t smem) {
  Result<DeviceCode> code = module.assemble();
  ASSERT_TRUE(bool(code)) << code.error().message;
  ASSERT_EQ(code->kernels.size(), 1u);
  EXPECT_EQ(code->kernels[0].threads, 384);
  EXPECT_EQ(code->kernels[0].dynamicShared, smem);
}

} // namespace

TEST(AttentionCode, Decode) {
  for (int64_t heads : {4, 16, 128}) {
    MlaDecodeShape shape;
    shape.heads = heads, shape.pages = 512, shape.chunks = heads <= 32 ? 2 : 1, shape.scale = kScale;
    KernelModule module([&](TileBuilder &t) { buildMlaDecode(t, "mla_decode", shape); });
    expectCode(module, shape.smemBytes());
  }
}

TEST(AttentionCode, Prefill) {
  for (int64_t heads : {4, 128}) {
    MlaPrefillShape shape;
    shape.heads = heads, shape.seqs = 64, shape.scale = kScale;
    KernelModule module([&](TileBuilder &t) { buildMlaPrefill(t, "mla_prefill", shape); });
    expectCode(module, shape.smemBytes());
  }
}

} // namespace dsv3::codegen
