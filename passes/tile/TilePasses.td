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

def TileSyncGatesPass : Pass<"dsv3-tile-sync-gates"> {
  let summary = "Gates without a one-sided arrival, for tools that do not follow one";
  let description = [{
    In: kernels. Out: every `gate from @a to @b` is `between` them and every `signal` is a `meet`, that is a full barrier
    instead of an arrival and a wait. What the gate ordered is still ordered, and the signalling side now waits too: slower,
    and able to deadlock where two roles first signal and then meet in opposite order (--dsv3-tile-check-protocol says).

    compute-sanitizer's racecheck takes an arrival for no synchronisation and reports the two sides as a race; on this
    form of the same kernel it reports what is wrong and nothing else.
  }];
  let dependentDialects = ["::dsv3::tile::TileDialect"];
}

#endif
