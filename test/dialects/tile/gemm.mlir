// A bf16 GEMM, C = A B^T: 128x256x64, four stages, a producer and two warpgroups, persistent. Text -> text is stable.
// RUN: dsv3-opt %s | dsv3-opt | FileCheck %s

// CHECK-DAG: #[[RING:.+]] = #tile.ring<"ab", stages = 4, bufs = [!tile.buf<128x64xbf16, sw128>, !tile.buf<256x64xbf16, sw128>], free = [all by @mma], arrive = warpgroup>
// CHECK-DAG: #acc = #tile.frag<acc>

!A = !tile.buf<128x64xbf16, sw128>
!B = !tile.buf<256x64xbf16, sw128>
!Aw = !tile.buf<64x64xbf16, sw128>
!C = !tile.buf<64x128xbf16, sw128>
!Cs = !tile.buf<2x64x128xbf16, sw128>
#r = #tile.ring<"ab", stages = 4, bufs = [!A, !B], free = [all by @mma], arrive = warpgroup>
!R = !tile.ring<#r>
!S = !tile.slot<#r>
!T = !tile.token
!D = !tile.acc<64x256xf32>
!F = tensor<64x256xf32, #tile.frag<acc>>
!H = tensor<64x256xbf16, #tile.frag<acc>>
!Hj = tensor<64x128xbf16, #tile.frag<acc>>
!Ta = !tile.tma<?x?xbf16, box 128x64, sw128>
!Tb = !tile.tma<?x?xbf16, box 256x64, sw128>
!Tc = !tile.tma<?x?xbf16, box 64x64, sw128>

// CHECK-LABEL: tile.kernel @gemm(
// CHECK-SAME: !tile.tma<?x?xbf16, box 128x64, sw128>
tile.kernel @gemm(%scalars: !llvm.ptr<1>, %ta: !Ta, %tb: !Tb, %tc: !Tc, %N: i32, %K: i32) {
  %M = count %scalars[0]
  %r = ring #r
  %stage = alloc : !Cs
  // CHECK: raster [%{{.*}}, %{{.*}}] tile [128, 256] group 8 -> (m, n)
  %w = raster [%M, %N] tile [128, 256] group 8 -> (m, n)
  // CHECK: role @load producer regs(40) {
  role @load producer regs(40) {
    %s0 = next %r : !R
    %o = foreach (%m, %n) in %w iter(%s = %s0) : !S {
      %e = loop %k = 0 to %K step 64 iter(%t = %s) : !S {
        // CHECK: fill %{{.*}} as (%[[A:.*]], %{{.*}}) : !tile.slot<#[[RING]]> {
        // CHECK-NEXT: copy %{{.*}}[%{{.*}}, %{{.*}}] -> %[[A]] :
        fill %t as (%a, %b) : !S {
          copy %ta[%m, %k] -> %a : !Ta -> !A
          copy %tb[%n, %k] -> %b : !Tb -> !B
        }
        %u = next %t : !S
        yield %u : !S
      }
      yield %e : !S
    }
  }
  // CHECK: role @mma warpgroups(2) as %{{.*}} regs(232) {
  role @mma warpgroups(2) as %g regs(232) {
    %c64 = arith.constant 64 : i32
    %s0 = next %r : !R
    %ns = none : !S
    %nt = none : !T
    %na = none : !D
    %row = arith.muli %g, %c64 : i32
    %st = view %stage[%g] : !Cs -> !C
    %tail:2 = foreach (%m, %n) in %w iter(%s = %s0, %q = %nt) : !S, !T {
      // CHECK: loop %{{.*}} = 0 to %{{.*}} step 64 peel(first) iter(
      %e, %last, %acc, %lt = loop %k = 0 to %K step 64 peel(first) iter(%t = %s, %prev = %ns, %ac = %na, %pt = %nt) : !S, !S, !D, !T {
        %a, %b = wait full %t : !S
        %aw = view %a[%row, 0] : !A -> !Aw
        // CHECK: mma nt %{{.*}}, %{{.*}} into %{{.*}} : !tile.buf<64x64xbf16, sw128>, !tile.buf<256x64xbf16, sw128>, !tile.acc<64x256xf32>
        %acc1, %tok = mma nt %aw, %b into %ac : !Aw, !B, !D
        await %pt : !T
        release %prev : !S
        %u = next %t : !S
        yield %u, %t, %acc1, %tok : !S, !S, !D, !T
      }
      // CHECK: %[[D:.*]] = await %{{.*}} : !tile.acc<64x256xf32>
      %d = await %acc : !D
      release %last : !S
      // CHECK: arith.truncf %[[D]] : tensor<64x256xf32, #acc> to tensor<64x256xbf16, #acc>
      %h = arith.truncf %d : !F to !H
      %mw = arith.addi %m, %row : i32
      // CHECK: loop %{{.*}} = 0 to 256 step 128 unroll iter(
      %q2 = loop %j = 0 to 256 step 128 unroll iter(%p = %q) : !T {
        // CHECK: await %{{.*}} reads : !tile.token
        await %p reads : !T
        sync
        %hj = slice %h[%j] : !H -> !Hj
        store %hj, %st : !Hj, !C
        sync
        %nj = arith.addi %n, %j : i32
        // CHECK: put %{{.*}} -> %{{.*}}[%{{.*}}, %{{.*}}] : !tile.buf<64x128xbf16, sw128> -> !tile.tma<?x?xbf16, box 64x64, sw128>
        %p1 = put %st -> %tc[%mw, %nj] : !C -> !Tc
        yield %p1 : !T
      }
      yield %e, %q2 : !S, !T
    }
    await %tail#1 : !T
  }
}
