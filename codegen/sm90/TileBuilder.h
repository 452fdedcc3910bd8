// Writes `tile` IR from C++ so that a kernel body reads like the dialect's text: roles, loops and fills are calls with a
// lambda as their region, everything else is one call per op. Kernels of GEMMs and attention are written with it.
//
//   TileBuilder k(builder, loc);
//   k.kernel("gemm", {scalars, a.type, b.type}, /*cluster=*/1, [&](Values args) {
//     Value ring = k.ring("ab", 4, {a, b}, {"mma"}, tile::Arrive::Warpgroup);
//     Value work = k.raster({m, n}, {128, 256}, 8, {"m", "n"});
//     k.producer("load", 40, [&] {
//       k.foreach(work, {k.next(ring)}, [&](Values at, Values v) { ... return v; });
//     });
//   });
#pragma once

#include "dialects/tile/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace dsv3::codegen {

using Values = llvm::SmallVector<mlir::Value, 4>;

/// A number or an i32 value: a coordinate (`tile::kStar` too), a bound, an extent.
struct Num {
  Num(int number) : number(number) {}
  Num(int64_t number) : number(number) {}
  Num(mlir::Value value) : value(value) {}
  int64_t number = 0;
  mlir::Value value; ///< null: `number`
};

class TileBuilder {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;
  template <typename T> using Fn = llvm::function_ref<T>;

  TileBuilder(mlir::OpBuilder &builder, mlir::Location loc);

  mlir::ImplicitLocOpBuilder b; ///< for ops without a short form here
  const Type f32, bf16, f16, f8, i32, i8, i4, i1, scalars; ///< `scalars`: the type of a kernel's first parameter

  //===-- Types -----------------------------------------------------------===//

  tile::BufType buf(llvm::ArrayRef<int64_t> shape, Type elem, tile::SmemKind kind = tile::SmemKind::Sw128) const;
  /// Row-major with address bits exchanged: swizzle<B, M, S>.
  tile::BufType swizzled(llvm::ArrayRef<int64_t> shape, Type elem, int64_t bits, int64_t base, int64_t shift) const;
  /// A buffer in the register order of a fragment, an accumulator's by default.
  tile::BufType fragBuf(llvm::ArrayRef<int64_t> shape, Type elem, tile::FragKind kind = tile::FragKind::Acc) const;
  /// A tensor map with `?` in every dim: the host describes the extents.
  tile::TmaType tma(Type elem, llvm::ArrayRef<int64_t> box, tile::SmemKind kind = tile::SmemKind::Sw128) const;
  tile::GmemType gmem(llvm::ArrayRef<int64_t> shape, Type elem) const;
  tile::AccType acc(int64_t cols, Type elem) const { return tile::AccType::get(64, cols, elem); }
  mlir::RankedTensorType frag(int64_t cols, Type elem, tile::FragKind kind = tile::FragKind::Acc) const; ///< 64 x cols
  mlir::RankedTensorType row(Type elem) const;                ///< 64, `row`
  mlir::RankedTensorType col(int64_t cols, Type elem) const;  ///< cols, `col`
  mlir::RankedTensorType quad(Type elem) const;               ///< 64 x 4, `quad`
  mlir::RankedTensorType line(int64_t rows) const;            ///< i32, `line`: ids that `gather` takes

  //===-- Structure -------------------------------------------------------===//

  tile::KernelOp kernel(llvm::StringRef name, llvm::ArrayRef<Type> args, int64_t cluster, Fn<void(Values)> body);
  /// Calls a helper of this kernel, function @KERNEL.name in front of it; `body` writes it at the first call and sees its
  /// own arguments only. A name has one list of argument types. Helpers are inlined before anything else is done.
  Values call(llvm::StringRef name, llvm::ArrayRef<Value> args, Fn<Values(Values)> body);
  /// One elected thread of its own warpgroup.
  void producer(llvm::StringRef name, int64_t regs, Fn<void()> body);
  /// `count` warpgroups; the region gets the index of its own. `regs` 0: as the launch has them.
  void consumers(llvm::StringRef name, int64_t count, int64_t regs, Fn<void(Value)> body);
  Value raster(llvm::ArrayRef<Num> extents, llvm::ArrayRef<int64_t> tile, int64_t group, llvm::ArrayRef<llvm::StringRef> fields);
  Value list(Value items, Value parts, Value lanes, llvm::ArrayRef<llvm::StringRef> fields);
  Value groups(Value offsets, Value experts, int64_t rows, Value cols, int64_t tile, int64_t max, llvm::ArrayRef<llvm::StringRef> fields);
  /// Every item of this CTA: the fields, then what is carried.
  Values foreach(Value work, llvm::ArrayRef<Value> inits, Fn<Values(Values, Values)> body);
  Values loop(Num from, Num to, Num step, llvm::ArrayRef<Value> inits, Fn<Values(Value, Values)> body);
  Values unrolled(int64_t from, int64_t to, int64_t step, llvm::ArrayRef<Value> inits, Fn<Values(Value, Values)> body);
  /// The body also gets `%fin`: true in the peeled trip.
  Values peeled(tile::Peel peel, Num from, Num to, Num step, llvm::ArrayRef<Value> inits, Fn<Values(Value, Value, Values)> body);
  /// scf.if without and with results (whose types are those of the first branch).
  void when(Value condition, Fn<void()> then);
  Values choose(Value condition, llvm::ArrayRef<Type> types, Fn<Values()> then, Fn<Values()> otherwise);
  Value none(Type type);

  //===-- Rings and barriers ----------------------------------------------===//

  /// A ring whose stages land and are freed as a whole.
  Value ring(llvm::StringRef name, int64_t stages, llvm::ArrayRef<Type> bufs, llvm::ArrayRef<llvm::StringRef> freedBy,
             tile::Arrive arrive = tile::Arrive::Warp);
  Value ring(tile::RingAttr attr);
  Value next(Value ringOrSlot);
  void fill(Value slot, Fn<void(Values)> body, int64_t group = -1);
  Values wait(Value slot, int64_t group = -1);
  Values waitFree(Value slot, int64_t group = -1);
  Values peek(Value slot);
  void release(Value slot, int64_t group = -1);
  void releaseFull(Value slot);
  Value gate(llvm::StringRef from, llvm::StringRef to, bool mutual = false);
  /// The same as an mbarrier instead of a named barrier: up to 1% slower in attention, but compute-sanitizer follows it. Of a
  /// named barrier that roles reach by different instructions it knows neither that it orders accesses nor that PTX allows it.
  Value memoryGate(llvm::StringRef from, llvm::StringRef to, bool mutual = false);
  void signal(Value gate);
  void meet(Value gate);
  void sync(tile::Scope scope = tile::Scope::Warpgroup);

  //===-- Memory ----------------------------------------------------------===//

  Value alloc(tile::BufType type);
  Value view(tile::BufType type, Value source, llvm::ArrayRef<Num> at);
  void copy(Value source, llvm::ArrayRef<Num> at, Value dest, tile::Hint hint = tile::Hint::Normal, Value onSlot = {});
  /// Rows `ids` of a matrix, columns from `column` on, of which rows from `rows` on are zeros; in a `fill`.
  void gather(Value source, Value ids, Num column, Value rows, Value dest);
  Value load(Value source, Type type, bool trans = false);
  /// 64 columns of 8 bits from `column` on as rows, in the order that `writePaired` undoes.
  Value loadPaired(Value source, int64_t column, Type type);
  void store(Value frag, Value dest);
  void zero(Value dest, Num from, Num to);
  Value put(Value source, Value tma, llvm::ArrayRef<Num> at);
  Value read(Value source, llvm::ArrayRef<Num> at, Type type, Value rows = {}, Value cols = {}, bool trans = false);
  /// Column `column` of rows `ids` of a matrix.
  Value lookup(Value source, Value ids, Num column);
  /// Rows and columns count from `at`; null: all exist.
  void write(Value value, Value dest, llvm::ArrayRef<Num> at, Value rows = {}, Value cols = {}, bool trans = false, Value via = {});
  /// Of products with what `loadPaired` gave: transposed, rows in order again.
  void writePaired(Value value, Value dest, llvm::ArrayRef<Num> at, Value rows = {});
  /// Number `index` of the step's scalars, DSV3_SCALAR_*.
  Value count(Value scalars, int64_t index);

  //===-- Compute ---------------------------------------------------------===//

  struct Mma {
    Value acc, token;
  };
  Mma mma(tile::Form form, Value a, Value bufOrSlot, Value acc, int64_t group = -1);
  /// A tensor, or null for a token.
  Value await(Value accOrToken, bool reads = false);
  Value reduce(tile::Combine kind, Value source, Type type);
  /// Over the rows of `over` neighbouring warpgroups, a `col` fragment for all of them.
  Value reduceRows(tile::Combine kind, Value source, int64_t over, Value via);
  Value bcast(Value source, Type type);
  Value iota(int64_t dim, Type type);
  Value slice(Value frag, Num column, int64_t columns);
  Value expand(Value frag, Type type, Value zero = {}); ///< `zero`: taken off per row
  Value any(Value mask);
  /// This block's columns, `cols` of them, of the sum over the cluster, ranks ascending.
  Value clusterSum(Value frag, Value via, int64_t cols);

  /// A constant of an integer or float type, or a splat of a fragment type.
  Value constant(Type type, double number);
  Value ci(int64_t number) { return constant(i32, double(number)); }
  Value index(Num n) { return n.value ? n.value : ci(n.number); }

  // Elementwise on scalars and fragments, integer or float as the operands are; a number becomes a constant of the
  // other operand's type.
  Value add(Value x, Num y);
  Value sub(Value x, Num y);
  Value mul(Value x, Num y);
  Value divUp(Value x, int64_t y); ///< unsigned
  Value div(Value x, int64_t y);   ///< unsigned
  Value rem(Value x, int64_t y);   ///< unsigned
  Value shl(Value x, int64_t bits);
  Value shr(Value x, int64_t bits); ///< unsigned
  Value min(Value x, Num y);        ///< signed, or of floats
  Value max(Value x, Num y);
  Value lt(Value x, Num y); ///< signed, or ordered of floats
  Value ge(Value x, Num y);
  Value eq(Value x, Num y);
  Value select(Value mask, Value x, Value y);
  Value fma(Value x, Value y, Value z);
  Value divide(Value x, Value y); ///< floats
  Value neg(Value x);             ///< floats
  Value exp2(Value x);            ///< approximate
  Value log2(Value x);            ///< approximate
  /// To another float type of the same encoding; nothing if it is that already.
  Value cast(Value x, Type elem);
  /// Integers as f32, rounded to nearest.
  Value toFloat(Value x);
  /// f32 below 2^22 as the low byte of the nearest integer, ties to even.
  Value toCodes(Value x);

private:
  tile::KernelOp current; ///< that is being written

  mlir::OpFoldResult fold(Num n) const;
  llvm::SmallVector<mlir::OpFoldResult> fold(llvm::ArrayRef<Num> nums) const;
  Value operand(Value like, Num n);
  Values yieldFrom(mlir::Operation *op, mlir::Block &block, Fn<Values()> body);
};

} // namespace dsv3::codegen
