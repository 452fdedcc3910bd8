// Routing and experts as launches in destination-passing style.
// RUN: dsv3-opt %s --dsv3-lower-to-kernel | FileCheck %s

module attributes {dsv3.capacities = {kblocks = 6 : i64, max_model_len = 256 : i64, pages = 4 : i64, qblocks = 3 : i64, seqs = 2 : i64, tokens = 16 : i64}} {

// CHECK-LABEL: dsv3.program @experts
dsv3.program @experts(%x: tensor<16x256xbf16>, %lg: tensor<16x8xf32>, %b: tensor<8xf32>, %gate: tensor<8x128x256xbf16>, %down: tensor<8x256x128xbf16>) -> (tensor<16x256xbf16>, tensor<16x2xi32>) {
  // CHECK: %[[I:.*]], %[[W:.*]] = kernel.route ins(%arg1, %arg2 : {{.*}}) outs(%{{.*}}, %{{.*}} : tensor<16x2xi32>, tensor<16x2xf32>) groups 4 keep 2 top 2 norm true scale 2.5 site "l1.route"
  // CHECK: %[[O:.*]], %[[T:.*]], %[[R:.*]] = kernel.dispatch ins(%[[I]] : {{.*}}) outs({{.*}} : tensor<9xi32>, tensor<32xi32>, tensor<16x2xi32>) site "l1.dispatch"
  // CHECK: %[[A:.*]] = kernel.grouped_gated_gemm ins(%arg0, %arg3, %arg3, %[[O]], %[[T]] : {{.*}}) outs(%{{.*}} : tensor<32x128xbf16>) via f32 site "l1.act"
  // CHECK: %[[D:.*]] = kernel.grouped_gemm ins(%[[A]], %arg4, %[[O]] : {{.*}}) outs(%{{.*}} : tensor<32x256xf32>) site "l1.down"
  // CHECK: %[[Y:.*]] = kernel.combine ins(%[[D]], %[[R]], %[[W]] : {{.*}}) plus(%arg0 : {{.*}}) outs(%{{.*}} : tensor<16x256xbf16>) site "l1.mlp"
  %y, %ids = dsv3.routed_experts %x, %lg, %b, %gate, %gate, %down plus(%x : tensor<16x256xbf16>) groups 4 keep 2 top 2 norm true scale 2.5
    via(gate_up : f32, act : bf16, down : f32) site "l1.mlp"
    : tensor<16x256xbf16>, tensor<16x8xf32>, tensor<8xf32>, tensor<8x128x256xbf16>, tensor<8x128x256xbf16>, tensor<8x256x128xbf16> -> tensor<16x256xbf16> ids(tensor<16x2xi32>)
  // A route that stands alone.
  // CHECK: kernel.route ins(%arg1, %arg2 : {{.*}} site "l2.route"
  %i2, %w2 = dsv3.route %lg, %b groups 4 keep 2 top 2 norm true scale 2.5 site "l2.route" : tensor<16x8xf32>, tensor<8xf32> -> tensor<16x2xi32>, tensor<16x2xf32>
  dsv3.tap "l2.route.ids", %i2 : tensor<16x2xi32>
  // CHECK: dsv3.return %[[Y]], %[[I]]
  dsv3.return %y, %ids : tensor<16x256xbf16>, tensor<16x2xi32>
}

// CHECK-LABEL: dsv3.program @experts_in_pieces
dsv3.program @experts_in_pieces(%x: tensor<16x256xbf16>, %ids: tensor<16x2xi32>, %wt: tensor<16x2xf32>, %gate: tensor<8x128x256xbf16>, %down: tensor<8x256x128xbf16>) -> tensor<16x256xbf16> {
  // CHECK: %[[O:.*]], %[[T:.*]], %[[R:.*]] = kernel.dispatch ins(%arg1 : {{.*}} site "l1.dispatch"
  // CHECK: %[[X:.*]] = kernel.gather ins(%arg0, %[[T]] : {{.*}}) outs(%{{.*}} : tensor<32x256xbf16>) site "l1.gather"
  // CHECK: %[[G:.*]] = kernel.grouped_gemm ins(%[[X]], %arg3, %[[O]] : {{.*}}) outs(%{{.*}} : tensor<32x128xf32>) site "l1.gate"
  // CHECK: %[[A:.*]] = kernel.swiglu ins(%[[G]], %[[G]] : {{.*}}) outs(%{{.*}} : tensor<32x128xbf16>) site "l1.act"
  // CHECK: %[[D:.*]] = kernel.grouped_gemm ins(%[[A]], %arg4, %[[O]] : {{.*}} site "l1.down"
  // CHECK: kernel.combine ins(%[[D]], %[[R]], %arg2 : {{.*}} site "l1.mlp"
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 8 site "l1.dispatch" : tensor<16x256xbf16>, tensor<16x2xi32> -> tensor<32x256xbf16>, tensor<9xi32>, tensor<16x2xi32>
  %g = dsv3.grouped_linear %rows, %gate, %off site "l1.gate" : tensor<32x256xbf16>, tensor<8x128x256xbf16>, tensor<9xi32> -> tensor<32x128xf32>
  %a = dsv3.swiglu %g, %g site "l1.act" : tensor<32x128xf32>, tensor<32x128xf32> -> tensor<32x128xbf16>
  %d = dsv3.grouped_linear %a, %down, %off site "l1.down" : tensor<32x128xbf16>, tensor<8x256x128xbf16>, tensor<9xi32> -> tensor<32x256xf32>
  %y = dsv3.combine %d, %of, %wt site "l1.mlp" : tensor<32x256xf32>, tensor<16x2xi32>, tensor<16x2xf32> -> tensor<16x256xbf16>
  dsv3.return %y : tensor<16x256xbf16>
}
}
