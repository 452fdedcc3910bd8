// Decode attention in its absorbed form. The halves of w_kvb are recipes, made once for all programs.
// RUN: dsv3-opt %s --dsv3-absorb-mla -split-input-file | FileCheck %s

#fp8b = #dsv3.blocked<f8E4M3FN, 128x128, f32>
!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>

// On the scale grid the halves stay encoded.
// CHECK: dsv3.weight @l0.kv_b : tensor<512x128xbf16, #[[FP8:.*]]> from
// CHECK-NEXT: dsv3.weight @l0.kv_b.k : tensor<2x128x128xbf16, #[[FP8]]> from #dsv3.transpose<#dsv3.slice<1, 0, 128, #dsv3.reshape<[2, 256, 128], #dsv3.ref<@l0.kv_b>>>>
// CHECK-NEXT: dsv3.weight @l0.kv_b.v : tensor<2x128x128xbf16, #[[FP8]]> from #dsv3.slice<1, 128, 128, #dsv3.reshape<[2, 256, 128], #dsv3.ref<@l0.kv_b>>>
// CHECK-NOT: dsv3.weight
dsv3.weight @l0.kv_b : tensor<512x128xbf16, #fp8b> from #dsv3.file<"kv_b.weight", scale "kv_b.weight_scale_inv">

// CHECK-LABEL: dsv3.program @decode_b4
dsv3.program @decode_b4(%q: tensor<4x2x192xbf16>, %seq: !dsv3.seq, %kv: !kv) -> tensor<4x2x128xbf16>
    attributes {phase = "decode", tokens = 4 : i64, seqs = 4 : i64} {
  // CHECK-NOT: dsv3.use @l0.kv_b :
  // CHECK: %[[Q:.*]]:2 = dsv3.split %arg0 : tensor<4x2x192xbf16> -> tensor<4x2x128xbf16>, tensor<4x2x64xbf16>
  // CHECK: %[[WK:.*]] = dsv3.use @l0.kv_b.k
  // CHECK: %[[QL:.*]] = dsv3.batched_linear %[[Q]]#0, %[[WK]] site "l0.absorb_q" {{.*}} -> tensor<4x2x128xbf16>
  // CHECK: %[[O:.*]] = dsv3.latent_attention %[[QL]], %[[Q]]#1, %arg2[1], %arg1 scale 0.125 site "l0.attn" {{.*}} -> tensor<4x2x128xbf16>
  // CHECK: %[[WV:.*]] = dsv3.use @l0.kv_b.v
  // CHECK: %[[Y:.*]] = dsv3.batched_linear %[[O]], %[[WV]] site "l0.absorb_v" {{.*}} -> tensor<4x2x128xbf16>
  // CHECK: dsv3.return %[[Y]]
  %w = dsv3.use @l0.kv_b : tensor<512x128xbf16, #fp8b>
  %y = dsv3.mla_attention %q, %kv[1], %w, %seq scale 0.125 site "l0.attn" : tensor<4x2x192xbf16>, !kv, tensor<512x128xbf16, #fp8b> -> tensor<4x2x128xbf16>
  dsv3.return %y : tensor<4x2x128xbf16>
}

// CHECK-LABEL: dsv3.program @decode_b8
dsv3.program @decode_b8(%q: tensor<8x2x192xbf16>, %seq: !dsv3.seq, %kv: !kv) -> tensor<8x2x128xbf16>
    attributes {phase = "decode", tokens = 8 : i64, seqs = 8 : i64} {
  // CHECK: dsv3.use @l0.kv_b.k
  // CHECK: dsv3.use @l0.kv_b.v
  %w = dsv3.use @l0.kv_b : tensor<512x128xbf16, #fp8b>
  %y = dsv3.mla_attention %q, %kv[1], %w, %seq scale 0.125 site "l0.attn" : tensor<8x2x192xbf16>, !kv, tensor<512x128xbf16, #fp8b> -> tensor<8x2x128xbf16>
  dsv3.return %y : tensor<8x2x128xbf16>
}

// Prefill keeps the multi-head form.
// CHECK-LABEL: dsv3.program @prefill_t16
dsv3.program @prefill_t16(%q: tensor<16x2x192xbf16>, %seq: !dsv3.seq, %kv: !kv) -> tensor<16x2x128xbf16>
    attributes {phase = "prefill", tokens = 16 : i64, seqs = 8 : i64} {
  // CHECK: dsv3.mla_attention %arg0, %arg2[1]
  // CHECK-NOT: dsv3.latent_attention
  %w = dsv3.use @l0.kv_b : tensor<512x128xbf16, #fp8b>
  %y = dsv3.mla_attention %q, %kv[1], %w, %seq scale 0.125 site "l0.attn" : tensor<16x2x192xbf16>, !kv, tensor<512x128xbf16, #fp8b> -> tensor<16x2x128xbf16>
  dsv3.return %y : tensor<16x2x128xbf16>
}

// -----

#fp8b = #dsv3.blocked<f8E4M3FN, 128x128, f32>
!kv = !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 32, bf16>

// Heads of 96 + 64 rows cut the blocks: the halves are dequantised, rounded to the element type that the multiply
// of the multi-head form rounds to as well. Unequal halves, and a recipe over a recipe.
// CHECK: dsv3.weight @all : tensor<320x128xbf16, #{{.*}}> from
// CHECK: dsv3.weight @kvb : tensor<320x128xbf16, #{{.*}}> from #dsv3.ref<@all>
// CHECK-NEXT: dsv3.weight @kvb.k : tensor<2x128x96xbf16> from #dsv3.transpose<#dsv3.slice<1, 0, 96, #dsv3.reshape<[2, 160, 128], #dsv3.ref<@kvb>>>>
// CHECK-NEXT: dsv3.weight @kvb.v : tensor<2x64x128xbf16> from #dsv3.slice<1, 96, 64, #dsv3.reshape<[2, 160, 128], #dsv3.ref<@kvb>>>
dsv3.weight @all : tensor<320x128xbf16, #fp8b> from #dsv3.file<"kv_b.weight", scale "kv_b.weight_scale_inv">
dsv3.weight @kvb : tensor<320x128xbf16, #fp8b> from #dsv3.ref<@all>
dsv3.program @decode_b1(%q: tensor<1x2x128xbf16>, %seq: !dsv3.seq, %kv: !kv) -> tensor<1x2x64xbf16>
    attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  // CHECK: dsv3.batched_linear {{.*}} site "absorb_q" : tensor<1x2x96xbf16>, tensor<2x128x96xbf16> -> tensor<1x2x128xbf16>
  // CHECK: dsv3.batched_linear {{.*}} site "absorb_v" : tensor<1x2x128xbf16>, tensor<2x64x128xbf16> -> tensor<1x2x64xbf16>
  %w = dsv3.use @kvb : tensor<320x128xbf16, #fp8b>
  %y = dsv3.mla_attention %q, %kv[0], %w, %seq scale 0.125 site "attn" : tensor<1x2x128xbf16>, !kv, tensor<320x128xbf16, #fp8b> -> tensor<1x2x64xbf16>
  dsv3.return %y : tensor<1x2x64xbf16>
}
