// What meets a weight with an `activation` is quantised in that scheme: once per value, before rows go to experts.
// RUN: dsv3-opt %s --dsv3-quantize-activations | FileCheck %s
// On a whole model: fusions and bind move no bit of the quantised form, and taps see plain states.
// RUN: dsv3-opt %inputs/model.mlir --dsv3-quantize-weights="policy=fp8-block" --dsv3-quantize-activations -o %t.q.mlir
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
#a8b = #dsv3.blocked<f8E4M3FN, 1x128, f32>
#pow2 = #dsv3.blocked<f8E4M3FN, 1x128, f32, pow2_scale>
#i8 = #dsv3.blocked<i8, 1x?, f32>
#i8g = #dsv3.blocked<i8, 1x128, f32>
#i4 = #dsv3.blocked<i4, 1x128, f32>

// The instruction is gone: types say what was done.
// CHECK-DAG: #[[ACT:.+]] = #dsv3.blocked<f8E4M3FN, 1x128, f32>
// CHECK-DAG: #[[POW2:.+]] = #dsv3.blocked<f8E4M3FN, 1x128, f32, pow2_scale>
// CHECK-DAG: #[[TOKEN:.+]] = #dsv3.blocked<i8, 1x?, f32>
// CHECK-DAG: #[[GROUP:.+]] = #dsv3.blocked<i8, 1x128, f32>
// CHECK: dsv3.weight @fp8 {{.*}} from #dsv3.dummy<"fp8">{{$}}
// CHECK-NOT: activation
dsv3.weight @fp8 : tensor<128x256xbf16, #fp8b> from #dsv3.dummy<"fp8"> activation(#a8b)
dsv3.weight @ue8m0 : tensor<128x256xbf16, #fp8b> from #dsv3.dummy<"ue8m0"> activation(#pow2)
dsv3.weight @w8 : tensor<128x256xbf16, #i8> from #dsv3.dummy<"w8"> activation(#i8)
dsv3.weight @plain : tensor<128x256xbf16> from #dsv3.dummy<"plain">
dsv3.weight @gate : tensor<4x128x256xbf16, #i4> from #dsv3.dummy<"gate"> activation(#i8)
dsv3.weight @up : tensor<4x128x256xbf16, #i4> from #dsv3.dummy<"up"> activation(#i8)
dsv3.weight @down : tensor<4x256x128xbf16, #i4> from #dsv3.dummy<"down"> activation(#i8g)
dsv3.weight @other : tensor<4x128x256xbf16> from #dsv3.dummy<"other">

// Two readers, one copy; a plain weight reads the plain value.
// CHECK-LABEL: dsv3.program @readers
// CHECK: %[[N:.*]] = dsv3.rms_norm
// CHECK-DAG: %[[Q:.*]] = dsv3.quantize %[[N]] site "n.quant" : tensor<?x256xbf16> -> tensor<?x256xbf16, #[[ACT]]>
// CHECK-DAG: %[[I:.*]] = dsv3.quantize %[[N]] site "n.quant.scheme1" : tensor<?x256xbf16> -> tensor<?x256xbf16, #[[TOKEN]]>
// CHECK: dsv3.linear %[[Q]], %{{.*}} site "a"
// CHECK: dsv3.linear %[[Q]], %{{.*}} site "b"
// CHECK: dsv3.linear %[[I]], %{{.*}} site "c"
// CHECK: dsv3.linear %[[N]], %{{.*}} site "plain"
// CHECK-NOT: dsv3.quantize
// CHECK: dsv3.return
dsv3.program @readers(%x: tensor<?x256xbf16>, %g: tensor<256xbf16>)
    -> (tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>) {
  %w = dsv3.use @fp8 : tensor<128x256xbf16, #fp8b>
  %v = dsv3.use @w8 : tensor<128x256xbf16, #i8>
  %p = dsv3.use @plain : tensor<128x256xbf16>
  %n = dsv3.rms_norm %x, %g eps 1.0e-06 site "n" : tensor<?x256xbf16>, tensor<256xbf16> -> tensor<?x256xbf16>
  %a = dsv3.linear %n, %w site "a" : tensor<?x256xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<?x128xbf16>
  %b = dsv3.linear %n, %w site "b" : tensor<?x256xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<?x128xbf16>
  %c = dsv3.linear %n, %v site "c" : tensor<?x256xbf16>, tensor<128x256xbf16, #i8> -> tensor<?x128xbf16>
  %d = dsv3.linear %n, %p site "plain" : tensor<?x256xbf16>, tensor<128x256xbf16> -> tensor<?x128xbf16>
  dsv3.return %a, %b, %c, %d : tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>
}

// Heads are joined: a token's scale spans them, and groups may straddle them.
// CHECK-LABEL: dsv3.program @heads
// CHECK-DAG: %[[Q:.*]] = dsv3.quantize %arg0 site "arg0.quant" : tensor<?x4x64xbf16> -> tensor<?x256xbf16, #[[POW2]]>
// CHECK-DAG: %[[I:.*]] = dsv3.quantize %arg0 site "arg0.quant.scheme1" : tensor<?x4x64xbf16> -> tensor<?x256xbf16, #[[TOKEN]]>
// CHECK: dsv3.linear %[[Q]], %{{.*}} site "a"
// CHECK: dsv3.linear %[[I]], %{{.*}} site "b"
dsv3.program @heads(%x: tensor<?x4x64xbf16>) -> (tensor<?x128xbf16>, tensor<?x128xbf16>) {
  %w = dsv3.use @ue8m0 : tensor<128x256xbf16, #fp8b>
  %v = dsv3.use @w8 : tensor<128x256xbf16, #i8>
  %a = dsv3.linear %x, %w site "a" : tensor<?x4x64xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<?x128xbf16>
  %b = dsv3.linear %x, %v site "b" : tensor<?x4x64xbf16>, tensor<128x256xbf16, #i8> -> tensor<?x128xbf16>
  dsv3.return %a, %b : tensor<?x128xbf16>, tensor<?x128xbf16>
}

// Tokens are quantised once, before they are dispatched; what feeds the last product is quantised where it is made.
// CHECK-LABEL: dsv3.program @experts
// CHECK: %[[Q:.*]] = dsv3.quantize %arg0 {{.*}} -> tensor<?x256xbf16, #[[TOKEN]]>
// CHECK: %[[R:.*]], %{{.*}}, %{{.*}} = dsv3.dispatch %[[Q]], {{.*}} -> tensor<?x256xbf16, #[[TOKEN]]>
// CHECK-NOT: dsv3.quantize
// CHECK: dsv3.grouped_linear %[[R]], %{{.*}} site "g"
// CHECK: dsv3.grouped_linear %[[R]], %{{.*}} site "u"
// CHECK: %[[A:.*]] = dsv3.swiglu
// CHECK: %[[D:.*]] = dsv3.quantize %[[A]] site "h.quant" : tensor<?x128xbf16> -> tensor<?x128xbf16, #[[GROUP]]>
// CHECK: dsv3.grouped_linear %[[D]], %{{.*}} site "d"
dsv3.program @experts(%x: tensor<?x256xbf16>, %ids: tensor<?x2xi32>) -> tensor<?x256xbf16> {
  %wg = dsv3.use @gate : tensor<4x128x256xbf16, #i4>
  %wu = dsv3.use @up : tensor<4x128x256xbf16, #i4>
  %wd = dsv3.use @down : tensor<4x256x128xbf16, #i4>
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 4 site "x" : tensor<?x256xbf16>, tensor<?x2xi32> -> tensor<?x256xbf16>, tensor<5xi32>, tensor<?x2xi32>
  %g = dsv3.grouped_linear %rows, %wg, %off site "g" : tensor<?x256xbf16>, tensor<4x128x256xbf16, #i4>, tensor<5xi32> -> tensor<?x128xbf16>
  %u = dsv3.grouped_linear %rows, %wu, %off site "u" : tensor<?x256xbf16>, tensor<4x128x256xbf16, #i4>, tensor<5xi32> -> tensor<?x128xbf16>
  %h = dsv3.swiglu %g, %u site "h" : tensor<?x128xbf16>, tensor<?x128xbf16> -> tensor<?x128xbf16>
  %d = dsv3.grouped_linear %h, %wd, %off site "d" : tensor<?x128xbf16>, tensor<4x256x128xbf16, #i4>, tensor<5xi32> -> tensor<?x256xbf16>
  dsv3.return %d : tensor<?x256xbf16>
}

// Where the readers of dispatched rows disagree, each gets what it wants.
// CHECK-LABEL: dsv3.program @disagree
// CHECK: %[[R:.*]], %{{.*}}, %{{.*}} = dsv3.dispatch %arg0, {{.*}} -> tensor<?x256xbf16>,
// CHECK: %[[Q:.*]] = dsv3.quantize %[[R]] {{.*}} -> tensor<?x256xbf16, #[[TOKEN]]>
// CHECK: dsv3.grouped_linear %[[Q]], %{{.*}} site "g"
// CHECK: dsv3.grouped_linear %[[R]], %{{.*}} site "o"
dsv3.program @disagree(%x: tensor<?x256xbf16>, %ids: tensor<?x2xi32>) -> (tensor<?x128xbf16>, tensor<?x128xbf16>) {
  %wg = dsv3.use @gate : tensor<4x128x256xbf16, #i4>
  %wo = dsv3.use @other : tensor<4x128x256xbf16>
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 4 site "x" : tensor<?x256xbf16>, tensor<?x2xi32> -> tensor<?x256xbf16>, tensor<5xi32>, tensor<?x2xi32>
  %g = dsv3.grouped_linear %rows, %wg, %off site "g" : tensor<?x256xbf16>, tensor<4x128x256xbf16, #i4>, tensor<5xi32> -> tensor<?x128xbf16>
  %o = dsv3.grouped_linear %rows, %wo, %off site "o" : tensor<?x256xbf16>, tensor<4x128x256xbf16>, tensor<5xi32> -> tensor<?x128xbf16>
  dsv3.return %g, %o : tensor<?x128xbf16>, tensor<?x128xbf16>
}
