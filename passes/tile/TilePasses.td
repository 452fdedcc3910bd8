// Passes on the inside of kernels: what goes in, what comes out, what is refused.
#ifndef DSV3_TILE_PASSES
#define DSV3_TILE_PASSES

include "mlir/Pass/PassBase.td"

// On any op, as kernels lie in a gpu.module or, in tests, at top level; helpers are functions.
def TilePeelPass : Pass<"dsv3-tile-peel"> {
  let summary = "Peels and unrolls loops; no `tile.loop` is left";
  let description = [{
    In: kernels whose helpers have been inlined. Out: each `tile.loop`
    - `peel(first)`: a copy of its body with `%fin` true, then an `scf.for` over the other trips with `%fin` false;
    - `peel(last)`: the `scf.for` first, then the copy;
    - `unroll`: one copy per trip;
    - else an `scf.for`.

    Then what became constant folds: `scf.if` on `%fin`, lists of coordinates, `await` and `release` of `none`. So
    `mma into none`, which starts from zero without a test, stands in the peeled copy only. Nothing else is
    simplified: a branch that skips work stays a branch.

    A peeled loop has at least one trip (T6): checked where bounds are constant, promised by the kernel elsewhere.
    Refused: a `slice` whose column is no constant afterwards (T34).
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect", "::dsv3::tile::TileDialect"];
}

#endif
