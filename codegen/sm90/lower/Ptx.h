// The instructions of sm_90a that MLIR and LLVM do not model: the one place of the compiler with inline PTX.
//
// Source: PTX ISA 8.7. A shared-memory address is an i32 in the shared window (`ld.shared` and friends take 32 bits);
// an mbarrier is such an address. A tensor map is an !llvm.ptr to a grid constant. Instructions of one thread take a
// predicate instead of standing under a branch: ptxas calls a path with a branch divergent and serialises wgmma on it.
// What LLVM must not move over other memory accesses carries a memory clobber.
#pragma once

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

#include <array>
#include <optional>

namespace dsv3::codegen {

using Regs = llvm::SmallVector<mlir::Value>;

/// L2 policies, as createpolicy encodes them.
enum class L2Policy : uint64_t { Normal = 0, EvictFirst = 0x12F0000000000000, EvictLast = 0x14F0000000000000 };

/// D[64, n] += A[64, k] B[k, n], one instruction.
struct Wgmma {
  enum class Type { BF16, F16, E4M3, S8 };
  Type type = Type::BF16; ///< of both operands
  int64_t n = 0;           ///< a multiple of 8 up to 256
  bool transposeB = false; ///< B is contiguous along n (16-bit types only)
  bool e5m2B = false;      ///< B is of E5M2 where A is of E4M3

  bool is16() const { return type == Type::BF16 || type == Type::F16; }
  int64_t k() const { return is16() ? 16 : 32; }
  int64_t registers() const { return n / 2; } ///< of D, per thread
};

/// What int4 codes are in E4M3, a byte each, the least code first: of 0 to 7, and half of that of -8 to -1.
inline constexpr uint64_t kE4m3FromZero = 0x4e4c4a4844403800, kHalfE4m3BelowZero = 0x5c60626465666768;

class Ptx {
public:
  Ptx(mlir::OpBuilder &builder, mlir::Location loc) : b(builder), loc(loc) {}
  void setLoc(mlir::Location l) { loc = l; }
  mlir::OpBuilder &builder() { return b; }

  // Constants and arithmetic: thin names, constants folded.
  mlir::Value i1(bool v);
  mlir::Value i32(int64_t v);
  mlir::Value i64(int64_t v);
  mlir::Value f32(double v);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value add(mlir::Value x, int64_t y);
  mlir::Value mul(mlir::Value x, int64_t y);
  mlir::Value bitAnd(mlir::Value x, int64_t y);
  mlir::Value bitXor(mlir::Value x, mlir::Value y);
  mlir::Value shl(mlir::Value x, int64_t y);
  mlir::Value shr(mlir::Value x, int64_t y); ///< logical
  mlir::Value equal(mlir::Value x, int64_t y);
  mlir::Value bitcast(mlir::Value x, mlir::Type type);

  // Threads.
  mlir::Value special(llvm::StringRef name); ///< "tid.x", "ctaid.x", "nctaid.x", "cluster.ctarank", ... : i32
  mlir::Value uniform(mlir::Value x);        ///< lane 0's value, known to be equal in the warp. Not in a lone thread: hangs
  mlir::Value elect();                       ///< i1: true in one thread of a whole warp
  mlir::Value any(mlir::Value x);            ///< i1: vote of the warp
  mlir::Value shuffleXor(mlir::Value x, int64_t mask); ///< i32 or f32
  mlir::Value shuffleUp(mlir::Value x, int64_t lanes); ///< i32 of lane - lanes; the own value below
  mlir::Value lastLane(mlir::Value x);                 ///< i32 of lane 31
  void setMaxRegisters(int64_t registers, bool increase);
  void barrierAll();                                             ///< all threads of the block
  void barrierSync(mlir::Value id, int64_t threads);             ///< named, ids 1..15
  void barrierArrive(mlir::Value id, int64_t threads);
  void warpSync();
  void clusterSync();        ///< all threads of the cluster; orders memory, which costs a full barrier of it
  void clusterSyncRelaxed(); ///< orders nothing but what a fence before it does
  void launchDependents();
  void waitForDependencies();

  // mbarriers.
  void mbarrierInit(mlir::Value bar, int64_t arrivals);
  void mbarrierInitFence(); ///< makes initialised barriers visible to the cluster and to TMA
  void mbarrierWait(mlir::Value bar, mlir::Value parity); ///< loops until the phase with this parity is over
  void mbarrierArrive(mlir::Value bar, mlir::Value predicate);
  /// In the block of rank `rank` of the cluster; relaxed, as a release there is a full memory barrier.
  void mbarrierArriveRemote(mlir::Value bar, mlir::Value rank, mlir::Value predicate);
  void mbarrierWaitCluster(mlir::Value bar, mlir::Value parity); ///< and sees what other blocks stored with `stAsync`
  void mbarrierExpect(mlir::Value bar, mlir::Value bytes, mlir::Value predicate = {}); ///< arrives and adds bytes
  void mbarrierAddBytes(mlir::Value bar, mlir::Value bytes); ///< adds bytes, does not arrive

  // Bulk copies. Coordinates innermost first.
  void prefetchMap(mlir::Value map);
  void tmaLoad(mlir::Value smem, mlir::Value map, mlir::ValueRange coords, mlir::Value bar, L2Policy policy = L2Policy::Normal,
               mlir::Value multicast = {}); ///< multicast: i16 mask of the cluster's blocks
  /// `bytes` is a multiple of 16, as are both addresses.
  void bulkLoad(mlir::Value smem, mlir::Value global, mlir::Value bytes, mlir::Value bar, L2Policy policy = L2Policy::Normal);
  /// 16 bytes at aligned addresses by this thread, of which `bytes` (0 or 16) are read and the others become zeros.
  void copyAsync(mlir::Value smem, int64_t offset, mlir::Value global, int64_t globalOffset, mlir::Value bytes, mlir::Value predicate = {});
  void copyAsyncArrive(mlir::Value bar); ///< arrives once this thread's copies have landed; the barrier counts every thread's arrival
  void tmaStore(mlir::Value map, mlir::ValueRange coords, mlir::Value smem, mlir::Value predicate);
  void bulkCommit(mlir::Value predicate);
  void bulkWait(int64_t pending, bool readsOnly, mlir::Value predicate);

  // Fences.
  void fenceProxyAsync(); ///< generic writes of this thread to shared memory, before reads by TMA or wgmma
  void wgmmaFence();      ///< in the basic block of the wgmma that follows
  void wgmmaCommit();
  /// Waits until at most `pending` groups are in flight. The values named come out as if computed here, so that no read of
  /// an accumulator and no overwriting of an A register can move above it.
  void wgmmaWait(int64_t pending, llvm::MutableArrayRef<mlir::Value> values);
  /// The values come out as if computed here: nothing that defines them can sink below.
  void pin(llvm::MutableArrayRef<mlir::Value> values);
  /// Distinct code: keeps LLVM from merging the ends of paths, or from turning a branch into selects.
  void marker(llvm::StringRef text);

  // wgmma. `acc` empty: a fresh accumulator, which the instruction only writes. `scaleD` (i1): whether `acc` is added.
  mlir::Value descriptor(mlir::Value smem, uint64_t bits); ///< i64; `bits`: all but the address
  mlir::Value opaque(mlir::Value x);                       ///< an i64 that LLVM cannot fold or hoist constants out of
  Regs wgmmaSS(const Wgmma &w, mlir::Value a, mlir::Value bDesc, mlir::ValueRange acc, mlir::Value scaleD = {});
  /// `a`: four i32 registers (16-bit pairs or 8-bit quads).
  Regs wgmmaRS(const Wgmma &w, mlir::ValueRange a, mlir::Value bDesc, mlir::ValueRange acc, mlir::Value scaleD = {});

  // Shared memory. Words are i32; `offset` is a constant that goes into the instruction.
  Regs ldShared(mlir::Value smem, int64_t offset, int64_t words);
  void stShared(mlir::Value smem, int64_t offset, mlir::ValueRange words, mlir::Value predicate = {});
  mlir::Value mapRemote(mlir::Value smem, int64_t rank); ///< the address of the same place in another block of the cluster
  /// To mapped addresses of one block: stores, and counts the bytes on the mbarrier once they are there.
  void stAsync(mlir::Value remote, int64_t offset, mlir::ValueRange words, mlir::Value remoteBar);
  mlir::Value ldShared16(mlir::Value smem, int64_t offset); ///< i32, zero extended
  mlir::Value ldShared8(mlir::Value smem, int64_t offset);
  void stShared16(mlir::Value smem, int64_t offset, mlir::Value word); ///< the low half
  void stShared8(mlir::Value smem, int64_t offset, mlir::Value word);
  Regs ldMatrix(mlir::Value smem, int64_t offset, int64_t count, bool transpose);
  void stMatrix(mlir::Value smem, int64_t offset, mlir::ValueRange words, bool transpose);

  // Global memory. `address`: !llvm.ptr<1>. Loads are of data that no one writes while the kernel runs.
  Regs ldGlobal(mlir::Value address, int64_t offset, int64_t words, mlir::Value predicate = {}); ///< zeros where false
  void prefetchGlobal(mlir::Value address); ///< the line of `address` to L1
  mlir::Value ldGlobalNarrow(mlir::Value address, int64_t offset, int64_t bytes, mlir::Value predicate = {}); ///< 1 or 2 bytes to i32
  void stGlobal(mlir::Value address, int64_t offset, mlir::ValueRange words, mlir::Value predicate = {});
  void stGlobalNarrow(mlir::Value address, int64_t offset, mlir::Value word, int64_t bytes, mlir::Value predicate = {});

  // Conversions in registers; pairs have the first value in the low half.
  mlir::Value packBf16(mlir::Value low, mlir::Value high); ///< f32 pair, round to nearest even
  std::array<mlir::Value, 2> unpackBf16(mlir::Value word); ///< exact
  mlir::Value packF16(mlir::Value low, mlir::Value high);  ///< f32 pair, round to nearest even
  std::array<mlir::Value, 2> unpackF16(mlir::Value word);  ///< exact
  mlir::Value packE4m3(llvm::ArrayRef<mlir::Value> four);  ///< f32, saturating at 448
  /// Four e4m3 codes to bf16 pairs of bytes (0, 1) and (2, 3): exact for all 256 codes, denormals and NaN included.
  std::array<mlir::Value, 2> expandE4m3(mlir::Value word);
  std::array<mlir::Value, 2> expandE5m2(mlir::Value word); ///< the same of e5m2
  /// To pairs of f16, exact for all codes too: one conversion, or one permutation, a pair.
  std::array<mlir::Value, 2> expandE4m3ToF16(mlir::Value word);
  std::array<mlir::Value, 2> expandE5m2ToF16(mlir::Value word);
  /// Bytes of two words as `selector` says: nibble i names byte i of the result, 0 to 3 of `x`, 4 to 7 of `y`.
  mlir::Value permute(mlir::Value x, mlir::Value y, mlir::Value selector);
  mlir::Value permute(mlir::Value x, mlir::Value y, int64_t selector) { return permute(x, y, i32(selector)); }
  std::array<mlir::Value, 4> unpackE4m3(mlir::Value word); ///< f32
  /// Eight signed nibbles to bytes that are 16 times their value: low nibbles, then high nibbles.
  std::array<mlir::Value, 2> expandI4(mlir::Value word);
  /// An i32 that ptxas cannot know to be a constant, so that it stays in a register instead of being moved to one at every use.
  mlir::Value kept(uint32_t number);
  /// Eight i4 codes in the order of `opA4t` as two words of E4M3. `tables`: the lower halves of kE4m3FromZero and
  /// kHalfE4m3BelowZero, which an instruction takes from registers.
  std::array<mlir::Value, 2> expandI4ToE4m3(mlir::Value word, const std::array<mlir::Value, 2> &tables);
  /// Eight signed nibbles to bf16 pairs of nibbles (i, i + 4), i = 0..3: exact. `bias`: 136 plus what is taken off, a pair of bf16 for
  /// even and one for odd i.
  std::array<mlir::Value, 4> expandI4ToBf16(mlir::Value word, const std::array<mlir::Value, 2> &bias);
  mlir::Value approx(llvm::StringRef intrinsic, mlir::Value x); ///< "ex2.approx.ftz.f32" and friends: f32

private:
  mlir::Value intrinsic(llvm::StringRef name, mlir::Type type, mlir::ValueRange args);
  void intrinsic(llvm::StringRef name, mlir::ValueRange args);
  /// Inline PTX. `results` empty: none. `effects`: may not be moved, removed or merged; `memory`: clobbers memory.
  Regs ptx(llvm::StringRef text, llvm::StringRef constraints, mlir::TypeRange results, mlir::ValueRange operands, bool effects = true,
           bool memory = true);
  void passThrough(llvm::StringRef text, llvm::MutableArrayRef<mlir::Value> values, bool memory);
  Regs wgmma(const Wgmma &w, mlir::ValueRange a, mlir::Value bDesc, mlir::ValueRange acc, mlir::Value scaleD);

  mlir::OpBuilder &b;
  mlir::Location loc;
};

} // namespace dsv3::codegen
