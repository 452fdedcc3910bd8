// Kernels as the emitters write them must pass the assembler without spills, local memory or serialised wgmma.
#include "codegen/emit/Cubin.h"
#include "codegen/emit/Ptxas.h"
#include "codegen/emit/Report.h"
#include "codegen/sm90/attention/MlaDecode.h"
#include "codegen/sm90/attention/MlaDecodeCodes.h"
#include "codegen/sm90/attention/MlaPrefill.h"
#include "codegen/sm90/lower/TilePasses.h"
#include "test/codegen/sm90/gemm/GemmHarness.h"

#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace dsv3::codegen::test {

/// Lowers and assembles the kernels of a module; prints what they cost.
static void assembleKernels(Operation *module) {
  MLIRContext *context = module->getContext();
  DialectRegistry registry;
  registerDeviceDialects(registry);
  context->appendDialectRegistry(registry);
  context->loadAllAvailableDialects();
  PassManager pm(context, module->getName().getStringRef());
  addTileLowering(pm);
  ASSERT_TRUE(succeeded(pm.run(module)));
  Result<DeviceCode> code = emitDevice(module, {});
  ASSERT_TRUE(bool(code)) << code.error().message;
  ASSERT_EQ(code->kernels.size(), 1u);
  std::vector<KernelReport> reports = reportOf(*code);
  std::cout << toText(reports);
  if (!code->assembler.empty())
    EXPECT_GE(reports[0].blocks, 1) << "no multiprocessor can hold a block";
}

struct Product {
  const char *what, *args, *body, *attributes;
};

class Products : public ::testing::TestWithParam<Product> {};

TEST_P(Products, Assemble) {
  const Product &p = GetParam();
  std::unique_ptr<LaunchKernel> kernel = LaunchKernel::compile(p.args, p.body, p.attributes);
  ASSERT_TRUE(kernel);
  SCOPED_TRACE(kernel->schedule());
  assembleKernels(kernel->kernel()->getParentOp());
}

#define GEMM(T, N, K, W, OUT)                                                                                                                   \
  "%x: tensor<" T "x" K "xbf16>, %w: tensor<" N "x" K "xbf16" W ">",                                                                            \
      "%o = kernel.empty : tensor<" T "x" N "x" OUT ">\n%y = kernel.gemm ins(%x, %w : tensor<" T "x" K "xbf16>, tensor<" N "x" K "xbf16" W      \
      ">) outs(%o : tensor<" T "x" N "x" OUT ">) site \"s\""
#define GATED(T, N, K, W)                                                                                                                       \
  "%x: tensor<" T "x" K "xbf16>, %w: tensor<" N "x" K "xbf16" W ">, %v: tensor<" N "x" K "xbf16" W ">",                                         \
      "%o = kernel.empty : tensor<" T "x" N "xbf16>\n%y = kernel.gated_gemm ins(%x, %w, %v : tensor<" T "x" K "xbf16>, tensor<" N "x" K         \
      "xbf16" W ">, tensor<" N "x" K "xbf16" W ">) outs(%o : tensor<" T "x" N "xbf16>) via f32 site \"s\""
#define HEADS(T, H, N, K, W)                                                                                                                    \
  "%x: tensor<" T "x" H "x" K "xbf16>, %w: tensor<" H "x" N "x" K "xbf16" W ">",                                                                \
      "%o = kernel.empty : tensor<" T "x" H "x" N "xbf16>\n%y = kernel.batched_gemm ins(%x, %w : tensor<" T "x" H "x" K "xbf16>, tensor<" H     \
      "x" N "x" K "xbf16" W ">) outs(%o : tensor<" T "x" H "x" N "xbf16>) site \"s\""
#define STEP(PHASE, T) "phase = \"" PHASE "\", tokens = " T " : i64, seqs = " T " : i64"
#define FP8 ", #dsv3.blocked<f8E4M3FN, 128x128, f32>"

INSTANTIATE_TEST_SUITE_P(
    Sm90, Products,
    ::testing::Values(Product{"prefill", GEMM("4096", "2112", "7168", "", "bf16"), STEP("prefill", "4096")},
                      Product{"prefill_f32", GEMM("200", "264", "320", "", "f32"), STEP("prefill", "200")},
                      Product{"decode_1", GEMM("1", "7168", "2048", "", "bf16"), STEP("decode", "1")},
                      Product{"decode_64", GEMM("64", "7168", "16384", "", "bf16"), STEP("decode", "64")},
                      Product{"decode_256", GEMM("256", "24576", "1536", "", "bf16"), STEP("decode", "256")},
                      Product{"decode_split", GEMM("100", "64", "2048", "", "f32"), STEP("decode", "100")},
                      Product{"gated", GATED("72", "2048", "7168", ""), STEP("decode", "72")},
                      Product{"gated_prefill", GATED("2048", "2048", "7168", ""), STEP("prefill", "2048")},
                      Product{"heads", HEADS("64", "128", "512", "128", ""), STEP("decode", "64")},
                      Product{"fp8_decode_1", GEMM("1", "7168", "2048", FP8, "bf16"), STEP("decode", "1")},
                      Product{"fp8_decode_128", GEMM("128", "7168", "2048", FP8, "bf16"), STEP("decode", "128")},
                      Product{"fp8_prefill", GEMM("4096", "2112", "7168", FP8, "bf16"), STEP("prefill", "4096")},
                      Product{"fp8_gated", GATED("64", "2048", "7168", FP8), STEP("decode", "64")},
                      Product{"fp8_heads", HEADS("12", "2", "72", "200", FP8), STEP("decode", "12")}),
    [](const ::testing::TestParamInfo<Product> &info) { return std::string(info.param.what); });

/// A module with one attention kernel.
struct Attention {
  MLIRContext context;
  OwningOpRef<ModuleOp> module;

  explicit Attention(llvm::function_ref<void(TileBuilder &)> build) {
    DialectRegistry registry; // helper functions of a kernel are inlined
    func::registerInlinerExtension(registry);
    context.appendDialectRegistry(registry);
    context.loadDialect<arith::ArithDialect, math::MathDialect, scf::SCFDialect, LLVM::LLVMDialect, tile::TileDialect, func::FuncDialect>();
    OpBuilder builder(&context);
    module = ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToEnd(module->getBody());
    TileBuilder tiles(builder, builder.getUnknownLoc());
    build(tiles);
  }
};

TEST(AttentionKernels, Decode) {
  for (int64_t heads : {16, 128})
    for (int64_t chunks : {1, 2}) {
      SCOPED_TRACE(std::to_string(heads) + " heads, chunks " + std::to_string(chunks));
      MlaDecodeShape shape;
      shape.heads = heads, shape.pages = 64, shape.chunks = chunks, shape.scale = 0.135;
      Attention kernel([&](TileBuilder &t) { buildMlaDecode(t, "mla_decode", shape); });
      assembleKernels(*kernel.module);
    }
}

TEST(AttentionKernels, DecodeOfCodes) {
  for (int64_t heads : {4, 16, 72, 128})
    for (bool e5m2 : {false, true}) {
      SCOPED_TRACE(std::to_string(heads) + " heads");
      MlaDecodeCodesShape shape;
      shape.heads = heads, shape.pages = 64, shape.scale = 0.135;
      Attention kernel([&](TileBuilder &t) {
        MLIRContext *ctx = t.b.getContext();
        shape.codes = e5m2 ? Type(Float8E5M2Type::get(ctx)) : Type(Float8E4M3FNType::get(ctx));
        buildMlaDecodeCodes(t, "mla_decode", shape);
      });
      assembleKernels(*kernel.module);
    }
}

TEST(AttentionKernels, Prefill) {
  MlaPrefillShape shape;
  shape.heads = 128, shape.seqs = 8, shape.scale = 0.135;
  Attention kernel([&](TileBuilder &t) { buildMlaPrefill(t, "mla_prefill", shape); });
  assembleKernels(*kernel.module);
}

} // namespace dsv3::codegen::test
