// A ring that warps fill by stores and others read: every thread arrives, at both barriers. One proxy fence serves the stores in
// front of it, and there is none for a buffer that no product reads.
// RUN: dsv3-opt %s --dsv3-tile-peel --dsv3-tile-allocate --dsv3-tile-to-nvvm | FileCheck %s

!W = !tile.buf<64x32xf16, sw64>
!F = !tile.buf<64xf32>
!A = !tile.buf<64x32xf16, sw64>
!H = tensor<64x32xf16, #tile.frag<acc>>
!R = tensor<64xf32, #tile.frag<row>>
!D = tensor<64x64xf32, #tile.frag<acc>>
#r = #tile.ring<"weights", stages = 2, bufs = [!W, !W, !F], free = [all by @multiply], fill = arrive(4)>
// CHECK-LABEL: llvm.func @stored(
tile.kernel @stored(%g: !tile.gmem<?x32xf32>, %f: !tile.gmem<?xf32>, %o: !tile.gmem<?x64xf32>) {
  // Two full barriers, two free ones.
  // CHECK-COUNT-4: "mbarrier.init.shared.b64 [$0], 128;"
  %ring = ring #r
  %a = alloc : !A
  role @make warpgroups(1) as %i {
    %c0 = arith.constant 0 : i32
    %x = read %g[%c0, %c0] : !tile.gmem<?x32xf32> -> tensor<64x32xf32, #tile.frag<acc>>
    %h = arith.truncf %x : tensor<64x32xf32, #tile.frag<acc>> to !H
    %v = read %f[%c0] : !tile.gmem<?xf32> -> !R
    %s = next %ring : !tile.ring<#r>
    %w0, %w1, %w2 = wait free %s : !tile.slot<#r>
    // CHECK: mbarrier.try_wait
    // CHECK-NOT: fence.proxy
    // CHECK-COUNT-2: st.shared.b32
    // CHECK-NOT: fence.proxy
    // CHECK-COUNT-4: stmatrix
    // CHECK-NEXT: fence.proxy.async
    // CHECK-NOT: bar.warp.sync
    // CHECK: mbarrier.arrive.shared.b64 t, [$0]; {{.*}} %true :
    store %v, %w2 : !R, !F
    store %h, %w0 : !H, !W
    store %h, %w1 : !H, !W
    release full %s : !tile.slot<#r>
  }
  role @multiply warpgroups(1) as %i {
    %c0 = arith.constant 0 : i32
    %s = next %ring : !tile.ring<#r>
    %w0, %w1, %w2 = wait full %s : !tile.slot<#r>
    %none = none : !tile.acc<64x64xf32>
    %d, %t = mma nt %w0, %w1 into %none : !W, !W, !tile.acc<64x64xf32>
    %y = await %d : !tile.acc<64x64xf32>
    // CHECK: mbarrier.try_wait
    // CHECK: wgmma.wait_group
    // CHECK: mbarrier.arrive.shared.b64 t, [$0]; {{.*}} %true :
    release %s : !tile.slot<#r>
    write %y, %o[%c0, %c0] : !D, !tile.gmem<?x64xf32>
  }
}
