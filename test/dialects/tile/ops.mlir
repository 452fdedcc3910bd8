// Round trip of what the three kernels (gemm, mla-decode, w4a8) do not show.
// RUN: dsv3-opt %s | dsv3-opt | FileCheck %s

!Row = tensor<64xf32, #tile.frag<row>>
!Acc = tensor<64x16xf32, #tile.frag<acc>>
!F8 = tensor<64x64xf8E4M3FN, #tile.frag<acc>>
!B16 = tensor<64x64xbf16, #tile.frag<acc>>
#r = #tile.ring<"x", stages = 2, bufs = [!tile.buf<64x64xbf16, sw128>], free = [all by @a]>

// CHECK-LABEL: func.func private @types(
// CHECK-SAME: !tile.buf<8x16xf32>
// CHECK-SAME: !tile.buf<8x16xf32, pad<16>>
// CHECK-SAME: !tile.buf<8x32xf32, sw64>
// CHECK-SAME: !tile.buf<32x32xf32, swizzle<5, 2, 5>>
// CHECK-SAME: !tile.buf<64x64xf8E4M3FN, frag<acc>>
// CHECK-SAME: !tile.buf<8x16xf32, auto>
// CHECK-SAME: tensor<512xf32, #lin>
// CHECK-SAME: !tile.gmem<?x4x?xbf16>
// CHECK-SAME: !tile.tma<?xf32, box 16>
// CHECK-SAME: !tile.gate, !tile.work, !tile.token
func.func private @types(!tile.buf<8x16xf32>, !tile.buf<8x16xf32, pad<16>>, !tile.buf<8x32xf32, sw64>, !tile.buf<32x32xf32, swizzle<5, 2, 5>>,
                         !tile.buf<64x64xf8E4M3FN, frag<acc>>, !tile.buf<8x16xf32, auto>, tensor<512xf32, #tile.frag<lin<4, 128>>>,
                         !tile.gmem<?x4x?xbf16>, !tile.tma<?xf32, box 16>, !tile.gate, !tile.work, !tile.token)

// CHECK-LABEL: tile.kernel @all(
// CHECK-SAME: ) cluster(2) {
tile.kernel @all(%scalars: !llvm.ptr<1>, %t: !tile.tma<?x?xbf16, box 64x64, sw128>, %g: !tile.gmem<?x?xf32>, %v: !tile.gmem<?xf32>, %n: i32) cluster(2) {
  // CHECK: pdl wait
  pdl wait
  // CHECK: raster [7, %{{.*}}, 7168] tile [1, 64, 128] group 4 -> (h, m, n)
  %w = raster [7, %n, 7168] tile [1, 64, 128] group 4 -> (h, m, n)
  // A group of 1 is not written.
  // CHECK: raster [%{{.*}}] tile [8] -> (m)
  %w1 = raster [%n] tile [8] -> (m)
  %r = ring #r
  %one = alloc : !tile.buf<1xf32>
  %part = alloc : !tile.buf<64x16xf32, frag<acc>>
  role @load producer regs(56) {
    %s = next %r : !tile.ring<#r>
    fill %s as (%b) : !tile.slot<#r> {
      // CHECK: copy %{{.*}}[0, %{{.*}}] -> %{{.*}} hint evict_last multicast 3 :
      copy %t[0, %n] -> %b hint evict_last multicast 3 : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
    }
  }
  // CHECK: role @a warpgroups(1) {
  role @a warpgroups(1) {
    %s = next %r : !tile.ring<#r>
    // CHECK: wait full %{{.*}}[0] : !tile.slot<#x>
    %b = wait full %s[0] : !tile.slot<#r>
    // CHECK: load %{{.*}} trans : !tile.buf<64x64xbf16, sw128> -> tensor<64x64xbf16, #acc>
    %f = load %b trans : !tile.buf<64x64xbf16, sw128> -> !B16
    // CHECK: store %{{.*}}, %{{.*}} trans : tensor<64x64xbf16, #acc>, !tile.buf<64x64xbf16, sw128>
    store %f, %b trans : !B16, !tile.buf<64x64xbf16, sw128>
    // CHECK: release %{{.*}}[0] : !tile.slot<#x>
    release %s[0] : !tile.slot<#r>
    // CHECK: load %{{.*}} : !tile.buf<1xf32> -> f32
    %x = load %one : !tile.buf<1xf32> -> f32
    // CHECK: sync{{$}}
    sync
    // CHECK: sync warp
    sync warp
    // CHECK: sync cta
    sync cta
    // CHECK: sync cluster
    sync cluster
    // CHECK: read %{{.*}}[%{{.*}}, 8] rows(%{{.*}}) cols(%{{.*}}) : !tile.gmem<?x?xf32> -> tensor<64x16xf32, #acc>
    %y = read %g[%n, 8] rows(%n) cols(%n) : !tile.gmem<?x?xf32> -> !Acc
    // CHECK: read %{{.*}}[0, 0] trans : !tile.gmem<?x?xf32> -> tensor<64x16xf32, #acc>
    %z = read %g[0, 0] trans : !tile.gmem<?x?xf32> -> !Acc
    // CHECK: cluster_sum %{{.*}} via %{{.*}} : tensor<64x16xf32, #acc>, !tile.buf<64x16xf32, frag<acc>> -> tensor<64x8xf32, #acc>
    %sum = cluster_sum %y via %part : !Acc, !tile.buf<64x16xf32, frag<acc>> -> tensor<64x8xf32, #tile.frag<acc>>
    // CHECK: write %{{.*}}, %{{.*}}[%{{.*}}] cols(%{{.*}}) : tensor<64xf32, #row>, !tile.gmem<?xf32>
    %m = reduce max %y dim 1 : !Acc -> !Row
    write %m, %v[%n] cols(%n) : !Row, !tile.gmem<?xf32>
    // CHECK: write %{{.*}}, %{{.*}}[3] : f32, !tile.gmem<?xf32>
    write %x, %v[3] : f32, !tile.gmem<?xf32>
    // CHECK: slice %{{.*}}[8] : tensor<64x16xf32, #acc> -> tensor<64x8xf32, #acc>
    %h = slice %y[8] : !Acc -> tensor<64x8xf32, #tile.frag<acc>>
    %q = read %g[0, 0] : !tile.gmem<?x?xf32> -> tensor<64x64xf32, #tile.frag<acc>>
    %q8 = arith.truncf %q : tensor<64x64xf32, #tile.frag<acc>> to !F8
    // CHECK: expand %{{.*}} : tensor<64x64xf8E4M3FN, #acc> -> tensor<64x64xbf16, #acc>
    %e = expand %q8 : !F8 -> !B16
    // CHECK: expand %{{.*}} : tensor<64x64xf8E4M3FN, #acc> -> tensor<64x64xf16, #acc>
    %e16 = expand %q8 : !F8 -> tensor<64x64xf16, #tile.frag<acc>>
    %i = iota dim 0 : tensor<64xi32, #tile.frag<row>>
    // CHECK: foreach (%{{.*}}, %{{.*}}, %{{.*}}) in %{{.*}} {
    // CHECK-NEXT: loop %{{.*}} = 4 to %{{.*}} {
    // CHECK-NEXT: pdl trigger
    // CHECK-NEXT: }
    // CHECK-NEXT: }
    foreach (%a0, %a1, %a2) in %w {
      loop %k = 4 to %n {
        pdl trigger
      }
    }
  }
}
