// Products of a weight at kernel level, and whether a target has a kernel for one in other schemes.
#pragma once

#include "codegen/targets/Targets.h"

#include "mlir/IR/Builders.h"

namespace dsv3::bind {

/// A launch that multiplies rows with weights.
struct Product {
  mlir::Operation *op = nullptr;
  llvm::SmallVector<unsigned, 2> weights; ///< operands
  bool hasRows = true;                    ///< operand 0 are the rows; kv_expand reads the cache instead

  /// None for launches that are no product.
  static std::optional<Product> of(mlir::Operation *op);
  mlir::Value rows() const { return op->getOperand(0); }
  bool rowsAreQuantised() const {
    return hasRows && llvm::cast<mlir::RankedTensorType>(rows().getType()).getEncoding();
  }
};

/// Why the target has no kernel for this launch; empty if it has one.
std::string whyNoKernel(mlir::Operation *op, const codegen::KernelRegistry &registry);
/// The same with operands in other types; a null type leaves an operand alone. Nothing remains of the attempt.
std::string whyNoKernel(const Product &product, mlir::Type rows, bool plainWeights, const codegen::KernelRegistry &registry);

/// `type` without its scheme.
inline mlir::RankedTensorType plainType(mlir::Type type) {
  auto tensor = llvm::cast<mlir::RankedTensorType>(type);
  return mlir::RankedTensorType::get(tensor.getShape(), tensor.getElementType());
}

} // namespace dsv3::bind
