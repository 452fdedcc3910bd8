// A residual add goes into the norm that reads it.
// RUN: dsv3-opt %s --dsv3-fuse-norm -split-input-file | FileCheck %s

dsv3.weight @gamma : tensor<8xbf16> from #dsv3.file<"gamma">

// The sum serves every other reader: the next add, a tap, a second norm, the caller.
// CHECK-LABEL: dsv3.program @readers
// CHECK: %[[G:.*]] = dsv3.use @gamma
// CHECK: %[[SUM:.*]], %[[Y:.*]] = dsv3.rms_norm %arg0, %[[G]] residual(%arg1 : tensor<4x8xbf16>) eps 1.0e-06 site "l0.post_norm" : tensor<4x8xbf16>, tensor<8xbf16> -> sum(tensor<4x8xbf16>) tensor<4x8xbf16>
// CHECK-NEXT: dsv3.tap "l0.mid", %[[SUM]]
// CHECK-NEXT: %[[SECOND:.*]] = dsv3.rms_norm %[[SUM]], %[[G]] eps 1.0e-05 site "other"
// CHECK-NEXT: %[[OUT:.*]] = dsv3.add %[[SUM]], %[[Y]] site "l0.out"
// CHECK-NEXT: dsv3.return %[[SUM]], %[[SECOND]], %[[OUT]]
dsv3.program @readers(%x: tensor<4x8xbf16>, %a: tensor<4x8xbf16>) -> (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x8xbf16>) {
  %x1 = dsv3.add %x, %a site "l0.mid" : tensor<4x8xbf16>, tensor<4x8xbf16> -> tensor<4x8xbf16>
  dsv3.tap "l0.mid", %x1 : tensor<4x8xbf16>
  %g = dsv3.use @gamma : tensor<8xbf16>
  %n = dsv3.rms_norm %x1, %g eps 1.0e-06 site "l0.post_norm" : tensor<4x8xbf16>, tensor<8xbf16> -> tensor<4x8xbf16>
  %m = dsv3.rms_norm %x1, %g eps 1.0e-05 site "other" : tensor<4x8xbf16>, tensor<8xbf16> -> tensor<4x8xbf16>
  %x2 = dsv3.add %x1, %n site "l0.out" : tensor<4x8xbf16>, tensor<4x8xbf16> -> tensor<4x8xbf16>
  dsv3.return %x1, %m, %x2 : tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x8xbf16>
}

// The sum keeps the add's type: no rounding moves, neither is one added.
// CHECK-LABEL: dsv3.program @types
// CHECK: dsv3.rms_norm %arg0, %{{.*}} residual(%arg1 : tensor<4x8xf32>) {{.*}} : tensor<4x8xbf16>, tensor<8xbf16> -> sum(tensor<4x8xf32>) tensor<4x8xbf16>
dsv3.program @types(%x: tensor<4x8xbf16>, %a: tensor<4x8xf32>) -> tensor<4x8xbf16> {
  %x1 = dsv3.add %x, %a site "mid" : tensor<4x8xbf16>, tensor<4x8xf32> -> tensor<4x8xf32>
  %g = dsv3.use @gamma : tensor<8xbf16>
  %n = dsv3.rms_norm %x1, %g eps 1.0e-06 site "norm" : tensor<4x8xf32>, tensor<8xbf16> -> tensor<4x8xbf16>
  dsv3.return %n : tensor<4x8xbf16>
}

// A chain of layers: each norm takes its own add.
// CHECK-LABEL: dsv3.program @chain
// CHECK: %[[S1:.*]], %[[N1:.*]] = dsv3.rms_norm %arg0, %{{.*}} residual(%arg1
// CHECK: %[[S2:.*]], %[[N2:.*]] = dsv3.rms_norm %[[S1]], %{{.*}} residual(%[[N1]]
// CHECK-NOT: dsv3.add
// CHECK: dsv3.return %[[N2]]
dsv3.program @chain(%x: tensor<4x8xbf16>, %a: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %g = dsv3.use @gamma : tensor<8xbf16>
  %x1 = dsv3.add %x, %a site "mid" : tensor<4x8xbf16>, tensor<4x8xbf16> -> tensor<4x8xbf16>
  %n1 = dsv3.rms_norm %x1, %g eps 1.0e-06 site "n1" : tensor<4x8xbf16>, tensor<8xbf16> -> tensor<4x8xbf16>
  %x2 = dsv3.add %x1, %n1 site "out" : tensor<4x8xbf16>, tensor<4x8xbf16> -> tensor<4x8xbf16>
  %n2 = dsv3.rms_norm %x2, %g eps 1.0e-06 site "n2" : tensor<4x8xbf16>, tensor<8xbf16> -> tensor<4x8xbf16>
  dsv3.return %n2 : tensor<4x8xbf16>
}

// Left alone: no norm reads the add; a norm that has a residual; a gamma that is computed after the add.
// CHECK-LABEL: dsv3.program @alone
// CHECK: dsv3.add {{.*}} site "unread"
// CHECK: dsv3.add {{.*}} site "taken"
// CHECK: dsv3.rms_norm {{.*}} residual(%arg1 : tensor<4x8xbf16>) eps 1.0e-06 site "n"
// CHECK: dsv3.add {{.*}} site "early"
// CHECK: dsv3.rms_norm %{{.*}}, %{{.*}} eps 1.0e-06 site "m"
dsv3.program @alone(%x: tensor<4x8xbf16>, %a: tensor<4x8xbf16>, %g: tensor<8xbf16>) -> (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x8xbf16>) {
  %x1 = dsv3.add %x, %a site "unread" : tensor<4x8xbf16>, tensor<4x8xbf16> -> tensor<4x8xbf16>
  %x2 = dsv3.add %x1, %x1 site "taken" : tensor<4x8xbf16>, tensor<4x8xbf16> -> tensor<4x8xbf16>
  %s, %n = dsv3.rms_norm %x2, %g residual(%a : tensor<4x8xbf16>) eps 1.0e-06 site "n" : tensor<4x8xbf16>, tensor<8xbf16> -> sum(tensor<4x8xbf16>) tensor<4x8xbf16>
  %x3 = dsv3.add %s, %n site "early" : tensor<4x8xbf16>, tensor<4x8xbf16> -> tensor<4x8xbf16>
  %late = dsv3.add %g, %g site "late" : tensor<8xbf16>, tensor<8xbf16> -> tensor<8xbf16>
  %m = dsv3.rms_norm %x3, %late eps 1.0e-06 site "m" : tensor<4x8xbf16>, tensor<8xbf16> -> tensor<4x8xbf16>
  dsv3.return %x1, %n, %m : tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x8xbf16>
}
