// Constants become numbers; a view of a view is one view.
// RUN: dsv3-opt %s --canonicalize --split-input-file | FileCheck %s

!A = !tile.buf<4x64x256xbf16, sw128>
!B = !tile.buf<64x256xbf16, sw128>
!C = !tile.buf<64x64xbf16, sw128>
!X = !tile.buf<8xf32>
!Y = !tile.buf<4xf32>

// CHECK-LABEL: func.func @views(
// CHECK-SAME: %[[A:.*]]: !tile.buf<4x64x256xbf16, sw128>, %[[X:.*]]: !tile.buf<8xf32>, %[[I:.*]]: i32, %[[J:.*]]: i32)
func.func @views(%a: !A, %x: !X, %i: i32, %j: i32) -> (!C, !C, !Y) {
  %c64 = arith.constant 64 : i32
  %b = tile.view %a[%i] : !A -> !B
  // CHECK: %[[C:.*]] = tile.view %[[A]][%[[I]], 0, 64] : !tile.buf<4x64x256xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
  %c = tile.view %b[0, %c64] : !B -> !C
  // CHECK: %[[D:.*]] = tile.view %[[A]][%[[I]], 0, %[[J]]] :
  %d = tile.view %b[0, %j] : !B -> !C
  %y = tile.view %x[%i] : !X -> !X
  // CHECK: %[[S:.*]] = arith.addi %[[I]], %[[J]] : i32
  // CHECK: %[[Z:.*]] = tile.view %[[X]][%[[S]]] : !tile.buf<8xf32> -> !tile.buf<4xf32>
  %z = tile.view %y[%j] : !X -> !Y
  // CHECK: return %[[C]], %[[D]], %[[Z]]
  return %c, %d, %z : !C, !C, !Y
}

// -----

!F = tensor<64x32xf32, #tile.frag<acc>>
!H = tensor<64x16xf32, #tile.frag<acc>>
!G = !tile.gmem<?x?xf32>

// CHECK-LABEL: func.func @lists(
func.func @lists(%f: !F, %g: !G, %b: !tile.buf<64x64xbf16, sw128>, %n: i32) {
  %c16 = arith.constant 16 : i32
  // CHECK: tile.slice %{{.*}}[16] :
  %h = tile.slice %f[%c16] : !F -> !H
  // CHECK: tile.write %{{.*}}, %{{.*}}[%{{.*}}, 16] rows(%{{.*}}) :
  tile.write %h, %g[%n, %c16] rows(%n) : !H, !G
  // CHECK: tile.zero %{{.*}} rows [16, %{{.*}}] :
  tile.zero %b rows [%c16, %n] : !tile.buf<64x64xbf16, sw128>
  return
}
