// A hand-written host program and kernel, compiled, loaded and run.
#include "codegen/emit/Object.h"

#include "runtime/core/Abi.h"
#include "test/runtime/core/TempDir.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

namespace dsv3::codegen {

/// Sets out[i] = in[i] + constant for each tile i: floats, a plain loop that LLVM would like to vectorise.
const char *const kKernel = R"(
  llvm.func @add_constant(%bufs: !llvm.ptr, %scalars: !llvm.ptr, %begin: i64, %end: i64, %scratch: !llvm.ptr) {
    %in = llvm.load %bufs : !llvm.ptr -> !llvm.ptr
    %p1 = llvm.getelementptr %bufs[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
    %out = llvm.load %p1 : !llvm.ptr -> !llvm.ptr
    %pc = llvm.getelementptr %scalars[8] : (!llvm.ptr) -> !llvm.ptr, i64
    %c = llvm.load %pc : !llvm.ptr -> i64
    %cf = arith.sitofp %c : i64 to f32
    %one = arith.constant 1 : i64
    scf.for %i = %begin to %end step %one : i64 {
      %pi = llvm.getelementptr %in[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %x = llvm.load %pi : !llvm.ptr -> f32
      %y = arith.addf %x, %cf : f32
      %po = llvm.getelementptr %out[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %y, %po : f32, !llvm.ptr
    }
    llvm.return
  })";

/// A copy and a fill: LLVM knows both as memcpy and memset.
const char *const kIdioms = R"(
  llvm.func @add_constant(%bufs: !llvm.ptr, %scalars: !llvm.ptr, %begin: i64, %end: i64, %scratch: !llvm.ptr) {
    %in = llvm.load %bufs : !llvm.ptr -> !llvm.ptr
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1 : i64
    scf.for %i = %begin to %end step %one : i64 {
      %pi = llvm.getelementptr %in[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %zero, %pi : f32, !llvm.ptr
      %ps = llvm.getelementptr %scratch[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      %b = llvm.load %ps : !llvm.ptr -> i8
      %pd = llvm.getelementptr %scalars[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      llvm.store %b, %pd : i8, !llvm.ptr
    }
    llvm.return
  })";

const char *const kForeign = R"(
  llvm.func @expf(f32) -> f32
  llvm.func @add_constant(%bufs: !llvm.ptr, %scalars: !llvm.ptr, %begin: i64, %end: i64, %scratch: !llvm.ptr) {
    %x = llvm.load %bufs : !llvm.ptr -> f32
    %y = llvm.call @expf(%x) : (f32) -> f32
    llvm.store %y, %bufs : f32, !llvm.ptr
    llvm.return
  })";

std::string moduleText(const std::string &kernel) {
  return "module @avx2 {" + kernel + "}\n" + R"(
    rt.module @x86_64 target "x86-64" abi 4 step(tokens 32, seqs 2, pages 4) kv(layers 3, page 64, row 40, bf16) {
      rt.pool weights size 4096
      rt.pool kv size 0
      rt.pool arena size 256
      rt.pool step size 128
      rt.pool persist size 512
      rt.field "ids" kind 0 at 64 count 32 : i32
      rt.kernel @add_constant key "the key" refs 2 consts 1 scratch 64
      rt.tap_point "t" cols 2 : f32
      rt.program @decode_b1 phase 1 tokens 1 seqs 1 qblocks 5 kblocks 6 {
        %w = rt.view weights at 256 size 64
        %x = rt.view arena at 64 size 8
        %y = rt.view persist at 128 size 8
        rt.launch_range @add_constant tiles(tokens div 4 mul 3) (%w, %x) writes [1] consts [7] site "first"
        rt.tap "t", %x rows seqs
        rt.launch_range @add_constant tiles(one div 1 mul 11) (%x, %y) writes [1] consts [-9] site "second"
        rt.output "logits", %y cols 2 : f32
      }
    })";
}

class Objects : public ::testing::Test {
protected:
  Objects() {
    mlir::DialectRegistry registry;
    registry.insert<mlir::arith::ArithDialect, mlir::LLVM::LLVMDialect, mlir::scf::SCFDialect, mlir::vector::VectorDialect, rt::RtDialect>();
    mlir::registerBuiltinDialectTranslation(registry);
    mlir::registerLLVMDialectTranslation(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  Result<std::vector<SharedObject>> emit(const std::string &kernel, const std::string &folder) {
    module = mlir::parseSourceString<mlir::ModuleOp>(moduleText(kernel), &context);
    EXPECT_TRUE(bool(module));
    return emitVariants(*module, *module->getOps<rt::ModuleOp>().begin(), folder, 2);
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  test::TempDir dir;
};

/// Records what a program asks for.
struct Recorder {
  std::vector<std::pair<const dsv3_launch *, int64_t>> launches;
  std::vector<std::tuple<uint32_t, uint32_t, uint64_t, int64_t>> taps;
};

TEST_F(Objects, TablesAndProgramsArrive) {
  auto objects = emit(kKernel, dir.str());
  ASSERT_TRUE(bool(objects)) << objects.error().message;
  void *library = dlopen((*objects)[0].path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << dlerror();
  const dsv3_module_desc &d = *reinterpret_cast<dsv3_module_fn>(dlsym(library, "dsv3_module"))();
  EXPECT_EQ(d.abi, uint32_t(DSV3_ABI));
  EXPECT_EQ(d.bytes, sizeof d);
  EXPECT_STREQ(d.target, "x86-64");
  EXPECT_STREQ(d.variant, "avx2");
  EXPECT_EQ(d.max_tokens, 32u);
  EXPECT_EQ(d.max_seqs, 2u);
  EXPECT_EQ(d.max_pages, 4u);
  EXPECT_EQ(d.kv_layers, 3u);
  EXPECT_EQ(d.kv_page_tokens, 64u);
  EXPECT_EQ(d.kv_row_elems, 40u);
  EXPECT_EQ(d.kv_elem, uint32_t(DSV3_ELEM_BF16));
  EXPECT_EQ(d.pool_bytes[DSV3_POOL_PERSIST], 512u);
  ASSERT_EQ(d.n_fields, 1u);
  EXPECT_STREQ(d.fields[0].name, "ids");
  EXPECT_EQ(d.fields[0].offset, 64u);
  EXPECT_EQ(d.fields[0].elem, uint32_t(DSV3_ELEM_I32));
  ASSERT_EQ(d.n_taps, 1u);
  EXPECT_EQ(d.taps[0].cols, 2u);
  ASSERT_EQ(d.n_kernels, 1u);
  EXPECT_STREQ(d.kernels[0].symbol, "add_constant");
  EXPECT_STREQ(d.kernels[0].key, "the key");
  EXPECT_EQ(d.kernels[0].scratch_bytes, 64u);
  ASSERT_EQ(d.n_programs, 1u);
  const dsv3_program_desc &p = d.programs[0];
  EXPECT_STREQ(p.name, "decode_b1");
  EXPECT_EQ(p.qblocks, 5u);
  EXPECT_EQ(p.kblocks, 6u);
  ASSERT_EQ(p.n_outputs, 1u);
  EXPECT_EQ(p.outputs[0].ref.pool, uint32_t(DSV3_POOL_PERSIST));
  EXPECT_EQ(p.outputs[0].ref.offset, 128u);

  Recorder record;
  dsv3_host_api api{};
  api.range = [](void *ctx, const dsv3_launch *l, int64_t tiles) { static_cast<Recorder *>(ctx)->launches.push_back({l, tiles}); };
  api.tap = [](void *ctx, uint32_t tap, dsv3_ref src, int64_t rows) { static_cast<Recorder *>(ctx)->taps.push_back({tap, src.pool, src.offset, rows}); };
  dsv3_step_host step{};
  step.scalars[DSV3_SCALAR_TOKENS] = 9;
  step.scalars[DSV3_SCALAR_SEQS] = 2;
  p.fn(&api, &record, &step);
  ASSERT_EQ(record.launches.size(), 2u);
  EXPECT_EQ(record.launches[0].second, 9) << "ceil(9 / 4) * 3";
  EXPECT_EQ(record.launches[1].second, 11);
  const dsv3_launch &first = *record.launches[0].first;
  EXPECT_STREQ(first.site, "first");
  ASSERT_EQ(first.n_refs, 2u);
  EXPECT_EQ(first.refs[0].pool, uint32_t(DSV3_POOL_WEIGHTS));
  EXPECT_EQ(first.refs[0].offset, 256u);
  EXPECT_EQ(first.refs[1].offset, 64u);
  ASSERT_EQ(first.n_consts, 1u);
  EXPECT_EQ(first.consts[0], 7);
  EXPECT_EQ(record.launches[1].first->consts[0], -9);
  ASSERT_EQ(record.taps.size(), 1u);
  EXPECT_EQ(record.taps[0], std::make_tuple(0u, uint32_t(DSV3_POOL_ARENA), uint64_t(64), int64_t(2)));

  float in[40], out[40] = {};
  for (int i = 0; i < 40; ++i)
    in[i] = float(i);
  const void *bufs[] = {in, out};
  int64_t scalars[DSV3_SCALAR_COUNT + 1] = {};
  scalars[DSV3_SCALAR_COUNT] = 7;
  d.kernels[0].fn(bufs, scalars, 3, 37, nullptr);
  for (int i = 0; i < 40; ++i)
    EXPECT_EQ(out[i], i >= 3 && i < 37 ? float(i + 7) : 0.0f) << i;
  dlclose(library);
}

const char *const kDevice = R"(
  rt.module @sm_90a_host target "sm_90a" abi 4 step(tokens 32, seqs 2, pages 4) kv(layers 3, page 64, row 40, bf16) {
    rt.pool weights size 4096
    rt.pool kv size 0
    rt.pool arena size 256
    rt.pool step size 128
    rt.pool persist size 512
    rt.kernel @gemm key "the key" refs 3 consts 0 scratch 0
    rt.program @decode_b1 phase 1 tokens 1 seqs 1 qblocks 0 kblocks 0 {
      %w = rt.view weights at 256 size 512
      %c = rt.view kv at 0 size 0
      %y = rt.view persist at 128 size 64
      rt.launch_grid @gemm grid [132, 2, 3] block 384 smem 222720 cluster 2 (%w, %c, %y)
        params [#rt.tensor_map<0 + 32, bf16, dims = [64, 2] strides = [128] box = [32, 8] swizzle = 64>,
                #rt.tensor_map<1, u8, dims = [80, 0] strides = [80] box = [16, 64]>, #rt.ptr<2 + 16>, #rt.number<-5>] writes [2] site "l0.q"
      rt.output "logits", %y cols 2 : f32
    }
  })";

TEST_F(Objects, HostProgramsOfADeviceArrive) {
  module = mlir::parseSourceString<mlir::ModuleOp>(kDevice, &context);
  ASSERT_TRUE(bool(module));
  Result<std::string> object = compileHost(*module->getOps<rt::ModuleOp>().begin());
  ASSERT_TRUE(bool(object)) << object.error().message;
  std::string path = dir.str() + "/host.so";
  ASSERT_TRUE(bool(linkShared(*object, path)));
  ASSERT_TRUE(bool(checkShared(path)));
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << dlerror();
  const dsv3_module_desc &d = *reinterpret_cast<dsv3_module_fn>(dlsym(library, "dsv3_module"))();
  EXPECT_STREQ(d.target, "sm_90a");
  EXPECT_STREQ(d.variant, "host");
  ASSERT_EQ(d.n_kernels, 1u);
  EXPECT_STREQ(d.kernels[0].symbol, "gemm");
  EXPECT_EQ(d.kernels[0].fn, nullptr);

  std::vector<const dsv3_grid_launch *> grids;
  dsv3_host_api api{};
  api.grid = [](void *ctx, const dsv3_grid_launch *l) { static_cast<decltype(grids) *>(ctx)->push_back(l); };
  dsv3_step_host step{};
  d.programs[0].fn(&api, &grids, &step);
  ASSERT_EQ(grids.size(), 1u);
  const dsv3_grid_launch &g = *grids[0];
  EXPECT_STREQ(g.site, "l0.q");
  EXPECT_EQ(std::vector<uint32_t>(g.grid, g.grid + 3), (std::vector<uint32_t>{132, 2, 3}));
  EXPECT_EQ(g.block, 384u);
  EXPECT_EQ(g.smem, 222720u);
  EXPECT_EQ(g.cluster, 2u);
  ASSERT_EQ(g.n_params, 4u);
  EXPECT_EQ(g.params[0].kind, uint32_t(DSV3_PARAM_MAP));
  EXPECT_EQ(g.params[0].ref.pool, uint32_t(DSV3_POOL_WEIGHTS));
  EXPECT_EQ(g.params[0].ref.offset, 256u + 32);
  const dsv3_tensor_map &w = *g.params[0].map;
  EXPECT_EQ(w.elem, uint32_t(DSV3_MAP_BF16));
  EXPECT_EQ(w.rank, 2u);
  EXPECT_EQ(w.swizzle, 64u);
  EXPECT_EQ(w.dims[0], 64u);
  EXPECT_EQ(w.dims[1], 2u);
  EXPECT_EQ(w.strides[0], 128u);
  EXPECT_EQ(w.box[0], 32u);
  EXPECT_EQ(w.box[1], 8u);
  const dsv3_tensor_map &cache = *g.params[1].map;
  EXPECT_EQ(cache.elem, uint32_t(DSV3_MAP_U8));
  EXPECT_EQ(cache.dims[1], 0u) << "open: the runtime knows how many rows there are";
  EXPECT_EQ(g.params[2].kind, uint32_t(DSV3_PARAM_POINTER));
  EXPECT_EQ(g.params[2].ref.offset, 128u + 16);
  EXPECT_EQ(g.params[2].map, nullptr);
  EXPECT_EQ(g.params[3].kind, uint32_t(DSV3_PARAM_NUMBER));
  EXPECT_EQ(g.params[3].number, -5);
  dlclose(library);
}

TEST_F(Objects, RebuildsAreByteIdentical) {
  std::string bytes[2];
  for (std::string &b : bytes) {
    test::TempDir other;
    auto objects = emit(kKernel, other.str());
    ASSERT_TRUE(bool(objects)) << objects.error().message;
    b = test::readAll((*objects)[0].path);
  }
  EXPECT_FALSE(bytes[0].empty());
  EXPECT_TRUE(bytes[0] == bytes[1]);
}

TEST_F(Objects, OnlyTheObjectIsLeft) {
  ASSERT_TRUE(bool(emit(kKernel, dir.str())));
  int files = 0;
  for (auto &entry : std::filesystem::directory_iterator(dir.str())) {
    EXPECT_EQ(entry.path().filename(), "avx2.so");
    ++files;
  }
  EXPECT_EQ(files, 1);
}

/// Loops that look like library functions stay loops.
TEST_F(Objects, NoLibraryCallIsIntroduced) {
  auto objects = emit(kIdioms, dir.str());
  ASSERT_TRUE(bool(objects)) << objects.error().message;
}

TEST_F(Objects, UndefinedSymbolsAreNamed) {
  auto objects = emit(kForeign, dir.str());
  ASSERT_FALSE(bool(objects));
  EXPECT_EQ(objects.error().code, ExitCode::Internal);
  EXPECT_NE(objects.error().message.find("expf"), std::string::npos) << objects.error().message;
}

TEST_F(Objects, KernelNamesStayInTheSymbolTable) {
  auto objects = emit(kKernel, dir.str());
  ASSERT_TRUE(bool(objects));
  std::string bytes = test::readAll((*objects)[0].path);
  EXPECT_NE(bytes.find(std::string("add_constant\0", 13)), std::string::npos);
  EXPECT_NE(bytes.find("program.decode_b1"), std::string::npos);
}

TEST_F(Objects, SomethingElseIsNoArtifactCode) {
  std::string path = dir.write("x.so", "not an ELF file");
  Status s = checkShared(path);
  ASSERT_FALSE(bool(s));
  EXPECT_NE(s.error().message.find("x.so"), std::string::npos);
}

} // namespace dsv3::codegen
