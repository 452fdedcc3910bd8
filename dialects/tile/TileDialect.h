// The tile dialect: what happens inside a Hopper kernel.
#pragma once

#include "dialects/tile/SmemLayout.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace dsv3::tile {
class BufType;
class KernelOp;
class RoleOp;
class RingOp;
class YieldOp;

/// In the bracketed lists of coordinates: the part's own offset (`*`); a value stands as ShapedType::kDynamic.
constexpr int64_t kStar = mlir::ShapedType::kDynamic + 1;

bool isFragment(mlir::Type type);
} // namespace dsv3::tile

#include "dialects/tile/TileDialect.h.inc"
#include "dialects/tile/TileEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/tile/TileAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/tile/TileTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/tile/TileOps.h.inc"

namespace dsv3::tile {

/// The encoding of a fragment, or null.
FragAttr getFrag(mlir::Type type);
/// `tensor<shape x element, #tile.frag<kind>>`.
mlir::RankedTensorType fragType(llvm::ArrayRef<int64_t> shape, mlir::Type element, FragKind kind);
/// Slot type of a ring or slot type; null for other types.
mlir::Type slotOf(mlir::Type ringOrSlot);
/// The accumulator of this type or of this fragment (encoding acc); null for other types.
mlir::Type accOf(mlir::Type accOrFragment);
/// Ring of a ring or slot type.
RingAttr ringOf(mlir::Type ringOrSlot);

/// A coordinate `*`, for the lists that builders take.
mlir::OpFoldResult star(mlir::MLIRContext *context);
/// Numbers and values of a list apart, and together again.
void splitCoords(llvm::ArrayRef<mlir::OpFoldResult> mixed, llvm::SmallVectorImpl<mlir::Value> &values, llvm::SmallVectorImpl<int64_t> &place);
llvm::SmallVector<mlir::OpFoldResult> joinCoords(mlir::MLIRContext *context, mlir::ValueRange values, llvm::ArrayRef<int64_t> place);

/// The names of the fields of a work value, from the op that made it.
llvm::SmallVector<llvm::StringRef> getFields(mlir::Value work);

} // namespace dsv3::tile
