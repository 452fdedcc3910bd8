// Every op, type and attribute survives printing and parsing, in its own form and in the generic one.
// RUN: dsv3-opt %s | dsv3-opt | FileCheck %s
// RUN: dsv3-opt %s --mlir-print-op-generic | dsv3-opt | FileCheck %s

// Schemes, rotary parameters and the cache type are printed as aliases before the module.
// CHECK-DAG: = #dsv3.blocked<f8E4M3FN, 128x128, f32>
// CHECK-DAG: = #dsv3.blocked<i8, 1x?, f32>
// CHECK-DAG: = #dsv3.blocked<i4, 1x128, bf16>
// CHECK-DAG: = #dsv3.blocked<f8E5M2, 128x128, f32, pow2_scale>
// CHECK-DAG: = #dsv3.blocked<i4, 1x128, f16, zero i8>
// CHECK-DAG: = #dsv3.blocked<i4, 1x128, f16, zero i8, indexed>
// CHECK-DAG: = #dsv3.rope<dims = 64, theta = 10000.0, interleaved = true, factor = 40.0, original = 4096, betaFast = 32.0, betaSlow = 1.0, scale = 1.25>
// CHECK-DAG: = #dsv3.rope<dims = 32, theta = 1.0e+17, interleaved = false>
// CHECK-DAG: !kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>

#fp8b = #dsv3.blocked<f8E4M3FN, 128x128, f32>
#yarn = #dsv3.rope<dims = 64, theta = 10000.0, interleaved = true, factor = 40.0, original = 4096, betaFast = 32.0, betaSlow = 1.0, scale = 1.25>
!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>

//===-- Weights: each source, each scheme ---------------------------------===//

// CHECK: dsv3.weight @plain : tensor<512x256xbf16> from #dsv3.file<"a.weight">
dsv3.weight @plain : tensor<512x256xbf16> from #dsv3.file<"a.weight">
// CHECK: dsv3.weight @fp8 : tensor<512x256xbf16, #{{.*}}> from #dsv3.file<"b.weight", scale "b.weight_scale_inv">
dsv3.weight @fp8 : tensor<512x256xbf16, #fp8b> from #dsv3.file<"b.weight", scale "b.weight_scale_inv">
// CHECK: dsv3.weight @experts : tensor<4x256x256xbf16, #{{.*}}> from #dsv3.stack<0 to 4, #dsv3.file<"e.{}.weight", scale "e.{}.scale">>
dsv3.weight @experts : tensor<4x256x256xbf16, #fp8b> from #dsv3.stack<0 to 4, #dsv3.file<"e.{}.weight", scale "e.{}.scale">>
// CHECK: dsv3.weight @joined : tensor<1024x256xbf16, #{{.*}}> from #dsv3.concat<0, [#dsv3.ref<@fp8>, #dsv3.ref<@fp8>]>
dsv3.weight @joined : tensor<1024x256xbf16, #fp8b> from #dsv3.concat<0, [#dsv3.ref<@fp8>, #dsv3.ref<@fp8>]>
// CHECK: dsv3.weight @half : tensor<2x256x128xbf16, #{{.*}}> from #dsv3.transpose<#dsv3.slice<1, 128, 128, #dsv3.reshape<[2, 256, 256], #dsv3.ref<@fp8>>>>
dsv3.weight @half : tensor<2x256x128xbf16, #fp8b> from #dsv3.transpose<#dsv3.slice<1, 128, 128, #dsv3.reshape<[2, 256, 256], #dsv3.ref<@fp8>>>>
// CHECK: dsv3.weight @drawn : tensor<256xbf16> from #dsv3.dummy<"norm", std 0.5>
dsv3.weight @drawn : tensor<256xbf16> from #dsv3.dummy<"norm", std 0.5>
// CHECK: dsv3.weight @drawn_default : tensor<256xbf16> from #dsv3.dummy<"norm">
dsv3.weight @drawn_default : tensor<256xbf16> from #dsv3.dummy<"norm", std 0.02>
// CHECK: dsv3.weight @table : tensor<4096x64xf32> from #dsv3.rope_table<#{{.*}}, 4096>
dsv3.weight @table : tensor<4096x64xf32> from #dsv3.rope_table<#yarn, 4096>
// CHECK: dsv3.ignored "model.layers.0.rotary_emb.inv_freq" reason "rotary_inv_freq"
dsv3.ignored "model.layers.0.rotary_emb.inv_freq" reason "rotary_inv_freq"

// CHECK: dsv3.weight @plain_table : tensor<16x32xf32> from #dsv3.rope_table<#{{.*}}, 16>
dsv3.weight @plain_table : tensor<16x32xf32> from #dsv3.rope_table<#dsv3.rope<dims = 32, theta = 1.0e17, interleaved = false>, 16>
// CHECK: dsv3.weight @channel : tensor<256x256xbf16, #i8b> from
dsv3.weight @channel : tensor<256x256xbf16, #dsv3.blocked<i8, 1x?, f32>> from #dsv3.file<"c.weight", scale "c.scale">
// CHECK: dsv3.weight @group : tensor<256x256xbf16, #i4b{{[0-9]*}}> from
dsv3.weight @group : tensor<256x256xbf16, #dsv3.blocked<i4, 1x128, bf16>> from #dsv3.file<"g.weight", scale "g.scale">
// CHECK: dsv3.weight @pow2 : tensor<256x256xbf16, #f8E5M2b> from
dsv3.weight @pow2 : tensor<256x256xbf16, #dsv3.blocked<f8E5M2, 128x128, f32, pow2_scale>> from #dsv3.file<"p.weight", scale "p.scale">
// CHECK: dsv3.weight @awq : tensor<256x256xbf16, #i4b{{[0-9]*}}> from #dsv3.file<"w.qweight", scale "w.scales", zero "w.qzeros", packed awq>
dsv3.weight @awq : tensor<256x256xbf16, #dsv3.blocked<i4, 1x128, f16, zero i8>> from #dsv3.file<"w.qweight", scale "w.scales", zero "w.qzeros", packed awq>
// CHECK: dsv3.weight @gptq : tensor<256x256xbf16, #i4b{{[0-9]*}}> from #dsv3.file<"x.qweight", scale "x.scales", zero "x.qzeros", index "x.g_idx", packed gptq>
dsv3.weight @gptq : tensor<256x256xbf16, #dsv3.blocked<i4, 1x128, f16, zero i8, indexed>> from #dsv3.file<"x.qweight", scale "x.scales", zero "x.qzeros", index "x.g_idx", packed gptq>

//===-- Programs ----------------------------------------------------------===//

// CHECK-LABEL: dsv3.program @dense(%arg0: tensor<?xi32> {dsv3.name = "ids"}, %arg1: !dsv3.seq) -> (tensor<?x512xf32> {dsv3.name = "logits"})
dsv3.program @dense(%ids: tensor<?xi32> {dsv3.name = "ids"}, %seq: !dsv3.seq) -> (tensor<?x512xf32> {dsv3.name = "logits"}) {
  // CHECK: %[[TABLE:.*]] = dsv3.use @plain : tensor<512x256xbf16>
  %table = dsv3.use @plain : tensor<512x256xbf16>
  %gamma = dsv3.use @drawn : tensor<256xbf16>
  %w = dsv3.use @fp8 : tensor<512x256xbf16, #fp8b>
  // CHECK: %[[X:.*]] = dsv3.embed %arg0, %[[TABLE]] site "embed" : tensor<?xi32>, tensor<512x256xbf16> -> tensor<?x256xbf16>
  %x = dsv3.embed %ids, %table site "embed" : tensor<?xi32>, tensor<512x256xbf16> -> tensor<?x256xbf16>
  // CHECK: %[[N:.*]] = dsv3.rms_norm %[[X]], %{{.*}} eps 1.0e-06 site "n" : tensor<?x256xbf16>, tensor<256xbf16> -> tensor<?x256xbf16>
  %n = dsv3.rms_norm %x, %gamma eps 1.0e-06 site "n" : tensor<?x256xbf16>, tensor<256xbf16> -> tensor<?x256xbf16>
  // CHECK: %[[SUM:.*]], %[[Y:.*]] = dsv3.rms_norm %[[X]], %{{.*}} residual(%[[N]] : tensor<?x256xbf16>) eps 0.0001 site "m" : tensor<?x256xbf16>, tensor<256xbf16> -> sum(tensor<?x256xf32>) tensor<?x256xbf16>
  %sum, %y = dsv3.rms_norm %x, %gamma residual(%n : tensor<?x256xbf16>) eps 1.0e-4 site "m" : tensor<?x256xbf16>, tensor<256xbf16> -> sum(tensor<?x256xf32>) tensor<?x256xbf16>
  // CHECK: dsv3.linear %[[Y]], %{{.*}} site "heads" : tensor<?x256xbf16>, tensor<512x256xbf16, #{{.*}}> -> tensor<?x4x128xbf16>
  %heads = dsv3.linear %y, %w site "heads" : tensor<?x256xbf16>, tensor<512x256xbf16, #fp8b> -> tensor<?x4x128xbf16>
  // CHECK: dsv3.gated_linear %[[Y]], %{{.*}}, %{{.*}} via f32 site "gated" : tensor<?x256xbf16>, tensor<512x256xbf16, #{{.*}}>, tensor<512x256xbf16, #{{.*}}> -> tensor<?x512xbf16>
  %gated = dsv3.gated_linear %y, %w, %w via f32 site "gated" : tensor<?x256xbf16>, tensor<512x256xbf16, #fp8b>, tensor<512x256xbf16, #fp8b> -> tensor<?x512xbf16>
  // CHECK: dsv3.swiglu %[[X]], %[[Y]] site "act" : tensor<?x256xbf16>, tensor<?x256xbf16> -> tensor<?x256xbf16>
  %act = dsv3.swiglu %x, %y site "act" : tensor<?x256xbf16>, tensor<?x256xbf16> -> tensor<?x256xbf16>
  // CHECK: dsv3.add %[[X]], %[[Y]] site "add" : tensor<?x256xbf16>, tensor<?x256xbf16> -> tensor<?x256xbf16>
  %add = dsv3.add %x, %y site "add" : tensor<?x256xbf16>, tensor<?x256xbf16> -> tensor<?x256xbf16>
  // CHECK: %[[PARTS:.*]]:2 = dsv3.split %{{.*}} : tensor<?x256xbf16> -> tensor<?x192xbf16>, tensor<?x64xbf16>
  %a, %b = dsv3.split %add : tensor<?x256xbf16> -> tensor<?x192xbf16>, tensor<?x64xbf16>
  // CHECK: dsv3.concat %[[PARTS]]#1, %[[PARTS]]#0 site "cat" : tensor<?x64xbf16>, tensor<?x192xbf16> -> tensor<?x256xbf16>
  %cat = dsv3.concat %b, %a site "cat" : tensor<?x64xbf16>, tensor<?x192xbf16> -> tensor<?x256xbf16>
  // CHECK: dsv3.select_rows %{{.*}}, %arg1 site "select" : tensor<?x256xbf16> -> tensor<?x256xbf16>
  %rows = dsv3.select_rows %cat, %seq site "select" : tensor<?x256xbf16> -> tensor<?x256xbf16>
  // CHECK: dsv3.tap "rows", %{{.*}} : tensor<?x256xbf16>
  dsv3.tap "rows", %rows : tensor<?x256xbf16>
  %logits = dsv3.linear %rows, %table site "logits" : tensor<?x256xbf16>, tensor<512x256xbf16> -> tensor<?x512xf32>
  // CHECK: dsv3.return %{{.*}} : tensor<?x512xf32>
  dsv3.return %logits : tensor<?x512xf32>
}

// CHECK-LABEL: dsv3.program @attention
// CHECK-SAME: attributes {phase = "decode", seqs = 8 : i64, tokens = 8 : i64}
dsv3.program @attention(%q: tensor<8x2x192xbf16>, %c: tensor<8x128xbf16>, %r: tensor<8x64xbf16>, %w: tensor<512x128xbf16>,
                        %wk: tensor<2x128x128xbf16>, %seq: !dsv3.seq, %kv0: !kv) -> !kv
    attributes {phase = "decode", seqs = 8, tokens = 8} {
  // CHECK: dsv3.rope %arg0, %arg5 at 128 #{{.*}} site "rope" : tensor<8x2x192xbf16> -> tensor<8x2x192xbf16>
  %t = dsv3.rope %q, %seq at 128 #yarn site "rope" : tensor<8x2x192xbf16> -> tensor<8x2x192xbf16>
  // CHECK: %[[KV:.*]] = dsv3.kv_append %arg6[1] latent(%arg1) rope(%arg2), %arg5 site "append" : tensor<8x128xbf16>, tensor<8x64xbf16>, !kv
  %kv = dsv3.kv_append %kv0[1] latent(%c) rope(%r), %seq site "append" : tensor<8x128xbf16>, tensor<8x64xbf16>, !kv
  // CHECK: dsv3.mla_attention %{{.*}}, %[[KV]][1], %arg3, %arg5 scale 0.072168784 site "attn" : tensor<8x2x192xbf16>, !kv, tensor<512x128xbf16> -> tensor<8x2x128xbf16>
  %y = dsv3.mla_attention %t, %kv[1], %w, %seq scale 0.072168784 site "attn" : tensor<8x2x192xbf16>, !kv, tensor<512x128xbf16> -> tensor<8x2x128xbf16>
  %qn, %qr = dsv3.split %t : tensor<8x2x192xbf16> -> tensor<8x2x128xbf16>, tensor<8x2x64xbf16>
  // CHECK: dsv3.batched_linear %{{.*}}, %arg4 site "absorb_q" : tensor<8x2x128xbf16>, tensor<2x128x128xbf16> -> tensor<8x2x128xbf16>
  %ql = dsv3.batched_linear %qn, %wk site "absorb_q" : tensor<8x2x128xbf16>, tensor<2x128x128xbf16> -> tensor<8x2x128xbf16>
  // CHECK: dsv3.latent_attention %{{.*}}, %{{.*}}, %[[KV]][1], %arg5 scale 1.0e-05 site "latent" : tensor<8x2x128xbf16>, tensor<8x2x64xbf16>, !kv -> tensor<8x2x128xbf16>
  %o = dsv3.latent_attention %ql, %qr, %kv[1], %seq scale 1.0e-5 site "latent" : tensor<8x2x128xbf16>, tensor<8x2x64xbf16>, !kv -> tensor<8x2x128xbf16>
  dsv3.return %kv : !kv
}

// CHECK-LABEL: dsv3.program @experts_of
dsv3.program @experts_of(%x: tensor<?x256xbf16>, %lg: tensor<?x8xf32>, %bias: tensor<8xf32>, %up: tensor<8x128x256xbf16>,
                         %down: tensor<8x256x128xbf16>) {
  // CHECK: %[[IDS:.*]], %[[WT:.*]] = dsv3.route %arg1, %arg2 groups 4 keep 2 top 3 norm true scale 2.5 site "route" : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x3xi32>, tensor<?x3xf32>
  %ids, %wt = dsv3.route %lg, %bias groups 4 keep 2 top 3 norm true scale 2.5 site "route" : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x3xi32>, tensor<?x3xf32>
  // CHECK: %[[ROWS:.*]], %[[OFF:.*]], %[[OF:.*]] = dsv3.dispatch %arg0, %[[IDS]] experts 8 site "dispatch" : tensor<?x256xbf16>, tensor<?x3xi32> -> tensor<?x256xbf16>, tensor<9xi32>, tensor<?x3xi32>
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 8 site "dispatch" : tensor<?x256xbf16>, tensor<?x3xi32> -> tensor<?x256xbf16>, tensor<9xi32>, tensor<?x3xi32>
  // CHECK: dsv3.grouped_linear %[[ROWS]], %arg3, %[[OFF]] site "up" : tensor<?x256xbf16>, tensor<8x128x256xbf16>, tensor<9xi32> -> tensor<?x128xf32>
  %u = dsv3.grouped_linear %rows, %up, %off site "up" : tensor<?x256xbf16>, tensor<8x128x256xbf16>, tensor<9xi32> -> tensor<?x128xf32>
  // CHECK: dsv3.combine %[[ROWS]], %[[OF]], %[[WT]] site "combine" : tensor<?x256xbf16>, tensor<?x3xi32>, tensor<?x3xf32> -> tensor<?x256xbf16>
  %m = dsv3.combine %rows, %of, %wt site "combine" : tensor<?x256xbf16>, tensor<?x3xi32>, tensor<?x3xf32> -> tensor<?x256xbf16>
  // CHECK: dsv3.combine %[[ROWS]], %[[OF]], %[[WT]] plus(%arg0 : tensor<?x256xbf16>) site "combine_plus"
  %p = dsv3.combine %rows, %of, %wt plus(%x : tensor<?x256xbf16>) site "combine_plus" : tensor<?x256xbf16>, tensor<?x3xi32>, tensor<?x3xf32> -> tensor<?x256xbf16>
  // CHECK: dsv3.routed_experts %arg0, %arg1, %arg2, %arg3, %arg3, %arg4 groups 4 keep 2 top 3 norm false scale 1.0 via(gate_up : f32, act : bf16, down : bf16) site "moe"
  // CHECK-SAME: -> tensor<?x256xbf16>{{$}}
  %y = dsv3.routed_experts %x, %lg, %bias, %up, %up, %down groups 4 keep 2 top 3 norm false scale 1.0 via(gate_up : f32, act : bf16, down : bf16) site "moe"
    : tensor<?x256xbf16>, tensor<?x8xf32>, tensor<8xf32>, tensor<8x128x256xbf16>, tensor<8x128x256xbf16>, tensor<8x256x128xbf16> -> tensor<?x256xbf16>
  // CHECK: dsv3.routed_experts %arg0, {{.*}} plus(%arg0 : tensor<?x256xbf16>) groups 4
  // CHECK-SAME: -> tensor<?x256xbf16> ids(tensor<?x3xi32>) weights(tensor<?x3xf32>)
  %z, %i, %w = dsv3.routed_experts %x, %lg, %bias, %up, %up, %down plus(%x : tensor<?x256xbf16>) groups 4 keep 2 top 3 norm true scale 2.5 via(gate_up : f32, act : bf16, down : bf16) site "moe_ids"
    : tensor<?x256xbf16>, tensor<?x8xf32>, tensor<8xf32>, tensor<8x128x256xbf16>, tensor<8x128x256xbf16>, tensor<8x256x128xbf16> -> tensor<?x256xbf16> ids(tensor<?x3xi32>) weights(tensor<?x3xf32>)
  dsv3.return
}

// Values quantised at run time, and experts whose activation is.
// CHECK-LABEL: dsv3.program @quantised
dsv3.program @quantised(%x: tensor<?x256xbf16>, %lg: tensor<?x8xf32>, %bias: tensor<8xf32>, %up: tensor<8x128x256xbf16>, %down: tensor<8x256x128xbf16>) {
  // CHECK: %[[Q:.*]] = dsv3.quantize %arg0 site "q" : tensor<?x256xbf16> -> tensor<?x256xbf16, #{{.*}}>
  %q = dsv3.quantize %x site "q" : tensor<?x256xbf16> -> tensor<?x256xbf16, #dsv3.blocked<f8E4M3FN, 1x128, f32>>
  // CHECK: dsv3.routed_experts %[[Q]], {{.*}} via(gate_up : f32, act : bf16 quantized(#{{.*}}), down : bf16) site "moe_q"
  %y = dsv3.routed_experts %q, %lg, %bias, %up, %up, %down groups 4 keep 2 top 3 norm true scale 2.5 via(gate_up : f32, act : bf16 quantized(#dsv3.blocked<f8E4M3FN, 1x128, f32>), down : bf16) site "moe_q"
    : tensor<?x256xbf16, #dsv3.blocked<f8E4M3FN, 1x128, f32>>, tensor<?x8xf32>, tensor<8xf32>, tensor<8x128x256xbf16>, tensor<8x128x256xbf16>, tensor<8x256x128xbf16> -> tensor<?x256xbf16>
  dsv3.return
}
