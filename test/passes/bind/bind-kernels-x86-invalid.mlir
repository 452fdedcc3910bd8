// RUN: dsv3-opt %s --dsv3-bind-kernels=target=x86-64 -split-input-file -verify-diagnostics

// Keys in the form of a device must not reach kernels that read another.
dsv3.program @p(%q: tensor<4x2x192xbf16>, %k: tensor<8x2x64x192xbf16>, %v: tensor<8x2x64x32xbf16>, %seq: !dsv3.seq) {
  %o = kernel.empty : tensor<4x2x32xbf16>
  // expected-error @+1 {{expected an op that x86.attn_prefill accepts at "s": keys stand a row per key, expected a row per lane}}
  %r = kernel.attn_prefill ins(%q, %k, %v, %seq : tensor<4x2x192xbf16>, tensor<8x2x64x192xbf16>, tensor<8x2x64x32xbf16>) outs(%o : tensor<4x2x32xbf16>) scale 0.125 key_rows site "s"
  dsv3.return
}

// -----

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
dsv3.program @p(%kv: !kv, %wk: tensor<2x128x128xbf16>, %wv: tensor<2x32x128xbf16>, %seq: !dsv3.seq) {
  %k = kernel.empty : tensor<8x2x64x192xbf16>
  %v = kernel.empty : tensor<8x2x64x32xbf16>
  // expected-error @+1 {{expected an op that x86.kv_expand accepts at "s": keys stand a row per key, expected a row per lane}}
  %rk, %rv = kernel.kv_expand ins(%kv[0], %wk, %wv, %seq : !kv, tensor<2x128x128xbf16>, tensor<2x32x128xbf16>) outs(%k, %v : tensor<8x2x64x192xbf16>, tensor<8x2x64x32xbf16>) key_rows site "s" -> tensor<8x2x64x192xbf16>, tensor<8x2x64x32xbf16>
  dsv3.return
}
