// Rows stay plain where the target has no product of quantised ones: what was quantised, gathered, or read by others besides.
// RUN: dsv3-opt %s --dsv3-dequantize-activations=target=sm_90a 2>&1 | FileCheck %s

#fp8b = #dsv3.blocked<f8E4M3FN, 128x128, f32>
#act = #dsv3.blocked<f8E4M3FN, 1x128, f32>
#odd = #dsv3.blocked<f8E4M3FN, 1x64, f32>

// CHECK: warning: activations of 2 products (b, ...) stay plain instead of #dsv3.blocked<f8E4M3FN, 1x64, f32> for sm_90a: {{.+}}

dsv3.weight @w : tensor<256x256xbf16, #fp8b> from #dsv3.file<"w.weight", scale "w.s">
dsv3.weight @e : tensor<4x256x256xbf16, #fp8b> from #dsv3.stack<0 to 4, #dsv3.file<"e.{}.weight", scale "e.{}.s">>

// Rows of E4M3 meet int4 weights as they are.
// CHECK-LABEL: dsv3.program @int4
dsv3.program @int4(%x: tensor<16x256xbf16>, %w: tensor<256x256xbf16, #dsv3.blocked<i4, 1x128, f32>>) -> tensor<16x256xbf16>
    attributes {phase = "decode", tokens = 16 : i64, seqs = 16 : i64} {
  // CHECK: %[[ROWS:.*]] = kernel.quantize
  // CHECK: kernel.gemm ins(%[[ROWS]],
  %c = kernel.empty : tensor<16x256xbf16, #dsv3.blocked<f8E4M3FN, 1x?, f32>>
  %q = kernel.quantize ins(%x : tensor<16x256xbf16>) outs(%c : tensor<16x256xbf16, #dsv3.blocked<f8E4M3FN, 1x?, f32>>) site "n"
  %y = kernel.empty : tensor<16x256xbf16>
  %a = kernel.gemm ins(%q, %w : tensor<16x256xbf16, #dsv3.blocked<f8E4M3FN, 1x?, f32>>, tensor<256x256xbf16, #dsv3.blocked<i4, 1x128, f32>>) outs(%y : tensor<16x256xbf16>) site "m"
  dsv3.return %a : tensor<16x256xbf16>
}

// CHECK-LABEL: dsv3.program @p
dsv3.program @p(%x: tensor<16x256xbf16>, %of: tensor<32xi32>, %off: tensor<5xi32>) -> (tensor<16x256xbf16>, tensor<16x256xbf16>, tensor<32x256xbf16>)
    attributes {phase = "decode", tokens = 16 : i64, seqs = 16 : i64} {
  %w = dsv3.use @w : tensor<256x256xbf16, #fp8b>
  %e = dsv3.use @e : tensor<4x256x256xbf16, #fp8b>
  // CHECK: %[[Q:.*]] = kernel.quantize ins(%arg0 {{.*}} site "q"
  // CHECK-NOT: kernel.quantize
  %c = kernel.empty : tensor<16x256xbf16, #act>
  %q = kernel.quantize ins(%x : tensor<16x256xbf16>) outs(%c : tensor<16x256xbf16, #act>) site "q"
  %d = kernel.empty : tensor<16x256xbf16, #odd>
  %o = kernel.quantize ins(%x : tensor<16x256xbf16>) outs(%d : tensor<16x256xbf16, #odd>) site "o"
  // CHECK: kernel.gemm ins(%[[Q]], {{.*}} site "a"
  %y = kernel.empty : tensor<16x256xbf16>
  %a = kernel.gemm ins(%q, %w : tensor<16x256xbf16, #act>, tensor<256x256xbf16, #fp8b>) outs(%y : tensor<16x256xbf16>) site "a"
  // CHECK: kernel.gemm ins(%arg0, {{.*}} site "b"
  %z = kernel.empty : tensor<16x256xbf16>
  %b = kernel.gemm ins(%o, %w : tensor<16x256xbf16, #odd>, tensor<256x256xbf16, #fp8b>) outs(%z : tensor<16x256xbf16>) site "b"
  // CHECK: %[[G:.*]] = kernel.gather ins(%arg0, %arg1 : tensor<16x256xbf16>, tensor<32xi32>) {{.*}} site "g"
  // CHECK-NOT: kernel.gather
  %r = kernel.empty : tensor<32x256xbf16, #odd>
  %g = kernel.gather ins(%o, %of : tensor<16x256xbf16, #odd>, tensor<32xi32>) outs(%r : tensor<32x256xbf16, #odd>) site "g"
  // CHECK: kernel.grouped_gemm ins(%[[G]], {{.*}} site "h"
  %s = kernel.empty : tensor<32x256xbf16>
  %h = kernel.grouped_gemm ins(%g, %e, %off : tensor<32x256xbf16, #odd>, tensor<4x256x256xbf16, #fp8b>, tensor<5xi32>) outs(%s : tensor<32x256xbf16>) site "h"
  dsv3.return %a, %b, %h : tensor<16x256xbf16>, tensor<16x256xbf16>, tensor<32x256xbf16>
}
