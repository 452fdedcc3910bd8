// Where buffers and barriers lie.
// RUN: dsv3-opt %s --split-input-file --verify-diagnostics --dsv3-tile-allocate | FileCheck %s

!A = !tile.buf<128x64xbf16, sw128>
!X = !tile.buf<64xf32>
#r = #tile.ring<"a", stages = 3, bufs = [!A, !X], free = [all by @mma]>
// Swizzled buffers first, on multiples of 1024; mbarriers last: 3 full ones, 3 free ones.
// CHECK-LABEL: tile.kernel @plan
// CHECK-SAME: tile.smem = 50480 : i64
tile.kernel @plan(%n: i32) {
  // CHECK: alloc {tile.offset = 49152 : i64} : !tile.buf<100xf32>
  %x = alloc : !tile.buf<100xf32>
  // CHECK: ring {{.*}} {tile.barriers = 50432 : i64, tile.offsets = array<i64: 0, 49664>}
  %r = ring #r
  // CHECK: gate from @mma to @other {tile.id = 1 : i64}
  %g = gate from @mma to @other
  role @load producer {
  }
  // A barrier for each warpgroup that syncs.
  // CHECK: role @mma warpgroups(2)
  // CHECK: tile.id = 2 : i64
  role @mma warpgroups(2) as %i {
    sync
    signal %g
  }
  // CHECK: role @other warpgroups(1)
  // CHECK-NOT: tile.id
  role @other warpgroups(1) as %i {
    meet %g
  }
}

// -----

!A = !tile.buf<128x64xbf16, sw128>
#r = #tile.ring<"a", stages = 15, bufs = [!A], free = [all by @mma]>
// expected-error @+1 {{T1: expected at most 232448 bytes of shared memory}}
tile.kernel @large(%n: i32) {
  %r = ring #r
  role @load producer {
  }
  role @mma warpgroups(1) as %i {
  }
}

// -----

// expected-error @+1 {{expected layouts from --dsv3-tile-choose-layouts, got '!tile.buf<64x64xf32, auto>'}}
tile.kernel @open(%n: i32) {
  %x = alloc : !tile.buf<64x64xf32, auto>
  role @work warpgroups(1) as %i {
  }
}
