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

// -----

// Codes meet codes of their kind.
!x = tensor<4x256xbf16, #dsv3.blocked<i8, 1x?, f32>>
dsv3.program @p(%x: !x, %w: tensor<8x256xbf16>, %o: tensor<4x8xbf16>) {
  // expected-error @+1 {{x86.gemm accepts at "l0.q": x in i8 does not meet weights stored as bf16}}
  %y = kernel.gemm ins(%x, %w : !x, tensor<8x256xbf16>) outs(%o : tensor<4x8xbf16>) site "l0.q"
  dsv3.return
}

// -----

!x = tensor<4x256xbf16, #dsv3.blocked<i8, 1x?, f32>>
!w = tensor<8x256xbf16, #dsv3.blocked<i4, 1x128, f16, zero i8>>
dsv3.program @p(%x: !x, %w: !w, %o: tensor<4x8xbf16>) {
  // expected-error @+1 {{x86.gemm accepts at "l0.q": x in codes does not meet weights with zero points}}
  %y = kernel.gemm ins(%x, %w : !x, !w) outs(%o : tensor<4x8xbf16>) site "l0.q"
  dsv3.return
}

// -----

!x = tensor<4x256xbf16, #dsv3.blocked<i8, 1x96, f32>>
!w = tensor<8x256xbf16, #dsv3.blocked<i4, 1x128, f32>>
dsv3.program @p(%x: !x, %w: !w, %o: tensor<4x8xbf16>) {
  // expected-error @+1 {{x86.gemm accepts at "l0.q": scale blocks of 96 and 128 along K do not divide one another}}
  %y = kernel.gemm ins(%x, %w : !x, !w) outs(%o : tensor<4x8xbf16>) site "l0.q"
  dsv3.return
}

// -----

!x = tensor<4x256xbf16, #dsv3.blocked<i8, 1x?, f32>>
!w = tensor<8x256xbf16, #dsv3.blocked<i8, 1x?, f32>>
!y = tensor<4x8xbf16, #dsv3.blocked<i8, 1x?, f32>>
dsv3.program @p(%x: !x, %w: !w, %o: !y) {
  // expected-error @+1 {{x86.gemm accepts at "l0.q": y is quantised, which only gated products of rows in codes write}}
  %y = kernel.gemm ins(%x, %w : !x, !w) outs(%o : !y) site "l0.q"
  dsv3.return
}

// -----

!x = tensor<4x2x96xbf16, #dsv3.blocked<i8, 1x?, f32>>
dsv3.program @p(%x: !x, %w: tensor<2x8x96xbf16, #dsv3.blocked<i8, 1x?, f32>>, %o: tensor<4x2x8xbf16>) {
  // expected-error @+1 {{x86.batched_gemm accepts at "l0.q": x of a product per head is quantised}}
  %y = kernel.batched_gemm ins(%x, %w : !x, tensor<2x8x96xbf16, #dsv3.blocked<i8, 1x?, f32>>) outs(%o : tensor<4x2x8xbf16>) site "l0.q"
  dsv3.return
}

// -----

!q = tensor<4x256xbf16, #dsv3.blocked<i4, 1x?, f32>>
dsv3.program @p(%x: tensor<4x256xbf16>, %o: !q) {
  // expected-error @+1 {{x86.quantize accepts at "l0.q": rows are stored as i8 or f8E4M3FN only, with a scale per block}}
  %y = kernel.quantize ins(%x : tensor<4x256xbf16>) outs(%o : !q) site "l0.q"
  dsv3.return
}
