// A policy gives weights and what meets them their schemes; the numbers of a weight that changes are rounded anew.
// RUN: dsv3-opt %s --dsv3-quantize-weights="policy=w4a8-experts" | FileCheck %s
// RUN: dsv3-opt %s --dsv3-quantize-weights="policy=w8a8 algorithm=mse" | FileCheck %s --check-prefix=W8A8
// RUN: dsv3-opt %s --dsv3-quantize-weights="policy=fp8-block" | FileCheck %s --check-prefix=FP8
// RUN: dsv3-opt %s --dsv3-quantize-weights="policy=checkpoint" | FileCheck %s --check-prefix=ASKED
// RUN: dsv3-opt %s --dsv3-quantize-weights | FileCheck %s --check-prefix=NONE
// RUN: not dsv3-opt %s --dsv3-quantize-weights="policy=w2" 2>&1 | FileCheck %s --check-prefix=WRONG
// On a whole model: fusions move no bit of the quantised form, which is another computation than the plain one.
// RUN: dsv3-opt %inputs/model.mlir --dsv3-quantize-weights="policy=w4a8-experts" --dsv3-quantize-activations --dsv3-make-programs="max-batch=2 prefill-chunk=32" -o %t.programs.mlir
// RUN: dsv3-opt %t.programs.mlir --dsv3-stage-fuse -o %t.fused.mlir
// RUN: dsv3-interpret %t.programs.mlir --dummy-weights --program=trunk_head --mtp --lengths=40,5 --chunk=16 --against=%t.fused.mlir | FileCheck %s --check-prefix=EQUAL
// RUN: FileCheck %s --check-prefix=FUSED < %t.fused.mlir
// Kernels see a token's heads as one row, with one scale.
// RUN: dsv3-opt %t.fused.mlir --dsv3-lower-to-kernel -o %t.kernel.mlir
// RUN: dsv3-interpret %t.programs.mlir --dummy-weights --program=trunk_head --mtp --lengths=40,5 --chunk=16 --against=%t.kernel.mlir | FileCheck %s --check-prefix=EQUAL
// RUN: dsv3-opt %inputs/model.mlir --dsv3-make-programs="max-batch=2 prefill-chunk=32" -o %t.plain.mlir
// RUN: not dsv3-interpret %t.plain.mlir --dummy-weights --program=trunk_head --mtp --lengths=40,5 --chunk=16 --against=%t.programs.mlir --tolerance=0.01 | FileCheck %s --check-prefix=OTHER

// EQUAL-DAG: logits: equal
// EQUAL-DAG: hidden: equal
// EQUAL-DAG: mtp_logits: equal
// OTHER: logits: row {{[0-9]+}} differs by
// FUSED-DAG: #[[G:.+]] = #dsv3.blocked<i8, 1x128, f32>
// FUSED: dsv3.routed_experts {{.*}} via(gate_up : f32, act : bf16 quantized(#[[G]]), down : bf16)

#fp8b = #dsv3.blocked<f8E4M3FN, 128x128, f32>
#pow2 = #dsv3.blocked<f8E4M3FN, 128x128, f32, pow2_scale>
#awq = #dsv3.blocked<i4, 1x128, f16, zero i8>
#token = #dsv3.blocked<i8, 1x?, f32>

// CHECK-DAG: #[[E4:.+]] = #dsv3.blocked<f8E4M3FN, 128x128, f32>
// CHECK-DAG: #[[I8:.+]] = #dsv3.blocked<i8, 1x?, f32>
// CHECK-DAG: #[[I8G:.+]] = #dsv3.blocked<i8, 1x128, f32>
// CHECK-DAG: #[[I4:.+]] = #dsv3.blocked<i4, 1x128, f32>
// CHECK: dsv3.weight @l1.q_a.stored : tensor<128x256xf32, #[[E4]]> from #dsv3.file<"m.q_a_proj.weight", scale "m.q_a_proj.s">{{$}}
// CHECK-NEXT: dsv3.weight @l1.q_a : tensor<128x256xbf16, #[[I8]]> from #dsv3.quantized<@l1.q_a.stored, absmax> activation(#[[I8]])
// CHECK-NEXT: dsv3.weight @l1.kv_b : tensor<512x128xbf16, #[[E4]]> from #dsv3.file<"m.kv_b_proj.weight", scale "m.kv_b_proj.s">{{$}}
// CHECK-NEXT: dsv3.weight @l1.router : tensor<8x256xbf16> from #dsv3.file<"m.gate.weight">{{$}}
// CHECK-NEXT: dsv3.weight @l1.gate.stored : tensor<8x128x256xf32> from #dsv3.stack
// CHECK-NEXT: dsv3.weight @l1.gate : tensor<8x128x256xbf16, #[[I4]]> from #dsv3.quantized<@l1.gate.stored, mse> activation(#[[I8]])
// CHECK-NEXT: dsv3.weight @l1.down.stored
// CHECK-NEXT: dsv3.weight @l1.down : tensor<8x256x128xbf16, #[[I4]]> from #dsv3.quantized<@l1.down.stored, mse> activation(#[[I8G]])
// An int4 weight is not made wider, and the checkpoint's own int8 stays.
// CHECK-NEXT: dsv3.weight @l1.shared.up : tensor<128x256xbf16, #{{.*}}> from #dsv3.file<{{.*}}packed awq> activation(#[[I8]])
// CHECK-NEXT: dsv3.weight @l1.shared.down : tensor<256x128xbf16, #[[I8]]> from #dsv3.file<{{.*}}> activation(#[[I8]])
// CHECK: %[[W:.*]] = dsv3.use @l1.q_a : tensor<128x256xbf16, #[[I8]]>
// CHECK: dsv3.linear %arg0, %[[W]]

// W8A8: dsv3.weight @l1.q_a : {{.*}} from #dsv3.quantized<@l1.q_a.stored, mse> activation
// W8A8: dsv3.weight @l1.gate : tensor<8x128x256xbf16, #[[I8:.+]]> from #dsv3.quantized<@l1.gate.stored, mse> activation(#[[I8]])

// FP8-DAG: #[[A:.+]] = #dsv3.blocked<f8E4M3FN, 1x128, f32>
// FP8-DAG: #[[P:.+]] = #dsv3.blocked<f8E4M3FN, 1x128, f32, pow2_scale>
// FP8: dsv3.weight @l1.q_a : {{.*}} activation(#[[A]])
// FP8: dsv3.weight @l1.kv_b : {{.*}} scale "m.kv_b_proj.s">{{$}}
// FP8: dsv3.weight @l1.gate : tensor<8x128x256xbf16, #[[B:.+]]> from #dsv3.quantized<@l1.gate.stored, absmax> activation(#[[A]])
// FP8: dsv3.weight @l1.shared.down : {{.*}} scale "m.sd.s">{{$}}
// FP8: dsv3.weight @l1.o : {{.*}} activation(#[[P]])

// ASKED-NOT: stored
// ASKED: dsv3.weight @l1.q_a {{.*}} scale "m.q_a_proj.s">{{$}}
// ASKED: dsv3.weight @l1.shared.down : {{.*}} activation(
// NONE-NOT: activation
// NONE-NOT: stored
// NONE: dsv3.program
// WRONG: error: --quant: expected one of none, checkpoint, fp8-block, w8a8, w4a16, w4a8-experts, got 'w2'

dsv3.weight @l1.q_a : tensor<128x256xbf16, #fp8b> from #dsv3.file<"m.q_a_proj.weight", scale "m.q_a_proj.s">
dsv3.weight @l1.kv_b : tensor<512x128xbf16, #fp8b> from #dsv3.file<"m.kv_b_proj.weight", scale "m.kv_b_proj.s">
dsv3.weight @l1.router : tensor<8x256xbf16> from #dsv3.file<"m.gate.weight">
dsv3.weight @l1.gate : tensor<8x128x256xbf16> from #dsv3.stack<0 to 8, #dsv3.file<"m.experts.{}.gate_proj.weight">>
dsv3.weight @l1.down : tensor<8x256x128xbf16> from #dsv3.stack<0 to 8, #dsv3.file<"m.experts.{}.down_proj.weight">>
dsv3.weight @l1.shared.up : tensor<128x256xbf16, #awq> from #dsv3.file<"m.su.qweight", scale "m.su.scales", zero "m.su.qzeros", packed awq>
dsv3.weight @l1.shared.down : tensor<256x128xbf16, #token> from #dsv3.file<"m.sd.weight", scale "m.sd.s"> activation(#token)
dsv3.weight @l1.o : tensor<256x256xbf16, #pow2> from #dsv3.file<"m.o.weight", scale "m.o.s">

dsv3.program @p(%x: tensor<?x256xbf16>) -> tensor<?x128xbf16> {
  %w = dsv3.use @l1.q_a : tensor<128x256xbf16, #fp8b>
  %y = dsv3.linear %x, %w site "l1.q_a" : tensor<?x256xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<?x128xbf16>
  dsv3.return %y : tensor<?x128xbf16>
}
