// RUN: dsv3-opt %s --dsv3-tile-peel --split-input-file --verify-diagnostics | FileCheck %s

#r = #tile.ring<"ab", stages = 4, bufs = [!tile.buf<64x64xbf16, sw128>, !tile.buf<64x64xbf16, sw128>], free = [all by @a]>
!S = !tile.slot<#r>
!T = !tile.token
!D = !tile.acc<64x64xf32>
!B = !tile.buf<64x64xbf16, sw128>

// The main loop of a GEMM: in the peeled copy mma starts from nothing, and neither waits for the product before it nor
// releases its stage.
// CHECK-LABEL: func.func @first(
// CHECK-SAME: %[[S:.*]]: !tile.slot<#ab>, %[[K:.*]]: i32)
func.func @first(%s: !S, %k: i32) -> (!D, !S) {
  %ns = tile.none : !S
  %nt = tile.none : !T
  %na = tile.none : !D
  // CHECK-DAG: %[[C64:.*]] = arith.constant 64 : i32
  // CHECK-DAG: %[[NONE:.*]] = tile.none : !tile.acc<64x64xf32>
  // CHECK-NOT: tile.await
  // CHECK-NOT: tile.release
  // CHECK: %[[B:.*]]:2 = tile.wait full %[[S]]
  // CHECK-NEXT: %[[A1:.*]], %[[T1:.*]] = tile.mma nt %[[B]]#0, %[[B]]#1 into %[[NONE]]
  // CHECK-NEXT: %[[S1:.*]] = tile.next %[[S]]
  // CHECK-NEXT: %[[L:.*]]:4 = scf.for %{{.*}} = %[[C64]] to %[[K]] step %[[C64]] iter_args(%[[SI:.*]] = %[[S1]], %[[P:.*]] = %[[S]], %[[AI:.*]] = %[[A1]], %[[TI:.*]] = %[[T1]])
  // CHECK: tile.mma nt %{{.*}}, %{{.*}} into %[[AI]]
  // CHECK: tile.await %[[TI]]
  // CHECK: tile.release %[[P]]
  // CHECK: scf.yield
  // CHECK: return %[[L]]#2, %[[L]]#1
  %e, %last, %acc, %lt = tile.loop %i = 0 to %k step 64 peel(first) iter(%t = %s, %prev = %ns, %ac = %na, %pt = %nt) : !S, !S, !D, !T {
    %a, %b = wait full %t : !S
    %acc1, %tok = mma nt %a, %b into %ac : !B, !B, !D
    await %pt : !T
    release %prev : !S
    %u = next %t : !S
    yield %u, %t, %acc1, %tok : !S, !S, !D, !T
  }
  return %acc, %last : !D, !S
}

// -----

// The last trip is a copy behind the loop; its branch is taken, the others' is not.
// CHECK-LABEL: func.func @last(
// CHECK-SAME: %[[N:.*]]: i32, %[[X:.*]]: i32)
func.func @last(%n: i32, %x: i32) -> i32 {
  // CHECK-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // CHECK-DAG: %[[C1:.*]] = arith.constant 1 : i32
  // CHECK: %[[SPAN:.*]] = arith.subi %[[N]], %[[C1]]
  // CHECK-NEXT: %[[OVER:.*]] = arith.remui %[[SPAN]], %{{.*}}
  // CHECK-NEXT: %[[TO:.*]] = arith.subi %[[SPAN]], %[[OVER]]
  // CHECK-NEXT: %[[R:.*]] = scf.for %[[I:.*]] = %[[C0]] to %[[TO]] step %{{.*}} iter_args(%[[Y:.*]] = %[[X]])
  // CHECK-NEXT: %[[A:.*]] = arith.addi %[[Y]], %[[I]]
  // CHECK-NEXT: scf.yield %[[A]]
  // CHECK-NEXT: }
  // CHECK-NEXT: %[[M:.*]] = arith.muli %[[R]], %[[TO]]
  // CHECK-NEXT: return %[[M]]
  %r = tile.loop %i = 0 to %n step 3 peel(last) as %fin iter(%y = %x) : i32 {
    %z = scf.if %fin -> i32 {
      %m = arith.muli %y, %i : i32
      scf.yield %m : i32
    } else {
      %a = arith.addi %y, %i : i32
      scf.yield %a : i32
    }
    yield %z : i32
  }
  return %r : i32
}

// -----

// With constant bounds the last index is a number: 0, 3, 6 and then 9.
// CHECK-LABEL: func.func @last_of_ten(
func.func @last_of_ten(%x: i32) -> i32 {
  // CHECK-DAG: %[[C9:.*]] = arith.constant 9 : i32
  // CHECK: scf.for %{{.*}} = %{{.*}} to %[[C9]]
  // CHECK: arith.addi %{{.*}}, %[[C9]]
  %r = tile.loop %i = 0 to 10 step 3 peel(last) iter(%y = %x) : i32 {
    %a = arith.addi %y, %i : i32
    yield %a : i32
  }
  return %r : i32
}

// -----

// Unrolled: columns become numbers. What is around stays a loop.
// CHECK-LABEL: func.func @unroll(
func.func @unroll(%f: tensor<64x64xf32, #tile.frag<acc>>, %g: !tile.gmem<?x?xf32>, %n: i32) {
  // CHECK: scf.for %[[I:.*]] =
  // CHECK-NEXT: %[[A:.*]] = tile.slice %{{.*}}[0]
  // CHECK-NEXT: tile.write %[[A]], %{{.*}}[%[[I]], 0]
  // CHECK-NEXT: %[[B:.*]] = tile.slice %{{.*}}[32]
  // CHECK-NEXT: tile.write %[[B]], %{{.*}}[%[[I]], 32]
  // CHECK-NEXT: }
  tile.loop %i = 0 to %n {
    loop %j = 0 to 64 step 32 unroll {
      %s = slice %f[%j] : tensor<64x64xf32, #tile.frag<acc>> -> tensor<64x32xf32, #tile.frag<acc>>
      write %s, %g[%i, %j] : tensor<64x32xf32, #tile.frag<acc>>, !tile.gmem<?x?xf32>
    }
  }
  return
}

// -----

// A branch that skips work stays one.
// CHECK-LABEL: func.func @guard(
func.func @guard(%m: tensor<64xi1, #tile.frag<row>>, %x: tensor<64xf32, #tile.frag<row>>) -> tensor<64xf32, #tile.frag<row>> {
  %any = tile.any %m : tensor<64xi1, #tile.frag<row>>
  // CHECK: scf.if
  // CHECK-NEXT: arith.mulf
  // CHECK-NEXT: scf.yield
  // CHECK-NEXT: } else {
  // CHECK-NEXT: scf.yield
  %r = scf.if %any -> tensor<64xf32, #tile.frag<row>> {
    %y = arith.mulf %x, %x : tensor<64xf32, #tile.frag<row>>
    scf.yield %y : tensor<64xf32, #tile.frag<row>>
  } else {
    scf.yield %x : tensor<64xf32, #tile.frag<row>>
  }
  return %r : tensor<64xf32, #tile.frag<row>>
}

// -----

func.func @dynamic(%f: tensor<64x64xf32, #tile.frag<acc>>, %n: i32) -> tensor<64x32xf32, #tile.frag<acc>> {
  // expected-error @+1 {{T34: expected a constant column after unrolling}}
  %s = tile.slice %f[%n] : tensor<64x64xf32, #tile.frag<acc>> -> tensor<64x32xf32, #tile.frag<acc>>
  return %s : tensor<64x32xf32, #tile.frag<acc>>
}
