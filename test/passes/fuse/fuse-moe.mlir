// The routed experts of a layer become one op that names every intermediate type.
// RUN: dsv3-opt %s --dsv3-fuse-moe | FileCheck %s
// RUN: dsv3-opt %s --dsv3-fuse-moe | dsv3-interpret %s --taps --against=-

// With the shared expert added inside; a tap of the result is an ordinary reader.
// CHECK-LABEL: dsv3.program @whole
// CHECK-NEXT: %[[Y:.*]] = dsv3.routed_experts %arg0, %arg1, %arg2, %arg3, %arg4, %arg5 plus(%arg6 : tensor<4x16xbf16>) groups 4 keep 2 top 2 norm true scale 2.5 via(gate_up : f32, act : bf16, down : bf16) site "l0.mlp"
// CHECK-SAME: -> tensor<4x16xbf16>{{$}}
// CHECK-NEXT: dsv3.tap "l0.mlp", %[[Y]]
// CHECK-NEXT: dsv3.return %[[Y]]
dsv3.program @whole(%x: tensor<4x16xbf16>, %lg: tensor<4x8xf32>, %bias: tensor<8xf32>, %wg: tensor<8x32x16xbf16>, %wu: tensor<8x32x16xbf16>,
                  %wd: tensor<8x16x32xbf16>, %sh: tensor<4x16xbf16>, %z: tensor<8x16xbf16>) -> tensor<4x16xbf16> {
  %ids, %wt = dsv3.route %lg, %bias groups 4 keep 2 top 2 norm true scale 2.5 site "l0.route" : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 8 site "l0.dispatch" : tensor<4x16xbf16>, tensor<4x2xi32> -> tensor<8x16xbf16>, tensor<9xi32>, tensor<4x2xi32>
  %g = dsv3.grouped_linear %rows, %wg, %off site "l0.gate" : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<8x32xf32>
  %u = dsv3.grouped_linear %rows, %wu, %off site "l0.up" : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<8x32xf32>
  %h = dsv3.swiglu %g, %u site "l0.act" : tensor<8x32xf32>, tensor<8x32xf32> -> tensor<8x32xbf16>
  %d = dsv3.grouped_linear %h, %wd, %off site "l0.down" : tensor<8x32xbf16>, tensor<8x16x32xbf16>, tensor<9xi32> -> tensor<8x16xbf16>
  %y = dsv3.combine %d, %of, %wt plus(%sh : tensor<4x16xbf16>) site "l0.mlp" : tensor<8x16xbf16>, tensor<4x2xi32>, tensor<4x2xf32> -> tensor<4x16xbf16>
  dsv3.tap "l0.mlp", %y : tensor<4x16xbf16>
  dsv3.return %y : tensor<4x16xbf16>
}

// Types of the intermediates as they were, and nothing added.
// CHECK-LABEL: dsv3.program @types
// CHECK-NEXT: dsv3.routed_experts %arg0, %arg1, %arg2, %arg3, %arg4, %arg5 groups 4 {{.*}} via(gate_up : f32, act : f32, down : bf16)
// CHECK-NEXT: dsv3.return
dsv3.program @types(%x: tensor<4x16xbf16>, %lg: tensor<4x8xf32>, %bias: tensor<8xf32>, %wg: tensor<8x32x16xbf16>, %wu: tensor<8x32x16xbf16>,
                  %wd: tensor<8x16x32xbf16>, %sh: tensor<4x16xbf16>, %z: tensor<8x16xbf16>) -> tensor<4x16xbf16> {
  %ids, %wt = dsv3.route %lg, %bias groups 4 keep 2 top 2 norm true scale 2.5 site "l0.route" : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 8 site "l0.dispatch" : tensor<4x16xbf16>, tensor<4x2xi32> -> tensor<8x16xbf16>, tensor<9xi32>, tensor<4x2xi32>
  %g = dsv3.grouped_linear %rows, %wg, %off site "l0.gate" : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<8x32xf32>
  %u = dsv3.grouped_linear %rows, %wu, %off site "l0.up" : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<8x32xf32>
  %h = dsv3.swiglu %g, %u site "l0.act" : tensor<8x32xf32>, tensor<8x32xf32> -> tensor<8x32xf32>
  %d = dsv3.grouped_linear %h, %wd, %off site "l0.down" : tensor<8x32xf32>, tensor<8x16x32xbf16>, tensor<9xi32> -> tensor<8x16xbf16>
  %y = dsv3.combine %d, %of, %wt site "l0.mlp" : tensor<8x16xbf16>, tensor<4x2xi32>, tensor<4x2xf32> -> tensor<4x16xbf16>
  dsv3.return %y : tensor<4x16xbf16>
}

// A tapped routing is yielded by the fused op; the taps follow it in their order.
// CHECK-LABEL: dsv3.program @tapped_routing
// CHECK-NEXT: %[[Y:.*]], %[[IDS:.*]], %[[WT:.*]] = dsv3.routed_experts
// CHECK-SAME: -> tensor<4x16xbf16> ids(tensor<4x2xi32>) weights(tensor<4x2xf32>)
// CHECK-NEXT: dsv3.tap "l0.route.ids", %[[IDS]]
// CHECK-NEXT: dsv3.tap "l0.route.weights", %[[WT]]
// CHECK-NEXT: dsv3.return %[[Y]]
dsv3.program @tapped_routing(%x: tensor<4x16xbf16>, %lg: tensor<4x8xf32>, %bias: tensor<8xf32>, %wg: tensor<8x32x16xbf16>, %wu: tensor<8x32x16xbf16>,
                  %wd: tensor<8x16x32xbf16>, %sh: tensor<4x16xbf16>, %z: tensor<8x16xbf16>) -> tensor<4x16xbf16> {
  %ids, %wt = dsv3.route %lg, %bias groups 4 keep 2 top 2 norm true scale 2.5 site "l0.route" : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>
  dsv3.tap "l0.route.ids", %ids : tensor<4x2xi32>
  dsv3.tap "l0.route.weights", %wt : tensor<4x2xf32>
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 8 site "l0.dispatch" : tensor<4x16xbf16>, tensor<4x2xi32> -> tensor<8x16xbf16>, tensor<9xi32>, tensor<4x2xi32>
  %g = dsv3.grouped_linear %rows, %wg, %off site "l0.gate" : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<8x32xf32>
  %u = dsv3.grouped_linear %rows, %wu, %off site "l0.up" : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<8x32xf32>
  %h = dsv3.swiglu %g, %u site "l0.act" : tensor<8x32xf32>, tensor<8x32xf32> -> tensor<8x32xbf16>
  %d = dsv3.grouped_linear %h, %wd, %off site "l0.down" : tensor<8x32xbf16>, tensor<8x16x32xbf16>, tensor<9xi32> -> tensor<8x16xbf16>
  %y = dsv3.combine %d, %of, %wt plus(%sh : tensor<4x16xbf16>) site "l0.mlp" : tensor<8x16xbf16>, tensor<4x2xi32>, tensor<4x2xf32> -> tensor<4x16xbf16>
  dsv3.return %y : tensor<4x16xbf16>
}

// Only the ids are needed.
// CHECK-LABEL: dsv3.program @returned_ids
// CHECK-NEXT: %[[Y:.*]], %[[IDS:.*]] = dsv3.routed_experts
// CHECK-SAME: -> tensor<4x16xbf16> ids(tensor<4x2xi32>){{$}}
// CHECK-NEXT: dsv3.return %[[Y]], %[[IDS]]
dsv3.program @returned_ids(%x: tensor<4x16xbf16>, %lg: tensor<4x8xf32>, %bias: tensor<8xf32>, %wg: tensor<8x32x16xbf16>, %wu: tensor<8x32x16xbf16>,
                  %wd: tensor<8x16x32xbf16>, %sh: tensor<4x16xbf16>, %z: tensor<8x16xbf16>) -> (tensor<4x16xbf16>, tensor<4x2xi32>) {
  %ids, %wt = dsv3.route %lg, %bias groups 4 keep 2 top 2 norm true scale 2.5 site "l0.route" : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 8 site "l0.dispatch" : tensor<4x16xbf16>, tensor<4x2xi32> -> tensor<8x16xbf16>, tensor<9xi32>, tensor<4x2xi32>
  %g = dsv3.grouped_linear %rows, %wg, %off site "l0.gate" : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<8x32xf32>
  %u = dsv3.grouped_linear %rows, %wu, %off site "l0.up" : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<8x32xf32>
  %h = dsv3.swiglu %g, %u site "l0.act" : tensor<8x32xf32>, tensor<8x32xf32> -> tensor<8x32xbf16>
  %d = dsv3.grouped_linear %h, %wd, %off site "l0.down" : tensor<8x32xbf16>, tensor<8x16x32xbf16>, tensor<9xi32> -> tensor<8x16xbf16>
  %y = dsv3.combine %d, %of, %wt plus(%sh : tensor<4x16xbf16>) site "l0.mlp" : tensor<8x16xbf16>, tensor<4x2xi32>, tensor<4x2xf32> -> tensor<4x16xbf16>
  dsv3.return %y, %ids : tensor<4x16xbf16>, tensor<4x2xi32>
}

// CHECK-NOT: dsv3.routed_experts

// A tapped inner value has to exist.
// CHECK-LABEL: dsv3.program @tapped_inside
// CHECK: dsv3.dispatch
// CHECK: dsv3.tap "l0.gate"
// CHECK: dsv3.combine
dsv3.program @tapped_inside(%x: tensor<4x16xbf16>, %lg: tensor<4x8xf32>, %bias: tensor<8xf32>, %wg: tensor<8x32x16xbf16>, %wu: tensor<8x32x16xbf16>,
                  %wd: tensor<8x16x32xbf16>, %sh: tensor<4x16xbf16>, %z: tensor<8x16xbf16>) -> tensor<4x16xbf16> {
  %ids, %wt = dsv3.route %lg, %bias groups 4 keep 2 top 2 norm true scale 2.5 site "l0.route" : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 8 site "l0.dispatch" : tensor<4x16xbf16>, tensor<4x2xi32> -> tensor<8x16xbf16>, tensor<9xi32>, tensor<4x2xi32>
  %g = dsv3.grouped_linear %rows, %wg, %off site "l0.gate" : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<8x32xf32>
  dsv3.tap "l0.gate", %g : tensor<8x32xf32>
  %u = dsv3.grouped_linear %rows, %wu, %off site "l0.up" : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<8x32xf32>
  %h = dsv3.swiglu %g, %u site "l0.act" : tensor<8x32xf32>, tensor<8x32xf32> -> tensor<8x32xbf16>
  %d = dsv3.grouped_linear %h, %wd, %off site "l0.down" : tensor<8x32xbf16>, tensor<8x16x32xbf16>, tensor<9xi32> -> tensor<8x16xbf16>
  %y = dsv3.combine %d, %of, %wt plus(%sh : tensor<4x16xbf16>) site "l0.mlp" : tensor<8x16xbf16>, tensor<4x2xi32>, tensor<4x2xf32> -> tensor<4x16xbf16>
  dsv3.return %y : tensor<4x16xbf16>
}

// So has one that the program returns.
// CHECK-LABEL: dsv3.program @other_reader
// CHECK: dsv3.dispatch
// CHECK: dsv3.combine
dsv3.program @other_reader(%x: tensor<4x16xbf16>, %lg: tensor<4x8xf32>, %bias: tensor<8xf32>, %wg: tensor<8x32x16xbf16>, %wu: tensor<8x32x16xbf16>,
                  %wd: tensor<8x16x32xbf16>, %sh: tensor<4x16xbf16>, %z: tensor<8x16xbf16>) -> (tensor<4x16xbf16>, tensor<8x16xbf16>) {
  %ids, %wt = dsv3.route %lg, %bias groups 4 keep 2 top 2 norm true scale 2.5 site "l0.route" : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 8 site "l0.dispatch" : tensor<4x16xbf16>, tensor<4x2xi32> -> tensor<8x16xbf16>, tensor<9xi32>, tensor<4x2xi32>
  %g = dsv3.grouped_linear %rows, %wg, %off site "l0.gate" : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<8x32xf32>
  %u = dsv3.grouped_linear %rows, %wu, %off site "l0.up" : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<8x32xf32>
  %h = dsv3.swiglu %g, %u site "l0.act" : tensor<8x32xf32>, tensor<8x32xf32> -> tensor<8x32xbf16>
  %d = dsv3.grouped_linear %h, %wd, %off site "l0.down" : tensor<8x32xbf16>, tensor<8x16x32xbf16>, tensor<9xi32> -> tensor<8x16xbf16>
  %y = dsv3.combine %d, %of, %wt plus(%sh : tensor<4x16xbf16>) site "l0.mlp" : tensor<8x16xbf16>, tensor<4x2xi32>, tensor<4x2xf32> -> tensor<4x16xbf16>
  dsv3.return %y, %d : tensor<4x16xbf16>, tensor<8x16xbf16>
}

// Gate and up of different rows are no expert.
// CHECK-LABEL: dsv3.program @other_rows
// CHECK: dsv3.dispatch
// CHECK: dsv3.combine
dsv3.program @other_rows(%x: tensor<4x16xbf16>, %lg: tensor<4x8xf32>, %bias: tensor<8xf32>, %wg: tensor<8x32x16xbf16>, %wu: tensor<8x32x16xbf16>,
                  %wd: tensor<8x16x32xbf16>, %sh: tensor<4x16xbf16>, %z: tensor<8x16xbf16>) -> tensor<4x16xbf16> {
  %ids, %wt = dsv3.route %lg, %bias groups 4 keep 2 top 2 norm true scale 2.5 site "l0.route" : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 8 site "l0.dispatch" : tensor<4x16xbf16>, tensor<4x2xi32> -> tensor<8x16xbf16>, tensor<9xi32>, tensor<4x2xi32>
  %g = dsv3.grouped_linear %rows, %wg, %off site "l0.gate" : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<8x32xf32>
  %u = dsv3.grouped_linear %z, %wu, %off site "l0.up" : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<8x32xf32>
  %h = dsv3.swiglu %g, %u site "l0.act" : tensor<8x32xf32>, tensor<8x32xf32> -> tensor<8x32xbf16>
  %d = dsv3.grouped_linear %h, %wd, %off site "l0.down" : tensor<8x32xbf16>, tensor<8x16x32xbf16>, tensor<9xi32> -> tensor<8x16xbf16>
  %y = dsv3.combine %d, %of, %wt plus(%sh : tensor<4x16xbf16>) site "l0.mlp" : tensor<8x16xbf16>, tensor<4x2xi32>, tensor<4x2xf32> -> tensor<4x16xbf16>
  dsv3.return %y : tensor<4x16xbf16>
}

// A reader of the routing that stands before the experts cannot wait for them.
// CHECK-LABEL: dsv3.program @early_reader
// CHECK: dsv3.dispatch
// CHECK: dsv3.combine
dsv3.program @early_reader(%x: tensor<4x16xbf16>, %lg: tensor<4x8xf32>, %bias: tensor<8xf32>, %wg: tensor<8x32x16xbf16>, %wu: tensor<8x32x16xbf16>,
                  %wd: tensor<8x16x32xbf16>, %sh: tensor<4x16xbf16>, %z: tensor<8x16xbf16>) -> (tensor<4x16xbf16>, tensor<4x2xf32>) {
  %ids, %wt = dsv3.route %lg, %bias groups 4 keep 2 top 2 norm true scale 2.5 site "l0.route" : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 8 site "l0.dispatch" : tensor<4x16xbf16>, tensor<4x2xi32> -> tensor<8x16xbf16>, tensor<9xi32>, tensor<4x2xi32>
  %g = dsv3.grouped_linear %rows, %wg, %off site "l0.gate" : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<8x32xf32>
  %u = dsv3.grouped_linear %rows, %wu, %off site "l0.up" : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<8x32xf32>
  %h = dsv3.swiglu %g, %u site "l0.act" : tensor<8x32xf32>, tensor<8x32xf32> -> tensor<8x32xbf16>
  %d = dsv3.grouped_linear %h, %wd, %off site "l0.down" : tensor<8x32xbf16>, tensor<8x16x32xbf16>, tensor<9xi32> -> tensor<8x16xbf16>
  %early = dsv3.add %wt, %wt site "early" : tensor<4x2xf32>, tensor<4x2xf32> -> tensor<4x2xf32>
  %y = dsv3.combine %d, %of, %wt plus(%sh : tensor<4x16xbf16>) site "l0.mlp" : tensor<8x16xbf16>, tensor<4x2xi32>, tensor<4x2xf32> -> tensor<4x16xbf16>
  dsv3.return %y, %early : tensor<4x16xbf16>, tensor<4x2xf32>
}

