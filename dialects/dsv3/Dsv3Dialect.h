// The dsv3 dialect: what is computed. See Dsv3Dialect.td for its rules.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/dsv3/Real.h"
#include "dialects/target/TargetDialect.h"

namespace dsv3::ir {
/// One stored part of a tensor: its data, scales, zero points, or the index of its groups.
struct Part {
  llvm::StringRef name; ///< "data", "scale", "zero", "index"
  mlir::Type elem;
  llvm::SmallVector<int64_t> shape;
};
class QuantScheme;
} // namespace dsv3::ir

#include "dialects/dsv3/Dsv3Dialect.h.inc"
#include "dialects/dsv3/Dsv3Interfaces.h.inc"
#include "dialects/dsv3/Dsv3Enums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/dsv3/Dsv3Attrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/dsv3/Dsv3Types.h.inc"
#define GET_OP_CLASSES
#include "dialects/dsv3/Dsv3Ops.h.inc"

namespace dsv3::ir {

/// The scheme of a tensor type, or null if it is plain.
QuantScheme getScheme(mlir::Type type);

/// The tensor type that `source` has when it is cut, joined or reshaped, keeping the encoding when the
/// scale grid allows it and dropping it otherwise (the recipe is then dequantised).
mlir::RankedTensorType sliceType(mlir::RankedTensorType type, int64_t dim, int64_t offset, int64_t size);
mlir::RankedTensorType transposeType(mlir::RankedTensorType type);
mlir::RankedTensorType reshapeType(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> shape);
/// Fails (no dequantisation) when both are encoded and the grids do not continue.
mlir::FailureOr<mlir::RankedTensorType> concatType(llvm::ArrayRef<mlir::RankedTensorType> types, int64_t dim);

} // namespace dsv3::ir
