// Which instruction moves which fragment, fences, and writes to global memory.
// RUN: dsv3-opt %s --dsv3-tile-peel --dsv3-tile-allocate --dsv3-tile-to-nvvm --split-input-file | FileCheck %s

!C = !tile.buf<64x64xbf16, sw128>
!Ct = !tile.buf<16x64xbf16, pad<16>>
!H = tensor<64x64xbf16, #tile.frag<acc>>
!Ht = tensor<64x16xbf16, #tile.frag<acc>>
!Tc = !tile.tma<?x?xbf16, box 64x64, sw128>
// 16-bit accumulators by matrices; nobody but threads reads %n, so no fence follows a store there.
// CHECK-LABEL: llvm.func @matrices(
tile.kernel @matrices(%tc: !Tc, %g: !tile.gmem<?x64xbf16>) {
  %c = alloc : !C
  %n = alloc : !C
  %t = alloc : !Ct
  role @work warpgroups(1) as %i {
    %c0 = arith.constant 0 : i32
    %h = read %g[%c0, %c0] : !tile.gmem<?x64xbf16> -> !H
    // CHECK-COUNT-4: stmatrix.sync.aligned.m8n8.x4.shared.b16
    // CHECK-NOT: fence.proxy
    store %h, %n : !H, !C
    // CHECK-COUNT-4: ldmatrix.sync.aligned.m8n8.x4.shared.b16
    %l = load %n : !C -> !H
    // CHECK-COUNT-4: stmatrix
    // CHECK: fence.proxy.async.shared::cta
    store %l, %c : !H, !C
    sync
    // CHECK: cp.async.bulk.tensor.2d.global
    %p = put %c -> %tc[%c0, %c0] : !C -> !Tc
    await %p : !tile.token
    // The transpose: rows of the buffer are columns of the fragment.
    // CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
    %x = load %t trans : !Ct -> !Ht
    // CHECK: stmatrix.sync.aligned.m8n8.x4.trans.shared.b16
    store %x, %t trans : !Ht, !Ct
  }
}

// -----

!R = tensor<64xf32, #tile.frag<row>>
!F = tensor<64x16xf32, #tile.frag<acc>>
!I = tensor<64x64xi4, #tile.frag<opA4>>
// CHECK-LABEL: llvm.func @vectors(
tile.kernel @vectors(%o: !tile.gmem<?x16xf32>) {
  %x = alloc : !tile.buf<64xf32>
  %p = alloc : !tile.buf<64x16xf32, pad<32>>
  %s = alloc : !tile.buf<64x16xf32, frag<acc>>
  %w = alloc : !tile.buf<64x64xi4, frag<opA4>>
  %b = alloc : !tile.buf<64x64xi8, frag<opA>>
  role @work warpgroups(1) as %i {
    // A value that four threads hold is stored by one of them.
    // CHECK: ld.shared.b32
    // CHECK: ld.shared.b32
    %r = load %x : !tile.buf<64xf32> -> !R
    // CHECK: @$2 st.shared.b32
    // CHECK: @$2 st.shared.b32
    store %r, %x : !R, !tile.buf<64xf32>
    // Pairs where rows are rows, 16 bytes where registers are neighbours.
    // CHECK-COUNT-4: ld.shared.v2.b32
    %f = load %p : !tile.buf<64x16xf32, pad<32>> -> !F
    // CHECK-COUNT-2: st.shared.v4.b32
    store %f, %s : !F, !tile.buf<64x16xf32, frag<acc>>
    // CHECK: ld.shared.v4.b32
    %k = load %w : !tile.buf<64x64xi4, frag<opA4>> -> !I
    // CHECK: arith.constant -252645136
    // CHECK: arith.andi
    %e = expand %k : !I -> tensor<64x64xi8, #tile.frag<opA>>
    // CHECK-COUNT-2: st.shared.v4.b32
    store %e, %b : tensor<64x64xi8, #tile.frag<opA>>, !tile.buf<64x64xi8, frag<opA>>
  }
}

// -----

!H = tensor<64x32xbf16, #tile.frag<acc>>
!Ht = tensor<64x16xbf16, #tile.frag<acc>>
!Stg = !tile.buf<4x16x16xbf16, swizzle<1, 4, 3>>
// CHECK-LABEL: llvm.func @writes(
tile.kernel @writes(%g: !tile.gmem<?x?xbf16>, %n: i32, %m: i32) {
  %stg = alloc : !Stg
  role @work warpgroups(1) as %i {
    %c0 = arith.constant 0 : i32
    %h = read %g[%c0, %c0] : !tile.gmem<?x?xbf16> -> !H
    // A quad transposes, so that a lane stores 16 bytes; rows that do not exist are predicated.
    // CHECK-COUNT-4: llvm.nvvm.shfl.sync.bfly.i32
    // CHECK: @$5 st.global.v4.b32
    // CHECK-COUNT-4: llvm.nvvm.shfl.sync.bfly.i32
    // CHECK: @$5 st.global.v4.b32
    write %h, %g[%c0, %c0] rows(%n) : !H, !tile.gmem<?x?xbf16>
    // With columns that may not exist, element by element.
    // CHECK-COUNT-16: st.global.u16
    write %h, %g[%c0, %c0] rows(%n) cols(%m) : !H, !tile.gmem<?x?xbf16>
    %t = slice %h[0] : !H -> !Ht
    // Restaged: a warp's own part, no barrier but the warp's.
    // CHECK: llvm.nvvm.bar.warp.sync
    // CHECK: stmatrix.sync.aligned.m8n8.x4.trans
    // CHECK: llvm.nvvm.bar.warp.sync
    // CHECK: ld.shared.v4.b32
    // CHECK: st.global.v4.b32
    write %t, %g[%c0, %c0] trans rows(%n) via %stg : !Stg : !Ht, !tile.gmem<?x?xbf16>
  }
}

// -----

!A = !tile.buf<64x128xi8>
!Sa = !tile.buf<20xf32>
#r = #tile.ring<"a", stages = 2, bufs = [!A], free = [all by @mma]>
#z = #tile.ring<"z", stages = 2, bufs = [!Sa], landed = other, free = [all by @mma]>
// Copies under a condition are announced one by one; the arrival that ends the phase comes last.
// CHECK-LABEL: llvm.func @conditional(
tile.kernel @conditional(%a: !tile.gmem<?x8192xi8>, %s: !tile.gmem<?xf32>, %n: i32) {
  %r = ring #r
  %z = ring #z
  role @load producer {
    %c0 = arith.constant 0 : i32
    %t = next %r : !tile.ring<#r>
    %q = next %z : !tile.ring<#z>
    %first = arith.cmpi eq, %n, %c0 : i32
    %sa = wait free %q : !tile.slot<#z>
    fill %t as (%b) : !tile.slot<#r> {
      // CHECK: mbarrier.expect_tx.relaxed
      // CHECK: cp.async.bulk.shared::cta.global
      copy %a[%n, 0] -> %b hint evict_first : !tile.gmem<?x8192xi8> -> !A
      // CHECK: scf.if
      scf.if %first {
        // CHECK: mbarrier.expect_tx.relaxed
        // CHECK: cp.async.bulk.shared::cta.global
        tile.copy %s[%n] -> %sa on %t : !tile.slot<#r> : !tile.gmem<?xf32> -> !Sa
      }
      // CHECK: }
      // CHECK: mbarrier.arrive.expect_tx
    }
  }
  role @mma warpgroups(1) as %g {
  }
}

// -----

!C = tensor<64x16xi8, #tile.frag<acc>>
// CHECK-LABEL: llvm.func @rows_of_bytes(
tile.kernel @rows_of_bytes(%g: !tile.gmem<?x64xi8>, %n: i32) {
  role @work warpgroups(1) as %i {
    %c0 = arith.constant 0 : i32
    %z = arith.constant dense<3> : !C
    // Four threads exchange bytes until each has four rows of a column.
    // CHECK-COUNT-2: prmt.b32
    // CHECK: st.global.b32
    // CHECK-COUNT-2: prmt.b32
    // CHECK: st.global.b32
    write %z, %g[%c0, %c0] trans rows(%n) : !C, !tile.gmem<?x64xi8>
  }
}
