// What every x86 emitter shares: where an operand's references are, and how rows are addressed.
#pragma once

#include "codegen/targets/RefMap.h"
#include "codegen/x86/KernelBuilder.h"

namespace dsv3::codegen {

/// A plain tensor operand inside a kernel: rows of `stride` elements from `base`.
struct RowOperand {
  Value base; ///< address of row 0, lane 0 (a view's offset included)
  Type elem;
  int64_t stride; ///< bytes between rows of the leading dim
  int64_t inner;  ///< bytes between rows of the second dim for [T, H, D], else 0
  Value row(KernelBuilder &k, Value index) const { return k.at(base, k.mul(index, stride)); }
  Value row(KernelBuilder &k, Value index, Value head) const { return k.at(row(k, index), k.mul(head, inner)); }
};

class X86Emitter : public CpuEmitter {
public:
  X86Emitter(llvm::StringRef op, llvm::StringRef name) : op(op), emitterName(name) {}
  llvm::StringRef opName() const override { return op; }
  llvm::StringRef name() const override { return emitterName; }
  kernel::NumericsAttr numerics(mlir::Operation *op) const override;
  kernel::ScheduleAttr schedule(mlir::Operation *op) const override;
  mlir::LogicalResult emit(mlir::Operation *op, mlir::Operation *fn, const CpuVariant &variant) const final;

protected:
  /// Parameters of the schedule; empty when there is nothing to choose.
  virtual mlir::DictionaryAttr config(mlir::Operation *op) const;
  virtual mlir::LogicalResult body(mlir::Operation *op, KernelBuilder &k, const RefMap &refs) const = 0;

  static mlir::RankedTensorType tensorType(Value v) { return llvm::cast<mlir::RankedTensorType>(v.getType()); }
  static RowOperand rows(KernelBuilder &k, const RefMap &refs, mlir::Operation *op, unsigned operand);
  /// An integer of the op's schedule.
  static int64_t param(mlir::Operation *op, llvm::StringRef name);
  /// Number of true rows of a value, i64.
  static Value rowCount(KernelBuilder &k, Value tensor);
  /// Rows per leading row of [T, H, D]: 1 for rank 2.
  static int64_t innerRows(mlir::RankedTensorType t) { return t.getRank() == 3 ? t.getDimSize(1) : 1; }

private:
  llvm::StringRef op, emitterName;
};

void addGemmEmitters(KernelRegistry &);
void addRowEmitters(KernelRegistry &);
void addCacheEmitters(KernelRegistry &);
void addAttentionEmitters(KernelRegistry &);
void addExpertEmitters(KernelRegistry &);
void addQuantEmitters(KernelRegistry &);

} // namespace dsv3::codegen
