// What has no kernel.
// RUN: dsv3-opt %s --dsv3-lower-to-kernel -split-input-file -verify-diagnostics

// expected-error @+1 {{expected a module with attribute dsv3.capacities, got none}}
module {}

// -----

// expected-error @+1 {{expected a positive 'seqs' in dsv3.capacities, got 0 : i64}}
module attributes {dsv3.capacities = {kblocks = 6 : i64, max_model_len = 256 : i64, pages = 4 : i64, qblocks = 3 : i64, seqs = 0 : i64, tokens = 16 : i64}} {}

// -----

module attributes {dsv3.capacities = {kblocks = 6 : i64, max_model_len = 256 : i64, pages = 4 : i64, qblocks = 3 : i64, seqs = 2 : i64, tokens = 16 : i64}} {
dsv3.program @p(%x: tensor<4x16xbf16>) -> tensor<4x48xbf16> {
  // expected-error @+1 {{'dsv3.concat' op expected two parts, got 3}}
  %y = dsv3.concat %x, %x, %x site "s" : tensor<4x16xbf16>, tensor<4x16xbf16>, tensor<4x16xbf16> -> tensor<4x48xbf16>
  dsv3.return %y : tensor<4x48xbf16>
}
}

// -----

!kv = !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>
module attributes {dsv3.capacities = {kblocks = 6 : i64, max_model_len = 256 : i64, pages = 4 : i64, qblocks = 3 : i64, seqs = 2 : i64, tokens = 16 : i64}} {
dsv3.program @p(%c: tensor<4x128xbf16>, %r: tensor<4x64xbf16>, %seq: !dsv3.seq, %kv: !kv) {
  // expected-error @+1 {{'dsv3.kv_append' op expected latent from an rms_norm without residual at "l0.append"}}
  %kv1 = dsv3.kv_append %kv[0] latent(%c) rope(%r), %seq site "l0.append" : tensor<4x128xbf16>, tensor<4x64xbf16>, !kv
  dsv3.return
}
}

// -----

!kv = !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>
#rope = #dsv3.rope<dims = 64, theta = 10000.0, interleaved = true>
module attributes {dsv3.capacities = {kblocks = 6 : i64, max_model_len = 256 : i64, pages = 4 : i64, qblocks = 3 : i64, seqs = 2 : i64, tokens = 16 : i64}} {
dsv3.program @p(%x: tensor<4x192xbf16>, %g: tensor<128xbf16>, %seq: !dsv3.seq, %kv: !kv) {
  %r0, %c0 = dsv3.split %x : tensor<4x192xbf16> -> tensor<4x64xbf16>, tensor<4x128xbf16>
  %c = dsv3.rms_norm %c0, %g eps 1.0e-06 site "n" : tensor<4x128xbf16>, tensor<128xbf16> -> tensor<4x128xbf16>
  %r = dsv3.rope %r0, %seq at 0 #rope site "r" : tensor<4x64xbf16> -> tensor<4x64xbf16>
  // expected-error @+1 {{expected the rope part right behind the latent part at "l0.append"}}
  %kv1 = dsv3.kv_append %kv[0] latent(%c) rope(%r), %seq site "l0.append" : tensor<4x128xbf16>, tensor<4x64xbf16>, !kv
  dsv3.return
}
}

// -----

!kv = !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, f32>
#rope = #dsv3.rope<dims = 64, theta = 10000.0, interleaved = true>
module attributes {dsv3.capacities = {kblocks = 6 : i64, max_model_len = 256 : i64, pages = 4 : i64, qblocks = 3 : i64, seqs = 2 : i64, tokens = 16 : i64}} {
dsv3.program @p(%x: tensor<4x192xbf16>, %g: tensor<128xbf16>, %seq: !dsv3.seq, %kv: !kv) {
  %c0, %r0 = dsv3.split %x : tensor<4x192xbf16> -> tensor<4x128xbf16>, tensor<4x64xbf16>
  %c = dsv3.rms_norm %c0, %g eps 1.0e-06 site "n" : tensor<4x128xbf16>, tensor<128xbf16> -> tensor<4x128xbf16>
  %r = dsv3.rope %r0, %seq at 0 #rope site "r" : tensor<4x64xbf16> -> tensor<4x64xbf16>
  // expected-error @+1 {{expected rows of the cache's element type 'f32' or f32 at "l0.append", got 'bf16'}}
  %kv1 = dsv3.kv_append %kv[0] latent(%c) rope(%r), %seq site "l0.append" : tensor<4x128xbf16>, tensor<4x64xbf16>, !kv
  dsv3.return
}
}

// -----

!kv = !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>
module attributes {dsv3.capacities = {kblocks = 6 : i64, max_model_len = 256 : i64, pages = 4 : i64, qblocks = 3 : i64, seqs = 2 : i64, tokens = 16 : i64}} {
dsv3.program @p(%q: tensor<4x2x192xbf16>, %w: tensor<512x128xbf16>, %seq: !dsv3.seq, %kv: !kv) {
  // expected-error @+1 {{'dsv3.mla_attention' op expected w_kvb to be a dsv3.use of a weight}}
  %y = dsv3.mla_attention %q, %kv[0], %w, %seq scale 0.125 site "l0.attn" : tensor<4x2x192xbf16>, !kv, tensor<512x128xbf16> -> tensor<4x2x128xbf16>
  dsv3.return
}
}

// -----

!kv = !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>
module attributes {dsv3.capacities = {kblocks = 6 : i64, max_model_len = 256 : i64, pages = 4 : i64, qblocks = 3 : i64, seqs = 2 : i64, tokens = 16 : i64}} {
dsv3.weight @w : tensor<512x128xbf16> from #dsv3.file<"w">
// expected-error @+1 {{expected @w.v to be 'tensor<2x128x128xbf16>' from}}
dsv3.weight @w.v : tensor<2x128x128xbf16> from #dsv3.file<"something else">
dsv3.program @p(%q: tensor<4x2x192xbf16>, %seq: !dsv3.seq, %kv: !kv) {
  %w = dsv3.use @w : tensor<512x128xbf16>
  %y = dsv3.mla_attention %q, %kv[0], %w, %seq scale 0.125 site "l0.attn" : tensor<4x2x192xbf16>, !kv, tensor<512x128xbf16> -> tensor<4x2x128xbf16>
  dsv3.return
}
}

// -----

module attributes {dsv3.capacities = {kblocks = 6 : i64, max_model_len = 256 : i64, pages = 4 : i64, qblocks = 3 : i64, seqs = 2 : i64, tokens = 16 : i64}} {
dsv3.program @p(%x: tensor<4x2x16xbf16>) {
  %a, %b = dsv3.split %x : tensor<4x2x16xbf16> -> tensor<4x2x8xbf16>, tensor<4x2x8xbf16>
  // expected-error @+1 {{'dsv3.tap' op expected rows of two lanes or more to tap a part of a value, got 'tensor<4x2x8xbf16>'}}
  dsv3.tap "b", %b : tensor<4x2x8xbf16>
  dsv3.return
}
}
