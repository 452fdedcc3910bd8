// RUN: dsv3-opt %s --dsv3-absorb-mla -verify-diagnostics

!kv = !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, bf16>
dsv3.program @decode_b1(%q: tensor<1x2x192xbf16>, %w: tensor<512x128xbf16>, %seq: !dsv3.seq, %kv: !kv) -> tensor<1x2x128xbf16>
    attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  // expected-error @+1 {{'dsv3.mla_attention' op expected w_kvb to be a dsv3.use of a weight at l0.attn}}
  %y = dsv3.mla_attention %q, %kv[0], %w, %seq scale 0.125 site "l0.attn" : tensor<1x2x192xbf16>, !kv, tensor<512x128xbf16> -> tensor<1x2x128xbf16>
  dsv3.return %y : tensor<1x2x128xbf16>
}
