// What meets FP8 weights is quantised per token and 128 channels: once per value, before rows go to experts.
// RUN: dsv3-opt %s --dsv3-quantize-activations --split-input-file --verify-diagnostics | FileCheck %s
// On a whole model: fusions and bind move no bit of the quantised form, and taps see plain states.
// RUN: dsv3-opt %inputs/model.mlir --dsv3-quantize-activations -o %t.q.mlir
// RUN: dsv3-opt %t.q.mlir --dsv3-insert-taps="regex=l1.post_norm" --dsv3-make-programs="max-batch=2 prefill-chunk=32" -o %t.programs.mlir
// RUN: dsv3-opt %t.programs.mlir --dsv3-stage-fuse -o %t.fused.mlir
// RUN: FileCheck %s --check-prefix=FUSED < %t.fused.mlir
// RUN: dsv3-interpret %t.programs.mlir --dummy-weights --program=trunk_head --mtp --lengths=40,5 --chunk=16 --against=%t.fused.mlir | FileCheck %s --check-prefix=EQUAL
// RUN: dsv3-opt %t.fused.mlir --dsv3-lower-to-kernel -o %t.kernel.mlir
// RUN: dsv3-interpret %t.programs.mlir --dummy-weights --program=trunk_head --mtp --lengths=40,5 --chunk=16 --against=%t.kernel.mlir | FileCheck %s --check-prefix=EQUAL
// It is another computation than the plain one.
// RUN: dsv3-opt %inputs/model.mlir --dsv3-make-programs="max-batch=2 prefill-chunk=32" -o %t.plain.mlir
// RUN: not dsv3-interpret %t.plain.mlir --dummy-weights --program=trunk_head --mtp --lengths=40,5 --chunk=16 --against=%t.programs.mlir --tolerance=0.5 | FileCheck %s --check-prefix=OTHER

// EQUAL-DAG: logits: equal
// EQUAL-DAG: hidden: equal
// EQUAL-DAG: mtp_logits: equal
// OTHER: logits: row {{[0-9]+}} differs by
// FUSED: dsv3.gated_linear %{{.*}} : tensor<32x256xbf16, #{{.*}}>,
// FUSED: dsv3.routed_experts {{.*}} via(gate_up : f32, act : bf16 quantized(#{{.*}}), down : bf16)

#fp8b = #dsv3.blocked<f8E4M3FN, 128x128, f32>
#pow2 = #dsv3.blocked<f8E4M3FN, 128x128, f32, pow2_scale>

// CHECK-DAG: #[[ACT:.+]] = #dsv3.blocked<f8E4M3FN, 1x128, f32>
// CHECK-DAG: #[[POW2:.+]] = #dsv3.blocked<f8E4M3FN, 1x128, f32, pow2_scale>

// Two readers, one copy; a plain weight reads the plain value.
// CHECK-LABEL: dsv3.program @readers
// CHECK: %[[N:.*]] = dsv3.rms_norm
// CHECK-NEXT: %[[Q:.*]] = dsv3.quantize %[[N]] site "n.quant" : tensor<?x256xbf16> -> tensor<?x256xbf16, #[[ACT]]>
// CHECK: dsv3.linear %[[Q]], %arg2 site "a"
// CHECK: dsv3.linear %[[Q]], %arg2 site "b"
// CHECK: dsv3.linear %[[N]], %arg3 site "plain"
// CHECK-NOT: dsv3.quantize
// CHECK: dsv3.return
dsv3.program @readers(%x: tensor<?x256xbf16>, %g: tensor<256xbf16>, %w: tensor<128x256xbf16, #fp8b>, %p: tensor<128x256xbf16>)
    -> (tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>) {
  %n = dsv3.rms_norm %x, %g eps 1.0e-06 site "n" : tensor<?x256xbf16>, tensor<256xbf16> -> tensor<?x256xbf16>
  %a = dsv3.linear %n, %w site "a" : tensor<?x256xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<?x128xbf16>
  %b = dsv3.linear %n, %w site "b" : tensor<?x256xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<?x128xbf16>
  %c = dsv3.linear %n, %p site "plain" : tensor<?x256xbf16>, tensor<128x256xbf16> -> tensor<?x128xbf16>
  dsv3.return %a, %b, %c : tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>
}

// Scales that are powers of two are met by such scales; heads of 128 channels are groups.
// CHECK-LABEL: dsv3.program @heads
// CHECK-NEXT: %[[Q:.*]] = dsv3.quantize %arg0 site "arg0.quant" : tensor<?x2x128xbf16> -> tensor<?x2x128xbf16, #[[POW2]]>
// CHECK-NEXT: dsv3.linear %[[Q]]
dsv3.program @heads(%x: tensor<?x2x128xbf16>, %w: tensor<128x256xbf16, #pow2>) -> tensor<?x128xbf16> {
  %a = dsv3.linear %x, %w site "a" : tensor<?x2x128xbf16>, tensor<128x256xbf16, #pow2> -> tensor<?x128xbf16>
  dsv3.return %a : tensor<?x128xbf16>
}

// CHECK-LABEL: dsv3.program @experts
// CHECK: %[[Q:.*]] = dsv3.quantize %arg0
// CHECK: %[[R:.*]], %{{.*}}, %{{.*}} = dsv3.dispatch %[[Q]], {{.*}} -> tensor<?x128xbf16, #[[ACT]]>
// CHECK: dsv3.grouped_linear %[[R]]
dsv3.program @experts(%x: tensor<?x128xbf16>, %ids: tensor<?x2xi32>, %w: tensor<4x128x128xbf16, #fp8b>) -> tensor<?x128xbf16> {
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 4 site "d" : tensor<?x128xbf16>, tensor<?x2xi32> -> tensor<?x128xbf16>, tensor<5xi32>, tensor<?x2xi32>
  %g = dsv3.grouped_linear %rows, %w, %off site "g" : tensor<?x128xbf16>, tensor<4x128x128xbf16, #fp8b>, tensor<5xi32> -> tensor<?x128xbf16>
  dsv3.return %g : tensor<?x128xbf16>
}

// -----

#fp8b = #dsv3.blocked<f8E4M3FN, 128x128, f32>
dsv3.program @straddle(%x: tensor<?x4x64xbf16>, %w: tensor<128x256xbf16, #fp8b>) -> tensor<?x128xbf16> {
  // expected-error @below {{expected heads of a multiple of 128 channels to quantise per token, got 'tensor<?x4x64xbf16>'}}
  %a = dsv3.linear %x, %w site "a" : tensor<?x4x64xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<?x128xbf16>
  dsv3.return %a : tensor<?x128xbf16>
}
