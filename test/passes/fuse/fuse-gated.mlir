// Gate, up and their activation become one op; `via` keeps the type of the two products.
// RUN: dsv3-opt %s --dsv3-fuse-gated | FileCheck %s
// RUN: dsv3-opt %s --dsv3-fuse-gated | dsv3-interpret %s --taps --against=-

// CHECK-LABEL: dsv3.program @f32
// CHECK-NEXT: %[[Y:.*]] = dsv3.gated_linear %arg0, %arg1, %arg2 via f32 site "l0.act" : tensor<4x8xbf16>, tensor<16x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xbf16>
// CHECK-NEXT: dsv3.return %[[Y]]
dsv3.program @f32(%x: tensor<4x8xbf16>, %wg: tensor<16x8xbf16>, %wu: tensor<16x8xbf16>) -> tensor<4x16xbf16> {
  %g = dsv3.linear %x, %wg site "l0.gate" : tensor<4x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xf32>
  %u = dsv3.linear %x, %wu site "l0.up" : tensor<4x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xf32>
  %y = dsv3.swiglu %g, %u site "l0.act" : tensor<4x16xf32>, tensor<4x16xf32> -> tensor<4x16xbf16>
  dsv3.return %y : tensor<4x16xbf16>
}

// Products that were rounded stay rounded; a tap of the activation itself is no obstacle.
// CHECK-LABEL: dsv3.program @bf16
// CHECK-NEXT: %[[Y:.*]] = dsv3.gated_linear %arg0, %arg1, %arg2 via bf16 site "l0.act"
// CHECK-NEXT: dsv3.tap "l0.act", %[[Y]]
dsv3.program @bf16(%x: tensor<4x8xbf16>, %wg: tensor<16x8xbf16>, %wu: tensor<16x8xbf16>) -> tensor<4x16xbf16> {
  %u = dsv3.linear %x, %wu site "l0.up" : tensor<4x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xbf16>
  %g = dsv3.linear %x, %wg site "l0.gate" : tensor<4x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xbf16>
  %y = dsv3.swiglu %g, %u site "l0.act" : tensor<4x16xbf16>, tensor<4x16xbf16> -> tensor<4x16xbf16>
  dsv3.tap "l0.act", %y : tensor<4x16xbf16>
  dsv3.return %y : tensor<4x16xbf16>
}

// CHECK-NOT: dsv3.gated_linear

// A tapped product has to exist.
// CHECK-LABEL: dsv3.program @tapped
// CHECK: dsv3.swiglu
dsv3.program @tapped(%x: tensor<4x8xbf16>, %wg: tensor<16x8xbf16>, %wu: tensor<16x8xbf16>) -> tensor<4x16xbf16> {
  %g = dsv3.linear %x, %wg site "l0.gate" : tensor<4x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xf32>
  dsv3.tap "l0.gate", %g : tensor<4x16xf32>
  %u = dsv3.linear %x, %wu site "l0.up" : tensor<4x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xf32>
  %y = dsv3.swiglu %g, %u site "l0.act" : tensor<4x16xf32>, tensor<4x16xf32> -> tensor<4x16xbf16>
  dsv3.return %y : tensor<4x16xbf16>
}

// Two inputs.
// CHECK-LABEL: dsv3.program @inputs
// CHECK: dsv3.swiglu
dsv3.program @inputs(%x: tensor<4x8xbf16>, %z: tensor<4x8xbf16>, %wg: tensor<16x8xbf16>, %wu: tensor<16x8xbf16>) -> tensor<4x16xbf16> {
  %g = dsv3.linear %x, %wg site "l0.gate" : tensor<4x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xf32>
  %u = dsv3.linear %z, %wu site "l0.up" : tensor<4x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xf32>
  %y = dsv3.swiglu %g, %u site "l0.act" : tensor<4x16xf32>, tensor<4x16xf32> -> tensor<4x16xbf16>
  dsv3.return %y : tensor<4x16xbf16>
}

// Types that differ: of the products, of the weights.
// CHECK-LABEL: dsv3.program @types
// CHECK-COUNT-2: dsv3.swiglu
dsv3.program @types(%x: tensor<4x8xbf16>, %wg: tensor<16x8xbf16>, %wu: tensor<16x8xf32>) -> (tensor<4x16xbf16>, tensor<4x16xbf16>) {
  %g = dsv3.linear %x, %wg site "l0.gate" : tensor<4x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xf32>
  %u = dsv3.linear %x, %wg site "l0.up" : tensor<4x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xbf16>
  %y = dsv3.swiglu %g, %u site "l0.act" : tensor<4x16xf32>, tensor<4x16xbf16> -> tensor<4x16xbf16>
  %h = dsv3.linear %x, %wg site "l1.gate" : tensor<4x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xf32>
  %v = dsv3.linear %x, %wu site "l1.up" : tensor<4x8xbf16>, tensor<16x8xf32> -> tensor<4x16xf32>
  %z = dsv3.swiglu %h, %v site "l1.act" : tensor<4x16xf32>, tensor<4x16xf32> -> tensor<4x16xbf16>
  dsv3.return %y, %z : tensor<4x16xbf16>, tensor<4x16xbf16>
}
