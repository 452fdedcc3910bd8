// What the tensor cores' attention cannot do, and why. kernel.attn_split and kernel.attn_prefill.
// RUN: dsv3-opt %s --dsv3-bind-kernels=target=sm_90a -split-input-file -verify-diagnostics

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
dsv3.program @latent(%ql: tensor<4x2x128xbf16>, %qr: tensor<4x2x64xbf16>, %items: tensor<32x5xi32>, %parts: tensor<67xi32>, %seq: !dsv3.seq, %kv: !kv) {
  %o = kernel.empty : tensor<4x2x128xbf16>
  %p = kernel.empty : tensor<32x2x128xf32>
  %l = kernel.empty : tensor<32x2xf32>
  // expected-error @+1 {{expected an op that sm90.mla_decode accepts at "s": cached rows of 128 + 64 lanes in pages of 64, expected 512 + 64 in pages of 64}}
  %r:3 = kernel.attn_split ins(%ql, %qr, %kv[1], %seq, %items, %parts : tensor<4x2x128xbf16>, tensor<4x2x64xbf16>, !kv, tensor<32x5xi32>, tensor<67xi32>) outs(%o, %p, %l : tensor<4x2x128xbf16>, tensor<32x2x128xf32>, tensor<32x2xf32>) scale 0.125 site "s" -> tensor<4x2x128xbf16>, tensor<32x2x128xf32>, tensor<32x2xf32>
  dsv3.return
}

// -----

!kv = !dsv3.kv<layers = 2, page = 64, latent = 512, rope = 64, f32>
dsv3.program @cache(%ql: tensor<4x2x512xbf16>, %qr: tensor<4x2x64xbf16>, %items: tensor<32x5xi32>, %parts: tensor<67xi32>, %seq: !dsv3.seq, %kv: !kv) {
  %o = kernel.empty : tensor<4x2x512xbf16>
  %p = kernel.empty : tensor<32x2x512xf32>
  %l = kernel.empty : tensor<32x2xf32>
  // expected-error @+1 {{sm90.mla_decode accepts at "s": the cache is f32, expected bf16}}
  %r:3 = kernel.attn_split ins(%ql, %qr, %kv[1], %seq, %items, %parts : tensor<4x2x512xbf16>, tensor<4x2x64xbf16>, !kv, tensor<32x5xi32>, tensor<67xi32>) outs(%o, %p, %l : tensor<4x2x512xbf16>, tensor<32x2x512xf32>, tensor<32x2xf32>) scale 0.125 site "s" -> tensor<4x2x512xbf16>, tensor<32x2x512xf32>, tensor<32x2xf32>
  dsv3.return
}

// -----

dsv3.program @transposed(%q: tensor<4x2x192xbf16>, %k: tensor<8x2x192x64xbf16>, %v: tensor<8x2x64x128xbf16>, %seq: !dsv3.seq) {
  %o = kernel.empty : tensor<4x2x128xbf16>
  // expected-error @+1 {{sm90.mla_prefill accepts at "s": keys stand a row per lane, expected a row per key in blocks of 64}}
  %r = kernel.attn_prefill ins(%q, %k, %v, %seq : tensor<4x2x192xbf16>, tensor<8x2x192x64xbf16>, tensor<8x2x64x128xbf16>) outs(%o : tensor<4x2x128xbf16>) scale 0.125 site "s"
  dsv3.return
}

// -----

dsv3.program @lanes(%q: tensor<4x2x96xbf16>, %k: tensor<8x2x64x96xbf16>, %v: tensor<8x2x64x128xbf16>, %seq: !dsv3.seq) {
  %o = kernel.empty : tensor<4x2x128xbf16>
  // expected-error @+1 {{sm90.mla_prefill accepts at "s": nope + rope is 96, expected 64, 128 or 192}}
  %r = kernel.attn_prefill ins(%q, %k, %v, %seq : tensor<4x2x96xbf16>, tensor<8x2x64x96xbf16>, tensor<8x2x64x128xbf16>) outs(%o : tensor<4x2x128xbf16>) scale 0.125 key_rows site "s"
  dsv3.return
}

// -----

dsv3.program @values(%q: tensor<4x2x192xbf16>, %k: tensor<8x2x64x192xbf16>, %v: tensor<8x2x64x256xbf16>, %seq: !dsv3.seq) {
  %o = kernel.empty : tensor<4x2x256xbf16>
  // expected-error @+1 {{sm90.mla_prefill accepts at "s": v is 256, expected 64 or 128}}
  %r = kernel.attn_prefill ins(%q, %k, %v, %seq : tensor<4x2x192xbf16>, tensor<8x2x64x192xbf16>, tensor<8x2x64x256xbf16>) outs(%o : tensor<4x2x256xbf16>) scale 0.125 key_rows site "s"
  dsv3.return
}

// -----

dsv3.program @f32(%q: tensor<4x2x192xf32>, %k: tensor<8x2x64x192xbf16>, %v: tensor<8x2x64x128xbf16>, %seq: !dsv3.seq) {
  %o = kernel.empty : tensor<4x2x128xbf16>
  // expected-error @+1 {{sm90.mla_prefill accepts at "s": q is f32, expected bf16}}
  %r = kernel.attn_prefill ins(%q, %k, %v, %seq : tensor<4x2x192xf32>, tensor<8x2x64x192xbf16>, tensor<8x2x64x128xbf16>) outs(%o : tensor<4x2x128xbf16>) scale 0.125 key_rows site "s"
  dsv3.return
}
