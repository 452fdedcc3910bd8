// Every instruction of the PTX builder must pass the assembler.
#include "codegen/sm90/lower/Ptx.h"

#include "codegen/emit/Cubin.h"
#include "codegen/emit/Ptxas.h"
#include "runtime/core/DType.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using ::testing::HasSubstr;
using ::testing::Not;

namespace dsv3::codegen {

class PtxBuilder : public ::testing::Test {
protected:
  PtxBuilder() : builder(&context) {
    mlir::DialectRegistry registry;
    registerDeviceDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// Compiles a kernel (map, global pointer, i32) whose body is made by `body`.
  Result<DeviceCode> compile(llvm::function_ref<void(Ptx &, mlir::Value map, mlir::Value global, mlir::Value number)> body) {
    mlir::Location loc = builder.getUnknownLoc();
    module = mlir::ModuleOp::create(loc);
    builder.setInsertionPointToEnd(module->getBody());
    mlir::Type map = mlir::LLVM::LLVMPointerType::get(&context), global = mlir::LLVM::LLVMPointerType::get(&context, 1);
    auto type = mlir::LLVM::LLVMFunctionType::get(mlir::LLVM::LLVMVoidType::get(&context), {map, global, builder.getI32Type()});
    auto func = mlir::LLVM::LLVMFuncOp::create(builder, loc, "k", type);
    func->setAttr("nvvm.kernel", builder.getUnitAttr());
    func->setAttr("nvvm.reqntid", builder.getDenseI32ArrayAttr({128, 1, 1}));
    func->setAttr("nvvm.minctasm", builder.getI32IntegerAttr(1));
    func.setArgAttr(0, "llvm.align", builder.getI64IntegerAttr(64));
    func.setArgAttr(0, "llvm.byval", mlir::TypeAttr::get(mlir::LLVM::LLVMArrayType::get(builder.getI8Type(), 128)));
    func.setArgAttr(0, "nvvm.grid_constant", builder.getUnitAttr());
    mlir::Block *entry = func.addEntryBlock(builder);
    builder.setInsertionPointToEnd(entry);
    Ptx ptx(builder, loc);
    body(ptx, entry->getArgument(0), entry->getArgument(1), entry->getArgument(2));
    mlir::LLVM::ReturnOp::create(builder, loc, mlir::ValueRange());
    return emitDevice(*module, {});
  }

  /// The PTX of a kernel, after checking that it assembles.
  std::string ptxOf(llvm::function_ref<void(Ptx &, mlir::Value, mlir::Value, mlir::Value)> body) {
    Result<DeviceCode> code = compile(body);
    EXPECT_TRUE(bool(code)) << (code ? "" : code.error().message);
    return code ? code->kernels[0].ptx : "";
  }

  mlir::MLIRContext context;
  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(PtxBuilder, Synchronisation) {
  std::string text = ptxOf([](Ptx &p, mlir::Value, mlir::Value global, mlir::Value n) {
    mlir::Value bar = p.mul(n, 8), lane0 = p.equal(p.bitAnd(p.special("tid.x"), 31), 0);
    p.setMaxRegisters(232, true);
    p.mbarrierInit(bar, 2);
    p.mbarrierInitFence();
    p.barrierAll();
    p.mbarrierExpect(bar, n);
    p.mbarrierAddBytes(bar, n);
    p.mbarrierArrive(bar, lane0);
    p.mbarrierArriveRemote(bar, p.i32(1), lane0);
    p.mbarrierExpect(bar, n, lane0);
    p.mbarrierWaitCluster(bar, p.bitAnd(n, 1));
    p.mbarrierWait(bar, p.bitAnd(n, 1));
    p.mbarrierWait(p.add(bar, 8), p.bitAnd(n, 1));
    p.barrierSync(p.i32(3), 128);
    p.barrierArrive(p.i32(4), 128);
    p.warpSync();
    p.clusterSync();
    p.clusterSyncRelaxed();
    p.launchDependents();
    p.waitForDependencies();
    mlir::Value x = p.uniform(n);
    x = p.shuffleXor(x, 1);
    mlir::Value f = p.shuffleXor(p.bitcast(x, p.f32(0).getType()), 2);
    p.stGlobal(global, 0, {x, f}, p.any(lane0));
    p.stGlobal(global, 8, {x}, p.elect());
    p.marker("path 1");
  });
  EXPECT_THAT(text, HasSubstr("setmaxnreg.inc.sync.aligned.u32 232;"));
  EXPECT_THAT(text, HasSubstr("mbarrier.arrive.relaxed.cluster.shared::cluster.b64")) << "a release there is a full barrier";
  EXPECT_THAT(text, HasSubstr("// path 1"));
}

TEST_F(PtxBuilder, OneThreadsInstructionsDoNotBranch) {
  std::string text = ptxOf([](Ptx &p, mlir::Value map, mlir::Value, mlir::Value n) {
    mlir::Value lane0 = p.equal(p.bitAnd(p.special("tid.x"), 31), 0);
    p.mbarrierArrive(n, lane0);
    p.tmaStore(map, {n, n}, n, lane0);
    p.bulkCommit(lane0);
    p.bulkWait(0, true, lane0);
    p.stShared(n, 16, {n, n}, lane0);
  });
  EXPECT_THAT(text, Not(HasSubstr("bra")));
  EXPECT_THAT(text, HasSubstr("cp.async.bulk.wait_group.read 0;"));
}

TEST_F(PtxBuilder, Copies) {
  std::string text = ptxOf([](Ptx &p, mlir::Value map, mlir::Value global, mlir::Value n) {
    p.prefetchMap(map);
    for (size_t rank = 1; rank <= 5; ++rank)
      p.tmaLoad(n, map, Regs(rank, n), p.add(n, 1024), rank == 2 ? L2Policy::EvictFirst : L2Policy::Normal);
    mlir::Value mask = mlir::LLVM::ConstantOp::create(p.builder(), p.builder().getUnknownLoc(), p.builder().getI16Type(), 3);
    p.tmaLoad(n, map, {n, n}, p.add(n, 1024), L2Policy::EvictLast, mask);
    p.bulkLoad(n, global, p.i32(4096), p.add(n, 1024));
    p.bulkLoad(n, global, p.i32(4096), p.add(n, 1024), L2Policy::EvictFirst);
    for (size_t rank = 1; rank <= 5; ++rank)
      p.tmaStore(map, Regs(rank, n), n, p.i1(true));
  });
  EXPECT_THAT(text, HasSubstr("5d.shared::cta.global.mbarrier::complete_tx::bytes"));
  EXPECT_THAT(text, HasSubstr("multicast::cluster.L2::cache_hint"));
  EXPECT_THAT(text, Not(HasSubstr(".local"))) << "the map is read where it lies";
}

/// A product with A from shared memory or registers, into a fresh and then into the same accumulator.
static void products(Ptx &p, mlir::Value global, mlir::Value n, Wgmma w, bool registers, bool runTime) {
  mlir::Value desc = p.opaque(p.descriptor(n, uint64_t(1) << 16 | uint64_t(64) << 32 | uint64_t(1) << 62));
  Regs a = registers ? Regs(p.ldShared(n, 0, 4)) : Regs{desc};
  p.wgmmaFence();
  auto product = [&](mlir::ValueRange acc, mlir::Value scale) {
    return registers ? p.wgmmaRS(w, a, desc, acc, scale) : p.wgmmaSS(w, desc, desc, acc, scale);
  };
  Regs acc = product({}, {});
  acc = product(acc, runTime ? p.equal(n, 3) : mlir::Value());
  p.wgmmaCommit();
  Regs all = acc;
  if (registers)
    all.append(a);
  p.wgmmaWait(0, all);
  for (int64_t i = 0; i < w.registers(); ++i)
    p.stGlobal(global, 4 * i, p.bitcast(all[i], n.getType()));
}

TEST_F(PtxBuilder, Wgmma) {
  for (bool registers : {false, true})
    for (bool runTime : {false, true})
      for (Wgmma w : {Wgmma{Wgmma::Type::BF16, 256, false}, Wgmma{Wgmma::Type::BF16, 64, true}, Wgmma{Wgmma::Type::E4M3, 128, false},
                      Wgmma{Wgmma::Type::S8, 16, false}, Wgmma{Wgmma::Type::S8, 8, false}}) {
        std::string text = ptxOf([&](Ptx &p, mlir::Value, mlir::Value global, mlir::Value n) { products(p, global, n, w, registers, runTime); });
        EXPECT_THAT(text, HasSubstr("m64n" + std::to_string(w.n) + "k" + std::to_string(w.k())));
        EXPECT_THAT(text, Not(HasSubstr("0f00000000"))) << "a fresh accumulator is not cleared first";
      }
}

TEST_F(PtxBuilder, Memory) {
  ptxOf([](Ptx &p, mlir::Value, mlir::Value global, mlir::Value n) {
    mlir::Value some = p.equal(n, 3);
    for (int64_t words : {1, 2, 4}) {
      Regs x = p.ldShared(n, 16 * words, words), y = p.ldGlobal(global, 16 * words, words, some), z = p.ldGlobal(global, 256, words);
      p.stShared(n, 0, x);
      p.stShared(n, 16, y, some);
      p.stGlobal(global, 32, z);
    }
    p.stAsync(p.mapRemote(n, 1), 64, p.ldShared(n, 0, 4), p.mapRemote(n, 1));
    for (int64_t count : {1, 2, 4})
      for (bool transpose : {false, true})
        p.stMatrix(n, 64, p.ldMatrix(n, 128, count, transpose), transpose);
    p.stShared16(n, 2, p.ldShared16(n, 4));
    p.stShared8(n, 2, p.ldShared8(n, 4));
    p.stGlobalNarrow(global, 2, p.ldGlobalNarrow(global, 4, 2, some), 2, some);
    p.stGlobalNarrow(global, 2, p.ldGlobalNarrow(global, 4, 1), 1);
    p.fenceProxyAsync();
  });
}

TEST_F(PtxBuilder, Conversions) {
  std::string text = ptxOf([](Ptx &p, mlir::Value, mlir::Value global, mlir::Value n) {
    auto [low, high] = p.unpackBf16(n);
    auto eight = p.unpackE4m3(n);
    auto pairs = p.expandE4m3(n);
    auto nibbles = p.expandI4(n);
    auto wide = p.expandI4ToBf16(p.permute(n, nibbles[0], n), {n, n});
    p.stGlobal(global, 32, {wide[0], wide[1], wide[2], wide[3]});
    auto looked = p.expandI4ToE4m3(n, {p.kept(1), p.kept(2)});
    p.stGlobal(global, 48, {looked[0], looked[1]});
    mlir::Value i = p.packE4m3(eight), e = p.bitcast(p.approx("ex2.approx.ftz.f32", low), n.getType());
    p.stGlobal(global, 0, {p.packBf16(low, high), i, pairs[0], pairs[1]});
    p.stGlobal(global, 16, {nibbles[0], nibbles[1], e, e});
    auto halves = p.expandE4m3ToF16(n), upper = p.expandE5m2ToF16(n);
    auto [first, second] = p.unpackF16(halves[0]);
    p.stGlobal(global, 48, {p.packF16(second, first), halves[1], upper[0], upper[1]});
  });
  EXPECT_THAT(text, HasSubstr("cvt.rn.bf16x2.f32"));
  EXPECT_THAT(text, HasSubstr("sub.rn.bf16x2"));
  EXPECT_THAT(text, HasSubstr("%lanemask_eq"));
  EXPECT_THAT(text, HasSubstr("cvt.rn.f16x2.e4m3x2"));
  EXPECT_THAT(text, HasSubstr("cvt.rn.f16x2.f32"));
}

/// The steps of `expandI4ToBf16` for one code, on this machine.
TEST(ExpandI4, IsExactForAllCodes) {
  for (int code = -8; code < 8; ++code) {
    uint32_t bits = ((uint32_t(code) & 0xf) ^ 0x4308) << 16, offset = 0x4308u << 16;
    float x, bias;
    std::memcpy(&x, &bits, 4), std::memcpy(&bias, &offset, 4);
    EXPECT_EQ(x - bias, float(code));
  }
}

/// prmt as the PTX ISA has it.
static uint32_t permuted(uint64_t bytes, uint32_t selector) {
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t nibble = selector >> (4 * i) & 15, byte = uint32_t(bytes >> (8 * (nibble & 7))) & 0xff;
    out |= (nibble & 8 ? byte & 128 ? 0xff : 0 : byte) << (8 * i);
  }
  return out;
}

/// The steps of `expandI4ToE4m3`, on this machine, for all neighbours that a code can have.
TEST(ExpandI4, LooksUpE4m3) {
  for (uint32_t four = 0; four < 0x10000; ++four) {
    uint32_t got = permuted(kHalfE4m3BelowZero, four ^ 0x8888) * 2 + permuted(kE4m3FromZero, four);
    for (int i = 0; i < 4; ++i) {
      int code = int(four >> (4 * i) & 15);
      ASSERT_EQ(e4m3ToFloat(uint8_t(got >> (8 * i))), float(code < 8 ? code : code - 16)) << four;
    }
  }
}

/// The steps of `expandE4m3` for one code in the low byte of a pair, on this machine.
static float expandOnCpu(uint32_t code) {
  uint32_t x = code << 8, y = (x >> 4) & 0x07f007f0, t = (y + 0x00100010) & 0x08000800;
  y = t * 15 + y;
  y |= x & 0x80008000;
  uint32_t bits = (y & 0xffff) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f * std::ldexp(1.0f, 120);
}

TEST(ExpandE4m3, IsExactForAllCodes) {
  for (uint32_t code = 0; code < 256; ++code) {
    int exponent = (code >> 3) & 15, mantissa = code & 7;
    float want = exponent ? std::ldexp(8.0f + mantissa, exponent - 10) : std::ldexp(float(mantissa), -9);
    float got = expandOnCpu(code);
    if (exponent == 15 && mantissa == 7) {
      EXPECT_TRUE(std::isnan(got)) << code;
      continue;
    }
    EXPECT_EQ(got, code & 128 ? -want : want) << code;
    EXPECT_EQ(std::signbit(got), code >= 128) << code;
  }
}

} // namespace dsv3::codegen
