// Launches whose destinations are quantised, round trip.
// RUN: dsv3-opt %s | dsv3-opt | FileCheck %s

#act = #dsv3.blocked<f8E4M3FN, 1x128, f32>

// CHECK-LABEL: dsv3.program @p
dsv3.program @p(%x: tensor<4x256xbf16>, %g: tensor<256xbf16>, %c: tensor<4x256xbf16, #act>) {
  // CHECK: %sum, %result, %codes = kernel.add_norm_quantize ins(%arg0, %arg0, %arg1 : tensor<4x256xbf16>, tensor<4x256xbf16>, tensor<256xbf16>) outs(%arg0, %arg0, %arg2 : tensor<4x256xbf16>, tensor<4x256xbf16>, tensor<4x256xbf16, #[[A:.*]]>) eps 1.0e-06 site "s" -> tensor<4x256xbf16>, tensor<4x256xbf16>, tensor<4x256xbf16, #[[A]]>
  %s, %y, %q = kernel.add_norm_quantize ins(%x, %x, %g : tensor<4x256xbf16>, tensor<4x256xbf16>, tensor<256xbf16>) outs(%x, %x, %c : tensor<4x256xbf16>, tensor<4x256xbf16>, tensor<4x256xbf16, #act>) eps 1.0e-06 site "s" -> tensor<4x256xbf16>, tensor<4x256xbf16>, tensor<4x256xbf16, #act>
  // CHECK: kernel.norm ins(%arg0, %arg1 : tensor<4x256xbf16>, tensor<256xbf16>) outs(%arg2 : tensor<4x256xbf16, #[[A]]>) eps 1.0e-06 site "n"
  %n = kernel.norm ins(%x, %g : tensor<4x256xbf16>, tensor<256xbf16>) outs(%c : tensor<4x256xbf16, #act>) eps 1.0e-06 site "n"
  // CHECK: kernel.swiglu ins(%arg0, %arg0 : tensor<4x256xbf16>, tensor<4x256xbf16>) outs(%arg2 : tensor<4x256xbf16, #[[A]]>) site "g"
  %a = kernel.swiglu ins(%x, %x : tensor<4x256xbf16>, tensor<4x256xbf16>) outs(%c : tensor<4x256xbf16, #act>) site "g"
  dsv3.return
}
