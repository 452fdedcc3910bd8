// Every dsv3 op as launches in destination-passing style, one op a program; then a whole model.
// RUN: dsv3-opt %s --dsv3-lower-to-kernel | FileCheck %s
// RUN: dsv3-opt %inputs/model.mlir --dsv3-stage-specialize="max-batch=2 prefill-chunk=16 max-model-len=128" --dsv3-stage-fuse --dsv3-lower-to-kernel | FileCheck %s --check-prefix=MODEL
// RUN: dsv3-opt %inputs/model.mlir --dsv3-stage-specialize="max-batch=2 prefill-chunk=16 max-model-len=128 taps=l0.(kv_a|kv_a_norm|q_b)|l1.route.*" --dsv3-stage-fuse --dsv3-lower-to-kernel | FileCheck %s --check-prefix=TAPPED

#fp8b = #dsv3.blocked<f8E4M3FN, 128x128, f32>
#rope = #dsv3.rope<dims = 64, theta = 10000.0, interleaved = true>
#halves = #dsv3.rope<dims = 64, theta = 10000.0, interleaved = false>
!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>

module attributes {dsv3.capacities = {kblocks = 6 : i64, max_model_len = 256 : i64, pages = 4 : i64, qblocks = 3 : i64, seqs = 2 : i64, tokens = 16 : i64}} {

// The value half is there already (absorb-mla made it) and is reused; the key half is new.
// CHECK: dsv3.weight @l0.kv_b : tensor<448x128xbf16, #[[FP8:.*]]> from
// CHECK-NEXT: dsv3.weight @l0.kv_b.kn : tensor<2x128x128xbf16> from #dsv3.slice<1, 0, 128, #dsv3.reshape<[2, 224, 128], #dsv3.ref<@l0.kv_b>>>
// CHECK-NEXT: dsv3.weight @l0.kv_b.v : tensor<2x96x128xbf16> from #dsv3.slice<1, 128, 96, #dsv3.reshape<[2, 224, 128], #dsv3.ref<@l0.kv_b>>>
dsv3.weight @l0.kv_b : tensor<448x128xbf16, #fp8b> from #dsv3.file<"kv_b.weight", scale "kv_b.scale">
dsv3.weight @l0.kv_b.v : tensor<2x96x128xbf16> from #dsv3.slice<1, 128, 96, #dsv3.reshape<[2, 224, 128], #dsv3.ref<@l0.kv_b>>>
dsv3.weight @gamma : tensor<128xbf16> from #dsv3.file<"gamma">
// One table for each rotary embedding.
// CHECK: dsv3.weight @rope_table : tensor<256x64xf32> from #dsv3.rope_table<#[[ROPE:rope[0-9]*]], 256>
// CHECK: dsv3.weight @rope_table_0 : tensor<256x64xf32> from #dsv3.rope_table<#[[HALVES:rope[0-9]*]], 256>
// CHECK-NOT: dsv3.weight

// CHECK-LABEL: dsv3.program @dense
dsv3.program @dense(%ids: tensor<16xi32>, %t: tensor<512x256xbf16>, %g: tensor<256xbf16>, %w: tensor<512x256xbf16>, %wh: tensor<4x64x128xbf16>, %seq: !dsv3.seq) -> (tensor<2x256xbf16>, tensor<16x512xbf16>) {
  // CHECK-NEXT: %[[D0:.*]] = kernel.empty : tensor<16x256xbf16>
  // CHECK-NEXT: %[[X:.*]] = kernel.embed ins(%arg0, %arg1 : {{.*}}) outs(%[[D0]] : tensor<16x256xbf16>) site "embed"
  %x = dsv3.embed %ids, %t site "embed" : tensor<16xi32>, tensor<512x256xbf16> -> tensor<16x256xbf16>
  // CHECK: %[[N:.*]] = kernel.norm ins(%[[X]], %arg2 : {{.*}} eps 1.0e-06 site "norm"
  %n = dsv3.rms_norm %x, %g eps 1.0e-06 site "norm" : tensor<16x256xbf16>, tensor<256xbf16> -> tensor<16x256xbf16>
  // CHECK: %[[S0:.*]] = kernel.empty : tensor<16x256xf32>
  // CHECK: %[[D1:.*]] = kernel.empty : tensor<16x256xbf16>
  // CHECK: %[[S:.*]], %[[M:.*]] = kernel.add_norm ins(%[[N]], %[[X]], %arg2 : {{.*}}) outs(%[[S0]], %[[D1]] : tensor<16x256xf32>, tensor<16x256xbf16>) eps 1.0e-06 site "add_norm"
  %s, %m = dsv3.rms_norm %n, %g residual(%x : tensor<16x256xbf16>) eps 1.0e-06 site "add_norm" : tensor<16x256xbf16>, tensor<256xbf16> -> sum(tensor<16x256xf32>) tensor<16x256xbf16>
  // CHECK: %[[L:.*]] = kernel.gemm ins(%[[M]], %arg3 : {{.*}}) outs(%{{.*}} : tensor<16x4x128xbf16>) site "linear"
  %l = dsv3.linear %m, %w site "linear" : tensor<16x256xbf16>, tensor<512x256xbf16> -> tensor<16x4x128xbf16>
  // CHECK: kernel.batched_gemm ins(%[[L]], %arg4 : {{.*}}) outs(%{{.*}} : tensor<16x4x64xbf16>) site "batched"
  %b = dsv3.batched_linear %l, %wh site "batched" : tensor<16x4x128xbf16>, tensor<4x64x128xbf16> -> tensor<16x4x64xbf16>
  // CHECK: %[[G:.*]] = kernel.gated_gemm ins(%[[M]], %arg3, %arg3 : {{.*}}) outs(%{{.*}} : tensor<16x512xbf16>) via f32 site "gated"
  %gl = dsv3.gated_linear %m, %w, %w via f32 site "gated" : tensor<16x256xbf16>, tensor<512x256xbf16>, tensor<512x256xbf16> -> tensor<16x512xbf16>
  // CHECK: %[[ACT:.*]] = kernel.swiglu ins(%[[G]], %[[G]] : {{.*}} site "act"
  %act = dsv3.swiglu %gl, %gl site "act" : tensor<16x512xbf16>, tensor<16x512xbf16> -> tensor<16x512xbf16>
  // CHECK: kernel.add ins(%[[X]], %[[M]] : {{.*}} site "add"
  %a = dsv3.add %x, %m site "add" : tensor<16x256xbf16>, tensor<16x256xbf16> -> tensor<16x256xbf16>
  // CHECK: %[[R:.*]] = kernel.select_rows ins(%{{.*}}, %arg5 : tensor<16x256xbf16>) outs(%{{.*}} : tensor<2x256xbf16>) site "select"
  %r = dsv3.select_rows %a, %seq site "select" : tensor<16x256xbf16> -> tensor<2x256xbf16>
  // CHECK: %[[C:.*]] = kernel.concat ins(%[[X]], %[[M]] : {{.*}}) outs(%{{.*}} : tensor<16x512xbf16>) site "concat"
  %c = dsv3.concat %x, %m site "concat" : tensor<16x256xbf16>, tensor<16x256xbf16> -> tensor<16x512xbf16>
  // CHECK: kernel.tap "act", %[[ACT]] : tensor<16x512xbf16>
  dsv3.tap "act", %act : tensor<16x512xbf16>
  // CHECK: dsv3.return %[[R]], %[[C]]
  dsv3.return %r, %c : tensor<2x256xbf16>, tensor<16x512xbf16>
}

// Only parts that are read become views; a view of a view is one view; the whole is no view.
// CHECK-LABEL: dsv3.program @views
dsv3.program @views(%x: tensor<4x96xbf16>, %w: tensor<8x16xbf16>) -> tensor<4x8xbf16> {
  // CHECK-NEXT: %[[V:.*]] = kernel.view %arg0 at 80 : tensor<4x96xbf16> -> tensor<4x16xbf16>
  // CHECK-NOT: kernel.view
  // CHECK: kernel.gemm ins(%[[V]], %arg1
  %a, %b = dsv3.split %x : tensor<4x96xbf16> -> tensor<4x64xbf16>, tensor<4x32xbf16>
  %all = dsv3.split %b : tensor<4x32xbf16> -> tensor<4x32xbf16>
  %c, %d = dsv3.split %all : tensor<4x32xbf16> -> tensor<4x16xbf16>, tensor<4x16xbf16>
  %y = dsv3.linear %d, %w site "y" : tensor<4x16xbf16>, tensor<8x16xbf16> -> tensor<4x8xbf16>
  dsv3.return %y : tensor<4x8xbf16>
}

// A rotation overwrites x when a launch wrote x and only taps read it, before.
// CHECK-LABEL: dsv3.program @rope_in_place
dsv3.program @rope_in_place(%x: tensor<4x256xbf16>, %w: tensor<384x256xbf16>, %seq: !dsv3.seq) -> tensor<4x2x192xbf16> {
  // CHECK: %[[T:.*]] = dsv3.use @rope_table : tensor<256x64xf32>
  // CHECK: %[[Q:.*]] = kernel.gemm
  %q = dsv3.linear %x, %w site "q" : tensor<4x256xbf16>, tensor<384x256xbf16> -> tensor<4x2x192xbf16>
  // CHECK-NEXT: kernel.tap "q", %[[Q]]
  // CHECK-NEXT: kernel.rope ins(%[[Q]], %[[T]], %arg2 : {{.*}}) outs(%[[Q]] : tensor<4x2x192xbf16>) at 128 #[[ROPE]] site "rope"
  dsv3.tap "q", %q : tensor<4x2x192xbf16>
  %r = dsv3.rope %q, %seq at 128 #rope site "rope" : tensor<4x2x192xbf16> -> tensor<4x2x192xbf16>
  dsv3.return %r : tensor<4x2x192xbf16>
}

// CHECK-LABEL: dsv3.program @rope_apart
dsv3.program @rope_apart(%x: tensor<4x256xbf16>, %w: tensor<384x256xbf16>, %seq: !dsv3.seq) -> (tensor<4x2x192xbf16>, tensor<4x256xbf16>) {
  // CHECK: %[[T:.*]] = dsv3.use @rope_table_0 : tensor<256x64xf32>
  // An argument belongs to the caller.
  // CHECK: %[[A0:.*]] = kernel.empty : tensor<4x256xbf16>
  // CHECK-NEXT: kernel.rope ins(%arg0, %[[T]], {{.*}}) outs(%[[A0]] : tensor<4x256xbf16>) at 0 #[[HALVES]] site "arg"
  %a = dsv3.rope %x, %seq at 0 #halves site "arg" : tensor<4x256xbf16> -> tensor<4x256xbf16>
  // A tap reads x afterwards.
  // CHECK: %[[Q:.*]] = kernel.gemm
  // CHECK: %[[Q0:.*]] = kernel.empty : tensor<4x2x192xbf16>
  // CHECK-NEXT: kernel.rope ins(%[[Q]], %[[T]], {{.*}}) outs(%[[Q0]] : tensor<4x2x192xbf16>) at 128
  // CHECK-NEXT: kernel.tap "q", %[[Q]]
  %q = dsv3.linear %x, %w site "q" : tensor<4x256xbf16>, tensor<384x256xbf16> -> tensor<4x2x192xbf16>
  %r = dsv3.rope %q, %seq at 128 #halves site "rope" : tensor<4x2x192xbf16> -> tensor<4x2x192xbf16>
  dsv3.tap "q", %q : tensor<4x2x192xbf16>
  dsv3.return %r, %a : tensor<4x2x192xbf16>, tensor<4x256xbf16>
}

// The append does the work of norm, rotation and split. A tap on the norm keeps it; the rotation goes.
// CHECK-LABEL: dsv3.program @append
dsv3.program @append(%ka: tensor<4x192xbf16>, %both: tensor<4x320xbf16>, %seq: !dsv3.seq, %kv: !kv) -> !kv {
  %g = dsv3.use @gamma : tensor<128xbf16>
  // CHECK: %[[T:.*]] = dsv3.use @rope_table :
  // CHECK: %[[G:.*]] = dsv3.use @gamma
  // CHECK-NEXT: %[[KV:.*]] = kernel.kv_append ins(%arg0, %[[G]], %[[T]], %arg2 : tensor<4x192xbf16>, {{.*}}) outs(%arg3[0] : !kv) eps 1.0e-06 #[[ROPE]] site "l0.append"
  %c0, %r0 = dsv3.split %ka : tensor<4x192xbf16> -> tensor<4x128xbf16>, tensor<4x64xbf16>
  %c = dsv3.rms_norm %c0, %g eps 1.0e-06 site "l0.kv_a_norm" : tensor<4x128xbf16>, tensor<128xbf16> -> tensor<4x128xbf16>
  %r = dsv3.rope %r0, %seq at 0 #rope site "l0.k_rope" : tensor<4x64xbf16> -> tensor<4x64xbf16>
  %kv1 = dsv3.kv_append %kv[0] latent(%c) rope(%r), %seq site "l0.append" : tensor<4x128xbf16>, tensor<4x64xbf16>, !kv
  // CHECK-NEXT: %[[V:.*]] = kernel.view %arg1 at 128 : tensor<4x320xbf16> -> tensor<4x128xbf16>
  // CHECK: %[[N:.*]] = kernel.norm ins(%[[V]], %[[G]]
  // CHECK-NEXT: kernel.tap "l1.kv_a_norm", %[[N]]
  // CHECK-NEXT: %[[ROWS:.*]] = kernel.view %arg1 at 128 : tensor<4x320xbf16> -> tensor<4x192xbf16>
  // CHECK-NEXT: kernel.kv_append ins(%[[ROWS]], %[[G]], %[[T]], %arg2 : {{.*}}) outs(%[[KV]][1] : !kv)
  // CHECK-NOT: kernel.rope
  %q, %d0, %s0 = dsv3.split %both : tensor<4x320xbf16> -> tensor<4x128xbf16>, tensor<4x128xbf16>, tensor<4x64xbf16>
  %d = dsv3.rms_norm %d0, %g eps 1.0e-06 site "l1.kv_a_norm" : tensor<4x128xbf16>, tensor<128xbf16> -> tensor<4x128xbf16>
  dsv3.tap "l1.kv_a_norm", %d : tensor<4x128xbf16>
  %s = dsv3.rope %s0, %seq at 0 #rope site "l1.k_rope" : tensor<4x64xbf16> -> tensor<4x64xbf16>
  %kv2 = dsv3.kv_append %kv1[1] latent(%d) rope(%s), %seq site "l1.append" : tensor<4x128xbf16>, tensor<4x64xbf16>, !kv
  dsv3.return %kv2 : !kv
}

// CHECK-LABEL: dsv3.program @prefill_attention
dsv3.program @prefill_attention(%q: tensor<16x2x192xbf16>, %seq: !dsv3.seq, %kv: !kv) -> tensor<16x2x96xbf16> {
  // CHECK-NOT: dsv3.use @l0.kv_b :
  // CHECK: %[[WK:.*]] = dsv3.use @l0.kv_b.kn : tensor<2x128x128xbf16>
  // CHECK: %[[WV:.*]] = dsv3.use @l0.kv_b.v : tensor<2x96x128xbf16>
  // CHECK: %[[K0:.*]] = kernel.empty : tensor<6x2x192x64xbf16>
  // CHECK: %[[V0:.*]] = kernel.empty : tensor<6x2x64x96xbf16>
  // CHECK: %[[K:.*]], %[[V:.*]] = kernel.kv_expand ins(%arg2[1], %[[WK]], %[[WV]], %arg1 : {{.*}}) outs(%[[K0]], %[[V0]] : {{.*}}) site "l0.kv_expand"
  // CHECK: %[[O0:.*]] = kernel.empty : tensor<16x2x96xbf16>
  // CHECK: kernel.attn_prefill ins(%arg0, %[[K]], %[[V]], %arg1 : {{.*}}) outs(%[[O0]] : {{.*}}) scale 0.125 site "l0.attn"
  %w = dsv3.use @l0.kv_b : tensor<448x128xbf16, #fp8b>
  %y = dsv3.mla_attention %q, %kv[1], %w, %seq scale 0.125 site "l0.attn" : tensor<16x2x192xbf16>, !kv, tensor<448x128xbf16, #fp8b> -> tensor<16x2x96xbf16>
  dsv3.return %y : tensor<16x2x96xbf16>
}

// CHECK-LABEL: dsv3.program @decode_attention
dsv3.program @decode_attention(%ql: tensor<2x2x128xbf16>, %q: tensor<2x2x192xbf16>, %seq: !dsv3.seq, %kv: !kv) -> tensor<2x2x128xbf16> {
  // CHECK: %[[QR:.*]] = kernel.view %arg1 at 128 : tensor<2x2x192xbf16> -> tensor<2x2x64xbf16>
  // CHECK: kernel.attn_decode ins(%arg0, %[[QR]], %arg3[1], %arg2 : {{.*}}) outs(%{{.*}} : tensor<2x2x128xbf16>) scale 0.125 site "l0.attn"
  %n, %r = dsv3.split %q : tensor<2x2x192xbf16> -> tensor<2x2x128xbf16>, tensor<2x2x64xbf16>
  %y = dsv3.latent_attention %ql, %r, %kv[1], %seq scale 0.125 site "l0.attn" : tensor<2x2x128xbf16>, tensor<2x2x64xbf16>, !kv -> tensor<2x2x128xbf16>
  dsv3.return %y : tensor<2x2x128xbf16>
}

// CHECK-LABEL: dsv3.program @experts
dsv3.program @experts(%x: tensor<16x256xbf16>, %lg: tensor<16x8xf32>, %b: tensor<8xf32>, %gate: tensor<8x128x256xbf16>, %down: tensor<8x256x128xbf16>) -> (tensor<16x256xbf16>, tensor<16x2xi32>) {
  // CHECK: %[[I:.*]], %[[W:.*]] = kernel.route ins(%arg1, %arg2 : {{.*}}) outs(%{{.*}}, %{{.*}} : tensor<16x2xi32>, tensor<16x2xf32>) groups 4 keep 2 top 2 norm true scale 2.5 site "l1.route"
  // CHECK: %[[O:.*]], %[[T:.*]], %[[R:.*]] = kernel.dispatch ins(%[[I]] : {{.*}}) outs({{.*}} : tensor<9xi32>, tensor<32xi32>, tensor<16x2xi32>) site "l1.dispatch"
  // CHECK: %[[A:.*]] = kernel.grouped_gated_gemm ins(%arg0, %arg3, %arg3, %[[O]], %[[T]] : {{.*}}) outs(%{{.*}} : tensor<32x128xbf16>) via f32 site "l1.act"
  // CHECK: %[[D:.*]] = kernel.grouped_gemm ins(%[[A]], %arg4, %[[O]] : {{.*}}) outs(%{{.*}} : tensor<32x256xf32>) site "l1.down"
  // CHECK: %[[Y:.*]] = kernel.combine ins(%[[D]], %[[R]], %[[W]] : {{.*}}) plus(%arg0 : {{.*}}) outs(%{{.*}} : tensor<16x256xbf16>) site "l1.mlp"
  %y, %ids = dsv3.routed_experts %x, %lg, %b, %gate, %gate, %down plus(%x : tensor<16x256xbf16>) groups 4 keep 2 top 2 norm true scale 2.5
    via(gate_up : f32, act : bf16, down : f32) site "l1.mlp"
    : tensor<16x256xbf16>, tensor<16x8xf32>, tensor<8xf32>, tensor<8x128x256xbf16>, tensor<8x128x256xbf16>, tensor<8x256x128xbf16> -> tensor<16x256xbf16> ids(tensor<16x2xi32>)
  // A route that stands alone.
  // CHECK: kernel.route ins(%arg1, %arg2 : {{.*}} site "l2.route"
  %i2, %w2 = dsv3.route %lg, %b groups 4 keep 2 top 2 norm true scale 2.5 site "l2.route" : tensor<16x8xf32>, tensor<8xf32> -> tensor<16x2xi32>, tensor<16x2xf32>
  dsv3.tap "l2.route.ids", %i2 : tensor<16x2xi32>
  // CHECK: dsv3.return %[[Y]], %[[I]]
  dsv3.return %y, %ids : tensor<16x256xbf16>, tensor<16x2xi32>
}
// CHECK-LABEL: dsv3.program @experts_in_pieces
dsv3.program @experts_in_pieces(%x: tensor<16x256xbf16>, %ids: tensor<16x2xi32>, %wt: tensor<16x2xf32>, %gate: tensor<8x128x256xbf16>, %down: tensor<8x256x128xbf16>) -> tensor<16x256xbf16> {
  // CHECK: %[[O:.*]], %[[T:.*]], %[[R:.*]] = kernel.dispatch ins(%arg1 : {{.*}} site "l1.dispatch"
  // CHECK: %[[X:.*]] = kernel.gather ins(%arg0, %[[T]] : {{.*}}) outs(%{{.*}} : tensor<32x256xbf16>) site "l1.gather"
  // CHECK: %[[G:.*]] = kernel.grouped_gemm ins(%[[X]], %arg3, %[[O]] : {{.*}}) outs(%{{.*}} : tensor<32x128xf32>) site "l1.gate"
  // CHECK: %[[A:.*]] = kernel.swiglu ins(%[[G]], %[[G]] : {{.*}}) outs(%{{.*}} : tensor<32x128xbf16>) site "l1.act"
  // CHECK: %[[D:.*]] = kernel.grouped_gemm ins(%[[A]], %arg4, %[[O]] : {{.*}} site "l1.down"
  // CHECK: kernel.combine ins(%[[D]], %[[R]], %arg2 : {{.*}} site "l1.mlp"
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 8 site "l1.dispatch" : tensor<16x256xbf16>, tensor<16x2xi32> -> tensor<32x256xbf16>, tensor<9xi32>, tensor<16x2xi32>
  %g = dsv3.grouped_linear %rows, %gate, %off site "l1.gate" : tensor<32x256xbf16>, tensor<8x128x256xbf16>, tensor<9xi32> -> tensor<32x128xf32>
  %a = dsv3.swiglu %g, %g site "l1.act" : tensor<32x128xf32>, tensor<32x128xf32> -> tensor<32x128xbf16>
  %d = dsv3.grouped_linear %a, %down, %off site "l1.down" : tensor<32x128xbf16>, tensor<8x256x128xbf16>, tensor<9xi32> -> tensor<32x256xf32>
  %y = dsv3.combine %d, %of, %wt site "l1.mlp" : tensor<32x256xf32>, tensor<16x2xi32>, tensor<16x2xf32> -> tensor<16x256xbf16>
  dsv3.return %y : tensor<16x256xbf16>
}
}

// A whole model: nothing of dsv3 computes any more, in any program.
// MODEL-COUNT-1: dsv3.weight @rope_table
// MODEL-NOT: dsv3.weight @rope_table
// MODEL: dsv3.program @prefill_t16
// MODEL: kernel.attn_prefill
// MODEL: kernel.select_rows
// MODEL: dsv3.program @decode_b1
// MODEL-NOT: kernel.attn_prefill
// MODEL: kernel.attn_decode
// MODEL: dsv3.program @score_t16
// MODEL-NOT: dsv3.{{embed|rms_norm|linear|rope|split|kv_append|mla_attention|route|dispatch|add|tap}}
// MODEL: dsv3.program @mtp_t16
// MODEL: kernel.concat

// A tapped part of q_a | kv_a is copied to rows of its own; the append reads on from the joined value.
// TAPPED-LABEL: dsv3.program @prefill_t16
// TAPPED: %[[QK:.*]] = kernel.gemm {{.*}} site "l0.q_a_kv_a"
// TAPPED: %[[Q:.*]] = kernel.gemm {{.*}} site "l0.q_b"
// TAPPED-NEXT: kernel.tap "l0.q_b", %[[Q]]
// TAPPED: kernel.rope ins(%[[Q]], {{.*}} outs(%[[Q]] :
// TAPPED: %[[LOW:.*]] = kernel.view %[[QK]] at 128 : tensor<16x320xbf16> -> tensor<16x96xbf16>
// TAPPED: %[[HIGH:.*]] = kernel.view %[[QK]] at 224 : tensor<16x320xbf16> -> tensor<16x96xbf16>
// TAPPED: %[[OWN:.*]] = kernel.concat ins(%[[LOW]], %[[HIGH]] : {{.*}} site "l0.kv_a"
// TAPPED-NEXT: kernel.tap "l0.kv_a", %[[OWN]]
// TAPPED: %[[N:.*]] = kernel.norm {{.*}} site "l0.kv_a_norm"
// TAPPED-NEXT: kernel.tap "l0.kv_a_norm", %[[N]]
// TAPPED: kernel.kv_append
// TAPPED: %[[IDS:.*]], %[[WT:.*]] = kernel.route {{.*}} site "l1.route"
// TAPPED: kernel.combine
// TAPPED-NEXT: kernel.tap "l1.route.ids", %[[IDS]]
// TAPPED-NEXT: kernel.tap "l1.route.weights", %[[WT]]
