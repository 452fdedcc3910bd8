// Thread-level kernels at the sizes of DeepSeek-V3: what ptxas says of them, and what their text must have. Their values
// are tested where the x86 kernels' are, by emulation.
#include "test/codegen/sm90/simt/DeviceTest.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace dsv3::codegen {
namespace {

struct Case {
  std::string name, args, body;
  std::string in = "";     ///< a vector access that the text must have
  int64_t registers = 64;  ///< at most
};
void PrintTo(const Case &c, std::ostream *os) { *os << c.name; }

class SimtKernels : public test::DeviceTest, public ::testing::WithParamInterface<Case> {
protected:
  void bind(kernel::KernelOp op) {
    emitter = sm90Registry().lookup(op);
    EXPECT_EQ(emitter->whyIllegal(op), "");
    op->setAttr("numerics", emitter->numerics(op));
    op->setAttr("schedule", emitter->schedule(op));
  }

  Result<DeviceCode> assemble(kernel::KernelOp op) {
    OpBuilder b(&context);
    OwningOpRef<ModuleOp> outer = ModuleOp::create(b.getUnknownLoc());
    b.setInsertionPointToEnd(outer->getBody());
    auto device = gpu::GPUModuleOp::create(b, b.getUnknownLoc(), "sm_90a");
    b.setInsertionPointToEnd(device.getBody());
    EXPECT_TRUE(succeeded(emitter->asDevice()->emit(op, "k", b)));
    EXPECT_TRUE(succeeded(verify(*outer)));
    return emitDevice(device, {});
  }

  const KernelEmitter *emitter = nullptr;
};

TEST_P(SimtKernels, AssembleWithoutSpills) {
  const Case &c = GetParam();
  kernel::KernelOp op = parse(c.args, c.body);
  ASSERT_TRUE(op);
  bind(op);
  Result<DeviceCode> code = assemble(op);
  ASSERT_TRUE(bool(code)) << code.error().message;
  ASSERT_EQ(code->kernels.size(), 1u);
  const DeviceKernel &kernel = code->kernels[0];
  DeviceLaunch launch = emitter->asDevice()->launch(op);
  EXPECT_EQ(kernel.threads, launch.threads);
  EXPECT_TRUE(StringRef(kernel.ptx).contains(c.in)) << "expected " << c.in << " in the text of " << c.name;
  // A product and a sum that ptxas may join would change bits from one assembler to the next.
  EXPECT_FALSE(StringRef(kernel.ptx).contains("\tadd.f32"));
  EXPECT_FALSE(StringRef(kernel.ptx).contains("\tmul.f32"));
  EXPECT_FALSE(StringRef(kernel.ptx).contains(".local"));
  if (const char *keep = std::getenv("DSV3_KEEP_KERNELS")) { // for a look at the text
    std::error_code error;
    llvm::raw_fd_ostream(std::string(keep) + "/" + c.name + ".ptx", error) << kernel.ptx;
  }
  if (code->assembler.empty())
    GTEST_SKIP() << "no ptxas";
  ASSERT_TRUE(kernel.resources.has_value());
  EXPECT_EQ(kernel.resources->stack, 0); // spills are an error of emitDevice
  EXPECT_LE(kernel.resources->registers, c.registers);
  EXPECT_LE(kernel.resources->staticShared, 48 * 1024);
  RecordProperty("registers", int(kernel.resources->registers));
  std::printf("%-24s grid %6lld x %4lld, %3lld registers, %5lld bytes shared\n", c.name.c_str(), (long long)launch.grid[0],
              (long long)launch.threads, (long long)kernel.resources->registers, (long long)kernel.resources->staticShared);
}

std::string rope(const char *attributes = "") { return std::string("#dsv3.rope<dims = 64, theta = 10000.0, interleaved = true") + attributes + ">"; }

std::string plan(int64_t max, int64_t pages, int64_t items) {
  std::string types = "tensor<" + std::to_string(items) + "x5xi32>, tensor<133xi32>, tensor<129xi32>";
  return "%i = kernel.empty : tensor<" + std::to_string(items) + "x5xi32>\n%p = kernel.empty : tensor<133xi32>\n%q = kernel.empty : tensor<129xi32>\n"
         "%a, %b, %c = kernel.attn_plan ins(%s) outs(%i, %p, %q : " + types + ") split <max = " + std::to_string(max) + ", pages = " +
         std::to_string(pages) + "> site \"s\" -> " + types;
}

const char kTake8[] = "ld.global.nc.v4.b32";

std::vector<Case> cases() {
  std::string x = "tensor<128x7168xbf16>", two = x + ", " + x;
  std::string scheme = ", #dsv3.blocked<f8E4M3FN, 1x128, f32>>", fp8 = "tensor<128x7168xbf16" + scheme, routed = "tensor<1024x7168xbf16" + scheme;
  std::string kv = "!dsv3.kv<layers = 62, page = 64, latent = 512, rope = 64, bf16>";
  return {
      {"embed", "%i: tensor<128xi32>, %t: tensor<129280x7168xbf16>",
       "%o = kernel.empty : " + x + "\n%r = kernel.embed ins(%i, %t : tensor<128xi32>, tensor<129280x7168xbf16>) outs(%o : " + x + ") site \"s\"", kTake8},
      {"norm", "%x: " + x + ", %g: tensor<7168xbf16>",
       "%o = kernel.empty : " + x + "\n%r = kernel.norm ins(%x, %g : " + x + ", tensor<7168xbf16>) outs(%o : " + x + ") eps 1.0e-06 site \"s\"", kTake8},
      {"add_norm", "%x: " + x + ", %y: " + x + ", %g: tensor<7168xbf16>",
       "%s = kernel.empty : " + x + "\n%o = kernel.empty : " + x + "\n%a, %b = kernel.add_norm ins(%x, %y, %g : " + two +
           ", tensor<7168xbf16>) outs(%s, %o : " + two + ") eps 1.0e-06 site \"s\" -> " + two, kTake8},
      {"add", "%x: " + x + ", %y: " + x, "%o = kernel.empty : " + x + "\n%r = kernel.add ins(%x, %y : " + two + ") outs(%o : " + x + ") site \"s\"", kTake8},
      {"swiglu", "%x: " + x + ", %y: " + x, "%o = kernel.empty : " + x + "\n%r = kernel.swiglu ins(%x, %y : " + two + ") outs(%o : " + x + ") site \"s\"", kTake8},
      {"concat", "%x: " + x + ", %y: " + x,
       "%o = kernel.empty : tensor<128x14336xbf16>\n%r = kernel.concat ins(%x, %y : " + two + ") outs(%o : tensor<128x14336xbf16>) site \"s\"", kTake8},
      {"gather", "%x: " + x + ", %t: tensor<1024xi32>",
       "%o = kernel.empty : tensor<1024x7168xbf16>\n%r = kernel.gather ins(%x, %t : " + x + ", tensor<1024xi32>) outs(%o : tensor<1024x7168xbf16>) site \"s\"", kTake8},
      {"select_rows", "%x: " + x + ", %s: !dsv3.seq",
       "%o = kernel.empty : tensor<8x7168xbf16>\n%r = kernel.select_rows ins(%x, %s : " + x + ") outs(%o : tensor<8x7168xbf16>) site \"s\"", kTake8},
      {"rope_in_place", "%x: tensor<128x128x192xbf16>, %t: tensor<4096x64xf32>, %s: !dsv3.seq",
       "%r = kernel.rope ins(%x, %t, %s : tensor<128x128x192xbf16>, tensor<4096x64xf32>) outs(%x : tensor<128x128x192xbf16>) at 128 " + rope() + " site \"s\"", "ld.global.v4.b32"},
      {"kv_append", "%x: tensor<128x2112xbf16>, %g: tensor<512xbf16>, %t: tensor<4096x64xf32>, %s: !dsv3.seq, %kv: " + kv,
       "%v = kernel.view %x at 1536 : tensor<128x2112xbf16> -> tensor<128x576xbf16>\n%r = kernel.kv_append ins(%v, %g, %t, %s : tensor<128x576xbf16>, "
       "tensor<512xbf16>, tensor<4096x64xf32>) outs(%kv[3] : " + kv + ") eps 1.0e-06 " + rope() + " site \"s\"", kTake8},
      {"route", "%l: tensor<128x256xf32>, %b: tensor<256xf32>",
       "%i = kernel.empty : tensor<128x8xi32>\n%w = kernel.empty : tensor<128x8xf32>\n%r, %q = kernel.route ins(%l, %b : tensor<128x256xf32>, tensor<256xf32>) "
       "outs(%i, %w : tensor<128x8xi32>, tensor<128x8xf32>) groups 8 keep 4 top 8 norm true scale 2.5 site \"s\" -> tensor<128x8xi32>, tensor<128x8xf32>", "match.any.sync"},
      {"dispatch", "%i: tensor<128x8xi32>",
       "%f = kernel.empty : tensor<257xi32>\n%t = kernel.empty : tensor<1024xi32>\n%r = kernel.empty : tensor<128x8xi32>\n"
       "%a, %b, %c = kernel.dispatch ins(%i : tensor<128x8xi32>) outs(%f, %t, %r : tensor<257xi32>, tensor<1024xi32>, tensor<128x8xi32>) site \"s\" -> "
       "tensor<257xi32>, tensor<1024xi32>, tensor<128x8xi32>", "match.any.sync"},
      {"combine", "%x: tensor<1024x7168xbf16>, %r: tensor<128x8xi32>, %w: tensor<128x8xf32>, %p: " + x,
       "%o = kernel.empty : " + x + "\n%y = kernel.combine ins(%x, %r, %w : tensor<1024x7168xbf16>, tensor<128x8xi32>, tensor<128x8xf32>) plus(%p : " + x +
           ") outs(%o : " + x + ") site \"s\"", kTake8, 96},
      {"quantize", "%x: " + x, "%o = kernel.empty : " + fp8 + "\n%r = kernel.quantize ins(%x : " + x + ") outs(%o : " + fp8 + ") site \"s\"", kTake8},
      {"gather_quantized", "%x: " + fp8 + ", %t: tensor<1024xi32>",
       "%o = kernel.empty : " + routed + "\n%r = kernel.gather ins(%x, %t : " + fp8 + ", tensor<1024xi32>) outs(%o : " + routed + ") site \"s\"", kTake8},
      {"sample", "%x: tensor<128x129280xf32>, %s: !dsv3.seq",
       "%o = kernel.empty : tensor<128x8xi32>\n%r = kernel.sample ins(%x, %s : tensor<128x129280xf32>) outs(%o : tensor<128x8xi32>) site \"s\"", kTake8},
      {"sample_few_rows", "%x: tensor<8x129280xf32>, %s: !dsv3.seq",
       "%o = kernel.empty : tensor<8x8xi32>\n%r = kernel.sample ins(%x, %s : tensor<8x129280xf32>) outs(%o : tensor<8x8xi32>) site \"s\"", "barrier.cluster.wait.aligned"},
      {"attn_plan_by_length", "%s: !dsv3.seq", plan(8, 8, 1024), "shfl.sync.up"},
      {"attn_plan_evenly", "%s: !dsv3.seq", plan(0, 4, 260), "shfl.sync.up"},
      {"attn_combine", "%p: tensor<1024x128x512xf32>, %l: tensor<1024x128xf32>, %q: tensor<129xi32>, %s: !dsv3.seq, %o: tensor<128x128x512xbf16>",
       "%r = kernel.attn_combine ins(%p, %l, %q, %s : tensor<1024x128x512xf32>, tensor<1024x128xf32>, tensor<129xi32>) "
       "outs(%o : tensor<128x128x512xbf16>) site \"s\"", "ld.global.nc.v4.b32"},
  };
}

INSTANTIATE_TEST_SUITE_P(DeepSeekV3, SimtKernels, ::testing::ValuesIn(cases()), [](const auto &info) { return info.param.name; });

} // namespace
} // namespace dsv3::codegen
