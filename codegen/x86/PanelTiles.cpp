// The multiplication of PanelGemm by AMX tiles.
//
// A tile is 16 rows of 64 bytes. TDPBF16PS adds to C, 16 rows x 16 columns of f32, the product of A, 16 rows x 32 k of
// bf16, and B, 16 k pairs x 16 columns: rows of x, and a packed panel as it stands. The accumulators in scratch are C's
// memory, so only multiplications differ from the plain path.
//
// Every tile has 16 rows, even for a single row of x: what a row's result is made of depends on K alone, LLVM needs
// one tile configuration per kernel, and with few rows the loads of B take the time. Rows past the last are whatever
// scratch holds; their results are never read. Shapes are constants, because LLVM gives each tile register one shape in
// a function, and there are eight.
#include "codegen/x86/PanelGemm.h"

using namespace mlir;

namespace dsv3::codegen {

static constexpr int64_t kTileRows = 16, kTileBytes = 64;
/// k values of one tile of x.
static constexpr int64_t kTileK = kTileBytes / 2;

//===-- Instructions ------------------------------------------------------===//

/// The intrinsics that leave registers and configuration to LLVM. Shapes are rows and bytes per row.
static Value tileLoad(KernelBuilder &k, int64_t rows, int64_t bytes, Value address, Value stride) {
  auto tile = LLVM::LLVMX86AMXType::get(k.b.getContext());
  return LLVM::CallIntrinsicOp::create(k.b, tile, k.b.getStringAttr("llvm.x86.tileloadd64.internal"),
                                       ValueRange{k.cint(k.i16, rows), k.cint(k.i16, bytes), address, stride})
      .getResult(0);
}

static void tileStore(KernelBuilder &k, Value tile, Value address, Value stride) {
  LLVM::CallIntrinsicOp::create(k.b, k.b.getStringAttr("llvm.x86.tilestored64.internal"),
                                ValueRange{k.cint(k.i16, kTileRows), k.cint(k.i16, kTileBytes), address, stride, tile});
}

/// acc + a . b over `depth` k values.
static Value tileDot(KernelBuilder &k, Value acc, Value a, Value b, int64_t depth) {
  return LLVM::CallIntrinsicOp::create(k.b, acc.getType(), k.b.getStringAttr("llvm.x86.tdpbf16ps.internal"),
                                       ValueRange{k.cint(k.i16, kTileRows), k.cint(k.i16, kTileBytes), k.cint(k.i16, depth * 2), acc, a, b})
      .getResult(0);
}

//===-- Rows of x ---------------------------------------------------------===//

/// Copies an even number of bf16 values, vectors first.
void PanelGemm::copyRow(Value from, Value to, int64_t count) {
  int64_t whole = count / kTileK * kTileK;
  auto move = [&](Type type, Value value) {
    Value bytes = k.mul(value, 2);
    k.store(k.load(type, k.at(from, bytes), 2), k.at(to, bytes), 4);
  };
  k.loop(0, whole, kTileK, [&](Value kk) { move(k.vi32, kk); });
  k.loop(whole, count, 2, [&](Value kk) { move(k.i32, kk); });
}

/// 16 rows of x from `row`, k values [k0, k0 + count): in place, or copied to scratch where rows are gathered or fewer
/// than 16 are left, since what follows the last row of x must not be read.
PanelGemm::TileRows PanelGemm::tileRows(Value row, Value copy, Value k0, int64_t count) {
  Value copyStride = k.idx(kChunk * 2);
  Value end = k.add(row, kTileRows);
  auto address = [&](Value r) { return k.at(rowAddress(r), k.mul(k0, 2)); };
  auto copyRows = [&] {
    k.loop(row, k.minI(rows, end), 1, [&](Value r) { copyRow(address(r), k.at(copy, k.mul(k.sub(r, row), kChunk * 2)), count); });
  };
  if (!rowStride) {
    copyRows();
    return {copy, copyStride};
  }
  Value partial = k.lt(rows, end);
  k.when(partial, copyRows);
  return {arith::SelectOp::create(k.b, partial, copy, address(row)), arith::SelectOp::create(k.b, partial, copyStride, k.idx(rowStride))};
}

//===-- Multiply ----------------------------------------------------------===//

/// One or two `groups` of 16 rows from `row` times the panels of `slotsOfGroup`, over an even number of k values from `k0`.
void PanelGemm::tileGroup(ArrayRef<Source> sources, ArrayRef<int64_t> slotsOfGroup, Value row, int64_t groups, Value k0, int64_t count) {
  SmallVector<TileRows> x;
  for (int64_t g = 0; g < groups; ++g)
    x.push_back(tileRows(k.add(row, g * kTileRows), k.at(preparedAddress(slots()), g * kTileRows * kChunk * 2), k0, count));
  Value accStride = k.idx(slots() * kLanes * 4), panelStride = k.idx(kTileBytes);
  SmallVector<Value> acc, accAt;
  for (int64_t slot : slotsOfGroup)
    for (int64_t g = 0; g < groups; ++g) {
      accAt.push_back(accAddress(k.add(row, g * kTileRows), slot));
      acc.push_back(tileLoad(k, kTileRows, kTileBytes, accAt.back(), accStride));
    }
  auto step = [&](Value kk, int64_t depth, ValueRange in) {
    SmallVector<Value> a, next;
    for (const TileRows &r : x)
      a.push_back(tileLoad(k, kTileRows, depth * 2, k.at(r.base, k.mul(kk, 2)), r.stride));
    for (const Source &source : sources) {
      Value b = tileLoad(k, depth / 2, kTileBytes, k.at(source.base, k.mul(kk, kLanes * 2)), panelStride);
      for (Value rowsOfX : a)
        next.push_back(tileDot(k, in[next.size()], rowsOfX, b, depth));
    }
    return next;
  };
  int64_t whole = count / kTileK * kTileK;
  if (whole)
    acc = k.loop(k.idx(0), k.idx(whole), kTileK, acc, [&](Value kk, ValueRange in) { return step(kk, kTileK, in); });
  if (whole < count)
    acc = step(k.idx(whole), count - whole, acc);
  for (auto [tile, address] : llvm::zip_equal(acc, accAt))
    tileStore(k, tile, address, accStride);
}

/// All rows times panels of bf16, two panels and 32 rows at a time: four sums in flight hide the latency of the instruction.
/// The last value of an odd count has no partner in x, so it is added by the pair instruction.
void PanelGemm::multiplyTiles(ArrayRef<Source> sources, Value k0, int64_t count) {
  int64_t even = count / 2 * 2;
  // Four sums, two tiles of x and one of a panel leave one register. A narrower last step would take two, since shapes
  // do not share registers. And two copies of 16 rows have room behind two panels.
  bool two = slots() > 1 && WeightShape(weights.front().type).k / 2 * 2 % kTileK == 0;
  for (int64_t first = 0; first < slots(); first += 2) {
    SmallVector<int64_t> group;
    for (int64_t s = first; s < std::min(first + 2, slots()); ++s)
      group.push_back(s);
    ArrayRef<Source> some = sources.slice(size_t(first), group.size());
    if (even && two)
      k.loop(k.idx(0), rows, 2 * kTileRows, [&](Value row) {
        k.when(
            k.lt(k.add(row, kTileRows), rows), [&] { tileGroup(some, group, row, 2, k0, even); },
            [&] { tileGroup(some, group, row, 1, k0, even); });
      });
    else if (even)
      k.loop(k.idx(0), rows, kTileRows, [&](Value row) { tileGroup(some, group, row, 1, k0, even); });
    if (even == count)
      continue;
    SmallVector<Source> last;
    for (const Source &source : some)
      last.push_back({k.at(source.base, even * kLanes * 2), Value(), Value(), true});
    k.loop(k.idx(0), rows, 1, [&](Value row) { rowGroup(last, group, row, 1, k.add(k0, even), 1); });
  }
}

} // namespace dsv3::codegen
