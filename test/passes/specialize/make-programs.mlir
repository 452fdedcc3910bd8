// Prefill, decode buckets, score and mtp programs with static shapes; the imported programs are gone.
// RUN: dsv3-opt %inputs/model.mlir --dsv3-make-programs="max-batch=3 prefill-chunk=32" | FileCheck %s
// RUN: dsv3-opt %inputs/model.mlir --dsv3-make-programs="max-batch=3 prefill-chunk=32" | FileCheck %s --check-prefix=GONE
// RUN: dsv3-opt %inputs/model.mlir --dsv3-insert-taps="regex=l0.attn|l1.route.*|l1.kv_b|l2.out" --dsv3-make-programs="max-batch=1 prefill-chunk=32" | FileCheck %s --check-prefix=TAPS

// GONE-NOT: @trunk
// GONE-NOT: @head(
// GONE-NOT: @mtp(
// GONE-NOT: tensor<?

// CHECK-LABEL: dsv3.program @prefill_t32
// CHECK-SAME: (%arg0: tensor<32xi32> {dsv3.name = "ids"}, %[[SEQ:.*]]: !dsv3.seq, %arg2: !kv)
// CHECK-SAME: -> (tensor<3x512xf32> {dsv3.name = "logits"}, !kv {dsv3.name = "kv"})
// CHECK-SAME: attributes {phase = "prefill", seqs = 3 : i64, tokens = 32 : i64}
// CHECK: dsv3.linear {{.*}} site "l0.q_b" {{.*}} -> tensor<32x2x192xbf16>
// CHECK: dsv3.mla_attention {{.*}} site "l0.attn"
// Routed rows are tokens times experts per token.
// CHECK: dsv3.route {{.*}} -> tensor<32x2xi32>, tensor<32x2xf32>
// CHECK: dsv3.dispatch {{.*}} -> tensor<64x256xbf16>, tensor<9xi32>, tensor<32x2xi32>
// CHECK: dsv3.grouped_linear {{.*}} site "l1.gate" {{.*}} -> tensor<64x128xf32>
// CHECK: dsv3.swiglu {{.*}} site "l1.act" {{.*}} -> tensor<64x128xbf16>
// CHECK: dsv3.grouped_linear {{.*}} site "l1.down" {{.*}} -> tensor<64x256xbf16>
// CHECK: dsv3.combine {{.*}} site "l1.mlp" {{.*}} -> tensor<32x256xbf16>
// Only the rows that a sampler needs reach the head.
// CHECK: %[[HIDDEN:.*]] = dsv3.rms_norm {{.*}} site "final_norm"
// CHECK: %[[ROWS:.*]] = dsv3.select_rows %[[HIDDEN]], %[[SEQ]] site "select" : tensor<32x256xbf16> -> tensor<3x256xbf16>
// CHECK: %[[LOGITS:.*]] = dsv3.linear %[[ROWS]], {{.*}} site "head" {{.*}} -> tensor<3x512xf32>
// CHECK: dsv3.return %[[LOGITS]], {{.*}} : tensor<3x512xf32>, !kv

// A decode step has one row a sequence: nothing to select. The last bucket is max-batch itself.
// CHECK-LABEL: dsv3.program @decode_b1
// CHECK-SAME: attributes {phase = "decode", seqs = 1 : i64, tokens = 1 : i64}
// CHECK-NOT: dsv3.select_rows
// CHECK: dsv3.dispatch {{.*}} -> tensor<2x256xbf16>
// CHECK-LABEL: dsv3.program @decode_b2
// CHECK-LABEL: dsv3.program @decode_b3
// CHECK-SAME: (%arg0: tensor<3xi32>
// CHECK-SAME: -> (tensor<3x512xf32> {dsv3.name = "logits"}, !kv {dsv3.name = "kv"}) attributes {phase = "decode", seqs = 3 : i64, tokens = 3 : i64}
// CHECK-NOT: dsv3.select_rows
// CHECK-NOT: decode_b4

// CHECK-LABEL: dsv3.program @score_t32
// CHECK-SAME: -> (tensor<32x512xf32> {dsv3.name = "logits"}, tensor<32x256xbf16> {dsv3.name = "hidden"}, !kv {dsv3.name = "kv"})
// CHECK-SAME: attributes {phase = "score", seqs = 3 : i64, tokens = 32 : i64}
// CHECK-NOT: dsv3.select_rows
// CHECK: %[[HIDDEN:.*]] = dsv3.rms_norm {{.*}} site "final_norm"
// CHECK: %[[LOGITS:.*]] = dsv3.linear %[[HIDDEN]], {{.*}} site "head" {{.*}} -> tensor<32x512xf32>
// CHECK: dsv3.return %[[LOGITS]], %[[HIDDEN]], {{.*}} : tensor<32x512xf32>, tensor<32x256xbf16>, !kv

// CHECK-LABEL: dsv3.program @mtp_t32
// CHECK-SAME: (%arg0: tensor<32xi32> {dsv3.name = "next_ids"}, %arg1: tensor<32x256xbf16> {dsv3.name = "hidden"}, %arg2: !dsv3.seq, %arg3: !kv)
// CHECK-SAME: -> (tensor<32x512xf32> {dsv3.name = "logits"}, !kv {dsv3.name = "kv"})
// CHECK-SAME: attributes {phase = "mtp", seqs = 3 : i64, tokens = 32 : i64}
// CHECK: dsv3.concat {{.*}} -> tensor<32x512xbf16>

// Taps show the states of a prompt: prefill, score and mtp keep theirs, decode has none, nor what only they read.
// TAPS-LABEL: dsv3.program @prefill_t32
// TAPS: dsv3.tap "l0.attn", %{{.*}} : tensor<32x2x128xbf16>
// TAPS: dsv3.linear {{.*}} site "l1.kv_b"
// TAPS: dsv3.tap "l1.kv_b", %{{.*}} : tensor<32x512xbf16>
// TAPS: dsv3.tap "l1.route.ids", %{{.*}} : tensor<32x2xi32>
// TAPS: dsv3.tap "l1.route.weights", %{{.*}} : tensor<32x2xf32>
// TAPS-LABEL: dsv3.program @decode_b1
// TAPS-NOT: dsv3.tap
// TAPS-NOT: site "l1.kv_b"
// TAPS-LABEL: dsv3.program @score_t32
// TAPS: dsv3.tap "l0.attn"
// TAPS-LABEL: dsv3.program @mtp_t32
// TAPS-NOT: "l0.attn"
// TAPS: dsv3.tap "l2.out", %{{.*}} : tensor<32x256xbf16>
