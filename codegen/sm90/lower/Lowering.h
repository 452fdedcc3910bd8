// One tile.kernel on its way to an llvm.func: shared state of the lowering, whose steps stand in one file per group of ops.
//
// The walk is recursive and in program order. A tile value becomes a list of scalars per thread (`Regs`):
//   scalar          itself
//   fragment        its machine registers: one per element of 32 bits or of i1, else i32 words with 2, 4 or 8 elements
//   !tile.acc       its N/2 registers
//   !tile.slot      [stage, if the ring has several] parity [lane, if the ring has lanes]
//   !tile.buf       address in the shared window, i32
//   !tile.tma       !llvm.ptr
//   !tile.gmem      !llvm.ptr<1>, then an i32 per dynamic dim but the first
//   !tile.gate      barrier id, i32; in memory its address, then an address of the thread's own where the parity stands
//   token, ring, work: nothing
// An accumulator or slot that is `none` on some paths only (Presence::Maybe) has one more: i1, whether it is there.
#pragma once

#include "codegen/sm90/lower/AddressFit.h"
#include "codegen/sm90/lower/Async.h"
#include "codegen/sm90/lower/Ptx.h"
#include "dialects/tile/TileDialect.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseSet.h"

namespace dsv3::codegen {

/// Attributes that `--dsv3-tile-allocate` writes and the lowering reads.
namespace plan {
constexpr llvm::StringLiteral kOffset = "tile.offset";     ///< alloc, groups: byte offset in shared memory
constexpr llvm::StringLiteral kOffsets = "tile.offsets";   ///< ring: offset of stage 0 of each buffer
constexpr llvm::StringLiteral kBarriers = "tile.barriers"; ///< ring: offset of its first mbarrier
constexpr llvm::StringLiteral kId = "tile.id";             ///< gate: named barrier; role, reduce_rows: the first of several
constexpr llvm::StringLiteral kMemory = "tile.memory";     ///< gate, from its kernel: an mbarrier, at `tile.offset`
constexpr llvm::StringLiteral kCluster = "tile.cluster";   ///< cluster_sum: offset of its barriers and counts
constexpr llvm::StringLiteral kBytes = "tile.smem";        ///< kernel: bytes of dynamic shared memory
} // namespace plan

/// Shared memory of a `cluster_sum`: an mbarrier per warp that counts what arrives, one that says that all have read, and
/// how often the warp came here.
constexpr int64_t clusterBytes(int64_t warpgroups) { return 4 * warpgroups * (8 + 8 + 4); }

/// Machine registers of a fragment.
struct FragmentRegs {
  tile::Fragment map;
  mlir::Type element;
  unsigned bits;

  explicit FragmentRegs(mlir::Type fragment);
  int64_t perWord() const { return bits == 1 || bits >= 32 ? 1 : 32 / bits; }
  int64_t words() const { return (map.registers() + perWord() - 1) / perWord(); }
  /// f32, i32, i1 or i64 of one element, else i32.
  mlir::Type machineType() const { return perWord() == 1 ? element : mlir::Type(mlir::IntegerType::get(element.getContext(), 32)); }
  /// Coordinate of element `reg` of a thread (0..127).
  std::vector<int64_t> coord(int64_t reg, int64_t thread) const { return map.coord(reg, thread % 32, thread / 32); }
};

class KernelLowering {
public:
  explicit KernelLowering(tile::KernelOp kernel);
  /// Puts the function in front of the kernel. Failure: a diagnostic at the op.
  mlir::LogicalResult run();

private:
  // TileToNvvm.cpp: control flow and scalars.
  mlir::LogicalResult lowerBlock(mlir::Block &block);
  mlir::LogicalResult lowerOp(mlir::Operation *op);
  mlir::LogicalResult lowerScalar(mlir::Operation *op);
  mlir::LogicalResult lowerIf(mlir::scf::IfOp op);
  mlir::LogicalResult lowerFor(mlir::scf::ForOp op);
  /// A loop over i32 whose carried values are tile values; `first` extra i32 inits come before them. `body` gets the new
  /// index and the extras, and returns the extras' next values after the old body was lowered by `lowerLoopBody`.
  mlir::FailureOr<mlir::scf::ForOp> lowerLoop(mlir::Operation *op, mlir::Value lower, mlir::Value upper, mlir::Value step, mlir::ValueRange inits,
                                              mlir::ValueRange args, mlir::Block &body, mlir::ValueRange extras,
                                              llvm::function_ref<Regs(mlir::Value index, mlir::ValueRange extras)> enter);

  // LowerStructure.cpp: kernel, roles, work.
  mlir::LogicalResult createFunction();
  void initialiseBarriers();
  mlir::LogicalResult lowerRoles();
  mlir::LogicalResult lowerRole(tile::RoleOp role, int64_t firstWarpgroup);
  mlir::LogicalResult lowerForeach(tile::ForeachOp op);
  mlir::LogicalResult lowerRaster(tile::RasterOp op);
  mlir::LogicalResult lowerList(tile::ListOp op);
  mlir::LogicalResult lowerGroups(tile::GroupsOp op);
  mlir::Value listGroups(tile::GroupsOp op, mlir::Value list, mlir::Value first, int64_t count, mlir::Value before);
  mlir::LogicalResult foreachRaster(tile::ForeachOp op, tile::RasterOp work);
  mlir::LogicalResult foreachList(tile::ForeachOp op, tile::ListOp work);
  mlir::LogicalResult foreachGroups(tile::ForeachOp op, tile::GroupsOp work);
  void rasterFields(tile::RasterOp work, mlir::Value item, Regs &fields);
  mlir::Value listRow(tile::ListOp work, mlir::Value index);
  Regs listItem(tile::ListOp work, mlir::Value index, int64_t fields);

  // LowerSync.cpp: rings, slots, gates.
  struct SlotRegs {
    mlir::Value stage, parity, lane, present; ///< null: 0, -, 0, true
  };
  SlotRegs slot(mlir::Value v);
  Regs pack(const SlotRegs &slot, tile::RingAttr ring, bool maybe) const;
  mlir::LogicalResult lowerNext(tile::NextOp op);
  mlir::LogicalResult lowerWait(tile::WaitOp op);
  mlir::LogicalResult lowerPeek(tile::PeekOp op);
  mlir::LogicalResult lowerRelease(tile::ReleaseOp op);
  mlir::LogicalResult lowerFill(tile::FillOp op);
  mlir::LogicalResult lowerSync(tile::SyncOp op);
  mlir::LogicalResult lowerGate(mlir::Value gate, bool wait);
  mlir::LogicalResult defineGate(tile::GateOp op);
  int64_t warpgroupsAt(tile::GateOp op);
  mlir::LogicalResult lowerPdl(tile::PdlOp op);
  mlir::Value stageIndex(tile::RingAttr ring, const SlotRegs &slot); ///< lane * stages + stage
  mlir::Value bufferOf(tile::RingAttr ring, const SlotRegs &slot, unsigned buffer);
  /// Address of a full barrier (part) or free barrier (group).
  mlir::Value barrierOf(tile::RingAttr ring, const SlotRegs &slot, tile::Barrier kind, int64_t index);
  void waitForParts(tile::RingAttr ring, const SlotRegs &slot, llvm::ArrayRef<int64_t> parts);
  llvm::SmallVector<int64_t> partsOf(tile::RingAttr ring, int64_t group) const;
  bool isRemote(tile::RingAttr ring) const; ///< copies into it are multicast
  bool isGathered(tile::RingAttr ring) const; ///< threads copy rows into it

  // LowerCopy.cpp: asynchronous copies.
  struct FillState {
    tile::RingAttr ring;
    SlotRegs slot;
    int64_t group = -1;
    bool announceLate = false; ///< bytes of conditional copies are added as they go, so the arrival comes last
  };
  mlir::LogicalResult lowerCopy(tile::CopyOp op);
  mlir::LogicalResult lowerTmaCopy(tile::CopyOp op);
  mlir::LogicalResult lowerBulkCopy(tile::CopyOp op);
  mlir::LogicalResult lowerGather(tile::GatherOp op);
  mlir::LogicalResult lowerPut(tile::PutOp op);
  struct Box {
    llvm::SmallVector<int64_t> offset; ///< of the box in the tensor's part, a number per dim of the map
    int64_t byte;                      ///< in the buffer
    int64_t column;                    ///< first column, in the stage's whole buffer
  };
  llvm::SmallVector<Box> boxesOf(tile::TmaType map, tile::BufType whole, llvm::ArrayRef<std::pair<int64_t, int64_t>> columns) const;
  int64_t boxBytes(tile::TmaType map) const;
  /// Which group's columns a buffer stands for, when it is the argument of the fill being lowered.
  std::optional<int64_t> groupOfFillArgument(mlir::Value buf) const;
  /// Bytes per part that the copies of a fill announce; nothing when some are conditional.
  std::optional<llvm::SmallVector<int64_t>> staticBytes(tile::FillOp op) const;

  // LowerMemory.cpp: buffers, shared and global accesses.
  mlir::LogicalResult lowerAlloc(tile::AllocOp op);
  mlir::LogicalResult lowerView(tile::ViewOp op);
  mlir::LogicalResult lowerLoad(tile::LoadOp op);
  mlir::LogicalResult loadPaired(tile::LoadOp op);
  mlir::LogicalResult lowerStore(tile::StoreOp op);
  mlir::LogicalResult lowerZero(tile::ZeroOp op);
  bool storesMore(tile::StoreOp op) const;
  bool readByHardware(mlir::Value buf) const; ///< an mma or a put may read what is stored there
  /// The terms of the set bits of the thread's index, added up or, if `exclusive`, combined by xor.
  mlir::Value threadTerms(const std::array<int64_t, AddressFit::kBits> &terms, bool exclusive);
  mlir::Value threadSum(const std::array<int64_t, AddressFit::kBits> &terms) { return threadTerms(terms, false); }
  /// Address and constant offset of register `reg`.
  struct Places {
    AddressFit fit;
    mlir::Value base, exchanged;
    llvm::DenseMap<int64_t, mlir::Value> bases;
  };
  std::optional<Places> places(mlir::Value address, int64_t registers, const std::function<int64_t(int64_t, int64_t)> &at, tile::SmemLayout::Xor exchange);
  mlir::Value placeOf(Places &places, int64_t reg, int64_t &offset);
  /// stmatrix or ldmatrix for 16-bit accumulators; failure when the layout does not allow it.
  mlir::LogicalResult accessByMatrix(mlir::Value address, tile::BufType buf, const FragmentRegs &frag, bool transpose, Regs &words, bool store);
  /// Moves 16-bit accumulator words to or from 8 x 8 matrices; `at(warp, row, column)` in the buffer, to whose rows (columns
  /// with `transpose`) warp w adds `warpRows` * w itself when that is not in `at`.
  mlir::LogicalResult moveMatrices(mlir::Value address, const std::function<int64_t(int64_t, int64_t, int64_t)> &at, int64_t warpRows,
                                   tile::SmemLayout::Xor exchange, int64_t columns, bool transpose, Regs &words, bool store);
  mlir::LogicalResult accessByVector(mlir::Operation *op, mlir::Value address, tile::BufType buf, const FragmentRegs &frag, bool transpose, Regs &words,
                                     bool store);

  // LowerGlobal.cpp
  mlir::LogicalResult lowerRead(tile::ReadOp op);
  mlir::LogicalResult lowerLookup(tile::LookupOp op);
  mlir::LogicalResult lowerWrite(tile::WriteOp op);
  mlir::LogicalResult lowerCount(tile::CountOp op);
  mlir::Value globalAddress(mlir::Value gmem, llvm::ArrayRef<mlir::OpFoldResult> coords); ///< !llvm.ptr<1>
  mlir::Value globalStride(mlir::Value gmem, int64_t dim);                                ///< elements, i64
  mlir::LogicalResult writeScalar(tile::WriteOp op);
  mlir::LogicalResult writeBytes(tile::WriteOp op, const FragmentRegs &frag);
  mlir::LogicalResult writeByQuads(tile::WriteOp op, const FragmentRegs &frag);
  mlir::LogicalResult writeBytesByQuads(tile::WriteOp op, const FragmentRegs &frag);
  mlir::LogicalResult writePaired(tile::WriteOp op, const FragmentRegs &frag);
  mlir::LogicalResult writeRestaged(tile::WriteOp op, const FragmentRegs &frag);
  void transposeQuad(llvm::MutableArrayRef<mlir::Value> words);
  /// Where a thread's elements of a part of a tensor start, and which rows and columns exist.
  struct GlobalWindow {
    mlir::Value base, firstRow, rowBytes, threadRow, threadColumn, rows, columns; ///< firstRow: when asked for; rows, columns: null for all
    llvm::DenseMap<int64_t, std::pair<mlir::Value, mlir::Value>> cache; ///< row offset -> address, exists
  };
  GlobalWindow openWindow(mlir::Value gmem, llvm::ArrayRef<mlir::OpFoldResult> coords, mlir::Value rows, mlir::Value columns, mlir::Value threadRow,
                          mlir::Value threadColumn);
  mlir::Value rowOf(GlobalWindow &w, int64_t offset, mlir::Value &exists);
  mlir::Value both(mlir::Value x, mlir::Value y); ///< and of predicates, of which one may be null
  mlir::Value below(mlir::Value x, mlir::Value bound);

  // LowerCluster.cpp
  void initialiseCluster(); ///< barriers and phases of cluster_sum
  mlir::LogicalResult lowerClusterSum(tile::ClusterSumOp op);

  // LowerMma.cpp
  mlir::LogicalResult lowerMma(tile::MmaOp op);
  mlir::LogicalResult lowerAwait(tile::AwaitOp op);

  // LowerFragments.cpp
  mlir::LogicalResult lowerElementwise(mlir::Operation *op);
  mlir::LogicalResult lowerConstant(mlir::Operation *op);
  mlir::LogicalResult lowerReduce(tile::ReduceOp op);
  mlir::LogicalResult lowerReduceRows(tile::ReduceRowsOp op);
  mlir::LogicalResult lowerBcast(tile::BcastOp op);
  mlir::LogicalResult lowerIota(tile::IotaOp op);
  mlir::LogicalResult lowerSlice(tile::SliceOp op);
  const std::array<mlir::Value, 2> &e4m3Tables();
  mlir::LogicalResult lowerExpand(tile::ExpandOp op);
  mlir::LogicalResult lowerAny(tile::AnyOp op);
  /// The elements as f32, i32, i1 or i64 scalars: narrow floats widened, narrow integers sign extended.
  Regs unpacked(mlir::Value fragment);
  /// The words of elements given as `unpacked` gives them.
  Regs packed(const FragmentRegs &frag, mlir::ValueRange elements);

  // Values.
  mlir::Value scalar(mlir::Value v) { return values.lookup(v).front(); }
  mlir::Value scalar(mlir::OpFoldResult v); ///< i32
  Regs &regs(mlir::Value v) { return values[v]; }
  void set(mlir::Value v, Regs r) { values[v] = std::move(r); }
  llvm::SmallVector<mlir::Type> machineTypes(mlir::Value v) const; ///< with the i1 of a Maybe
  /// Registers of `v` as the value `like` carries them (adds the i1, or poison for none).
  Regs regsAs(mlir::Value v, mlir::Value like);
  void setFrom(mlir::Value v, mlir::ValueRange flat, size_t &at);
  mlir::Value uniform(mlir::Value v); ///< through a shuffle, except in a lone thread
  bool isLone() const { return role && !gathering && const_cast<tile::RoleOp &>(role).getProducer(); }
  std::optional<int64_t> constant(mlir::Value v) const;
  Presence presence(mlir::Value v) const { return async ? async->presence(v) : Presence::Some; }

  tile::KernelOp kernel;
  mlir::OpBuilder b;
  Ptx ptx;
  mlir::LLVM::LLVMFuncOp func;
  llvm::DenseMap<mlir::Value, Regs> values;

  // Set at the function's entry.
  mlir::Value tid, warpgroup, smem;
  std::array<mlir::Value, 2> tables; ///< of E4M3, null before the first use
  llvm::DenseMap<mlir::Attribute, tile::RingOp> rings;
  llvm::DenseMap<mlir::Operation *, mlir::Value> counts; ///< loaded at the kernel's start
  llvm::DenseMap<mlir::Operation *, Regs> work; ///< what a schedule computed

  // Of the role being lowered.
  tile::RoleOp role;
  bool gathering = false; ///< it is a producer of a whole warpgroup
  mlir::Value thread, lane; ///< in the warpgroup, in the warp
  std::optional<AsyncAnalysis> async;
  std::optional<FillState> fill;
  struct PendingA {
    Regs registers;
    int64_t group;
  };
  /// What is in flight at this point of the walk.
  struct Flight {
    llvm::SmallVector<PendingA> pending; ///< register operands of mmas not yet waited for
    int64_t groups = 0;                  ///< committed so far
    bool has(int64_t group) const {
      return llvm::any_of(pending, [&](const PendingA &p) { return p.group == group; });
    }
    /// After an `if` that this was before and whose two paths ended so.
    Flight meet(const Flight &a, const Flight &b) const;
  };
  Flight flight;
  int64_t markers = 0;
};

} // namespace dsv3::codegen
