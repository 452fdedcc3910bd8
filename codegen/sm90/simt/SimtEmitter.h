// What the emitters of thread-level kernels share: parameters, rows of operands, and the grid over vectors of rows.
#pragma once

#include "codegen/sm90/EmitterBase.h"
#include "codegen/sm90/simt/SimtBuilder.h"

namespace dsv3::codegen {

/// A plain tensor operand inside a kernel. Rows of [T, H, D] are counted through: row t * H + h.
struct Rows {
  Value base; ///< address of row 0, lane 0 (a view's offset included)
  Type elem;
  int64_t stride; ///< bytes between rows
  bool readOnly;  ///< no destination shares the buffer

  Value at(SimtBuilder &k, Value row) const { return k.element(base, row, stride); }
  Value at(SimtBuilder &k, Value row, Value lane) const { return k.element(at(k, row), lane, elemBytes(elem)); }
  Lanes load(SimtBuilder &k, Value address, int64_t n) const { return k.loadF32(elem, address, n, readOnly); }
};

/// A kernel whose parameters are all references of the launch in order, then the constants of its signature. Its
/// schedule has `threads`, the size of a block, chosen from the widths of rows alone: buckets share bodies.
class SimtEmitter : public Sm90Emitter {
public:
  using Sm90Emitter::Sm90Emitter;
  DeviceLaunch launch(mlir::Operation *op) const final;
  mlir::LogicalResult emit(mlir::Operation *op, llvm::StringRef symbol, mlir::OpBuilder &builder) const final;

protected:
  virtual int64_t threads(mlir::Operation *op) const = 0;
  /// Blocks of a cluster: the schedule has `cluster` too if there are more than one.
  virtual int64_t cluster(mlir::Operation *) const { return 1; }
  /// Blocks of the grid, from the capacities of the types.
  virtual int64_t blocks(mlir::Operation *op) const = 0;
  virtual void body(mlir::Operation *op, SimtBuilder &k, const RefMap &refs) const = 0;

  mlir::DictionaryAttr config(mlir::Operation *op) const override;

  static Rows rows(SimtBuilder &k, const RefMap &refs, mlir::Operation *op, unsigned operand);
  /// Rows of a value's type: T, or T * H.
  static int64_t rowCapacity(Value v);
  /// True rows of a value, i32.
  static Value rowCount(SimtBuilder &k, Value v);
  /// The most elements (8, 4, 2 or 1) that divide each of `widths` and the places where rows of `operands` begin.
  static int64_t vectorWidth(mlir::Operation *op, ArrayRef<unsigned> operands, ArrayRef<int64_t> widths);
  /// Empty, or which float operand is neither f32 nor bf16, or is quantised; operand `quantised` may be.
  static std::string floatsOnly(mlir::Operation *op, int64_t quantised = -1);
};

/// A kernel in which each thread makes one vector of the result, and nothing depends on a neighbour.
class FlatEmitter : public SimtEmitter {
public:
  using SimtEmitter::SimtEmitter;
  std::string whyIllegal(mlir::Operation *op) const override;

protected:
  static constexpr int64_t kThreads = 128;
  int64_t threads(mlir::Operation *) const final { return kThreads; }
  int64_t blocks(mlir::Operation *op) const final;
  void body(mlir::Operation *op, SimtBuilder &k, const RefMap &refs) const final;

  /// Work items of a row.
  virtual int64_t items(mlir::Operation *op) const = 0;
  /// The value whose rows are counted: the result unless said otherwise.
  virtual Value counted(mlir::Operation *op) const { return op->getResult(0); }
  /// Item `item` (i32) of row `row` (i32).
  virtual void item(mlir::Operation *op, SimtBuilder &k, const RefMap &refs, Value row, Value item) const = 0;
};

void addRowEmitters90(KernelRegistry &);
void addCacheEmitters90(KernelRegistry &);
void addExpertEmitters90(KernelRegistry &);
void addRouteEmitters90(KernelRegistry &);
void addPlanEmitters90(KernelRegistry &);
void addQuantEmitters90(KernelRegistry &);
void addCodeEmitters90(KernelRegistry &); // behind them: rows with one scale
void addSampleEmitters90(KernelRegistry &);

} // namespace dsv3::codegen
