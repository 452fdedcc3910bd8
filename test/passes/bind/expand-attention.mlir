// Attention in the form of a device: one plan per program, a split and a combine per layer; keys by row.
// RUN: dsv3-opt %s --dsv3-expand-attention=target=test-gpu | FileCheck %s
// RUN: dsv3-opt %s --dsv3-expand-attention="target=test-gpu even" | FileCheck %s --check-prefix=EVEN
// RUN: dsv3-opt %s --dsv3-expand-attention=target=x86-64 | FileCheck %s --check-prefix=CPU

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>

// CPU-NOT: kernel.attn_plan
// CPU-NOT: key_rows
module attributes {dsv3.capacities = {tokens = 32 : i64, seqs = 2 : i64, pages = 64 : i64, qblocks = 4 : i64, kblocks = 18 : i64, max_model_len = 4096 : i64}} {

// 130 heads are three tiles of 64, so four multiprocessors have room for one partition. A sequence of 64 pages is cut every
// 16, so two sequences have eight slots at most; the list has room for 16 items a sequence.
// CHECK-LABEL: dsv3.program @decode_b2
// CHECK: %[[I0:.*]] = kernel.empty : tensor<32x5xi32>
// CHECK: %[[P0:.*]] = kernel.empty : tensor<2xi32>
// CHECK: %[[S0:.*]] = kernel.empty : tensor<3xi32>
// CHECK: %[[I:.*]], %[[P:.*]], %[[S:.*]] = kernel.attn_plan ins(%[[SEQ:.*]]) outs(%[[I0]], %[[P0]], %[[S0]] : {{.*}}) split <max = 16, pages = 16> site "attn_plan"
// CHECK: %[[PART:.*]] = kernel.empty : tensor<8x130x128xf32>
// CHECK: %[[LSE:.*]] = kernel.empty : tensor<8x130xf32>
// CHECK: %[[R:.*]], %[[PR:.*]], %[[LR:.*]] = kernel.attn_split ins(%{{.*}}, %{{.*}}, %{{.*}}[0], %[[SEQ]], %[[I]], %[[P]] : {{.*}}) outs(%[[OUT:.*]], %[[PART]], %[[LSE]] : {{.*}}) scale 0.125 site "l0.attn"
// CHECK: %[[C:.*]] = kernel.attn_combine ins(%[[PR]], %[[LR]], %[[S]], %[[SEQ]] : {{.*}}) outs(%[[R]] : tensor<2x130x128xbf16>) site "l0.attn_combine"
// CHECK-NOT: kernel.attn_plan
// CHECK: kernel.attn_split ins({{.*}}[1], %[[SEQ]], %[[I]], %[[P]] : {{.*}} site "l1.attn"
// CHECK: kernel.attn_combine {{.*}} site "l1.attn_combine"
// Even: one partition makes no cut, with two sequences at most two slots.
// EVEN: kernel.attn_plan {{.*}} outs({{.*}} : tensor<3x5xi32>, tensor<2xi32>, tensor<3xi32>) split <max = 0, pages = 4>
// EVEN: kernel.empty : tensor<2x130x128xf32>
dsv3.program @decode_b2(%ql: tensor<2x130x128xbf16>, %qr: tensor<2x130x64xbf16>, %seq: !dsv3.seq, %kv: !kv) -> (tensor<2x130x128xbf16>, tensor<2x130x128xbf16>) attributes {phase = "decode", tokens = 2 : i64, seqs = 2 : i64} {
  %o0 = kernel.empty : tensor<2x130x128xbf16>
  %a = kernel.attn_decode ins(%ql, %qr, %kv[0], %seq : tensor<2x130x128xbf16>, tensor<2x130x64xbf16>, !kv) outs(%o0 : tensor<2x130x128xbf16>) scale 0.125 site "l0.attn"
  %o1 = kernel.empty : tensor<2x130x128xbf16>
  %b = kernel.attn_decode ins(%a, %qr, %kv[1], %seq : tensor<2x130x128xbf16>, tensor<2x130x64xbf16>, !kv) outs(%o1 : tensor<2x130x128xbf16>) scale 0.125 site "l1.attn"
  dsv3.return %a, %b : tensor<2x130x128xbf16>, tensor<2x130x128xbf16>
}

// 64 heads or fewer have smaller partial results: pieces of 8 pages.
// CHECK-LABEL: dsv3.program @one_tile
// CHECK: kernel.attn_plan {{.*}} outs({{.*}} : tensor<32x5xi32>, tensor<5xi32>, tensor<2xi32>) split <max = 32, pages = 8>
// CHECK: kernel.empty : tensor<8x64x128xf32>
dsv3.program @one_tile(%ql: tensor<1x64x128xbf16>, %qr: tensor<1x64x64xbf16>, %seq: !dsv3.seq, %kv: !kv) -> tensor<1x64x128xbf16> attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  %o = kernel.empty : tensor<1x64x128xbf16>
  %a = kernel.attn_decode ins(%ql, %qr, %kv[0], %seq : tensor<1x64x128xbf16>, tensor<1x64x64xbf16>, !kv) outs(%o : tensor<1x64x128xbf16>) scale 0.125 site "l0.attn"
  dsv3.return %a : tensor<1x64x128xbf16>
}

// CHECK-LABEL: dsv3.program @prefill_t32
// CHECK-NOT: tensor<18x2x192x64xbf16>
// CHECK: %[[K0:.*]] = kernel.empty : tensor<18x2x64x192xbf16>
// CHECK: %[[K:.*]], %[[V:.*]] = kernel.kv_expand {{.*}} outs(%[[K0]], %{{.*}} : tensor<18x2x64x192xbf16>, tensor<18x2x64x32xbf16>) key_rows site "l0.kv_expand"
// CHECK: kernel.attn_prefill ins(%{{.*}}, %[[K]], %[[V]], {{.*}} key_rows site "l0.attn"
dsv3.program @prefill_t32(%q: tensor<32x2x192xbf16>, %wk: tensor<2x128x128xbf16>, %wv: tensor<2x32x128xbf16>, %seq: !dsv3.seq, %kv: !kv) -> tensor<32x2x32xbf16> attributes {phase = "prefill", tokens = 32 : i64, seqs = 2 : i64} {
  %k0 = kernel.empty : tensor<18x2x192x64xbf16>
  %v0 = kernel.empty : tensor<18x2x64x32xbf16>
  %k, %v = kernel.kv_expand ins(%kv[0], %wk, %wv, %seq : !kv, tensor<2x128x128xbf16>, tensor<2x32x128xbf16>) outs(%k0, %v0 : tensor<18x2x192x64xbf16>, tensor<18x2x64x32xbf16>) site "l0.kv_expand" -> tensor<18x2x192x64xbf16>, tensor<18x2x64x32xbf16>
  %o = kernel.empty : tensor<32x2x32xbf16>
  %r = kernel.attn_prefill ins(%q, %k, %v, %seq : tensor<32x2x192xbf16>, tensor<18x2x192x64xbf16>, tensor<18x2x64x32xbf16>) outs(%o : tensor<32x2x32xbf16>) scale 0.125 site "l0.attn"
  dsv3.return %r : tensor<32x2x32xbf16>
}
}
