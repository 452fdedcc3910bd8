// Rotation, cache and attention as launches in destination-passing style, one op a program.
// RUN: dsv3-opt %s --dsv3-lower-to-kernel | FileCheck %s

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
}
