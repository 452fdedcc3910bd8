// What happens inside a Hopper kernel.
#ifndef DSV3_DIALECTS_TILE
#define DSV3_DIALECTS_TILE

include "mlir/IR/DialectBase.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::dsv3::tile";
  let summary = "Kernels as one program per role, values as tiles";
  let description = [{
    Between `kernel` (one op per device call) and NVVM: kernels with asynchronous copies and tensor cores.

    - **A program per role.** There is no thread id. A scalar (i32, f32, i1) is the same in every thread of its
      role; what differs per thread is a *fragment*, one value for the whole warpgroup.
    - **Fragments are builtin tensors** whose encoding says which thread holds what: `tensor<64x256xf32, #acc>`.
      Elementwise math is upstream's arith and math; their verifiers refuse to mix two encodings.
    - **Asynchrony is in the types.** `mma` yields a `!tile.acc` that nobody can read before `await`; buffers of a
      ring come from `wait` (or `peek`, which the protocol checker must prove). Phase and stage live in the slot.
    - **Explicit**: roles, registers, rings, gates, layouts, copies, which wait precedes which release, peeling, the
      order of every float sum. The lowering owns descriptors, addresses, fences, parities, barrier ids, predicates.

    Text: `tile.` is elided inside the regions of this dialect's ops (not inside `scf.if` or `func.func`). Types of
    operands are written out, as MLIR's parser knows no others; results' types are written only where they do not
    follow. Indices, sizes and bounds are i32; a list in brackets mixes numbers and values: `view %b[%row, 0]`.

    Constraint labels T1, T2, ... in the descriptions are those of the messages and of the negative tests.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect"];
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerTypes();
  }];
}

#endif
