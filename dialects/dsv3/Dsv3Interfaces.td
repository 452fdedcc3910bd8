// Interfaces of attributes of the dsv3 dialect.
#ifndef DSV3_DIALECTS_DSV3_INTERFACES
#define DSV3_DIALECTS_DSV3_INTERFACES

include "mlir/IR/OpBase.td"

def Dsv3_QuantScheme : AttrInterface<"QuantScheme"> {
  let cppNamespace = "::dsv3::ir";
  let description = [{
    How numbers of a tensor are stored. A scheme names no kernel and holds no data: it answers what
    parts (data, scales, zero points) a tensor of a given shape has, and which parts of it can be
    cut out or joined without touching the numbers.
  }];
  let methods = [
    InterfaceMethod<"Element type of the stored data.", "::mlir::Type", "getStorageType">,
    InterfaceMethod<[{Parts of a tensor of this shape: `data`, `scale`, and where there are any, `zero` (zero points)
      and `index` (the block of each column).}],
      "::llvm::SmallVector<::dsv3::ir::Part>", "getParts", (ins "::llvm::ArrayRef<int64_t>":$shape)>,
    InterfaceMethod<[{The scheme of `[offset, offset + size)` along `dim`, or failure when the cut
      does not lie on the scale grid (nor wholly inside one block).}],
      "::llvm::FailureOr<::dsv3::ir::QuantScheme>", "slice",
      (ins "::llvm::ArrayRef<int64_t>":$shape, "int64_t":$dim, "int64_t":$offset, "int64_t":$size)>,
    InterfaceMethod<[{The scheme of this tensor followed by one of `rhs` along `dim`, or failure when
      the scale grids do not continue.}],
      "::llvm::FailureOr<::dsv3::ir::QuantScheme>", "concat",
      (ins "::llvm::ArrayRef<int64_t>":$shape, "::dsv3::ir::QuantScheme":$rhs, "int64_t":$dim)>,
    InterfaceMethod<"The scheme after the last two dimensions are swapped, or failure.",
      "::llvm::FailureOr<::dsv3::ir::QuantScheme>", "transpose">,
    InterfaceMethod<"Number of consecutive K (last dim) values that share a scale; 0 for all.",
      "int64_t", "getScaleExtentK">
  ];
}

def Dsv3_WeightSource : AttrInterface<"WeightSource"> {
  let cppNamespace = "::dsv3::ir";
  let description = [{
    An expression over checkpoint tensors that says where a weight's numbers come from. Evaluated by
    `codegen/emit` (streaming) and by the interpreter, always in float32.
  }];
  let methods = [
    InterfaceMethod<"Calls `fn` for each checkpoint tensor this expression reads (scales included).",
      "void", "forEachTensor", (ins "::llvm::function_ref<void(::llvm::StringRef)>":$fn)>,
    InterfaceMethod<"Calls `fn` for each weight symbol this expression reads.",
      "void", "forEachSymbol", (ins "::llvm::function_ref<void(::llvm::StringRef)>":$fn)>
  ];
}

#endif
