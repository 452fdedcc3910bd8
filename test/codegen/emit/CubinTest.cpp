// Device code: PTX, and what ptxas must say for a compilation to pass.
#include "codegen/emit/Cubin.h"
#include "codegen/emit/Ptxas.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using ::testing::HasSubstr;
using ::testing::Not;

namespace dsv3::codegen {

class Cubins : public ::testing::Test {
protected:
  Cubins() {
    mlir::DialectRegistry registry;
    registerDeviceDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  Result<DeviceCode> compile(const std::string &functions, DeviceOptions options = {}) {
    module = mlir::parseSourceString<mlir::ModuleOp>("gpu.module @sm_90a {\n" + functions + "\n}", &context);
    EXPECT_TRUE(bool(module));
    mlir::Operation *device = *module->getOps<mlir::gpu::GPUModuleOp>().begin();
    return emitDevice(device, options);
  }

  bool assembles() {
    Result<std::optional<Assembler>> found = findAssembler("");
    return found && *found;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// out[tid] = body(in[tid]) on f32.
static std::string pointwise(const std::string &name, const std::string &body, const std::string &attributes = "") {
  return "llvm.func @" + name + R"((%in: !llvm.ptr<1>, %out: !llvm.ptr<1>) attributes {nvvm.kernel, nvvm.reqntid = array<i32: 128, 1, 1>)" +
         attributes + R"(} {
    %t = nvvm.read.ptx.sreg.tid.x : i32
    %p = llvm.getelementptr %in[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %q = llvm.getelementptr %out[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %x = llvm.load %p : !llvm.ptr<1> -> f32
    )" + body + R"(
    llvm.store %y, %q : f32, !llvm.ptr<1>
    llvm.return
  })";
}

TEST_F(Cubins, KernelsHaveCodeAndResources) {
  Result<DeviceCode> code = compile(pointwise("twice", "%y = arith.addf %x, %x : f32", ", dsv3.smem = 1024 : i64") +
                                    pointwise("square", "%y = llvm.call @helper(%x) : (f32) -> f32") + R"(
    llvm.func @helper(%x: f32) -> f32 {
      %y = arith.mulf %x, %x : f32
      llvm.return %y : f32
    })");
  ASSERT_TRUE(bool(code)) << code.error().message;
  ASSERT_EQ(code->kernels.size(), 2u);
  EXPECT_EQ(code->kernels[0].symbol, "twice");
  EXPECT_EQ(code->kernels[0].threads, 128);
  EXPECT_EQ(code->kernels[0].dynamicShared, 1024);
  EXPECT_THAT(code->kernels[0].ptx, HasSubstr(".target sm_90a"));
  EXPECT_THAT(code->kernels[0].ptx, Not(HasSubstr("square")));
  EXPECT_THAT(code->kernels[1].ptx, Not(HasSubstr("call"))) << "helpers are inlined";
  if (!assembles())
    GTEST_SKIP() << "no ptxas";
  EXPECT_THAT(code->assembler, HasSubstr("ptxas 1"));
  for (const DeviceKernel &kernel : code->kernels) {
    EXPECT_EQ(kernel.cubin.substr(0, 4), "\177ELF");
    ASSERT_TRUE(kernel.resources.has_value());
    EXPECT_GT(kernel.resources->registers, 4);
    EXPECT_EQ(kernel.resources->spillStores, 0);
  }
}

TEST_F(Cubins, BytesDoNotDependOnJobs) {
  std::string text = pointwise("a", "%y = arith.addf %x, %x : f32") + pointwise("b", "%y = arith.mulf %x, %x : f32");
  DeviceOptions two;
  two.jobs = 2;
  Result<DeviceCode> first = compile(text), second = compile(text, two);
  ASSERT_TRUE(first && second);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(first->kernels[i].ptx, second->kernels[i].ptx);
    EXPECT_EQ(first->kernels[i].cubin, second->kernels[i].cubin);
  }
}

TEST_F(Cubins, ApproximationsAreInstructions) {
  Result<DeviceCode> code = compile(pointwise("k", R"(
    %a = math.exp2 %x fastmath<afn> : f32
    %b = math.log2 %a fastmath<afn> : f32
    %c = math.rsqrt %b fastmath<afn> : f32
    %d = math.exp %c fastmath<afn> : f32
    %v = vector.from_elements %c, %d : vector<2xf32>
    %w = math.exp2 %v fastmath<afn> : vector<2xf32>
    %y = vector.reduction <add>, %w : vector<2xf32> into f32)"));
  ASSERT_TRUE(bool(code)) << code.error().message;
  for (const char *instruction : {"ex2.approx.ftz.f32", "lg2.approx.ftz.f32", "rsqrt.approx.ftz.f32"})
    EXPECT_THAT(code->kernels[0].ptx, HasSubstr(instruction));
}

TEST_F(Cubins, NoFusingThatTheKernelDidNotAskFor) {
  Result<DeviceCode> code = compile(pointwise("k", "%m = arith.mulf %x, %x : f32\n%y = arith.addf %m, %x : f32"));
  ASSERT_TRUE(bool(code)) << code.error().message;
  EXPECT_THAT(code->kernels[0].ptx, HasSubstr("add.rn.f32"));
  EXPECT_THAT(code->kernels[0].ptx, Not(HasSubstr("fma")));
}

TEST_F(Cubins, F8IsTheHardwaresConversion) {
  Result<DeviceCode> code = compile(pointwise("k", R"(
    %n = arith.truncf %x : f32 to f8E4M3FN
    %z = arith.extf %n : f8E4M3FN to f32
    %v = vector.from_elements %x, %z, %x, %z : vector<4xf32>
    %nv = arith.truncf %v : vector<4xf32> to vector<4xf8E4M3FN>
    %zv = arith.extf %nv : vector<4xf8E4M3FN> to vector<4xbf16>
    %b = vector.extract %zv[3] : bf16 from vector<4xbf16>
    %y = arith.extf %b : bf16 to f32)"));
  ASSERT_TRUE(bool(code)) << code.error().message;
  EXPECT_THAT(code->kernels[0].ptx, HasSubstr("cvt.rn.satfinite.e4m3x2.f32"));
  EXPECT_THAT(code->kernels[0].ptx, HasSubstr("cvt.rn.f16x2.e4m3x2"));
}

TEST_F(Cubins, LibraryCallsAreRefusedByName) {
  Result<DeviceCode> exact = compile(pointwise("k", "%y = math.exp2 %x : f32"));
  ASSERT_FALSE(bool(exact));
  EXPECT_THAT(exact.error().message, HasSubstr("kernel k: math.exp2 to f32 is no instruction of the device"));
  Result<DeviceCode> foreign = compile("llvm.func @__nv_tanhf(f32) -> f32\n" + pointwise("k", "%y = llvm.call @__nv_tanhf(%x) : (f32) -> f32"));
  ASSERT_FALSE(bool(foreign));
  EXPECT_THAT(foreign.error().message, HasSubstr("kernel k calls '__nv_tanhf'"));
}

/// 64 values live at once; 24 registers.
static std::string manyLive() {
  std::string body;
  for (int i = 0; i < 64; ++i)
    body += "%p" + std::to_string(i) + " = llvm.getelementptr %p[" + std::to_string(i) + "] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32\n%x" +
            std::to_string(i) + " = llvm.load volatile %p" + std::to_string(i) + " : !llvm.ptr<1> -> f32\n";
  // A product that starts with a value from behind the barrier keeps all of them alive across it.
  body += "nvvm.barrier\n%late = llvm.load volatile %p : !llvm.ptr<1> -> f32\n";
  std::string sum = "%late";
  for (int i = 0; i < 64; ++i) {
    body += "%s" + std::to_string(i) + " = arith.mulf " + sum + ", %x" + std::to_string(i) + " : f32\n";
    sum = "%s" + std::to_string(i);
  }
  return pointwise("greedy", body + "%y = arith.addf " + sum + ", %x : f32", ", nvvm.maxnreg = 24 : i32");
}

TEST_F(Cubins, SpillsFailTheCompilation) {
  if (!assembles())
    GTEST_SKIP() << "no ptxas";
  Result<DeviceCode> code = compile(manyLive());
  ASSERT_FALSE(bool(code));
  EXPECT_THAT(code.error().message, HasSubstr("kernel greedy: expected no spills, ptxas says "));
}

/// Two wgmma in flight; `between` may touch the accumulator of the first before it was waited for.
static std::string twoProducts(const std::string &between) {
  std::string text = R"(
    %d = llvm.mlir.constant(4611686293305294848 : i64) : i64
    %z = llvm.mlir.undef : !llvm.struct<(f32, f32, f32, f32)>
    nvvm.wgmma.fence.aligned
    %a = nvvm.wgmma.mma_async %d, %d, %z, #nvvm.shape<m = 64, n = 8, k = 16>, D [<f32>, #nvvm.wgmma_scale_out<zero>], A [<bf16>, #nvvm.wgmma_scale_in<one>, <row>], B [<bf16>, #nvvm.wgmma_scale_in<one>, <col>] : !llvm.struct<(f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32)>
    nvvm.wgmma.commit.group.sync.aligned
    %a0 = llvm.extractvalue %a[0] : !llvm.struct<(f32, f32, f32, f32)>)" +
                     between + R"(
    %a1 = llvm.insertvalue %t0, %a[0] : !llvm.struct<(f32, f32, f32, f32)>
    %b = nvvm.wgmma.mma_async %d, %d, %a1, #nvvm.shape<m = 64, n = 8, k = 16>, D [<f32>, #nvvm.wgmma_scale_out<one>], A [<bf16>, #nvvm.wgmma_scale_in<one>, <row>], B [<bf16>, #nvvm.wgmma_scale_in<one>, <col>] : !llvm.struct<(f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32)>
    nvvm.wgmma.commit.group.sync.aligned
    nvvm.wgmma.wait.group.sync.aligned 0
    %y = llvm.extractvalue %b[0] : !llvm.struct<(f32, f32, f32, f32)>)";
  return pointwise("products", text);
}

TEST_F(Cubins, SerialisedWgmmaFailsTheCompilation) {
  if (!assembles())
    GTEST_SKIP() << "no ptxas";
  Result<DeviceCode> good = compile(twoProducts("\n%t0 = llvm.inline_asm \"\", \"=f,0\" %a0 : (f32) -> f32"));
  ASSERT_TRUE(bool(good)) << good.error().message;
  Result<DeviceCode> bad = compile(twoProducts("\n%t0 = arith.addf %a0, %x : f32"));
  ASSERT_FALSE(bool(bad));
  EXPECT_THAT(bad.error().message, HasSubstr("kernel products: ptxas info"));
  EXPECT_THAT(bad.error().message, HasSubstr("C75"));
}

TEST(Ptxas, ReadsTheRightKernel) {
  const char *log = "ptxas info    : Compiling entry function 'ab' for 'sm_90a'\n"
                    "ptxas info    : Function properties for ab\n"
                    "    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
                    "ptxas info    : Used 168 registers, used 16 barriers, 8 bytes cumulative stack size, 64 bytes smem\n"
                    "ptxas info    : Compiling entry function 'b' for 'sm_90a'\n"
                    "ptxas info    : Function properties for b\n"
                    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                    "ptxas info    : Used 32 registers, used 0 barriers\n";
  Result<AssemblerLog> ab = parseAssemblerLog(log, "ab"), b = parseAssemblerLog(log, "b");
  ASSERT_TRUE(ab && b);
  EXPECT_EQ(ab->resources.registers, 168);
  EXPECT_EQ(ab->resources.spillLoads, 12);
  EXPECT_EQ(ab->resources.spillStores, 4);
  EXPECT_EQ(ab->resources.stack, 8);
  EXPECT_EQ(ab->resources.staticShared, 64);
  EXPECT_EQ(ab->resources.barriers, 16);
  EXPECT_EQ(b->resources.registers, 32);
  EXPECT_EQ(b->resources.spillLoads, 0);
  EXPECT_FALSE(bool(parseAssemblerLog(log, "c")));
  Result<AssemblerLog> ignored =
      parseAssemblerLog(std::string(log) + "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum register requirements.\n", "b");
  ASSERT_TRUE(bool(ignored));
  EXPECT_THAT(ignored->complaint, HasSubstr("setmaxnreg"));
}

TEST(Ptxas, AWrongProgramIsRefused) {
  Result<std::optional<Assembler>> found = findAssembler("/bin/true");
  ASSERT_FALSE(bool(found));
  EXPECT_EQ(found.error().code, ExitCode::Unsupported);
  EXPECT_THAT(found.error().message, HasSubstr("expected '/bin/true' to be ptxas"));
}

} // namespace dsv3::codegen
