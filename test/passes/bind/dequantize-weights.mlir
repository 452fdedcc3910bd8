// A weight that no kernel reads as it is stored gets a plain copy, once for all its readers; the others stay.
// RUN: dsv3-opt %s --dsv3-dequantize-weights=target=x86-64 2>&1 | FileCheck %s
// RUN: dsv3-opt %s --dsv3-dequantize-weights=target=sm_90a 2>&1 | FileCheck %s --check-prefix=SM90
// The test target has kernels for everything.
// RUN: dsv3-opt %s --dsv3-dequantize-weights=target=test 2>&1 | FileCheck %s --check-prefix=ALL
// On a whole model the numbers stay the same: bind dequantises, and the programs compute the same bits.
// RUN: sed 's/f8E4M3FN, 128x128, f32/i4, 1x2, f16, zero i8/' %inputs/model.mlir > %t.model.mlir
// RUN: dsv3-opt %t.model.mlir --dsv3-make-programs="max-batch=2 prefill-chunk=32" --dsv3-stage-fuse -o %t.fused.mlir
// RUN: dsv3-opt %t.fused.mlir --dsv3-lower-to-kernel --dsv3-dequantize-weights -o %t.kernel.mlir 2>&1 | FileCheck %s --check-prefix=MODEL
// RUN: dsv3-interpret %t.fused.mlir --dummy-weights --program=trunk_head --mtp --lengths=40,5 --chunk=16 --against=%t.kernel.mlir | FileCheck %s --check-prefix=EQUAL

// CHECK: warning: 1 weight in #dsv3.blocked<i4, 1x2, f16, zero i8> is dequantised for x86-64, 0.1 MiB to 0.1 MiB: scale block of 2 along K is not a power of two between 8 and 512
// CHECK: warning: 1 weight in #dsv3.blocked<f8E4M3FN, ?x1, f32> is dequantised for x86-64, {{.*}}: scale block of 1 along K is not a power of two between 4 and 512
// CHECK: warning: 1 weight in #dsv3.blocked<f8E4M3FN, 1x128, f32, indexed> is dequantised for x86-64, {{.*}}: groups of columns are permuted
// SM90: warning: 1 weight in #dsv3.blocked<f8E4M3FN, 1x?, f32> is dequantised for sm_90a, {{.*}}: scale blocks of 1 rows are not a multiple of 64
// int8 is read as it is stored where the rows it meets are int8 too.
// SM90: warning: 1 weight in #dsv3.blocked<i8, 1x?, f32> is dequantised for sm_90a, {{.*}}: weights are i8 and x is not quantised to i8
// ALL-NOT: warning
// ALL-NOT: .plain
// MODEL: weights in #dsv3.blocked<i4, 1x2, f16, zero i8> are dequantised for x86-64
// EQUAL-DAG: logits: equal
// EQUAL-DAG: hidden: equal
// EQUAL-DAG: mtp_logits: equal

// CHECK: dsv3.weight @int4 : tensor<256x256xbf16, #{{.*}}> from
// CHECK-NEXT: dsv3.weight @int4.plain : tensor<256x256xbf16> from #dsv3.ref<@int4>
dsv3.weight @int4 : tensor<256x256xbf16, #dsv3.blocked<i4, 1x2, f16, zero i8>> from #dsv3.file<"a.qweight", scale "a.scales", zero "a.qzeros", packed awq>
// CHECK-NEXT: dsv3.weight @blocks : tensor<256x256xbf16, #{{.*}}> from
// CHECK-NEXT: dsv3.weight @rows : tensor<256x256xbf16, #{{.*}}> from
// SM90: dsv3.weight @rows.plain : tensor<256x256xbf16> from #dsv3.ref<@rows>
dsv3.weight @blocks : tensor<256x256xbf16, #dsv3.blocked<f8E4M3FN, 128x128, f32>> from #dsv3.file<"b.weight", scale "b.weight_scale_inv">
dsv3.weight @rows : tensor<256x256xbf16, #dsv3.blocked<f8E4M3FN, 1x?, f32>> from #dsv3.file<"c.weight", scale "c.weight_scale">
// CHECK-NEXT: dsv3.weight @turned : tensor<256x256xbf16, #{{.*}}> from
// CHECK-NEXT: dsv3.weight @turned.plain : tensor<256x256xbf16> from #dsv3.ref<@turned>
dsv3.weight @turned : tensor<256x256xbf16, #dsv3.blocked<f8E4M3FN, ?x1, f32>> from #dsv3.transpose<#dsv3.ref<@rows>>
dsv3.weight @permuted : tensor<256x256xbf16, #dsv3.blocked<f8E4M3FN, 1x128, f32, indexed>> from #dsv3.file<"d.weight", scale "d.weight_scale", index "d.weight_g_idx">
// SM90: dsv3.weight @plain_rows.plain : tensor<256x256xbf16> from #dsv3.ref<@plain_rows>
// SM90-NOT: @int8_rows.plain
dsv3.weight @plain_rows : tensor<256x256xbf16, #dsv3.blocked<i8, 1x?, f32>> from #dsv3.file<"e.weight", scale "e.weight_scale">
dsv3.weight @int8_rows : tensor<256x256xbf16, #dsv3.blocked<i8, 1x?, f32>> from #dsv3.file<"f.weight", scale "f.weight_scale">

// CHECK-LABEL: dsv3.program @p
dsv3.program @p(%x: tensor<4x256xbf16>) -> tensor<4x256xbf16> {
  // CHECK: %[[W:.*]] = dsv3.use @int4.plain : tensor<256x256xbf16>
  %w = dsv3.use @int4 : tensor<256x256xbf16, #dsv3.blocked<i4, 1x2, f16, zero i8>>
  %b = dsv3.use @blocks : tensor<256x256xbf16, #dsv3.blocked<f8E4M3FN, 128x128, f32>>
  %r = dsv3.use @rows : tensor<256x256xbf16, #dsv3.blocked<f8E4M3FN, 1x?, f32>>
  %t = dsv3.use @turned : tensor<256x256xbf16, #dsv3.blocked<f8E4M3FN, ?x1, f32>>
  %p = dsv3.use @permuted : tensor<256x256xbf16, #dsv3.blocked<f8E4M3FN, 1x128, f32, indexed>>
  %o = kernel.empty : tensor<4x256xbf16>
  // CHECK: kernel.gemm ins(%{{.*}}, %[[W]] : tensor<4x256xbf16>, tensor<256x256xbf16>)
  %y0 = kernel.gemm ins(%x, %w : tensor<4x256xbf16>, tensor<256x256xbf16, #dsv3.blocked<i4, 1x2, f16, zero i8>>) outs(%o : tensor<4x256xbf16>) site "a"
  %y1 = kernel.gemm ins(%y0, %b : tensor<4x256xbf16>, tensor<256x256xbf16, #dsv3.blocked<f8E4M3FN, 128x128, f32>>) outs(%o : tensor<4x256xbf16>) site "b"
  %y2 = kernel.gemm ins(%y1, %r : tensor<4x256xbf16>, tensor<256x256xbf16, #dsv3.blocked<f8E4M3FN, 1x?, f32>>) outs(%o : tensor<4x256xbf16>) site "c"
  %y3 = kernel.gemm ins(%y2, %t : tensor<4x256xbf16>, tensor<256x256xbf16, #dsv3.blocked<f8E4M3FN, ?x1, f32>>) outs(%o : tensor<4x256xbf16>) site "d"
  %y4 = kernel.gemm ins(%y3, %p : tensor<4x256xbf16>, tensor<256x256xbf16, #dsv3.blocked<f8E4M3FN, 1x128, f32, indexed>>) outs(%o : tensor<4x256xbf16>) site "e"
  // A second reader of the same weight.
  // CHECK: dsv3.use @int4.plain
  %w2 = dsv3.use @int4 : tensor<256x256xbf16, #dsv3.blocked<i4, 1x2, f16, zero i8>>
  %y5 = kernel.gemm ins(%y4, %w2 : tensor<4x256xbf16>, tensor<256x256xbf16, #dsv3.blocked<i4, 1x2, f16, zero i8>>) outs(%o : tensor<4x256xbf16>) site "f"
  %i8 = dsv3.use @plain_rows : tensor<256x256xbf16, #dsv3.blocked<i8, 1x?, f32>>
  %y6 = kernel.gemm ins(%y5, %i8 : tensor<4x256xbf16>, tensor<256x256xbf16, #dsv3.blocked<i8, 1x?, f32>>) outs(%o : tensor<4x256xbf16>) site "g"
  %i8b = dsv3.use @int8_rows : tensor<256x256xbf16, #dsv3.blocked<i8, 1x?, f32>>
  %q0 = kernel.empty : tensor<4x256xbf16, #dsv3.blocked<i8, 1x?, f32>>
  %q = kernel.quantize ins(%y6 : tensor<4x256xbf16>) outs(%q0 : tensor<4x256xbf16, #dsv3.blocked<i8, 1x?, f32>>) site "h"
  %y7 = kernel.gemm ins(%q, %i8b : tensor<4x256xbf16, #dsv3.blocked<i8, 1x?, f32>>, tensor<256x256xbf16, #dsv3.blocked<i8, 1x?, f32>>) outs(%o : tensor<4x256xbf16>) site "i"
  dsv3.return %y7 : tensor<4x256xbf16>
}
