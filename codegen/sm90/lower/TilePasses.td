// From tile to NVVM.
#ifndef DSV3_TILE_PASSES
#define DSV3_TILE_PASSES

include "mlir/Pass/PassBase.td"

def TileAllocatePass : Pass<"dsv3-tile-allocate"> {
  let summary = "Place buffers and barriers of kernels in shared memory";
  let description = [{
    In: tile.kernel ops whose buffers have layouts. Out: the same with, on `alloc` and `groups`, `tile.offset`; on `ring`,
    `tile.offsets` (stage 0 of each buffer; stages and lanes follow each other) and `tile.barriers`; on `gate` and on roles
    that `sync`, `tile.id` (`tile.offset` on a gate with `tile.memory`, which is an mbarrier); on the kernel, `tile.smem`: bytes of dynamic shared memory. Swizzled buffers come first, on
    multiples of 1024, mbarriers last.

    Refused: a layout `auto`; T1, more than 232448 bytes, with the sizes listed; T14, more than 15 named barriers.
  }];
}

def TileToNvvmPass : Pass<"dsv3-tile-to-nvvm"> {
  let summary = "Kernels of the tile dialect to functions of one thread";
  let description = [{
    In: tile.kernel ops after `--inline`, `--dsv3-tile-peel` and `--dsv3-tile-allocate`. Out: an llvm.func per kernel, with
    `nvvm.kernel`, threads, cluster size and `dsv3.smem` (bytes of dynamic shared memory), of scf, arith, math and llvm ops;
    all PTX is inline assembly (codegen/sm90/lower/Ptx.cpp).

    Refused: calls, unpeeled loops, and fragments or layouts without a lowering, by op.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

#endif
