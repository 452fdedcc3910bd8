// Codes that meet codes are multiplied as they are: a weight's element type, to which it is dequantised for plain activations, does
// not matter. So weights in bf16 and in float32 give equal bits here, also through a weight that is joined of two, and differ below.
// RUN: dsv3-interpret %s --program=codes_bf16 --against=%s --against-program=codes_f32 | FileCheck %s --check-prefix=CODES
// RUN: not dsv3-interpret %s --program=plain_bf16 --against=%s --against-program=plain_f32 | FileCheck %s --check-prefix=PLAIN

#i8 = #dsv3.blocked<i8, 1x?, f32>
dsv3.weight @a : tensor<8x64xf32> from #dsv3.dummy<"a", std 1.0>
dsv3.weight @b : tensor<8x64xf32> from #dsv3.dummy<"b", std 1.0>
dsv3.weight @a16 : tensor<8x64xbf16, #i8> from #dsv3.quantized<@a, absmax>
dsv3.weight @b16 : tensor<8x64xbf16, #i8> from #dsv3.quantized<@b, absmax>
dsv3.weight @both16 : tensor<16x64xbf16, #i8> from #dsv3.concat<0, [#dsv3.ref<@a16>, #dsv3.ref<@b16>]>
dsv3.weight @a32 : tensor<8x64xf32, #i8> from #dsv3.quantized<@a, absmax>
dsv3.weight @b32 : tensor<8x64xf32, #i8> from #dsv3.quantized<@b, absmax>
dsv3.weight @both32 : tensor<16x64xf32, #i8> from #dsv3.concat<0, [#dsv3.ref<@a32>, #dsv3.ref<@b32>]>

// CODES: result0: equal
dsv3.program @codes_bf16(%x: tensor<?x64xf32>) -> tensor<?x16xf32> {
  %q = dsv3.quantize %x site "q" : tensor<?x64xf32> -> tensor<?x64xf32, #i8>
  %w = dsv3.use @both16 : tensor<16x64xbf16, #i8>
  %y = dsv3.linear %q, %w site "l" : tensor<?x64xf32, #i8>, tensor<16x64xbf16, #i8> -> tensor<?x16xf32>
  dsv3.return %y : tensor<?x16xf32>
}
dsv3.program @codes_f32(%x: tensor<?x64xf32>) -> tensor<?x16xf32> {
  %q = dsv3.quantize %x site "q" : tensor<?x64xf32> -> tensor<?x64xf32, #i8>
  %w = dsv3.use @both32 : tensor<16x64xf32, #i8>
  %y = dsv3.linear %q, %w site "l" : tensor<?x64xf32, #i8>, tensor<16x64xf32, #i8> -> tensor<?x16xf32>
  dsv3.return %y : tensor<?x16xf32>
}

// PLAIN: result0: row {{[0-9]+}} differs
dsv3.program @plain_bf16(%x: tensor<?x64xf32>) -> tensor<?x16xf32> {
  %w = dsv3.use @both16 : tensor<16x64xbf16, #i8>
  %y = dsv3.linear %x, %w site "l" : tensor<?x64xf32>, tensor<16x64xbf16, #i8> -> tensor<?x16xf32>
  dsv3.return %y : tensor<?x16xf32>
}
dsv3.program @plain_f32(%x: tensor<?x64xf32>) -> tensor<?x16xf32> {
  %w = dsv3.use @both32 : tensor<16x64xf32, #i8>
  %y = dsv3.linear %x, %w site "l" : tensor<?x64xf32>, tensor<16x64xf32, #i8> -> tensor<?x16xf32>
  dsv3.return %y : tensor<?x16xf32>
}
