// What the verifiers of the kernel dialect refuse: each message names the operand, the dimension and the other party.
// RUN: dsv3-opt %s -split-input-file -verify-diagnostics

//===-- view --------------------------------------------------------------===//

dsv3.program @p(%x: tensor<4x64xbf16>) {
  // expected-error @+1 {{'kernel.view' op expected a result that differs from 'tensor<4x64xbf16>' in the last dim only, got 'tensor<2x16xbf16>'}}
  %r = kernel.view %x at 32 : tensor<4x64xbf16> -> tensor<2x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x64xbf16>) {
  // expected-error @+1 {{expected lanes [56, 72) inside 64}}
  %r = kernel.view %x at 56 : tensor<4x64xbf16> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x64xbf16>) {
  // expected-error @+1 {{expected lanes [-8, 8) inside 64}}
  %r = kernel.view %x at -8 : tensor<4x64xbf16> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

//===-- weight ------------------------------------------------------------===//

#packed = #kernel.packed<none, #kernel.layout<"(n, k) -> [n, k]">>
dsv3.weight @w : tensor<16x32xbf16> from #dsv3.file<"w">
// expected-error @+1 {{'kernel.weight' op expected an offset that is a multiple of 4096, got 100}}
kernel.weight @p at 100 bytes 1024 : tensor<16x32xbf16, #packed> from @w

// -----

dsv3.weight @w : tensor<16x32xbf16> from #dsv3.file<"w">
// expected-error @+1 {{expected a packed type, got 'tensor<16x32xbf16>'}}
kernel.weight @p at 4096 bytes 1024 : tensor<16x32xbf16> from @w

// -----

#packed = #kernel.packed<none, #kernel.layout<"(n, k) -> [n, k]">>
dsv3.weight @w : tensor<16x32xbf16> from #dsv3.file<"w">
// expected-error @+1 {{expected 1024 bytes for 'tensor<16x32xbf16, #kernel.packed<none, <"(n, k) -> [n, k]">>>', got 1000}}
kernel.weight @p at 4096 bytes 1000 : tensor<16x32xbf16, #packed> from @w

// -----

//===-- use ---------------------------------------------------------------===//

dsv3.weight @w : tensor<16x32xbf16> from #dsv3.file<"w">
dsv3.program @p() {
  // expected-error @+1 {{'kernel.use' op expected a kernel.weight named @w}}
  %w = kernel.use @w : tensor<16x32xbf16>
  dsv3.return
}

// -----

#packed = #kernel.packed<none, #kernel.layout<"(n, k) -> [n, k]">>
dsv3.weight @w : tensor<16x32xbf16> from #dsv3.file<"w">
kernel.weight @w.packed at 0 bytes 1024 : tensor<16x32xbf16, #packed> from @w
dsv3.program @p() {
  // expected-error @+1 {{expected type 'tensor<16x32xbf16, #kernel.packed<none, <"(n, k) -> [n, k]">>>' of weight @w.packed, got 'tensor<16x32xbf16>'}}
  %w = kernel.use @w.packed : tensor<16x32xbf16>
  dsv3.return
}

// -----

//===-- embed -------------------------------------------------------------===//

dsv3.program @p(%i: tensor<4x1xi32>, %t: tensor<8x16xbf16>, %o: tensor<4x16xbf16>) {
  // expected-error @+1 {{'kernel.embed' op expected ids of rank 1, got rank 2}}
  %r = kernel.embed ins(%i, %t : tensor<4x1xi32>, tensor<8x16xbf16>) outs(%o : tensor<4x16xbf16>) site "s"
  dsv3.return
}

// -----

dsv3.program @p(%i: tensor<4xi32>, %t: tensor<8x16xbf16>, %o: tensor<4x8xbf16>) {
  // expected-error @+1 {{expected out dim 1 (8) to equal table dim 1 (16)}}
  %r = kernel.embed ins(%i, %t : tensor<4xi32>, tensor<8x16xbf16>) outs(%o : tensor<4x8xbf16>) site "s"
  dsv3.return
}

// -----

dsv3.program @p(%i: tensor<4xi32>, %t: tensor<8x16xbf16>, %o: tensor<5x16xbf16>) {
  // expected-error @+1 {{expected out dim 0 (5) to equal ids dim 0 (4)}}
  %r = kernel.embed ins(%i, %t : tensor<4xi32>, tensor<8x16xbf16>) outs(%o : tensor<5x16xbf16>) site "s"
  dsv3.return
}

// -----

//===-- norm --------------------------------------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %g: tensor<8xbf16>) {
  // expected-error @+1 {{'kernel.norm' op expected gamma dim 0 (8) to equal x dim 1 (16)}}
  %r = kernel.norm ins(%x, %g : tensor<4x16xbf16>, tensor<8xbf16>) outs(%x : tensor<4x16xbf16>) eps 1.0e-06 site "s"
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %g: tensor<16xbf16>, %o: tensor<4x8xbf16>) {
  // expected-error @+1 {{expected x and out of equal shape, got 'tensor<4x16xbf16>' and 'tensor<4x8xbf16>'}}
  %r = kernel.norm ins(%x, %g : tensor<4x16xbf16>, tensor<16xbf16>) outs(%o : tensor<4x8xbf16>) eps 1.0e-06 site "s"
  dsv3.return
}

// -----

//===-- add_norm_quantize -------------------------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %g: tensor<16xbf16>) {
  // expected-error @+1 {{expected a plain out and a codes_out with a scheme, got 'tensor<4x16xbf16>' and 'tensor<4x16xbf16>'}}
  %s, %r, %c = kernel.add_norm_quantize ins(%x, %x, %g : tensor<4x16xbf16>, tensor<4x16xbf16>, tensor<16xbf16>) outs(%x, %x, %x : tensor<4x16xbf16>, tensor<4x16xbf16>, tensor<4x16xbf16>) eps 1.0e-06 site "s" -> tensor<4x16xbf16>, tensor<4x16xbf16>, tensor<4x16xbf16>
  dsv3.return
}

// -----

//===-- add_norm ----------------------------------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %y: tensor<2x16xbf16>, %g: tensor<16xbf16>) {
  // expected-error @+1 {{'kernel.add_norm' op expected x and residual of equal shape, got 'tensor<4x16xbf16>' and 'tensor<2x16xbf16>'}}
  %s, %r = kernel.add_norm ins(%x, %y, %g : tensor<4x16xbf16>, tensor<2x16xbf16>, tensor<16xbf16>) outs(%x, %x : tensor<4x16xbf16>, tensor<4x16xbf16>) eps 1.0e-06 site "s" -> tensor<4x16xbf16>, tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %y: tensor<2x16xbf16>, %g: tensor<16xbf16>) {
  // expected-error @+1 {{expected results of the destinations' types}}
  %s, %r = kernel.add_norm ins(%x, %x, %g : tensor<4x16xbf16>, tensor<4x16xbf16>, tensor<16xbf16>) outs(%x, %x : tensor<4x16xbf16>, tensor<4x16xbf16>) eps 1.0e-06 site "s" -> tensor<4x16xf32>, tensor<4x16xbf16>
  dsv3.return
}

// -----

//===-- gemm --------------------------------------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<8x32xbf16>, %o: tensor<4x8xbf16>) {
  // expected-error @+1 {{'kernel.gemm' op expected rows of x to have 32 values (K of the weight), got 16}}
  %r = kernel.gemm ins(%x, %w : tensor<4x16xbf16>, tensor<8x32xbf16>) outs(%o : tensor<4x8xbf16>) site "s"
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<8x16xbf16>, %o: tensor<4x2x8xbf16>) {
  // expected-error @+1 {{expected rows of out to have 8 values (N of the weight), got 16}}
  %r = kernel.gemm ins(%x, %w : tensor<4x16xbf16>, tensor<8x16xbf16>) outs(%o : tensor<4x2x8xbf16>) site "s"
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<2x8x16xbf16>, %o: tensor<4x8xbf16>) {
  // expected-error @+1 {{expected w of rank 2, got rank 3}}
  %r = kernel.gemm ins(%x, %w : tensor<4x16xbf16>, tensor<2x8x16xbf16>) outs(%o : tensor<4x8xbf16>) site "s"
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<8x16xbf16>, %o: tensor<5x8xbf16>) {
  // expected-error @+1 {{expected out dim 0 (5) to equal x dim 0 (4)}}
  %r = kernel.gemm ins(%x, %w : tensor<4x16xbf16>, tensor<8x16xbf16>) outs(%o : tensor<5x8xbf16>) site "s"
  dsv3.return
}

// -----

//===-- gated_gemm --------------------------------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<8x16xbf16>, %u: tensor<9x16xbf16>, %o: tensor<4x8xbf16>) {
  // expected-error @+1 {{'kernel.gated_gemm' op expected rows of out to have 9 values (N of the weight), got 8}}
  %r = kernel.gated_gemm ins(%x, %w, %u : tensor<4x16xbf16>, tensor<8x16xbf16>, tensor<9x16xbf16>) outs(%o : tensor<4x8xbf16>) via f32 site "s"
  dsv3.return
}

// -----

//===-- batched_gemm ------------------------------------------------------===//

dsv3.program @p(%x: tensor<4x2x16xbf16>, %w: tensor<3x8x16xbf16>, %o: tensor<4x2x8xbf16>) {
  // expected-error @+1 {{'kernel.batched_gemm' op expected w dim 0 (3) to equal x dim 1 (2)}}
  %r = kernel.batched_gemm ins(%x, %w : tensor<4x2x16xbf16>, tensor<3x8x16xbf16>) outs(%o : tensor<4x2x8xbf16>) site "s"
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x2x16xbf16>, %w: tensor<2x8x16xbf16>, %o: tensor<4x2x9xbf16>) {
  // expected-error @+1 {{expected out dim 2 (9) to equal w dim 1 (8)}}
  %r = kernel.batched_gemm ins(%x, %w : tensor<4x2x16xbf16>, tensor<2x8x16xbf16>) outs(%o : tensor<4x2x9xbf16>) site "s"
  dsv3.return
}

// -----

//===-- add ---------------------------------------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %y: tensor<4x8xbf16>) {
  // expected-error @+1 {{'kernel.add' op expected x and y of equal shape, got 'tensor<4x16xbf16>' and 'tensor<4x8xbf16>'}}
  %r = kernel.add ins(%x, %y : tensor<4x16xbf16>, tensor<4x8xbf16>) outs(%x : tensor<4x16xbf16>) site "s"
  dsv3.return
}

// -----

//===-- swiglu ------------------------------------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %y: tensor<4x8xbf16>) {
  // expected-error @+1 {{'kernel.swiglu' op expected gate and up of equal shape, got 'tensor<4x16xbf16>' and 'tensor<4x8xbf16>'}}
  %r = kernel.swiglu ins(%x, %y : tensor<4x16xbf16>, tensor<4x8xbf16>) outs(%x : tensor<4x16xbf16>) site "s"
  dsv3.return
}

// -----

//===-- concat ------------------------------------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %y: tensor<4x8xbf16>, %o: tensor<4x32xbf16>) {
  // expected-error @+1 {{'kernel.concat' op expected out dim 1 (32) to be the sum of x and y (24)}}
  %r = kernel.concat ins(%x, %y : tensor<4x16xbf16>, tensor<4x8xbf16>) outs(%o : tensor<4x32xbf16>) site "s"
  dsv3.return
}

// -----

//===-- sample ------------------------------------------------------------===//

dsv3.program @p(%x: tensor<4x100xf32>, %o: tensor<3x8xi32>, %s: !dsv3.seq) {
  // expected-error @+1 {{'kernel.sample' op expected out dim 0 (3) to equal logits dim 0 (4)}}
  %r = kernel.sample ins(%x, %s : tensor<4x100xf32>) outs(%o : tensor<3x8xi32>) site "s"
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x100xf32>, %o: tensor<4x2xi32>, %s: !dsv3.seq) {
  // expected-error @+1 {{'kernel.sample' op expected out of 8 i32 a row, got 'tensor<4x2xi32>'}}
  %r = kernel.sample ins(%x, %s : tensor<4x100xf32>) outs(%o : tensor<4x2xi32>) site "s"
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x100xf32>, %o: tensor<4x8xf32>, %s: !dsv3.seq) {
  // expected-error @+1 {{'kernel.sample' op expected out of 8 i32 a row, got 'tensor<4x8xf32>'}}
  %r = kernel.sample ins(%x, %s : tensor<4x100xf32>) outs(%o : tensor<4x8xf32>) site "s"
  dsv3.return
}

// -----

//===-- select_rows -------------------------------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %seq: !dsv3.seq, %o: tensor<2x8xbf16>) {
  // expected-error @+1 {{'kernel.select_rows' op expected out dim 1 (8) to equal x dim 1 (16)}}
  %r = kernel.select_rows ins(%x, %seq : tensor<4x16xbf16>) outs(%o : tensor<2x8xbf16>) site "s"
  dsv3.return
}

// -----

//===-- rope --------------------------------------------------------------===//

#rope = #dsv3.rope<dims = 64, theta = 10000.0, interleaved = true>
dsv3.program @p(%x: tensor<4x2x96xbf16>, %t: tensor<64x64xf32>, %h: tensor<64x64xbf16>, %seq: !dsv3.seq) {
  // expected-error @+1 {{'kernel.rope' op expected lanes [64, 128) inside x (96)}}
  %r = kernel.rope ins(%x, %t, %seq : tensor<4x2x96xbf16>, tensor<64x64xf32>) outs(%x : tensor<4x2x96xbf16>) at 64 #rope site "s"
  dsv3.return
}

// -----

#rope = #dsv3.rope<dims = 64, theta = 10000.0, interleaved = true>
dsv3.program @p(%x: tensor<4x2x96xbf16>, %t: tensor<64x64xf32>, %h: tensor<64x64xbf16>, %seq: !dsv3.seq) {
  // expected-error @+1 {{expected table rows of 64 f32 values, got 'tensor<64x64xbf16>'}}
  %r = kernel.rope ins(%x, %h, %seq : tensor<4x2x96xbf16>, tensor<64x64xbf16>) outs(%x : tensor<4x2x96xbf16>) at 32 #rope site "s"
  dsv3.return
}

// -----

//===-- kv_append ---------------------------------------------------------===//

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
#rope = #dsv3.rope<dims = 64, theta = 10000.0, interleaved = true>
dsv3.program @p(%a: tensor<4x192xbf16>, %b: tensor<4x128xbf16>, %g: tensor<128xbf16>, %h: tensor<64xbf16>, %t: tensor<64x64xf32>, %seq: !dsv3.seq, %kv: !kv) {
  // expected-error @+1 {{'kernel.kv_append' op expected a layer below 2, got 2}}
  %r = kernel.kv_append ins(%a, %g, %t, %seq : tensor<4x192xbf16>, tensor<128xbf16>, tensor<64x64xf32>) outs(%kv[2] : !kv) eps 1.0e-06 #rope site "s"
  dsv3.return
}

// -----

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
#rope = #dsv3.rope<dims = 64, theta = 10000.0, interleaved = true>
dsv3.program @p(%a: tensor<4x192xbf16>, %b: tensor<4x128xbf16>, %g: tensor<128xbf16>, %h: tensor<64xbf16>, %t: tensor<64x64xf32>, %seq: !dsv3.seq, %kv: !kv) {
  // expected-error @+1 {{expected rows of kv_a to have 192 values (latent and rope of the cache), got 128}}
  %r = kernel.kv_append ins(%b, %g, %t, %seq : tensor<4x128xbf16>, tensor<128xbf16>, tensor<64x64xf32>) outs(%kv[0] : !kv) eps 1.0e-06 #rope site "s"
  dsv3.return
}

// -----

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
#rope = #dsv3.rope<dims = 64, theta = 10000.0, interleaved = true>
dsv3.program @p(%a: tensor<4x192xbf16>, %b: tensor<4x128xbf16>, %g: tensor<128xbf16>, %h: tensor<64xbf16>, %t: tensor<64x64xf32>, %seq: !dsv3.seq, %kv: !kv) {
  // expected-error @+1 {{expected gamma of 128 values (latent of the cache), got 64}}
  %r = kernel.kv_append ins(%a, %h, %t, %seq : tensor<4x192xbf16>, tensor<64xbf16>, tensor<64x64xf32>) outs(%kv[0] : !kv) eps 1.0e-06 #rope site "s"
  dsv3.return
}

// -----

//===-- kv_expand ---------------------------------------------------------===//

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
dsv3.program @p(%kv: !kv, %wk: tensor<2x128x128xbf16>, %wv: tensor<3x32x128xbf16>, %seq: !dsv3.seq, %k: tensor<8x2x192x64xbf16>, %v: tensor<8x2x64x32xbf16>) {
  // expected-error @+1 {{'kernel.kv_expand' op expected w_v dim 0 (3) to equal w_k dim 0 (2)}}
  %rk, %rv = kernel.kv_expand ins(%kv[0], %wk, %wv, %seq : !kv, tensor<2x128x128xbf16>, tensor<3x32x128xbf16>) outs(%k, %v : tensor<8x2x192x64xbf16>, tensor<8x2x64x32xbf16>) site "s" -> tensor<8x2x192x64xbf16>, tensor<8x2x64x32xbf16>
  dsv3.return
}

// -----

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
dsv3.program @p(%kv: !kv, %wk: tensor<2x128x128xbf16>, %wv: tensor<2x32x128xbf16>, %seq: !dsv3.seq, %k: tensor<8x2x128x64xbf16>, %v: tensor<8x2x64x32xbf16>) {
  // expected-error @+1 {{expected keys_out dim 2 (128) to be nope + rope (192)}}
  %rk, %rv = kernel.kv_expand ins(%kv[0], %wk, %wv, %seq : !kv, tensor<2x128x128xbf16>, tensor<2x32x128xbf16>) outs(%k, %v : tensor<8x2x128x64xbf16>, tensor<8x2x64x32xbf16>) site "s" -> tensor<8x2x128x64xbf16>, tensor<8x2x64x32xbf16>
  dsv3.return
}

// -----

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
dsv3.program @p(%kv: !kv, %wk: tensor<2x128x128xbf16>, %wv: tensor<2x32x128xbf16>, %seq: !dsv3.seq, %k: tensor<8x2x192x64xbf16>, %v: tensor<8x2x32x32xbf16>) {
  // expected-error @+1 {{expected key blocks of one page (64 keys)}}
  %rk, %rv = kernel.kv_expand ins(%kv[0], %wk, %wv, %seq : !kv, tensor<2x128x128xbf16>, tensor<2x32x128xbf16>) outs(%k, %v : tensor<8x2x192x64xbf16>, tensor<8x2x32x32xbf16>) site "s" -> tensor<8x2x192x64xbf16>, tensor<8x2x32x32xbf16>
  dsv3.return
}

// -----

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
dsv3.program @p(%kv: !kv, %wk: tensor<2x128x128xbf16>, %wv: tensor<2x32x128xbf16>, %seq: !dsv3.seq, %k: tensor<8x2x192x64xbf16>, %v: tensor<9x2x64x32xbf16>) {
  // expected-error @+1 {{expected values_out dim 0 (9) to equal keys_out dim 0 (8)}}
  %rk, %rv = kernel.kv_expand ins(%kv[0], %wk, %wv, %seq : !kv, tensor<2x128x128xbf16>, tensor<2x32x128xbf16>) outs(%k, %v : tensor<8x2x192x64xbf16>, tensor<9x2x64x32xbf16>) site "s" -> tensor<8x2x192x64xbf16>, tensor<9x2x64x32xbf16>
  dsv3.return
}

// -----

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
dsv3.program @p(%kv: !kv, %wk: tensor<2x128x128xbf16>, %wv: tensor<2x32x128xbf16>, %seq: !dsv3.seq, %k: tensor<8x2x192x64xbf16>, %v: tensor<8x2x64x32xbf16>) {
  // expected-error @+1 {{expected a layer below 2, got 7}}
  %rk, %rv = kernel.kv_expand ins(%kv[7], %wk, %wv, %seq : !kv, tensor<2x128x128xbf16>, tensor<2x32x128xbf16>) outs(%k, %v : tensor<8x2x192x64xbf16>, tensor<8x2x64x32xbf16>) site "s" -> tensor<8x2x192x64xbf16>, tensor<8x2x64x32xbf16>
  dsv3.return
}

// -----

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
dsv3.program @p(%kv: !kv, %wk: tensor<2x128x128xbf16>, %wv: tensor<2x32x128xbf16>, %seq: !dsv3.seq, %k: tensor<8x2x192x64xbf16>, %v: tensor<8x2x64x32xbf16>) {
  // expected-error @+1 {{expected results of the destinations' types}}
  %rk, %rv = kernel.kv_expand ins(%kv[0], %wk, %wv, %seq : !kv, tensor<2x128x128xbf16>, tensor<2x32x128xbf16>) outs(%k, %v : tensor<8x2x192x64xbf16>, tensor<8x2x64x32xbf16>) site "s" -> tensor<8x2x192x64xf32>, tensor<8x2x64x32xbf16>
  dsv3.return
}

// -----

//===-- attn_prefill ------------------------------------------------------===//

dsv3.program @p(%q: tensor<4x2x96xbf16>, %k: tensor<8x2x192x64xbf16>, %v: tensor<8x2x64x32xbf16>, %seq: !dsv3.seq, %o: tensor<4x2x32xbf16>) {
  // expected-error @+1 {{'kernel.attn_prefill' op expected keys dim 2 (192) to equal q dim 2 (96)}}
  %r = kernel.attn_prefill ins(%q, %k, %v, %seq : tensor<4x2x96xbf16>, tensor<8x2x192x64xbf16>, tensor<8x2x64x32xbf16>) outs(%o : tensor<4x2x32xbf16>) scale 0.125 site "s"
  dsv3.return
}

// -----

dsv3.program @p(%q: tensor<4x2x192xbf16>, %k: tensor<8x2x192x64xbf16>, %v: tensor<8x2x64x32xbf16>, %seq: !dsv3.seq, %o: tensor<4x2x64xbf16>) {
  // expected-error @+1 {{expected out dim 2 (64) to equal values dim 3 (32)}}
  %r = kernel.attn_prefill ins(%q, %k, %v, %seq : tensor<4x2x192xbf16>, tensor<8x2x192x64xbf16>, tensor<8x2x64x32xbf16>) outs(%o : tensor<4x2x64xbf16>) scale 0.125 site "s"
  dsv3.return
}

// -----

//===-- attn_decode -------------------------------------------------------===//

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
dsv3.program @p(%q: tensor<4x2x64xbf16>, %p: tensor<4x2x64xbf16>, %kv: !kv, %seq: !dsv3.seq) {
  // expected-error @+1 {{'kernel.attn_decode' op expected queries of 128 and 64 lanes (the cache's row)}}
  %r = kernel.attn_decode ins(%q, %p, %kv[0], %seq : tensor<4x2x64xbf16>, tensor<4x2x64xbf16>, !kv) outs(%q : tensor<4x2x64xbf16>) scale 0.125 site "s"
  dsv3.return
}

// -----

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
dsv3.program @p(%q: tensor<4x2x128xbf16>, %p: tensor<4x3x64xbf16>, %kv: !kv, %seq: !dsv3.seq) {
  // expected-error @+1 {{expected q_rope dim 1 (3) to equal q_latent dim 1 (2)}}
  %r = kernel.attn_decode ins(%q, %p, %kv[0], %seq : tensor<4x2x128xbf16>, tensor<4x3x64xbf16>, !kv) outs(%q : tensor<4x2x128xbf16>) scale 0.125 site "s"
  dsv3.return
}

// -----

//===-- key_rows ----------------------------------------------------------===//

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
dsv3.program @p(%kv: !kv, %wk: tensor<2x128x128xbf16>, %wv: tensor<2x32x128xbf16>, %seq: !dsv3.seq, %k: tensor<8x2x192x64xbf16>, %v: tensor<8x2x64x32xbf16>) {
  // expected-error @+1 {{expected keys_out dim 3 (64) to be nope + rope (192)}}
  %rk, %rv = kernel.kv_expand ins(%kv[0], %wk, %wv, %seq : !kv, tensor<2x128x128xbf16>, tensor<2x32x128xbf16>) outs(%k, %v : tensor<8x2x192x64xbf16>, tensor<8x2x64x32xbf16>) key_rows site "s" -> tensor<8x2x192x64xbf16>, tensor<8x2x64x32xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%q: tensor<4x2x192xbf16>, %k: tensor<8x2x192x64xbf16>, %v: tensor<8x2x64x32xbf16>, %seq: !dsv3.seq, %o: tensor<4x2x32xbf16>) {
  // expected-error @+1 {{expected keys dim 3 (64) to equal q dim 2 (192)}}
  %r = kernel.attn_prefill ins(%q, %k, %v, %seq : tensor<4x2x192xbf16>, tensor<8x2x192x64xbf16>, tensor<8x2x64x32xbf16>) outs(%o : tensor<4x2x32xbf16>) scale 0.125 key_rows site "s"
  dsv3.return
}

// -----

//===-- attn_plan ---------------------------------------------------------===//

dsv3.program @p(%seq: !dsv3.seq, %i: tensor<32x4xi32>, %p: tensor<9xi32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{'kernel.attn_plan' op expected items_out dim 1 (4) to be 5}}
  %a, %b, %c = kernel.attn_plan ins(%seq) outs(%i, %p, %s : tensor<32x4xi32>, tensor<9xi32>, tensor<5xi32>) split <max = 8, pages = 4> site "s" -> tensor<32x4xi32>, tensor<9xi32>, tensor<5xi32>
  dsv3.return
}

// -----

dsv3.program @p(%seq: !dsv3.seq, %i: tensor<31x5xi32>, %p: tensor<9xi32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{expected items_out for 32 items or more, got 31}}
  %a, %b, %c = kernel.attn_plan ins(%seq) outs(%i, %p, %s : tensor<31x5xi32>, tensor<9xi32>, tensor<5xi32>) split <max = 8, pages = 4> site "s" -> tensor<31x5xi32>, tensor<9xi32>, tensor<5xi32>
  dsv3.return
}

// -----

dsv3.program @p(%seq: !dsv3.seq, %i: tensor<11x5xi32>, %p: tensor<9xi32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{expected items_out for 12 items or more, got 11}}
  %a, %b, %c = kernel.attn_plan ins(%seq) outs(%i, %p, %s : tensor<11x5xi32>, tensor<9xi32>, tensor<5xi32>) split <max = 0, pages = 1> site "s" -> tensor<11x5xi32>, tensor<9xi32>, tensor<5xi32>
  dsv3.return
}

// -----

dsv3.program @p(%seq: !dsv3.seq, %i: tensor<32x5xi32>, %p: tensor<1xi32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{expected at least one sequence and one partition, got 4 and 0}}
  %a, %b, %c = kernel.attn_plan ins(%seq) outs(%i, %p, %s : tensor<32x5xi32>, tensor<1xi32>, tensor<5xi32>) split <max = 8, pages = 4> site "s" -> tensor<32x5xi32>, tensor<1xi32>, tensor<5xi32>
  dsv3.return
}

// -----

dsv3.program @p(%seq: !dsv3.seq, %i: tensor<32x5xi64>, %p: tensor<9xi32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{expected items_out of i32, got 'tensor<32x5xi64>'}}
  %a, %b, %c = kernel.attn_plan ins(%seq) outs(%i, %p, %s : tensor<32x5xi64>, tensor<9xi32>, tensor<5xi32>) split <max = 8, pages = 4> site "s" -> tensor<32x5xi64>, tensor<9xi32>, tensor<5xi32>
  dsv3.return
}

// -----

//===-- attn_split --------------------------------------------------------===//

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
dsv3.program @p(%q: tensor<4x2x128xbf16>, %p: tensor<4x2x64xbf16>, %kv: !kv, %seq: !dsv3.seq, %i: tensor<32x5xi32>, %n: tensor<9xi32>, %o: tensor<4x2x128xbf16>, %part: tensor<8x2x128xbf16>, %lse: tensor<8x2xf32>) {
  // expected-error @+1 {{'kernel.attn_split' op expected partial_out of f32, got 'tensor<8x2x128xbf16>'}}
  %a, %b, %c = kernel.attn_split ins(%q, %p, %kv[0], %seq, %i, %n : tensor<4x2x128xbf16>, tensor<4x2x64xbf16>, !kv, tensor<32x5xi32>, tensor<9xi32>) outs(%o, %part, %lse : tensor<4x2x128xbf16>, tensor<8x2x128xbf16>, tensor<8x2xf32>) scale 0.125 site "s" -> tensor<4x2x128xbf16>, tensor<8x2x128xbf16>, tensor<8x2xf32>
  dsv3.return
}

// -----

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
dsv3.program @p(%q: tensor<4x2x128xbf16>, %p: tensor<4x2x64xbf16>, %kv: !kv, %seq: !dsv3.seq, %i: tensor<32x5xi32>, %n: tensor<9xi32>, %o: tensor<4x2x128xbf16>, %part: tensor<8x2x128xf32>, %lse: tensor<9x2xf32>) {
  // expected-error @+1 {{expected lse_out dim 0 (9) to equal partial_out dim 0 (8)}}
  %a, %b, %c = kernel.attn_split ins(%q, %p, %kv[0], %seq, %i, %n : tensor<4x2x128xbf16>, tensor<4x2x64xbf16>, !kv, tensor<32x5xi32>, tensor<9xi32>) outs(%o, %part, %lse : tensor<4x2x128xbf16>, tensor<8x2x128xf32>, tensor<9x2xf32>) scale 0.125 site "s" -> tensor<4x2x128xbf16>, tensor<8x2x128xf32>, tensor<9x2xf32>
  dsv3.return
}

// -----

//===-- attn_combine ------------------------------------------------------===//

dsv3.program @p(%part: tensor<8x2x128xf32>, %lse: tensor<8x2xf32>, %s: tensor<4xi32>, %seq: !dsv3.seq, %o: tensor<4x2x128xbf16>) {
  // expected-error @+1 {{'kernel.attn_combine' op expected splits of 5 entries (one row a sequence), got 4}}
  %r = kernel.attn_combine ins(%part, %lse, %s, %seq : tensor<8x2x128xf32>, tensor<8x2xf32>, tensor<4xi32>) outs(%o : tensor<4x2x128xbf16>) site "s"
  dsv3.return
}

// -----

//===-- route -------------------------------------------------------------===//

dsv3.program @p(%l: tensor<4x8xf32>, %b: tensor<8xf32>, %i: tensor<4x2xi32>, %w: tensor<4x2xf32>) {
  // expected-error @+1 {{'kernel.route' op expected groups (3) of two experts or more that divide 8}}
  %ids, %r = kernel.route ins(%l, %b : tensor<4x8xf32>, tensor<8xf32>) outs(%i, %w : tensor<4x2xi32>, tensor<4x2xf32>) groups 3 keep 1 top 2 norm true scale 1.0 site "s" -> tensor<4x2xi32>, tensor<4x2xf32>
  dsv3.return
}

// -----

dsv3.program @p(%l: tensor<4x8xf32>, %b: tensor<8xf32>, %i: tensor<4x2xi32>, %w: tensor<4x2xf32>) {
  // expected-error @+1 {{expected groups (8) of two experts or more that divide 8}}
  %ids, %r = kernel.route ins(%l, %b : tensor<4x8xf32>, tensor<8xf32>) outs(%i, %w : tensor<4x2xi32>, tensor<4x2xf32>) groups 8 keep 1 top 2 norm true scale 1.0 site "s" -> tensor<4x2xi32>, tensor<4x2xf32>
  dsv3.return
}

// -----

dsv3.program @p(%l: tensor<4x8xf32>, %b: tensor<9xf32>, %i: tensor<4x2xi32>, %w: tensor<4x2xf32>) {
  // expected-error @+1 {{expected bias dim 0 (9) to equal logits dim 1 (8)}}
  %ids, %r = kernel.route ins(%l, %b : tensor<4x8xf32>, tensor<9xf32>) outs(%i, %w : tensor<4x2xi32>, tensor<4x2xf32>) groups 2 keep 1 top 2 norm true scale 1.0 site "s" -> tensor<4x2xi32>, tensor<4x2xf32>
  dsv3.return
}

// -----

//===-- dispatch ----------------------------------------------------------===//

dsv3.program @p(%i: tensor<4x2xi32>, %o: tensor<9xi32>, %t: tensor<7xi32>) {
  // expected-error @+1 {{'kernel.dispatch' op expected token_of_out of 8 entries (one per id), got 7}}
  %a, %b, %c = kernel.dispatch ins(%i : tensor<4x2xi32>) outs(%o, %t, %i : tensor<9xi32>, tensor<7xi32>, tensor<4x2xi32>) site "s" -> tensor<9xi32>, tensor<7xi32>, tensor<4x2xi32>
  dsv3.return
}

// -----

//===-- gather ------------------------------------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %t: tensor<8xi32>, %o: tensor<7x16xbf16>) {
  // expected-error @+1 {{'kernel.gather' op expected out dim 0 (7) to equal token_of dim 0 (8)}}
  %r = kernel.gather ins(%x, %t : tensor<4x16xbf16>, tensor<8xi32>) outs(%o : tensor<7x16xbf16>) site "s"
  dsv3.return
}

// -----

//===-- grouped_gated_gemm ------------------------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<8x32x16xbf16>, %u: tensor<8x16x16xbf16>, %o: tensor<9xi32>, %t: tensor<8xi32>, %d: tensor<8x32xbf16>) {
  // expected-error @+1 {{'kernel.grouped_gated_gemm' op expected w_gate and w_up of equal shape, got 'tensor<8x32x16xbf16>' and 'tensor<8x16x16xbf16>'}}
  %r = kernel.grouped_gated_gemm ins(%x, %w, %u, %o, %t : tensor<4x16xbf16>, tensor<8x32x16xbf16>, tensor<8x16x16xbf16>, tensor<9xi32>, tensor<8xi32>) outs(%d : tensor<8x32xbf16>) via f32 site "s"
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<8x32x16xbf16>, %o: tensor<9xi32>, %t: tensor<6xi32>, %d: tensor<8x32xbf16>) {
  // expected-error @+1 {{expected out dim 0 (8) to equal token_of dim 0 (6)}}
  %r = kernel.grouped_gated_gemm ins(%x, %w, %w, %o, %t : tensor<4x16xbf16>, tensor<8x32x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32>, tensor<6xi32>) outs(%d : tensor<8x32xbf16>) via f32 site "s"
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<8x32x16xbf16>, %o: tensor<9xi32>, %d: tensor<8x32xbf16>) {
  // expected-error @+1 {{expected out dim 0 (8) to equal x dim 0 (4)}}
  %r = kernel.grouped_gated_gemm ins(%x, %w, %w, %o : tensor<4x16xbf16>, tensor<8x32x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32>) outs(%d : tensor<8x32xbf16>) via f32 site "s"
  dsv3.return
}

// -----

//===-- grouped_gemm ------------------------------------------------------===//

dsv3.program @p(%x: tensor<8x16xbf16>, %w: tensor<8x32x16xbf16>, %o: tensor<8xi32>, %d: tensor<8x32xbf16>) {
  // expected-error @+1 {{'kernel.grouped_gemm' op expected offsets of 9 entries, got 8}}
  %r = kernel.grouped_gemm ins(%x, %w, %o : tensor<8x16xbf16>, tensor<8x32x16xbf16>, tensor<8xi32>) outs(%d : tensor<8x32xbf16>) site "s"
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<8x8xbf16>, %w: tensor<8x32x16xbf16>, %o: tensor<9xi32>, %d: tensor<8x32xbf16>) {
  // expected-error @+1 {{expected w dim 2 (16) to equal x dim 1 (8)}}
  %r = kernel.grouped_gemm ins(%x, %w, %o : tensor<8x8xbf16>, tensor<8x32x16xbf16>, tensor<9xi32>) outs(%d : tensor<8x32xbf16>) site "s"
  dsv3.return
}

// -----

//===-- combine -----------------------------------------------------------===//

dsv3.program @p(%x: tensor<8x16xbf16>, %i: tensor<4x2xi32>, %w: tensor<4x3xf32>, %o: tensor<4x16xbf16>) {
  // expected-error @+1 {{'kernel.combine' op expected row_of and weights of equal shape, got 'tensor<4x2xi32>' and 'tensor<4x3xf32>'}}
  %r = kernel.combine ins(%x, %i, %w : tensor<8x16xbf16>, tensor<4x2xi32>, tensor<4x3xf32>) outs(%o : tensor<4x16xbf16>) site "s"
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<8x16xbf16>, %i: tensor<4x2xi32>, %w: tensor<4x2xf32>, %p: tensor<4x8xbf16>, %o: tensor<4x16xbf16>) {
  // expected-error @+1 {{expected plus and out of equal shape, got 'tensor<4x8xbf16>' and 'tensor<4x16xbf16>'}}
  %r = kernel.combine ins(%x, %i, %w : tensor<8x16xbf16>, tensor<4x2xi32>, tensor<4x2xf32>) plus(%p : tensor<4x8xbf16>) outs(%o : tensor<4x16xbf16>) site "s"
  dsv3.return
}
