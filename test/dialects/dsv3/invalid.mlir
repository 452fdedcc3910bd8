// What the verifiers of ops refuse: each message names the operand, the dimension and the other party.
// RUN: dsv3-opt %s -split-input-file -verify-diagnostics

//===-- embed ------------------------------------------------------------===//

dsv3.program @p(%i: tensor<4xi64>, %t: tensor<8x16xbf16>) {
  // expected-error @+1 {{'dsv3.embed' op expected ids of element type i32, got 'i64'}}
  %r = dsv3.embed %i, %t site "s" : tensor<4xi64>, tensor<8x16xbf16> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%i: tensor<4x1xi32>, %t: tensor<8x16xbf16>) {
  // expected-error @+1 {{expected ids of rank 1, got rank 2}}
  %r = dsv3.embed %i, %t site "s" : tensor<4x1xi32>, tensor<8x16xbf16> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%i: tensor<4xi32>, %t: tensor<8x16xbf16>) {
  // expected-error @+1 {{expected result dim 1 (8) to equal table dim 1 (16)}}
  %r = dsv3.embed %i, %t site "s" : tensor<4xi32>, tensor<8x16xbf16> -> tensor<4x8xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%i: tensor<?xi32>, %t: tensor<8x16xbf16>) {
  // expected-error @+1 {{expected result dim 0 (4) to equal ids dim 0 (?)}}
  %r = dsv3.embed %i, %t site "s" : tensor<?xi32>, tensor<8x16xbf16> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

//===-- rms_norm ---------------------------------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %g: tensor<8xbf16>) {
  // expected-error @+1 {{expected gamma dim 0 (8) to equal x dim 1 (16)}}
  %r = dsv3.rms_norm %x, %g eps 1.0e-06 site "s" : tensor<4x16xbf16>, tensor<8xbf16> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %g: tensor<16xbf16>) {
  // expected-error @+1 {{expected a positive eps}}
  %r = dsv3.rms_norm %x, %g eps 0.0 site "s" : tensor<4x16xbf16>, tensor<16xbf16> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %g: tensor<16xbf16>) {
  // expected-error @+1 {{expected a sum result exactly when there is a residual}}
  %s, %r = dsv3.rms_norm %x, %g eps 1.0e-06 site "s" : tensor<4x16xbf16>, tensor<16xbf16> -> sum(tensor<4x16xbf16>) tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %g: tensor<16xbf16>, %b: tensor<5x16xbf16>) {
  // expected-error @+1 {{expected residual and x of equal shape, got 'tensor<5x16xbf16>' and 'tensor<4x16xbf16>'}}
  %s, %r = dsv3.rms_norm %x, %g residual(%b : tensor<5x16xbf16>) eps 1.0e-06 site "s" : tensor<4x16xbf16>, tensor<16xbf16> -> sum(tensor<4x16xbf16>) tensor<4x16xbf16>
  dsv3.return
}

// -----

//===-- linear, gated_linear, batched_linear -----------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<32x8xbf16>) {
  // expected-error @+1 {{expected rows of x to have 8 values (K of the weight), got 16}}
  %r = dsv3.linear %x, %w site "s" : tensor<4x16xbf16>, tensor<32x8xbf16> -> tensor<4x32xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<32x16xbf16>) {
  // expected-error @+1 {{expected rows of result to have 32 values (N of the weight), got 16}}
  %r = dsv3.linear %x, %w site "s" : tensor<4x16xbf16>, tensor<32x16xbf16> -> tensor<4x2x8xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<32x16xbf16>) {
  // expected-error @+1 {{expected result dim 0 (5) to equal x dim 0 (4)}}
  %r = dsv3.linear %x, %w site "s" : tensor<4x16xbf16>, tensor<32x16xbf16> -> tensor<5x32xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<2x32x16xbf16>) {
  // expected-error @+1 {{expected w of rank 2, got rank 3}}
  %r = dsv3.linear %x, %w site "s" : tensor<4x16xbf16>, tensor<2x32x16xbf16> -> tensor<4x32xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16, #dsv3.blocked<i8, 4x16, f32>>, %w: tensor<32x16xbf16>) {
  // expected-error @+1 {{expected x plain or with a scheme of blocks inside one row (1xN)}}
  %r = dsv3.linear %x, %w site "s" : tensor<4x16xbf16, #dsv3.blocked<i8, 4x16, f32>>, tensor<32x16xbf16> -> tensor<4x32xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<32x16xbf16>) {
  // expected-error @+1 {{expected via to be a float type, got 'i32'}}
  %r = dsv3.gated_linear %x, %w, %w via i32 site "s" : tensor<4x16xbf16>, tensor<32x16xbf16>, tensor<32x16xbf16> -> tensor<4x32xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<32x16xbf16>, %u: tensor<16x16xbf16>) {
  // expected-error @+1 {{expected rows of result to have 16 values (N of the weight), got 32}}
  %r = dsv3.gated_linear %x, %w, %u via f32 site "s" : tensor<4x16xbf16>, tensor<32x16xbf16>, tensor<16x16xbf16> -> tensor<4x32xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x2x16xbf16>, %w: tensor<3x8x16xbf16>) {
  // expected-error @+1 {{expected w dim 0 (3) to equal x dim 1 (2)}}
  %r = dsv3.batched_linear %x, %w site "s" : tensor<4x2x16xbf16>, tensor<3x8x16xbf16> -> tensor<4x2x8xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x2x16xbf16>, %w: tensor<2x8x32xbf16>) {
  // expected-error @+1 {{expected w dim 2 (32) to equal x dim 2 (16)}}
  %r = dsv3.batched_linear %x, %w site "s" : tensor<4x2x16xbf16>, tensor<2x8x32xbf16> -> tensor<4x2x8xbf16>
  dsv3.return
}

// -----

//===-- swiglu, add ------------------------------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %y: tensor<4x8xbf16>) {
  // expected-error @+1 {{expected gate and up of equal shape, got 'tensor<4x16xbf16>' and 'tensor<4x8xbf16>'}}
  %r = dsv3.swiglu %x, %y site "s" : tensor<4x16xbf16>, tensor<4x8xbf16> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %y: tensor<4x8xbf16>) {
  // expected-error @+1 {{expected x and y of equal shape, got 'tensor<4x16xbf16>' and 'tensor<4x8xbf16>'}}
  %r = dsv3.add %x, %y site "s" : tensor<4x16xbf16>, tensor<4x8xbf16> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>) {
  // expected-error @+1 {{expected x and result of equal shape, got 'tensor<4x16xbf16>' and 'tensor<?x16xbf16>'}}
  %r = dsv3.add %x, %x site "s" : tensor<4x16xbf16>, tensor<4x16xbf16> -> tensor<?x16xbf16>
  dsv3.return
}

// -----

//===-- split, concat, select_rows ---------------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>) {
  // expected-error @+1 {{expected parts of 16 values in all, got 12}}
  %a, %b = dsv3.split %x : tensor<4x16xbf16> -> tensor<4x8xbf16>, tensor<4x4xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>) {
  // expected-error @+1 {{expected parts that differ from 'tensor<4x16xbf16>' in the last dim only, got 'tensor<4x8xf32>'}}
  %a, %b = dsv3.split %x : tensor<4x16xbf16> -> tensor<4x8xbf16>, tensor<4x8xf32>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>) {
  // expected-error @+1 {{expected parts of 31 values in all, got 32}}
  %r = dsv3.concat %x, %x site "s" : tensor<4x16xbf16>, tensor<4x16xbf16> -> tensor<4x31xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %q: !dsv3.seq) {
  // expected-error @+1 {{expected result dim 1 (8) to equal x dim 1 (16)}}
  %r = dsv3.select_rows %x, %q site "s" : tensor<4x16xbf16> -> tensor<2x8xbf16>
  dsv3.return
}

// -----

//===-- rope -------------------------------------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %q: !dsv3.seq) {
  // expected-error @+1 {{expected lanes [12, 20) inside x dim 1 (16)}}
  %r = dsv3.rope %x, %q at 12 #dsv3.rope<dims = 8, theta = 10000.0, interleaved = true> site "s" : tensor<4x16xbf16> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %q: !dsv3.seq) {
  // expected-error @+1 {{expected x and result of equal shape}}
  %r = dsv3.rope %x, %q at 0 #dsv3.rope<dims = 8, theta = 10000.0, interleaved = true> site "s" : tensor<4x16xbf16> -> tensor<4x8xbf16>
  dsv3.return
}

// -----

//===-- kv_append --------------------------------------------------------===//

dsv3.program @p(%c: tensor<4x128xbf16>, %r: tensor<4x64xbf16>, %q: !dsv3.seq, %kv: !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>) {
  // expected-error @+1 {{expected a layer below 1, got 1}}
  %k = dsv3.kv_append %kv[1] latent(%c) rope(%r), %q site "s" : tensor<4x128xbf16>, tensor<4x64xbf16>, !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>
  dsv3.return
}

// -----

dsv3.program @p(%c: tensor<4x64xbf16>, %r: tensor<4x64xbf16>, %q: !dsv3.seq, %kv: !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>) {
  // expected-error @+1 {{expected rows of latent to have 128 values (latent of the cache), got 64}}
  %k = dsv3.kv_append %kv[0] latent(%c) rope(%r), %q site "s" : tensor<4x64xbf16>, tensor<4x64xbf16>, !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>
  dsv3.return
}

// -----

dsv3.program @p(%c: tensor<4x128xbf16>, %r: tensor<4x32xbf16>, %q: !dsv3.seq, %kv: !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>) {
  // expected-error @+1 {{expected rows of rope to have 64 values (rope of the cache), got 32}}
  %k = dsv3.kv_append %kv[0] latent(%c) rope(%r), %q site "s" : tensor<4x128xbf16>, tensor<4x32xbf16>, !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>
  dsv3.return
}

// -----

dsv3.program @p(%c: tensor<4x128xbf16>, %r: tensor<5x64xbf16>, %q: !dsv3.seq, %kv: !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>) {
  // expected-error @+1 {{expected latent dim 0 (4) to equal rope dim 0 (5)}}
  %k = dsv3.kv_append %kv[0] latent(%c) rope(%r), %q site "s" : tensor<4x128xbf16>, tensor<5x64xbf16>, !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>
  dsv3.return
}

// -----

//===-- mla_attention ----------------------------------------------------===//

dsv3.program @p(%x: tensor<4x2x192xbf16>, %w: tensor<512x128xbf16>, %q: !dsv3.seq, %kv: !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>) {
  // expected-error @+1 {{expected a layer below 1, got -1}}
  %y = dsv3.mla_attention %x, %kv[-1], %w, %q scale 0.1 site "s" : tensor<4x2x192xbf16>, !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>, tensor<512x128xbf16> -> tensor<4x2x128xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x2x64xbf16>, %w: tensor<512x128xbf16>, %q: !dsv3.seq, %kv: !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>) {
  // expected-error @+1 {{expected q dim 2 (64) above the cache's rope (64)}}
  %y = dsv3.mla_attention %x, %kv[0], %w, %q scale 0.1 site "s" : tensor<4x2x64xbf16>, !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>, tensor<512x128xbf16> -> tensor<4x2x128xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x2x192xbf16>, %w: tensor<512x64xbf16>, %q: !dsv3.seq, %kv: !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>) {
  // expected-error @+1 {{expected w_kvb dim 1 (64) to equal the cache's latent (128)}}
  %y = dsv3.mla_attention %x, %kv[0], %w, %q scale 0.1 site "s" : tensor<4x2x192xbf16>, !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>, tensor<512x64xbf16> -> tensor<4x2x128xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x2x192xbf16>, %w: tensor<256x128xbf16>, %q: !dsv3.seq, %kv: !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>) {
  // expected-error @+1 {{expected w_kvb dim 0 (256) to be heads * (nope + v) (512)}}
  %y = dsv3.mla_attention %x, %kv[0], %w, %q scale 0.1 site "s" : tensor<4x2x192xbf16>, !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>, tensor<256x128xbf16> -> tensor<4x2x128xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x2x192xbf16>, %w: tensor<512x128xbf16>, %q: !dsv3.seq, %kv: !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>) {
  // expected-error @+1 {{expected result dim 1 (4) to equal q dim 1 (2)}}
  %y = dsv3.mla_attention %x, %kv[0], %w, %q scale 0.1 site "s" : tensor<4x2x192xbf16>, !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>, tensor<512x128xbf16> -> tensor<4x4x128xbf16>
  dsv3.return
}

// -----

//===-- latent_attention -------------------------------------------------===//

dsv3.program @p(%a: tensor<4x2x128xbf16>, %b: tensor<4x2x32xbf16>, %q: !dsv3.seq, %kv: !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>) {
  // expected-error @+1 {{expected queries of 128 and 64 lanes (the cache's row), got 128 and 32}}
  %y = dsv3.latent_attention %a, %b, %kv[0], %q scale 0.1 site "s" : tensor<4x2x128xbf16>, tensor<4x2x32xbf16>, !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16> -> tensor<4x2x128xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%a: tensor<4x2x128xbf16>, %b: tensor<4x3x64xbf16>, %q: !dsv3.seq, %kv: !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>) {
  // expected-error @+1 {{expected q_rope dim 1 (3) to equal q_latent dim 1 (2)}}
  %y = dsv3.latent_attention %a, %b, %kv[0], %q scale 0.1 site "s" : tensor<4x2x128xbf16>, tensor<4x3x64xbf16>, !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16> -> tensor<4x2x128xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%a: tensor<4x2x128xbf16>, %b: tensor<4x2x64xbf16>, %q: !dsv3.seq, %kv: !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>) {
  // expected-error @+1 {{expected q_latent and result of equal shape}}
  %y = dsv3.latent_attention %a, %b, %kv[0], %q scale 0.1 site "s" : tensor<4x2x128xbf16>, tensor<4x2x64xbf16>, !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16> -> tensor<4x2x64xbf16>
  dsv3.return
}

// -----

//===-- route ------------------------------------------------------------===//

dsv3.program @p(%l: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{expected groups (3) to divide the 8 experts}}
  %i, %w = dsv3.route %l, %b groups 3 keep 1 top 2 norm true scale 2.5 site "s" : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>
  dsv3.return
}

// -----

dsv3.program @p(%l: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{expected groups of two experts or more, got groups of 1}}
  %i, %w = dsv3.route %l, %b groups 8 keep 1 top 2 norm true scale 2.5 site "s" : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>
  dsv3.return
}

// -----

dsv3.program @p(%l: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{expected keep between 1 and 4 groups, got 5}}
  %i, %w = dsv3.route %l, %b groups 4 keep 5 top 2 norm true scale 2.5 site "s" : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>
  dsv3.return
}

// -----

dsv3.program @p(%l: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{expected top (3) of at most the 2 experts kept}}
  %i, %w = dsv3.route %l, %b groups 4 keep 1 top 3 norm true scale 2.5 site "s" : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x3xi32>, tensor<4x3xf32>
  dsv3.return
}

// -----

dsv3.program @p(%l: tensor<4x8xbf16>, %b: tensor<8xf32>) {
  // expected-error @+1 {{expected logits of element type f32, got 'bf16'}}
  %i, %w = dsv3.route %l, %b groups 4 keep 2 top 2 norm true scale 2.5 site "s" : tensor<4x8xbf16>, tensor<8xf32> -> tensor<4x2xi32>, tensor<4x2xf32>
  dsv3.return
}

// -----

dsv3.program @p(%l: tensor<4x8xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{expected bias dim 0 (4) to equal logits dim 1 (8)}}
  %i, %w = dsv3.route %l, %b groups 4 keep 2 top 2 norm true scale 2.5 site "s" : tensor<4x8xf32>, tensor<4xf32> -> tensor<4x2xi32>, tensor<4x2xf32>
  dsv3.return
}

// -----

dsv3.program @p(%l: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{expected ids of element type i32, got 'i64'}}
  %i, %w = dsv3.route %l, %b groups 4 keep 2 top 2 norm true scale 2.5 site "s" : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x2xi64>, tensor<4x2xf32>
  dsv3.return
}

// -----

dsv3.program @p(%l: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{expected ids dim 1 (3) to equal top (2)}}
  %i, %w = dsv3.route %l, %b groups 4 keep 2 top 2 norm true scale 2.5 site "s" : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x3xi32>, tensor<4x3xf32>
  dsv3.return
}

// -----

dsv3.program @p(%l: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{expected ids and weights of equal shape}}
  %i, %w = dsv3.route %l, %b groups 4 keep 2 top 2 norm true scale 2.5 site "s" : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x2xi32>, tensor<4x3xf32>
  dsv3.return
}

// -----

//===-- dispatch, grouped_linear, combine --------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %i: tensor<4x2xi32>) {
  // expected-error @+1 {{expected rows dim 1 (8) to equal x dim 1 (16)}}
  %r, %o, %f = dsv3.dispatch %x, %i experts 8 site "s" : tensor<4x16xbf16>, tensor<4x2xi32> -> tensor<8x8xbf16>, tensor<9xi32>, tensor<4x2xi32>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %i: tensor<4x2xi32>) {
  // expected-error @+1 {{expected offsets of 9 entries, got 8}}
  %r, %o, %f = dsv3.dispatch %x, %i experts 8 site "s" : tensor<4x16xbf16>, tensor<4x2xi32> -> tensor<8x16xbf16>, tensor<8xi32>, tensor<4x2xi32>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %i: tensor<4x2xi32>) {
  // expected-error @+1 {{expected row_of and ids of equal shape}}
  %r, %o, %f = dsv3.dispatch %x, %i experts 8 site "s" : tensor<4x16xbf16>, tensor<4x2xi32> -> tensor<8x16xbf16>, tensor<9xi32>, tensor<4x3xi32>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<8x32x8xbf16>, %o: tensor<9xi32>) {
  // expected-error @+1 {{expected w dim 2 (8) to equal x dim 1 (16)}}
  %y = dsv3.grouped_linear %x, %w, %o site "s" : tensor<4x16xbf16>, tensor<8x32x8xbf16>, tensor<9xi32> -> tensor<4x32xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<8x32x16xbf16>, %o: tensor<8xi32>) {
  // expected-error @+1 {{expected offsets of 9 entries, got 8}}
  %y = dsv3.grouped_linear %x, %w, %o site "s" : tensor<4x16xbf16>, tensor<8x32x16xbf16>, tensor<8xi32> -> tensor<4x32xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %w: tensor<8x32x16xbf16>, %o: tensor<9xi32>) {
  // expected-error @+1 {{expected result dim 1 (16) to equal w dim 1 (32)}}
  %y = dsv3.grouped_linear %x, %w, %o site "s" : tensor<4x16xbf16>, tensor<8x32x16xbf16>, tensor<9xi32> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%r: tensor<8x8xbf16>, %f: tensor<4x2xi32>, %w: tensor<4x2xf32>) {
  // expected-error @+1 {{expected result dim 1 (16) to equal rows dim 1 (8)}}
  %y = dsv3.combine %r, %f, %w site "s" : tensor<8x8xbf16>, tensor<4x2xi32>, tensor<4x2xf32> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%r: tensor<8x16xbf16>, %f: tensor<4x3xi32>, %w: tensor<4x2xf32>) {
  // expected-error @+1 {{expected row_of and weights of equal shape}}
  %y = dsv3.combine %r, %f, %w site "s" : tensor<8x16xbf16>, tensor<4x3xi32>, tensor<4x2xf32> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%r: tensor<8x16xbf16>, %f: tensor<4x2xi32>, %w: tensor<4x2xf32>) {
  // expected-error @+1 {{expected result dim 0 (5) to equal weights dim 0 (4)}}
  %y = dsv3.combine %r, %f, %w site "s" : tensor<8x16xbf16>, tensor<4x2xi32>, tensor<4x2xf32> -> tensor<5x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%r: tensor<8x16xbf16>, %f: tensor<4x2xi32>, %w: tensor<4x2xf32>, %p: tensor<5x16xbf16>) {
  // expected-error @+1 {{expected plus and result of equal shape}}
  %y = dsv3.combine %r, %f, %w plus(%p : tensor<5x16xbf16>) site "s" : tensor<8x16xbf16>, tensor<4x2xi32>, tensor<4x2xf32> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

//===-- routed_experts ---------------------------------------------------===//

dsv3.program @p(%x: tensor<4x16xbf16>, %l: tensor<4x8xf32>, %b: tensor<8xf32>, %g: tensor<8x32x16xbf16>, %u: tensor<8x32x16xbf16>, %d: tensor<8x16x32xbf16>) {
  // expected-error @+1 {{expected groups (3) to divide the 8 experts}}
  %y = dsv3.routed_experts %x, %l, %b, %g, %u, %d groups 3 keep 2 top 2 norm true scale 2.5 via(gate_up : f32, act : bf16, down : bf16) site "s" : tensor<4x16xbf16>, tensor<4x8xf32>, tensor<8xf32>, tensor<8x32x16xbf16>, tensor<8x32x16xbf16>, tensor<8x16x32xbf16> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %l: tensor<4x8xf32>, %b: tensor<8xf32>, %g: tensor<8x32x16xbf16>, %u: tensor<8x16x16xbf16>, %d: tensor<8x16x32xbf16>) {
  // expected-error @+1 {{expected w_gate and w_up of equal shape}}
  %y = dsv3.routed_experts %x, %l, %b, %g, %u, %d groups 4 keep 2 top 2 norm true scale 2.5 via(gate_up : f32, act : bf16, down : bf16) site "s" : tensor<4x16xbf16>, tensor<4x8xf32>, tensor<8xf32>, tensor<8x32x16xbf16>, tensor<8x16x16xbf16>, tensor<8x16x32xbf16> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %l: tensor<4x8xf32>, %b: tensor<8xf32>, %g: tensor<4x32x16xbf16>, %u: tensor<4x32x16xbf16>, %d: tensor<8x16x32xbf16>) {
  // expected-error @+1 {{expected w_gate dim 0 (4) to equal logits dim 1 (8)}}
  %y = dsv3.routed_experts %x, %l, %b, %g, %u, %d groups 4 keep 2 top 2 norm true scale 2.5 via(gate_up : f32, act : bf16, down : bf16) site "s" : tensor<4x16xbf16>, tensor<4x8xf32>, tensor<8xf32>, tensor<4x32x16xbf16>, tensor<4x32x16xbf16>, tensor<8x16x32xbf16> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %l: tensor<4x8xf32>, %b: tensor<8xf32>, %g: tensor<8x32x16xbf16>, %u: tensor<8x32x16xbf16>, %d: tensor<8x16x16xbf16>) {
  // expected-error @+1 {{expected w_down dim 2 (16) to equal w_gate dim 1 (32)}}
  %y = dsv3.routed_experts %x, %l, %b, %g, %u, %d groups 4 keep 2 top 2 norm true scale 2.5 via(gate_up : f32, act : bf16, down : bf16) site "s" : tensor<4x16xbf16>, tensor<4x8xf32>, tensor<8xf32>, tensor<8x32x16xbf16>, tensor<8x32x16xbf16>, tensor<8x16x16xbf16> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %l: tensor<4x8xf32>, %b: tensor<8xf32>, %g: tensor<8x32x16xbf16>, %u: tensor<8x32x16xbf16>, %d: tensor<8x8x32xbf16>) {
  // expected-error @+1 {{expected w_down dim 1 (8) to equal x dim 1 (16)}}
  %y = dsv3.routed_experts %x, %l, %b, %g, %u, %d groups 4 keep 2 top 2 norm true scale 2.5 via(gate_up : f32, act : bf16, down : bf16) site "s" : tensor<4x16xbf16>, tensor<4x8xf32>, tensor<8xf32>, tensor<8x32x16xbf16>, tensor<8x32x16xbf16>, tensor<8x8x32xbf16> -> tensor<4x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x16xbf16>, %l: tensor<4x8xf32>, %b: tensor<8xf32>, %g: tensor<8x32x16xbf16>, %u: tensor<8x32x16xbf16>, %d: tensor<8x16x32xbf16>) {
  // expected-error @+1 {{expected x and result of equal shape}}
  %y = dsv3.routed_experts %x, %l, %b, %g, %u, %d groups 4 keep 2 top 2 norm true scale 2.5 via(gate_up : f32, act : bf16, down : bf16) site "s" : tensor<4x16xbf16>, tensor<4x8xf32>, tensor<8xf32>, tensor<8x32x16xbf16>, tensor<8x32x16xbf16>, tensor<8x16x32xbf16> -> tensor<5x16xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x128xbf16>) {
  // expected-error @+1 {{expected a result with a scheme, got 'tensor<4x128xbf16>'}}
  %q = dsv3.quantize %x site "s" : tensor<4x128xbf16> -> tensor<4x128xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x128xbf16>) {
  // expected-error @+1 {{expected result plain or with a scheme of blocks inside one row (1xN)}}
  %q = dsv3.quantize %x site "s" : tensor<4x128xbf16> -> tensor<4x128xbf16, #dsv3.blocked<f8E4M3FN, 2x128, f32>>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x128xbf16>, %ids: tensor<4x2xi32>) {
  // expected-error @+1 {{expected rows in the scheme of x}}
  %r, %o, %f = dsv3.dispatch %x, %ids experts 4 site "s" : tensor<4x128xbf16>, tensor<4x2xi32> -> tensor<8x128xbf16, #dsv3.blocked<f8E4M3FN, 1x128, f32>>, tensor<5xi32>, tensor<4x2xi32>
  dsv3.return
}
