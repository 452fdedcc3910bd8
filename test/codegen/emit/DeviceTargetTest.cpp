// A device target's files: host program, PTX, machine code; and launches that do not fit their kernels.
#include "codegen/emit/DeviceTarget.h"

#include "codegen/emit/Package.h"
#include "codegen/targets/Targets.h"
#include "runtime/core/Abi.h"
#include "test/codegen/targets/TestGpuTarget.h"
#include "test/runtime/core/TempDir.h"

#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <filesystem>

namespace dsv3::codegen {

using testing::AllOf;
using testing::HasSubstr;

namespace {

/// A scheduled module: one kernel with three parameters behind the scalars, launched as `params`, `shape` says.
std::string moduleText(const std::string &params, const std::string &shape = "grid [2, 1, 1] block 128 smem 1024 cluster 1") {
  return R"(module attributes {dsv3.target = #target.gpu<"test-gpu", sm_count = 4, smem = 65536, has = ["tma"]>} {
    rt.module @test_gpu_host target "test-gpu" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
      rt.pool weights size 4096
      rt.pool kv size 0
      rt.pool arena size 1024
      rt.pool step size 64
      rt.pool persist size 1024
      rt.kernel @scale key "the key" refs 2 consts 0 scratch 0
      rt.program @decode_b1 phase 1 tokens 1 seqs 1 qblocks 0 kblocks 0 {
        %w = rt.view weights at 0 size 1024
        %y = rt.view persist at 0 size 1024
        rt.launch_grid @scale )" +
         shape + " (%w, %y) params [" + params + R"(] writes [1] site "l0.q"
        rt.output "logits", %y cols 2 : f32
      }
    }
    gpu.module @test_gpu {
      llvm.func @scale(%scalars: !llvm.ptr<1>, %map: !llvm.ptr, %out: !llvm.ptr<1>, %n: i64)
          attributes {nvvm.kernel, nvvm.reqntid = array<i32: 128, 1, 1>, dsv3.smem = 1024 : i64} {
        %tokens = llvm.load %scalars : !llvm.ptr<1> -> i64
        %sum = llvm.add %tokens, %n : i64
        llvm.store %sum, %out : i64, !llvm.ptr<1>
        llvm.return
      }
    }
  })";
}

const char *const kMap = "#rt.tensor_map<0, bf16, dims = [64, 8] strides = [128] box = [64, 8] swizzle = 128>";

class DeviceTarget : public testing::Test {
protected:
  DeviceTarget() {
    registerTarget(kTestGpu, testGpuRegistry, testGpuDialects);
    mlir::DialectRegistry registry;
    registerDeviceDialects(registry);
    registry.insert<rt::RtDialect, target::TargetDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  rt::ModuleOp parse(const std::string &text) {
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(bool(module));
    return *module->getOps<rt::ModuleOp>().begin();
  }

  void expectRefused(const std::string &text, testing::Matcher<std::string> message) {
    rt::ModuleOp host = parse(text);
    Result<DeviceFiles> files = emitDeviceTarget(*module, host, dir.str(), 1);
    ASSERT_FALSE(bool(files));
    EXPECT_EQ(files.error().code, ExitCode::Internal);
    EXPECT_THAT(files.error().message, AllOf(HasSubstr("kernel scale, launched at \"l0.q\": "), message));
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  test::TempDir dir;
};

TEST_F(DeviceTarget, WritesHostProgramAndKernels) {
  rt::ModuleOp host = parse(moduleText(std::string(kMap) + ", #rt.ptr<1>, #rt.number<7>"));
  Result<DeviceFiles> files = emitDeviceTarget(*module, host, dir.str(), 1);
  ASSERT_TRUE(bool(files)) << files.error().message;
  ASSERT_EQ(files->kernels.size(), 1u);
  EXPECT_EQ(files->kernels[0].symbol, "scale");
  EXPECT_EQ(files->report[0].threads, 128);
  std::string ptx = test::readAll(dir.str() + "/kernels/scale.ptx");
  EXPECT_THAT(ptx, AllOf(HasSubstr(".target sm_90a"), HasSubstr(".entry scale")));
  // Machine code is there exactly where an assembler was found.
  EXPECT_EQ(std::filesystem::exists(dir.str() + "/kernels/scale.cubin"), files->verified());
  EXPECT_EQ(files->kernels[0].assembled, files->verified());
  void *library = dlopen((dir.str() + "/host.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << dlerror();
  const dsv3_module_desc &d = *reinterpret_cast<dsv3_module_fn>(dlsym(library, "dsv3_module"))();
  EXPECT_STREQ(d.target, "test-gpu");
  EXPECT_STREQ(d.variant, "host");
  dlclose(library);
}

TEST_F(DeviceTarget, RebuildsAreByteIdentical) {
  std::string bytes[2];
  for (std::string &b : bytes) {
    test::TempDir other;
    rt::ModuleOp host = parse(moduleText(std::string(kMap) + ", #rt.ptr<1>, #rt.number<7>"));
    ASSERT_TRUE(bool(emitDeviceTarget(*module, host, other.str(), 1)));
    b = test::readAll(other.str() + "/host.so") + test::readAll(other.str() + "/kernels/scale.ptx");
  }
  EXPECT_FALSE(bytes[0].empty());
  EXPECT_TRUE(bytes[0] == bytes[1]);
}

TEST_F(DeviceTarget, LaunchesFitTheirKernels) {
  std::string map = kMap;
  expectRefused(moduleText(map + ", #rt.ptr<1>"), HasSubstr("expected 4 parameters, got 3"));
  expectRefused(moduleText("#rt.ptr<0>, #rt.ptr<1>, #rt.number<7>"), HasSubstr("parameter 1: expected a tensor map, got a pointer"));
  expectRefused(moduleText(map + ", #rt.number<1>, #rt.number<7>"), HasSubstr("parameter 2: expected a pointer, got a number"));
  std::string good = map + ", #rt.ptr<1>, #rt.number<7>";
  expectRefused(moduleText(good, "grid [2, 1, 1] block 256 smem 1024 cluster 1"), HasSubstr("expected 128 threads, got 256"));
  expectRefused(moduleText(good, "grid [2, 1, 1] block 128 smem 512 cluster 1"), HasSubstr("expected 1024 bytes of shared memory or more, got 512"));
}

} // namespace
} // namespace dsv3::codegen
