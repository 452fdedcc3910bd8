// Where the cache's latent is stored as codes, decode multiplies codes: the query becomes codes too. Prefill gets its rows as numbers.
// RUN: dsv3-opt %s --dsv3-expand-attention=target=test-gpu | FileCheck %s
// RUN: dsv3-opt %s --dsv3-expand-attention=target=x86-64 | FileCheck %s --check-prefix=CPU

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16, stored #dsv3.blocked<f8E5M2, 1x?, f32>>

// CPU-NOT: kernel.quantize
// CPU-NOT: kernel.kv_rows
module attributes {dsv3.capacities = {tokens = 32 : i64, seqs = 2 : i64, pages = 64 : i64, qblocks = 4 : i64, kblocks = 18 : i64, max_model_len = 4096 : i64}} {

// CHECK-DAG: #[[CODES:.*]] = #dsv3.blocked<f8E4M3FN, 1x?, f32>
// CHECK-LABEL: dsv3.program @decode_b2
// CHECK: %[[Q:.*]] = kernel.quantize ins(%{{.*}} : tensor<2x16x128xbf16>) outs(%{{.*}} : tensor<2x16x128xbf16, #[[CODES]]>) site "l0.q_quant"
// CHECK: kernel.attn_split ins(%[[Q]], {{.*}} : tensor<2x16x128xbf16, #[[CODES]]>, {{.*}} site "l0.attn"
dsv3.program @decode_b2(%ql: tensor<2x16x128xbf16>, %qr: tensor<2x16x64xbf16>, %seq: !dsv3.seq, %kv: !kv) -> tensor<2x16x128xbf16> attributes {phase = "decode", tokens = 2 : i64, seqs = 2 : i64} {
  %o0 = kernel.empty : tensor<2x16x128xbf16>
  %a = kernel.attn_decode ins(%ql, %qr, %kv[0], %seq : tensor<2x16x128xbf16>, tensor<2x16x64xbf16>, !kv) outs(%o0 : tensor<2x16x128xbf16>) scale 0.125 site "l0.attn"
  dsv3.return %a : tensor<2x16x128xbf16>
}

// CHECK-LABEL: dsv3.program @prefill_t32
// CHECK: %[[R:.*]] = kernel.kv_rows ins(%{{.*}}[0], %{{.*}} : {{.*}}) outs(%{{.*}} : tensor<18x64x192xbf16>) site "l0.kv_rows"
// CHECK: kernel.kv_expand ins({{.*}}) rows(%[[R]] : tensor<18x64x192xbf16>) outs({{.*}} key_rows site "l0.kv_expand"
dsv3.program @prefill_t32(%q: tensor<32x2x192xbf16>, %wk: tensor<2x128x128xbf16>, %wv: tensor<2x32x128xbf16>, %seq: !dsv3.seq, %kv: !kv) -> tensor<32x2x32xbf16> attributes {phase = "prefill", tokens = 32 : i64, seqs = 2 : i64} {
  %k0 = kernel.empty : tensor<18x2x192x64xbf16>
  %v0 = kernel.empty : tensor<18x2x64x32xbf16>
  %k, %v = kernel.kv_expand ins(%kv[0], %wk, %wv, %seq : !kv, tensor<2x128x128xbf16>, tensor<2x32x128xbf16>) outs(%k0, %v0 : tensor<18x2x192x64xbf16>, tensor<18x2x64x32xbf16>) site "l0.kv_expand" -> tensor<18x2x192x64xbf16>, tensor<18x2x64x32xbf16>
  %o = kernel.empty : tensor<32x2x32xbf16>
  %r = kernel.attn_prefill ins(%q, %k, %v, %seq : tensor<32x2x192xbf16>, tensor<18x2x192x64xbf16>, tensor<18x2x64x32xbf16>) outs(%o : tensor<32x2x32xbf16>) scale 0.125 site "l0.attn"
  dsv3.return %r : tensor<32x2x32xbf16>
}
}
