// What has no lowering says so, at the op.
// RUN: dsv3-opt %s --split-input-file --verify-diagnostics --dsv3-tile-to-nvvm

// expected-error @+1 {{expected a memory plan from --dsv3-tile-allocate}}
tile.kernel @unplanned(%n: i32) {
  role @work warpgroups(1) as %g {
  }
}

// -----

tile.kernel @unpeeled(%n: i32) attributes {tile.smem = 0 : i64} {
  role @work warpgroups(1) as %g {
    // expected-error @+1 {{expected --dsv3-tile-peel to have run}}
    loop %i = 0 to %n step 1 {
    }
  }
}

// -----

func.func private @helper(i32) -> i32
tile.kernel @call(%n: i32) attributes {tile.smem = 0 : i64} {
  role @work warpgroups(1) as %g {
    // expected-error @+1 {{expected calls to be inlined}}
    %x = func.call @helper(%n) : (i32) -> i32
  }
}
