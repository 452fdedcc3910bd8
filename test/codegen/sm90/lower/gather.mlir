// Rows that a producer picks: all threads of its warpgroup copy words, one issues boxes, and both complete on the slot's barrier.
// RUN: dsv3-opt %s --dsv3-tile-peel --dsv3-tile-allocate --dsv3-tile-to-nvvm --split-input-file | FileCheck %s

!A = !tile.buf<32x128xi8, sw128>
!W = !tile.buf<64x128xi8, sw128>
!Tw = !tile.tma<?x?xi8, box 64x128, sw128>
#r = #tile.ring<"aw", stages = 2, bufs = [!A, !W], free = [all by @mma], arrive = warpgroup>
// CHECK-LABEL: llvm.func @picked(
// 128 threads arrive, and one says how many bytes the box has.
// CHECK-COUNT-2: mbarrier.init.shared.b64 [$0], 129;
// CHECK-COUNT-2: mbarrier.init.shared.b64 [$0], 1;
tile.kernel @picked(%x: !tile.gmem<?x320xi8>, %tw: !Tw, %t: !tile.gmem<?xi32>, %s: !tile.gmem<?x1xf32>, %n: i32) {
  %r = ring #r
  role @load producer {
    // CHECK-NOT: elect
    %c0 = arith.constant 0 : i32
    // Two rows a thread, each by eight lanes.
    // CHECK-COUNT-2: ld.global.nc.b32
    %ids = read %t[%c0] cols(%n) : !tile.gmem<?xi32> -> tensor<32xi32, #tile.frag<line>>
    %q = next %r : !tile.ring<#r>
    fill %q as (%a, %w) : !tile.slot<#r> {
      // CHECK: @$2 mbarrier.arrive.expect_tx.shared.b64 t, [$0], $1
      // CHECK: scf.if
      // CHECK: cp.async.bulk.tensor.2d
      copy %tw[0, %c0] -> %w : !Tw -> !W
      // The rows that exist, of the columns that exist: 320 are no multiple of 128.
      // CHECK: arith.cmpi slt
      // CHECK: cp.async.cg.shared.global.L2::128B [$0], [$1], 16, $2;
      // CHECK: cp.async.cg.shared.global.L2::128B [$0+2048], [$1], 16, $2;
      // CHECK: cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];
      gather %x[%ids, %c0] rows(%n) -> %a : !tile.gmem<?x320xi8>, tensor<32xi32, #tile.frag<line>> -> !A
    }
  }
  role @mma warpgroups(1) as %g {
    %c0 = arith.constant 0 : i32
    %q = next %r : !tile.ring<#r>
    // What threads wrote, wgmma reads.
    // CHECK: mbarrier.try_wait.parity
    // CHECK: fence.proxy.async.shared::cta
    %a, %w = wait full %q : !tile.slot<#r>
    %none = none : !tile.acc<64x32xi32>
    %acc, %token = mma nt %w, %a into %none : !W, !A, !tile.acc<64x32xi32>
    %sum = await %acc : !tile.acc<64x32xi32>
    release %q : !tile.slot<#r>
    // CHECK: ld.global.nc.b32
    %ids = read %t[%c0] cols(%n) : !tile.gmem<?xi32> -> tensor<64xi32, #tile.frag<row>>
    // CHECK: arith.muli %{{.*}} : i64
    // CHECK: ld.global.nc.b32
    %f = lookup %s[%ids, %c0] : !tile.gmem<?x1xf32>, tensor<64xi32, #tile.frag<row>> -> tensor<64xf32, #tile.frag<row>>
    write %f, %s[%c0, %c0] trans : tensor<64xf32, #tile.frag<row>>, !tile.gmem<?x1xf32>
  }
}
