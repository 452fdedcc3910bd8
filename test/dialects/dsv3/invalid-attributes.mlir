// What attributes, types, weights and programs refuse.
// RUN: dsv3-opt %s -split-input-file -verify-diagnostics

//===-- blocked -----------------------------------------------------------===//

// expected-error @+1 {{expected storage f8E4M3FN, f8E5M2, i8 or i4, got 'f16'}}
dsv3.weight @w : tensor<128x128xbf16, #dsv3.blocked<f16, 128x128, f32>> from #dsv3.file<"w">

// -----

// expected-error @+1 {{expected scale type f32, bf16 or f16, got 'f64'}}
dsv3.weight @w : tensor<128x128xbf16, #dsv3.blocked<i8, 128x128, f64>> from #dsv3.file<"w">

// -----

// expected-error @+1 {{expected zero points of type i8, got 'i4'}}
dsv3.weight @w : tensor<128x128xbf16, #dsv3.blocked<i4, 1x128, f16, zero i4>> from #dsv3.file<"w">

// -----

// expected-error @+1 {{expected zero points with integer storage only, got 'f8E4M3FN'}}
dsv3.weight @w : tensor<128x128xbf16, #dsv3.blocked<f8E4M3FN, 1x128, f32, zero i8>> from #dsv3.file<"w">

// -----

// expected-error @+1 {{expected 'zero', 'pow2_scale' or 'indexed', in this order}}
dsv3.weight @w : tensor<128x128xbf16, #dsv3.blocked<i4, 1x128, f16, indexed, zero i8>> from #dsv3.file<"w">

// -----

// expected-error @+1 {{expected blocks of 1 row and some columns with an index of columns}}
dsv3.weight @w : tensor<128x128xbf16, #dsv3.blocked<i4, 1x?, f16, indexed>> from #dsv3.file<"w">

// -----

// expected-error @+1 {{expected block dimension 1 to be positive or '?', got 0}}
dsv3.weight @w : tensor<128x128xbf16, #dsv3.blocked<i8, 1x0, f32>> from #dsv3.file<"w">

// -----

// expected-error @+1 {{expected a tensor of rank 2 or more for block of rank 2, got rank 1}}
dsv3.weight @w : tensor<128xbf16, #dsv3.blocked<i8, 128x128, f32>> from #dsv3.file<"w">

// -----

// expected-error @+1 {{expected a float element type for an encoded tensor, got 'i8'}}
dsv3.weight @w : tensor<128x128xi8, #dsv3.blocked<i8, 128x128, f32>> from #dsv3.file<"w">

// -----

//===-- rope --------------------------------------------------------------===//

// expected-error @+1 {{expected a positive even number of rotary dims, got 3}}
module attributes {r = #dsv3.rope<dims = 3, theta = 10000.0, interleaved = true>} {}

// -----

// expected-error @+1 {{expected a positive theta}}
module attributes {r = #dsv3.rope<dims = 4, theta = 0.0, interleaved = true>} {}

// -----

// expected-error @+1 {{expected positive original, betaFast and betaSlow with a YaRN factor}}
module attributes {r = #dsv3.rope<dims = 4, theta = 10000.0, interleaved = true, factor = 40.0>} {}

// -----

//===-- Weight sources ----------------------------------------------------===//

// expected-error @+1 {{expected scales with packed codes}}
dsv3.weight @w : tensor<4x8xf32> from #dsv3.file<"w", packed awq>

// -----

// expected-error @+1 {{expected scales with zero points}}
dsv3.weight @w : tensor<4x8xf32> from #dsv3.file<"w", zero "z">

// -----

// expected-error @+1 {{expected no zero points with codes packed high_first}}
dsv3.weight @w : tensor<4x8xf32> from #dsv3.file<"w", scale "s", zero "z", packed high_first>

// -----

// expected-error @+1 {{expected a packing plain, words, gptq, gptq_v2, awq or high_first, got 'marlin'}}
dsv3.weight @w : tensor<4x8xf32> from #dsv3.file<"w", scale "s", packed marlin>

// -----

// expected-error @+1 {{expected 'scale', 'zero', 'index' or 'packed', each once, got 'scale'}}
dsv3.weight @w : tensor<4x8xf32> from #dsv3.file<"w", scale "s", scale "t">

// -----

// expected-error @+1 {{expected a non-empty index range, got 4 to 4}}
dsv3.weight @w : tensor<4xf32> from #dsv3.stack<4 to 4, #dsv3.file<"w.{}">>

// -----

// expected-error @+1 {{expected a weight source, got 1 : i64}}
dsv3.weight @w : tensor<4xf32> from #dsv3.stack<0 to 4, 1>

// -----

// expected-error @+1 {{expected a dimension and at least one source}}
dsv3.weight @w : tensor<4xf32> from #dsv3.concat<-1, [#dsv3.file<"a">]>

// -----

// expected-error @+1 {{expected a weight source, got "a"}}
dsv3.weight @w : tensor<4xf32> from #dsv3.concat<0, [#dsv3.file<"a">, "a"]>

// -----

// expected-error @+1 {{expected dim and offset of at least 0 and a positive size, got dim 0, offset 0, size 0}}
dsv3.weight @w : tensor<4xf32> from #dsv3.slice<0, 0, 0, #dsv3.file<"a">>

// -----

// expected-error @+1 {{expected a weight source, got unit}}
dsv3.weight @w : tensor<4xf32> from #dsv3.transpose<unit>

// -----

// expected-error @+1 {{expected a shape of positive dimensions}}
dsv3.weight @w : tensor<4xf32> from #dsv3.reshape<[4, 0], #dsv3.file<"a">>

// -----

// expected-error @+1 {{expected rotary parameters and a positive number of positions}}
dsv3.weight @w : tensor<4xf32> from #dsv3.rope_table<#dsv3.file<"a">, 4>

// -----

// expected-error @+1 {{expected rotary parameters and a positive number of positions}}
dsv3.weight @w : tensor<0x4xf32> from #dsv3.rope_table<#dsv3.rope<dims = 4, theta = 10000.0, interleaved = true>, 0>

// -----

//===-- Weights and their uses --------------------------------------------===//

// expected-error @+1 {{'dsv3.weight' op expected a weight source, got "a"}}
dsv3.weight @w : tensor<4xf32> from "a"

// -----

// expected-error @+1 {{'dsv3.weight' op expected a static shape, got 'tensor<?xf32>'}}
dsv3.weight @w : tensor<?xf32> from #dsv3.file<"a">

// -----

dsv3.program @p() {
  // expected-error @+1 {{'dsv3.use' op expected a dsv3.weight named @w}}
  %w = dsv3.use @w : tensor<4xf32>
  dsv3.return
}

// -----

dsv3.weight @w : tensor<4xf32> from #dsv3.file<"a">
dsv3.program @p() {
  // expected-error @+1 {{'dsv3.use' op expected type 'tensor<4xf32>' of weight @w, got 'tensor<4xbf16>'}}
  %w = dsv3.use @w : tensor<4xbf16>
  dsv3.return
}

// -----

//===-- Cache type --------------------------------------------------------===//

// expected-error @+1 {{expected a positive page, got 0}}
dsv3.program @p(%kv: !dsv3.kv<layers = 1, page = 0, latent = 8, rope = 8, bf16>) {
  dsv3.return
}

// -----

// expected-error @+1 {{expected a float element type, got 'i8'}}
dsv3.program @p(%kv: !dsv3.kv<layers = 1, page = 64, latent = 8, rope = 8, i8>) {
  dsv3.return
}

// -----

// expected-error @+1 {{expected codes in f8E4M3FN or f8E5M2 for the latent, got #dsv3.blocked<i8, 1x?, f32>}}
dsv3.program @p(%kv: !dsv3.kv<layers = 1, page = 64, latent = 8, rope = 8, bf16, stored #dsv3.blocked<i8, 1x?, f32>>) {
  dsv3.return
}

// -----

// expected-error @+1 {{expected one f32 scale per row (1x?) for the latent, got #dsv3.blocked<f8E4M3FN, 1x128, f32>}}
dsv3.program @p(%kv: !dsv3.kv<layers = 1, page = 64, latent = 8, rope = 8, bf16, stored #dsv3.blocked<f8E4M3FN, 1x128, f32>>) {
  dsv3.return
}

// -----

//===-- Programs ----------------------------------------------------------===//

// expected-error @+1 {{'dsv3.program' op expected phase prefill, decode, score or mtp, got 'train'}}
dsv3.program @p() attributes {phase = "train", tokens = 1 : i64, seqs = 1 : i64} {
  dsv3.return
}

// -----

// expected-error @+1 {{'dsv3.program' op expected positive tokens and seqs with a phase}}
dsv3.program @p() attributes {phase = "decode", tokens = 0 : i64, seqs = 1 : i64} {
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4xf32>) -> tensor<4xbf16> {
  // expected-error @+1 {{'dsv3.return' op expected operands of the program's result types}}
  dsv3.return %x : tensor<4xf32>
}

// -----

module {
  // expected-error @+1 {{'dsv3.return' op expects parent op 'dsv3.program'}}
  dsv3.return
}
