// Rows of experts in the form of a device: gathered by a launch of their own, scales with codes, unless the product's kernel picks them.
// RUN: dsv3-opt %s --dsv3-expand-experts=target=sm_90a | FileCheck %s
// RUN: dsv3-opt %s --dsv3-expand-experts=target=x86-64 | FileCheck %s --check-prefix=CPU

// CPU-NOT: kernel.gather

// CHECK-LABEL: dsv3.program @plain
// CHECK-NOT: kernel.gather
// CHECK: kernel.grouped_gated_gemm ins(%arg0, %arg1, %arg1, %arg2, %arg3 : tensor<16x256xbf16>, tensor<8x128x256xbf16>, tensor<8x128x256xbf16>, tensor<9xi32>, tensor<32xi32>)
dsv3.program @plain(%x: tensor<16x256xbf16>, %w: tensor<8x128x256xbf16>, %o: tensor<9xi32>, %t: tensor<32xi32>) -> tensor<32x128xbf16> attributes {phase = "decode", tokens = 16 : i64, seqs = 16 : i64} {
  %d = kernel.empty : tensor<32x128xbf16>
  %y = kernel.grouped_gated_gemm ins(%x, %w, %w, %o, %t : tensor<16x256xbf16>, tensor<8x128x256xbf16>, tensor<8x128x256xbf16>, tensor<9xi32>, tensor<32xi32>) outs(%d : tensor<32x128xbf16>) via f32 site "l1.act"
  dsv3.return %y : tensor<32x128xbf16>
}

// Int4 weights and a scale of x per 128 channels, whose rows no producer picks.
// CHECK-LABEL: dsv3.program @quantised
// CHECK: %[[R0:.*]] = kernel.empty : tensor<32x256xbf16, #[[X:.*]]>
// CHECK: %[[R:.*]] = kernel.gather ins(%arg0, %arg3 : {{.*}}) outs(%[[R0]] : tensor<32x256xbf16, #[[X]]>) site "l1.gather"
// CHECK: kernel.grouped_gated_gemm ins(%[[R]], %arg1, %arg1, %arg2 : tensor<32x256xbf16, #[[X]]>, {{.*}}, tensor<9xi32>) outs(%{{.*}} : tensor<32x128xbf16>) via f32 site "l1.act"
dsv3.program @quantised(%x: tensor<16x256xbf16, #dsv3.blocked<i8, 1x128, f32>>, %w: tensor<8x128x256xbf16, #dsv3.blocked<i4, 1x?, f32>>, %o: tensor<9xi32>, %t: tensor<32xi32>) -> tensor<32x128xbf16> attributes {phase = "decode", tokens = 16 : i64, seqs = 16 : i64} {
  %d = kernel.empty : tensor<32x128xbf16>
  %y = kernel.grouped_gated_gemm ins(%x, %w, %w, %o, %t : tensor<16x256xbf16, #dsv3.blocked<i8, 1x128, f32>>, tensor<8x128x256xbf16, #dsv3.blocked<i4, 1x?, f32>>, tensor<8x128x256xbf16, #dsv3.blocked<i4, 1x?, f32>>, tensor<9xi32>, tensor<32xi32>) outs(%d : tensor<32x128xbf16>) via f32 site "l1.act"
  dsv3.return %y : tensor<32x128xbf16>
}
