// Dense dsv3 ops, parts and taps as launches in destination-passing style.
// RUN: dsv3-opt %s --dsv3-lower-to-kernel | FileCheck %s

module attributes {dsv3.capacities = {kblocks = 6 : i64, max_model_len = 256 : i64, pages = 4 : i64, qblocks = 3 : i64, seqs = 2 : i64, tokens = 16 : i64}} {

// CHECK-LABEL: dsv3.program @dense
dsv3.program @dense(%ids: tensor<16xi32>, %t: tensor<512x256xbf16>, %g: tensor<256xbf16>, %w: tensor<512x256xbf16>, %wh: tensor<4x64x128xbf16>, %seq: !dsv3.seq) -> (tensor<2x256xbf16>, tensor<16x512xbf16>) {
  // CHECK-NEXT: %[[D0:.*]] = kernel.empty : tensor<16x256xbf16>
  // CHECK-NEXT: %[[X:.*]] = kernel.embed ins(%arg0, %arg1 : {{.*}}) outs(%[[D0]] : tensor<16x256xbf16>) site "embed"
  %x = dsv3.embed %ids, %t site "embed" : tensor<16xi32>, tensor<512x256xbf16> -> tensor<16x256xbf16>
  // CHECK: %[[N:.*]] = kernel.norm ins(%[[X]], %arg2 : {{.*}} eps 1.0e-06 site "norm"
  %n = dsv3.rms_norm %x, %g eps 1.0e-06 site "norm" : tensor<16x256xbf16>, tensor<256xbf16> -> tensor<16x256xbf16>
  // CHECK: %[[S0:.*]] = kernel.empty : tensor<16x256xf32>
  // CHECK: %[[D1:.*]] = kernel.empty : tensor<16x256xbf16>
  // CHECK: %[[S:.*]], %[[M:.*]] = kernel.add_norm ins(%[[N]], %[[X]], %arg2 : {{.*}}) outs(%[[S0]], %[[D1]] : tensor<16x256xf32>, tensor<16x256xbf16>) eps 1.0e-06 site "add_norm"
  %s, %m = dsv3.rms_norm %n, %g residual(%x : tensor<16x256xbf16>) eps 1.0e-06 site "add_norm" : tensor<16x256xbf16>, tensor<256xbf16> -> sum(tensor<16x256xf32>) tensor<16x256xbf16>
  // CHECK: %[[L:.*]] = kernel.gemm ins(%[[M]], %arg3 : {{.*}}) outs(%{{.*}} : tensor<16x4x128xbf16>) site "linear"
  %l = dsv3.linear %m, %w site "linear" : tensor<16x256xbf16>, tensor<512x256xbf16> -> tensor<16x4x128xbf16>
  // CHECK: kernel.batched_gemm ins(%[[L]], %arg4 : {{.*}}) outs(%{{.*}} : tensor<16x4x64xbf16>) site "batched"
  %b = dsv3.batched_linear %l, %wh site "batched" : tensor<16x4x128xbf16>, tensor<4x64x128xbf16> -> tensor<16x4x64xbf16>
  // CHECK: %[[G:.*]] = kernel.gated_gemm ins(%[[M]], %arg3, %arg3 : {{.*}}) outs(%{{.*}} : tensor<16x512xbf16>) via f32 site "gated"
  %gl = dsv3.gated_linear %m, %w, %w via f32 site "gated" : tensor<16x256xbf16>, tensor<512x256xbf16>, tensor<512x256xbf16> -> tensor<16x512xbf16>
  // CHECK: %[[ACT:.*]] = kernel.swiglu ins(%[[G]], %[[G]] : {{.*}} site "act"
  %act = dsv3.swiglu %gl, %gl site "act" : tensor<16x512xbf16>, tensor<16x512xbf16> -> tensor<16x512xbf16>
  // CHECK: kernel.add ins(%[[X]], %[[M]] : {{.*}} site "add"
  %a = dsv3.add %x, %m site "add" : tensor<16x256xbf16>, tensor<16x256xbf16> -> tensor<16x256xbf16>
  // CHECK: %[[R:.*]] = kernel.select_rows ins(%{{.*}}, %arg5 : tensor<16x256xbf16>) outs(%{{.*}} : tensor<2x256xbf16>) site "select"
  %r = dsv3.select_rows %a, %seq site "select" : tensor<16x256xbf16> -> tensor<2x256xbf16>
  // CHECK: %[[C:.*]] = kernel.concat ins(%[[X]], %[[M]] : {{.*}}) outs(%{{.*}} : tensor<16x512xbf16>) site "concat"
  %c = dsv3.concat %x, %m site "concat" : tensor<16x256xbf16>, tensor<16x256xbf16> -> tensor<16x512xbf16>
  // CHECK: kernel.tap "act", %[[ACT]] : tensor<16x512xbf16>
  dsv3.tap "act", %act : tensor<16x512xbf16>
  // CHECK: dsv3.return %[[R]], %[[C]]
  dsv3.return %r, %c : tensor<2x256xbf16>, tensor<16x512xbf16>
}

// Only parts that are read become views; a view of a view is one view; the whole is no view.
// CHECK-LABEL: dsv3.program @views
dsv3.program @views(%x: tensor<4x96xbf16>, %w: tensor<8x16xbf16>) -> tensor<4x8xbf16> {
  // CHECK-NEXT: %[[V:.*]] = kernel.view %arg0 at 80 : tensor<4x96xbf16> -> tensor<4x16xbf16>
  // CHECK-NOT: kernel.view
  // CHECK: kernel.gemm ins(%[[V]], %arg1
  %a, %b = dsv3.split %x : tensor<4x96xbf16> -> tensor<4x64xbf16>, tensor<4x32xbf16>
  %all = dsv3.split %b : tensor<4x32xbf16> -> tensor<4x32xbf16>
  %c, %d = dsv3.split %all : tensor<4x32xbf16> -> tensor<4x16xbf16>, tensor<4x16xbf16>
  %y = dsv3.linear %d, %w site "y" : tensor<4x16xbf16>, tensor<8x16xbf16> -> tensor<4x8xbf16>
  dsv3.return %y : tensor<4x8xbf16>
}
}
