// Known answers. Which access is meant matters: the 128-byte swizzle frees matrices and 16-byte words, not single floats.
// RUN: dsv3-opt %s --dsv3-tile-analyze-conflicts -split-input-file -verify-diagnostics | FileCheck %s

!Acc16 = tensor<64x64xbf16, #tile.frag<acc>>
!Acc32 = tensor<64x64xf32, #tile.frag<acc>>
!Column = tensor<32x32xf32, #tile.frag<lin<1, 128>>>

// CHECK-LABEL: tile.kernel @columns
tile.kernel @columns(%out: !tile.gmem<?x32xf32>) {
  %a = alloc : !tile.buf<32x32xf32>
  %b = alloc : !tile.buf<32x32xf32, pad<4>>
  %c = alloc : !tile.buf<32x32xf32, sw128>
  %d = alloc : !tile.buf<32x32xf32, swizzle<5, 2, 5>>
  role @r warpgroups(1) as %g {
    // CHECK: load %{{.*}} trans {tile.access = "ld.shared", tile.degree = 32 : i32}
    // expected-remark @below {{32-way bank conflict of ld.shared, 992 cycles lost}}
    %x = load %a trans : !tile.buf<32x32xf32> -> !Column
    // CHECK: load %{{.*}} trans {tile.access = "ld.shared", tile.degree = 1 : i32}
    %y = load %b trans : !tile.buf<32x32xf32, pad<4>> -> !Column
    // CHECK: load %{{.*}} trans {tile.access = "ld.shared", tile.degree = 4 : i32}
    // expected-remark @below {{4-way bank conflict of ld.shared, 96 cycles lost}}
    %z = load %c trans : !tile.buf<32x32xf32, sw128> -> !Column
    // CHECK: load %{{.*}} trans {tile.access = "ld.shared", tile.degree = 1 : i32}
    %w = load %d trans : !tile.buf<32x32xf32, swizzle<5, 2, 5>> -> !Column
    %xy = arith.addf %x, %y : !Column
    %zw = arith.addf %z, %w : !Column
    %s = arith.addf %xy, %zw : !Column
    write %s, %out[0, 0] : !Column, !tile.gmem<?x32xf32>
  }
}

// -----

!Acc16 = tensor<64x64xbf16, #tile.frag<acc>>
!Acc32 = tensor<64x64xf32, #tile.frag<acc>>

// CHECK-LABEL: tile.kernel @accumulators
tile.kernel @accumulators(%in: !tile.gmem<?x64xf32>) {
  %a = alloc : !tile.buf<64x64xbf16>
  %b = alloc : !tile.buf<64x64xbf16, sw128>
  %c = alloc : !tile.buf<64x64xf32>
  %d = alloc : !tile.buf<64x64xf32, pad<32>>
  %e = alloc : !tile.buf<64x64xf32, sw128>
  %f = alloc : !tile.buf<64x64xf32, frag<acc>>
  %m = alloc : !tile.buf<64xf32>
  role @r warpgroups(1) as %g {
    %x = read %in[0, 0] : !tile.gmem<?x64xf32> -> !Acc32
    %h = arith.truncf %x : !Acc32 to !Acc16
    // CHECK: store {{.*}} {tile.access = "stmatrix.x4", tile.degree = 8 : i32}
    // expected-remark @below {{8-way bank conflict of stmatrix.x4, 448 cycles lost}}
    store %h, %a : !Acc16, !tile.buf<64x64xbf16>
    // CHECK: store {{.*}} {tile.access = "stmatrix.x4", tile.degree = 1 : i32}
    store %h, %b : !Acc16, !tile.buf<64x64xbf16, sw128>
    // CHECK: load {{.*}} {tile.access = "ldmatrix.x4", tile.degree = 1 : i32}
    %h2 = load %b : !tile.buf<64x64xbf16, sw128> -> !Acc16
    // CHECK: store {{.*}} {tile.access = "st.shared.v2", tile.degree = 4 : i32}
    // expected-remark @below {{4-way bank conflict of st.shared.v2}}
    store %x, %c : !Acc32, !tile.buf<64x64xf32>
    // CHECK: store {{.*}} {tile.access = "st.shared.v2", tile.degree = 1 : i32}
    store %x, %d : !Acc32, !tile.buf<64x64xf32, pad<32>>
    // CHECK: store {{.*}} {tile.access = "st.shared.v2", tile.degree = 2 : i32}
    // expected-remark @below {{2-way bank conflict of st.shared.v2}}
    store %x, %e : !Acc32, !tile.buf<64x64xf32, sw128>
    // CHECK: store {{.*}} {tile.access = "st.shared.v4", tile.degree = 1 : i32}
    store %x, %f : !Acc32, !tile.buf<64x64xf32, frag<acc>>
    %r = reduce max %x dim 1 : !Acc32 -> tensor<64xf32, #tile.frag<row>>
    // CHECK: store {{.*}} {tile.access = "st.shared", tile.degree = 1 : i32}
    store %r, %m : tensor<64xf32, #tile.frag<row>>, !tile.buf<64xf32>
    // CHECK: zero {{.*}} {tile.access = "st.shared.v4", tile.degree = 1 : i32}
    zero %b rows [0, 64] : !tile.buf<64x64xbf16, sw128>
  }
}

// -----

// Each warp restages its 16 x 16 part, transposed: 32-byte rows.
!Acc = tensor<64x16xf32, #tile.frag<acc>>
!Half = tensor<64x16xbf16, #tile.frag<acc>>

// CHECK-LABEL: tile.kernel @restage
tile.kernel @restage(%in: !tile.gmem<?x16xf32>, %out: !tile.gmem<?x?xbf16>) {
  %a = alloc : !tile.buf<4x16x16xbf16>
  %b = alloc : !tile.buf<4x16x16xbf16, swizzle<1, 4, 3>>
  role @r warpgroups(1) as %g {
    %x = read %in[0, 0] : !tile.gmem<?x16xf32> -> !Acc
    %h = arith.truncf %x : !Acc to !Half
    // CHECK: write {{.*}} {tile.access = "stmatrix.x4", tile.degree = 2 : i32}
    // expected-remark @below {{2-way bank conflict of stmatrix.x4}}
    write %h, %out[0, 0] trans via %a : !tile.buf<4x16x16xbf16> : !Half, !tile.gmem<?x?xbf16>
    // CHECK: write {{.*}} {tile.access = "stmatrix.x4", tile.degree = 1 : i32}
    write %h, %out[0, 0] trans via %b : !tile.buf<4x16x16xbf16, swizzle<1, 4, 3>> : !Half, !tile.gmem<?x?xbf16>
  }
}

// -----

tile.kernel @unresolved() {
  %a = alloc : !tile.buf<64xf32, auto>
  role @r warpgroups(1) as %g {
    // expected-error @below {{expected a layout, got auto: run --dsv3-tile-choose-layouts before}}
    %x = load %a : !tile.buf<64xf32, auto> -> tensor<64xf32, #tile.frag<row>>
  }
}
