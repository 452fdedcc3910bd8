// Arithmetic on fragments, register by register.
// RUN: dsv3-opt %s --dsv3-tile-peel --dsv3-tile-allocate --dsv3-tile-to-nvvm --split-input-file | FileCheck %s

!F = tensor<64x16xf32, #tile.frag<acc>>
!I = tensor<64x16xi32, #tile.frag<acc>>
!M = tensor<64x16xi1, #tile.frag<acc>>
!H = tensor<64x16xbf16, #tile.frag<acc>>
!R = tensor<64xf32, #tile.frag<row>>
!Q = tensor<64x4xf32, #tile.frag<quad>>
// CHECK-LABEL: llvm.func @arith(
tile.kernel @arith(%g: !tile.gmem<?x16xf32>, %o: !tile.gmem<?x16xbf16>, %p: !tile.gmem<?xf32>, %c: f32) {
  role @work warpgroups(1) as %i {
    %c0 = arith.constant 0 : i32
    %f = read %g[%c0, %c0] : !tile.gmem<?x16xf32> -> !F
    // Two rows a thread: a tree over 4 registers of each, then two shuffles.
    // CHECK: %[[A:.*]] = arith.maxnumf %{{.*}}, %{{.*}} : f32
    // CHECK: %[[B:.*]] = arith.maxnumf %{{.*}}, %{{.*}} : f32
    // CHECK: %[[T:.*]] = arith.maxnumf %[[A]], %[[B]] : f32
    // CHECK: llvm.nvvm.shfl.sync.bfly.f32
    // CHECK: arith.maxnumf
    // CHECK: llvm.nvvm.shfl.sync.bfly.f32
    // CHECK: %[[ROW0:.*]] = arith.maxnumf
    // CHECK: llvm.nvvm.shfl.sync.bfly.f32
    // CHECK: llvm.nvvm.shfl.sync.bfly.f32
    // CHECK: %[[ROW1:.*]] = arith.maxnumf
    %r = reduce max %f dim 1 : !F -> !R
    %b = bcast %r : !R -> !F
    // Registers 4j + 2h + i: rows alternate in pairs.
    // CHECK: arith.subf %{{.*}}, %[[ROW0]] : f32
    // CHECK: arith.subf %{{.*}}, %[[ROW0]] : f32
    // CHECK: arith.subf %{{.*}}, %[[ROW1]] : f32
    // CHECK: arith.subf %{{.*}}, %[[ROW1]] : f32
    // CHECK: arith.subf %{{.*}}, %[[ROW0]] : f32
    %d = arith.subf %f, %b : !F
    // CHECK-COUNT-8: math.exp2 %{{.*}} fastmath<afn> : f32
    %e = math.exp2 %d fastmath<afn> : !F
    // Columns of a thread: 2 (lane % 4) + {0, 1} + 8 j.
    %n = iota dim 1 : !I
    %lim = arith.constant dense<9> : !I
    // CHECK-COUNT-8: arith.cmpi slt
    %in = arith.cmpi slt, %n, %lim : !I
    %zero = arith.constant dense<0.0> : !F
    // CHECK-COUNT-8: arith.select
    %x = arith.select %in, %e, %zero : !M, !F
    // In the thread only: no shuffle.
    // CHECK-NOT: shfl
    %q = reduce add %x dim 1 : !F -> !Q
    // CHECK-COUNT-4: cvt.rn.bf16x2.f32
    %h = arith.truncf %x : !F to !H
    // CHECK-COUNT-4: llvm.nvvm.shfl.sync.bfly.f32
    %s = reduce add %q dim 1 : !Q -> !R
    write %h, %o[%c0, %c0] : !H, !tile.gmem<?x16xbf16>
    write %s, %p[%c0] : !R, !tile.gmem<?xf32>
  }
}

// -----

!E = tensor<64x32xf8E4M3FN, #tile.frag<acc>>
!H = tensor<64x32xbf16, #tile.frag<acc>>
!W = tensor<64x32xf32, #tile.frag<acc>>
// CHECK-LABEL: llvm.func @narrow(
tile.kernel @narrow(%g: !tile.gmem<?x32xf32>, %o: !tile.gmem<?x32xbf16>) {
  role @work warpgroups(1) as %i {
    %c0 = arith.constant 0 : i32
    %f = read %g[%c0, %c0] : !tile.gmem<?x32xf32> -> !W
    // CHECK-COUNT-4: cvt.rn.satfinite.e4m3x2.f32 l
    %e = arith.truncf %f : !W to !E
    // CHECK-COUNT-8: mul.rn.bf16x2
    %h = expand %e : !E -> !H
    write %h, %o[%c0, %c0] : !H, !tile.gmem<?x32xbf16>
  }
}

// -----

!I = tensor<64x32xi4, #tile.frag<acc4>>
!H = tensor<64x32xbf16, #tile.frag<acc>>
!B = !tile.buf<64x32xi4, frag<acc4>>
// CHECK-LABEL: llvm.func @int4_to_bf16(
tile.kernel @int4_to_bf16(%o: !tile.gmem<?x32xbf16>) {
  %b = alloc : !B
  role @work warpgroups(1) as %i {
    %c0 = arith.constant 0 : i32
    // A word holds 16 k of two rows: four pairs.
    // CHECK: ld.shared.v2.b32
    // CHECK-COUNT-8: lop3.b32 x, $1, 0x000f000f, 0x43084308, 0x6a; sub.rn.bf16x2
    %f = load %b : !B -> !I
    %h = expand %f : !I -> !H
    write %h, %o[%c0, %c0] : !H, !tile.gmem<?x32xbf16>
  }
}

// -----

!I = tensor<64x32xi4, #tile.frag<opA4t>>
!E = tensor<64x32xf8E4M3FN, #tile.frag<opA>>
!B = !tile.buf<64x32xi4, frag<opA4t>>
!X = !tile.buf<8x32xf8E4M3FN, sw32>
!A = !tile.acc<64x8xf32>
!F = tensor<64x8xf32, #tile.frag<acc>>
// CHECK-LABEL: llvm.func @int4_to_e4m3(
tile.kernel @int4_to_e4m3(%o: !tile.gmem<?x8xf32>) {
  %b = alloc : !B
  %x = alloc : !X
  role @work warpgroups(1) as %i {
    %c0 = arith.constant 0 : i32
    // Halves of a word choose four bytes each from two tables: numbers from 0 on, and half of those below.
    // CHECK: ld.shared.v2.b32
    // CHECK: arith.xori
    // CHECK-COUNT-4: prmt.b32 p, $3, 0x4e4c4a48, $1; prmt.b32 n, $4, 0x5c606264, $2; mad.lo.u32 $0, n, 2, p;
    // CHECK: wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3
    %f = load %b : !B -> !I
    %a = expand %f : !I -> !E
    %n = none : !A
    %p, %t = mma nt %a, %x into %n : !E, !X, !A
    %r = await %p : !A
    write %r, %o[%c0, %c0] : !F, !tile.gmem<?x8xf32>
  }
}

// -----

!F = tensor<64x16xf32, #tile.frag<acc>>
!C = tensor<16xf32, #tile.frag<col>>
!B = !tile.buf<16x16xf32>
// CHECK-LABEL: llvm.func @rows_of_two(
tile.kernel @rows_of_two(%g: !tile.gmem<?x16xf32>, %o: !tile.gmem<?x16xf32>) {
  %b = alloc : !B
  role @work warpgroups(4) as %i {
    %c0 = arith.constant 0 : i32
    %f = read %g[%c0, %c0] : !tile.gmem<?x16xf32> -> !F
    // Two rows in the thread, eight threads, then four warps of each of two warpgroups, for which two barriers stand in a row.
    // CHECK-COUNT-12: llvm.nvvm.shfl.sync.bfly.f32
    // CHECK: llvm.nvvm.barrier.cta.sync.aligned.count
    // CHECK-COUNT-2: @$3 st.shared.v2.b32
    // CHECK: llvm.nvvm.barrier.cta.sync.aligned.count
    // CHECK-COUNT-16: ld.shared.v2.b32
    %m = reduce_rows max %f over 2 via %b : !F, !B -> !C
    write %m, %o[%c0, %c0] : !C, !tile.gmem<?x16xf32>
  }
}
