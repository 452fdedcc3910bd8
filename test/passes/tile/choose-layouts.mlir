// Layouts that were left open. What can reach degree 1 does; what cannot says why.
// RUN: dsv3-opt %s --dsv3-tile-choose-layouts -split-input-file -verify-diagnostics | FileCheck %s

!Column = tensor<32x64xf32, #tile.frag<lin<1, 128>>>
!Rows = tensor<64x32xf32, #tile.frag<lin<1, 128>>>

// A column read 4 bytes a lane, rows of 64 floats: padding. The rows that are written do not care.
// CHECK-LABEL: tile.kernel @column
tile.kernel @column(%in: !tile.gmem<?x32xf32>, %out: !tile.gmem<?x64xf32>) {
  // CHECK: alloc : !tile.buf<64x32xf32, swizzle<5, 2, 5>>
  // expected-remark @below {{chose swizzle<5, 2, 5>: degree 1, 0 cycles lost (linear: degree 32, 1984)}}
  %a = alloc : !tile.buf<64x32xf32, auto>
  role @r warpgroups(1) as %g {
    %y = read %in[0, 0] : !tile.gmem<?x32xf32> -> !Rows
    store %y, %a : !Rows, !tile.buf<64x32xf32, auto>
    sync
    %x = load %a trans : !tile.buf<64x32xf32, auto> -> !Column
    write %x, %out[0, 0] : !Column, !tile.gmem<?x64xf32>
  }
}

// -----

// Rows of 64 floats: the bits that the swizzle exchanges do not tell 32 rows apart, padding does.
!Column = tensor<64x32xf32, #tile.frag<lin<1, 128>>>

// CHECK-LABEL: tile.kernel @padded
tile.kernel @padded(%out: !tile.gmem<?x32xf32>) {
  // CHECK: alloc : !tile.buf<32x64xf32, pad<4>>
  // expected-remark @below {{chose pad<4>: degree 1, 0 cycles lost (linear: degree 32, 15872)}}
  %a = alloc : !tile.buf<32x64xf32, auto>
  role @r warpgroups(1) as %g {
    %end = loop %i = 0 to %g step 1 iter(%k = %g) : i32 {
      // CHECK: load %{{.*}} trans : !tile.buf<32x64xf32, pad<4>>
      %x = load %a trans : !tile.buf<32x64xf32, auto> -> !Column
      write %x, %out[0, 0] : !Column, !tile.gmem<?x32xf32>
      yield %k : i32
    }
  }
}

// -----

// Staging of an accumulator for a bulk store: the tensor map's layout, and stmatrix has no conflicts under it.
!Acc = tensor<64x64xbf16, #tile.frag<acc>>
!Map = !tile.tma<?x?xbf16, box 64x64, sw128>

// CHECK-LABEL: tile.kernel @staged
tile.kernel @staged(%in: !tile.gmem<?x64xbf16>, %out: !Map) {
  // CHECK: alloc : !tile.buf<2x64x64xbf16, sw128>
  // expected-remark @below {{chose sw128: degree 1, 0 cycles lost (linear: degree 8, 448)}}
  %a = alloc : !tile.buf<2x64x64xbf16, auto>
  role @r warpgroups(2) as %g {
    // CHECK: view %{{.*}} : !tile.buf<2x64x64xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
    %s = view %a[%g] : !tile.buf<2x64x64xbf16, auto> -> !tile.buf<64x64xbf16, auto>
    %x = read %in[0, 0] : !tile.gmem<?x64xbf16> -> !Acc
    store %x, %s : !Acc, !tile.buf<64x64xbf16, auto>
    sync
    %t = put %s -> %out[0, 0] : !tile.buf<64x64xbf16, auto> -> !Map
    await %t : !tile.token
  }
}

// -----

// The same of floats: pairs would need padding, which a bulk store cannot skip.
!Acc = tensor<64x32xf32, #tile.frag<acc>>
!Map = !tile.tma<?x?xf32, box 64x32, sw128>

// CHECK-LABEL: tile.kernel @forbidden
tile.kernel @forbidden(%in: !tile.gmem<?x32xf32>, %out: !Map) {
  // CHECK: alloc : !tile.buf<64x32xf32, sw128>
  // expected-remark @below {{chose sw128: degree 2, 64 cycles lost (linear: degree 4, 192)}}
  %a = alloc : !tile.buf<64x32xf32, auto>
  role @r warpgroups(1) as %g {
    %x = read %in[0, 0] : !tile.gmem<?x32xf32> -> !Acc
    // expected-warning @below {{2-way bank conflict remains under sw128: pad<32> has none, but T17: expected the layout of the tensor map}}
    store %x, %a : !Acc, !tile.buf<64x32xf32, auto>
    sync
    %t = put %a -> %out[0, 0] : !tile.buf<64x32xf32, auto> -> !Map
    await %t : !tile.token
  }
}

// -----

// A ring's buffer: TMA writes it, wgmma reads it. Its slots' types change with it.
!A = !tile.buf<64x64xbf16, auto>
!B = !tile.buf<128x64xbf16, sw128>
#r = #tile.ring<"ab", stages = 2, bufs = [!A, !B], free = [all by @mma], arrive = warpgroup>
!S = !tile.slot<#r>
!Ta = !tile.tma<?x?xbf16, box 64x64, sw128>
!Tb = !tile.tma<?x?xbf16, box 128x64, sw128>
!D = !tile.acc<64x128xf32>

// CHECK: #[[AB:.*]] = #tile.ring<"ab", stages = 2, bufs = [!tile.buf<64x64xbf16, sw128>, !tile.buf<128x64xbf16, sw128>]
// CHECK-LABEL: tile.kernel @operand
tile.kernel @operand(%ta: !Ta, %tb: !Tb, %out: !tile.gmem<?x128xf32>) {
  // expected-remark @below {{chose sw128: degree 1, 0 cycles lost (linear: degree 1, 0)}}
  %r = ring #r
  role @load producer {
    %s = next %r : !tile.ring<#r>
    fill %s as (%a, %b) : !S {
      copy %ta[0, 0] -> %a : !Ta -> !A
      copy %tb[0, 0] -> %b : !Tb -> !B
    }
  }
  role @mma warpgroups(1) as %g {
    // CHECK: next %{{.*}} : !tile.ring<#[[AB]]>
    %s = next %r : !tile.ring<#r>
    %n = none : !D
    %a, %b = wait full %s : !S
    // CHECK: mma nt %{{.*}}, %{{.*}} into %{{.*}} : !tile.buf<64x64xbf16, sw128>, !tile.buf<128x64xbf16, sw128>
    %d, %t = mma nt %a, %b into %n : !A, !B, !D
    %f = await %d : !D
    release %s : !S
    write %f, %out[0, 0] : tensor<64x128xf32, #tile.frag<acc>>, !tile.gmem<?x128xf32>
  }
}

// -----

// Nothing fits: the tensor map is linear, the tensor core wants a swizzle.
!A = !tile.buf<64x64xbf16, auto>
#r = #tile.ring<"ab", stages = 2, bufs = [!A], free = [all by @mma]>
!S = !tile.slot<#r>
!Ta = !tile.tma<?x?xbf16, box 64x64, linear>
!D = !tile.acc<64x64xf32>

tile.kernel @nothing(%ta: !Ta) {
  // expected-error @below {{expected a legal layout among the candidates, got none}}
  %r = ring #r
  role @load producer {
    %s = next %r : !tile.ring<#r>
    fill %s as (%a) : !S {
      copy %ta[0, 0] -> %a : !Ta -> !A
    }
  }
  role @mma warpgroups(1) as %g {
    %s = next %r : !tile.ring<#r>
    %n = none : !D
    %a = wait full %s : !S
    %d, %t = mma nt %a, %a into %n : !A, !A, !D
    %f = await %d : !D
    release %s : !S
  }
}
