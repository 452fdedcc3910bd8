// Clusters: multicast, remote arrivals, sums.
// RUN: dsv3-opt %s --dsv3-tile-peel --dsv3-tile-allocate --dsv3-tile-to-nvvm --split-input-file | FileCheck %s

!A = !tile.buf<64x64xbf16, sw128>
#r = #tile.ring<"a", stages = 2, bufs = [!A], free = [all by @mma]>
!S = !tile.slot<#r>
// CHECK-LABEL: llvm.func @multicast(
// CHECK-SAME: nvvm.cluster_dim = array<i32: 2, 1, 1>
tile.kernel @multicast(%ta: !tile.tma<?x?xbf16, box 64x64, sw128>) cluster(2) {
  // Free barriers count the warps of both blocks.
  // CHECK-COUNT-2: mbarrier.init.shared.b64 [$0], 1;
  // CHECK-COUNT-2: mbarrier.init.shared.b64 [$0], 8;
  // CHECK: fence.mbarrier_init.release.cluster
  // CHECK: llvm.nvvm.barrier.cta.sync.aligned.all
  // CHECK: llvm.nvvm.barrier.cluster.arrive.relaxed.aligned
  // CHECK: llvm.nvvm.barrier.cluster.wait.aligned
  %r = ring #r
  role @load producer regs(56) {
    %s = next %r : !tile.ring<#r>
    %c0 = arith.constant 0 : i32
    fill %s as (%a) : !S {
      // CHECK: arith.constant 3 : i16
      // CHECK: shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
      copy %ta[%c0, %c0] -> %a multicast 3 : !tile.tma<?x?xbf16, box 64x64, sw128> -> !A
    }
  }
  role @mma warpgroups(1) as %g {
    %s = next %r : !tile.ring<#r>
    %a = wait full %s : !S
    // Pitfall 1: relaxed, as a release at cluster scope is a full memory barrier. Lane r arrives in block r.
    // CHECK: mapa.shared::cluster.u32 a, $0, $1; @$2 mbarrier.arrive.relaxed.cluster
    release %s : !S
  }
  // A block stays until nobody can arrive at its barriers any more.
  // CHECK: llvm.nvvm.barrier.cluster.arrive.aligned
  // CHECK: llvm.nvvm.barrier.cluster.wait.aligned
  // CHECK-NEXT: llvm.return
}

// -----

!F = tensor<64x16xf32, #tile.frag<acc>>
!H = tensor<64x8xf32, #tile.frag<acc>>
!X = !tile.buf<64x16xf32, frag<acc>>
// CHECK-LABEL: llvm.func @sum(
tile.kernel @sum(%g: !tile.gmem<?x16xf32>, %o: !tile.gmem<?x8xf32>) cluster(2) {
  // Per warp: a barrier for what arrives, one for who has read, and a count.
  // CHECK: mbarrier.init.shared.b64 [$0], 1;
  // CHECK: mbarrier.init.shared.b64 [$0], 2;
  // CHECK: st.shared.b32
  %x = alloc : !X
  role @mma warpgroups(1) as %i {
    %c0 = arith.constant 0 : i32
    %f = read %g[%c0, %c0] : !tile.gmem<?x16xf32> -> !F
    // All have read the sum before; the first time nobody arrives, and the parity passes.
    // CHECK: mbarrier.arrive.relaxed.cluster
    // CHECK: mbarrier.try_wait.parity.shared
    // Eight columns to each block, itself too. No release at cluster scope, no load from another block.
    // CHECK: mapa.shared::cluster.u32 $0, $1, 0;
    // CHECK: st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32
    // CHECK: mapa.shared::cluster.u32 $0, $1, 1;
    // CHECK: st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32
    // CHECK-NOT: arrive.release.cluster
    // CHECK-NOT: ld.shared::cluster
    // CHECK: mbarrier.arrive.expect_tx
    // CHECK: mbarrier.try_wait.parity.acquire.cluster
    // CHECK: ld.shared.v4
    // CHECK: ld.shared.v4
    // CHECK-COUNT-4: arith.addf
    %s = cluster_sum %f via %x : !F, !X -> !H
    write %s, %o[%c0, %c0] : !H, !tile.gmem<?x8xf32>
  }
  // Nobody writes to a block that has its sums: it may end.
  // CHECK-NOT: barrier.cluster
  // CHECK: llvm.return
}
