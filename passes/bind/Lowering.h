// What the lowering of every dsv3 op to kernel ops shares.
#pragma once

#include "codegen/targets/KernelEmitter.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"

namespace dsv3::bind {

/// What `--dsv3-bind-kernels` sets later.
inline const kernel::NumericsAttr unbound;
inline const kernel::ScheduleAttr unscheduled;

/// The state of one lowering. `b` stands before the op that is being lowered.
class Lowering {
public:
  Lowering(mlir::ModuleOp module, const codegen::Capacities &capacities)
      : b(module.getContext()), capacities(capacities), symbols(module) {}

  /// Lowers a whole program. Emits a diagnostic and fails at the first op that has no kernel.
  mlir::LogicalResult run(ir::ProgramOp program);

  /// An uninitialised destination.
  mlir::Value empty(mlir::Location loc, mlir::Type type);
  mlir::Value empty(mlir::Location loc, llvm::ArrayRef<int64_t> shape, mlir::Type elem);
  /// Lanes [offset, offset + last dim of `type`) of `source`; a view of a view is one view, the whole is no view.
  mlir::Value view(mlir::Location loc, mlir::Value source, int64_t offset, mlir::RankedTensorType type);
  /// cos and sin for all positions: one weight per distinct `rope`, one use per program.
  mlir::Value ropeTable(ir::RopeAttr rope);
  /// The weight that `value` is a use of, or a diagnostic on `op` that names the operand `name`.
  mlir::FailureOr<ir::WeightOp> weightOf(mlir::Operation *op, llvm::StringRef name, mlir::Value value);
  /// The weight `whole` + `suffix` of this recipe: the one that is there, or a new one after `whole`.
  mlir::FailureOr<ir::WeightOp> derived(ir::WeightOp whole, llvm::StringRef suffix, mlir::RankedTensorType type,
                                        mlir::Attribute source);
  mlir::Value use(mlir::Location loc, ir::WeightOp weight);
  /// Puts `values` in the place of the op's results and erases it.
  void replace(mlir::Operation *op, mlir::ValueRange values);

  mlir::OpBuilder b;
  const codegen::Capacities &capacities;

private:
  mlir::LogicalResult lowerAppends(mlir::Block &block);

  mlir::SymbolTable symbols;
  mlir::Block *body = nullptr;
  llvm::DenseMap<ir::RopeAttr, mlir::Value> tables; ///< of the current program
};

inline mlir::RankedTensorType tensorType(mlir::Value v) { return llvm::cast<mlir::RankedTensorType>(v.getType()); }

/// One overload per op. Each fails with a diagnostic when the op has no kernel in this form.
mlir::LogicalResult lower(ir::EmbedOp op, Lowering &l);
mlir::LogicalResult lower(ir::RmsNormOp op, Lowering &l);
mlir::LogicalResult lower(ir::LinearOp op, Lowering &l);
mlir::LogicalResult lower(ir::QuantizeOp op, Lowering &l);
mlir::LogicalResult lower(ir::GatedLinearOp op, Lowering &l);
mlir::LogicalResult lower(ir::BatchedLinearOp op, Lowering &l);
mlir::LogicalResult lower(ir::SwigluOp op, Lowering &l);
mlir::LogicalResult lower(ir::AddOp op, Lowering &l);
mlir::LogicalResult lower(ir::SplitOp op, Lowering &l);
mlir::LogicalResult lower(ir::ConcatOp op, Lowering &l);
mlir::LogicalResult lower(ir::SelectRowsOp op, Lowering &l);
mlir::LogicalResult lower(ir::TapOp op, Lowering &l);

mlir::LogicalResult lower(ir::RopeOp op, Lowering &l);
mlir::LogicalResult lower(ir::KvAppendOp op, Lowering &l);
mlir::LogicalResult lower(ir::MlaAttentionOp op, Lowering &l);
mlir::LogicalResult lower(ir::LatentAttentionOp op, Lowering &l);

mlir::LogicalResult lower(ir::RouteOp op, Lowering &l);
mlir::LogicalResult lower(ir::RoutedExpertsOp op, Lowering &l);
mlir::LogicalResult lower(ir::DispatchOp op, Lowering &l);
mlir::LogicalResult lower(ir::GroupedLinearOp op, Lowering &l);
mlir::LogicalResult lower(ir::CombineOp op, Lowering &l);

} // namespace dsv3::bind
