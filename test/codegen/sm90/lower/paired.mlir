// Columns of 8 bits as rows of a register operand, and the result of their product back in order.
// RUN: dsv3-opt %s -split-input-file --dsv3-tile-peel --dsv3-tile-allocate --dsv3-tile-to-nvvm | FileCheck %s

!V = !tile.buf<64x128xf8E5M2, sw128>
!W = !tile.buf<16x64xbf16, sw128>
// CHECK-LABEL: llvm.func @paired(
tile.kernel @paired(%g: !tile.gmem<?x?x128xbf16>, %p: !tile.gmem<?x128xf32>) {
  %v = alloc : !V
  %w = alloc : !W
  role @work warpgroups(1) as %i {
    %c0 = arith.constant 0 : i32
    %n = arith.constant 9 : i32
    // CHECK-COUNT-2: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
    // CHECK: prmt.b32
    // CHECK: cvt.f32.f16
    %a = load %v paired 64 : !V -> tensor<64x64xf8E5M2, #tile.frag<acc>>
    %x = expand %a : tensor<64x64xf8E5M2, #tile.frag<acc>> -> tensor<64x64xbf16, #tile.frag<acc>>
    // CHECK-COUNT-4: wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16
    %none = none : !tile.acc<64x16xf32>
    %d, %t = mma nt %x, %w into %none : tensor<64x64xbf16, #tile.frag<acc>>, !W, !tile.acc<64x16xf32>
    %f = await %d : !tile.acc<64x16xf32>
    %h = arith.truncf %f : tensor<64x16xf32, #tile.frag<acc>> to tensor<64x16xbf16, #tile.frag<acc>>
    // A lane has neighbours of the last dim: four bytes of bf16, eight of f32.
    // CHECK: st.global.b32
    write %h, %g[%c0, %c0, %c0] trans paired rows(%n) : tensor<64x16xbf16, #tile.frag<acc>>, !tile.gmem<?x?x128xbf16>
    // CHECK: st.global.v2.b32
    write %f, %p[%c0, %c0] trans paired : tensor<64x16xf32, #tile.frag<acc>>, !tile.gmem<?x128xf32>
  }
}

// -----

// As f16: one conversion a pair of E4M3, one permutation a pair of E5M2.
!V = !tile.buf<64x128xf8E4M3FN, sw128>
!U = !tile.buf<64x128xf8E5M2, sw128>
!W = !tile.buf<64x64xf16, sw128>
!P = tensor<64x64xf32, #tile.frag<acc>>
// CHECK-LABEL: llvm.func @half(
tile.kernel @half(%p: !tile.gmem<?x128xf32>) {
  %v = alloc : !V
  %u = alloc : !U
  %w = alloc : !W
  role @work warpgroups(1) as %i {
    %c0 = arith.constant 0 : i32
    %p0 = read %p[%c0, %c0] : !tile.gmem<?x128xf32> -> !P
    // CHECK-COUNT-16: cvt.rn.f16x2.f32
    %h = arith.truncf %p0 : !P to tensor<64x64xf16, #tile.frag<acc>>
    // CHECK-COUNT-4: stmatrix.sync.aligned.m8n8.x4.shared.b16
    // CHECK: fence.proxy.async
    store %h, %w : tensor<64x64xf16, #tile.frag<acc>>, !W
    sync
    %a = load %v paired 0 : !V -> tensor<64x64xf8E4M3FN, #tile.frag<acc>>
    // CHECK-COUNT-8: cvt.rn.f16x2.e4m3x2 $0, l; cvt.rn.f16x2.e4m3x2 $1, h
    %x = expand %a : tensor<64x64xf8E4M3FN, #tile.frag<acc>> -> tensor<64x64xf16, #tile.frag<acc>>
    // CHECK-COUNT-4: wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16
    %none = none : !tile.acc<64x64xf32>
    %d, %t = mma nt %x, %w into %none : tensor<64x64xf16, #tile.frag<acc>>, !W, !tile.acc<64x64xf32>
    // CHECK-NOT: cvt.f32.f16
    %b = load %u paired 64 : !U -> tensor<64x64xf8E5M2, #tile.frag<acc>>
    %y = expand %b : tensor<64x64xf8E5M2, #tile.frag<acc>> -> tensor<64x64xf16, #tile.frag<acc>>
    // CHECK-COUNT-4: wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16
    %e, %t2 = mma nt %y, %w into %d : tensor<64x64xf16, #tile.frag<acc>>, !W, !tile.acc<64x64xf32>
    %f = await %e : !tile.acc<64x64xf32>
    write %f, %p[%c0, %c0] trans paired : !P, !tile.gmem<?x128xf32>
  }
}
