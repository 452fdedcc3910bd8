// The stages one after another on a whole small model, and what their options refuse.
// RUN: dsv3-opt %inputs/model.mlir --dsv3-stage-import --dsv3-stage-specialize="max-batch=2 prefill-chunk=32" --dsv3-stage-fuse | FileCheck %s
// RUN: dsv3-opt %inputs/model.mlir --dsv3-stage-specialize="max-batch=1 prefill-chunk=32 taps=l0.gate|l1.out" --dsv3-stage-fuse | FileCheck %s --check-prefix=TAPS
// RUN: not dsv3-opt %inputs/model.mlir --dsv3-stage-specialize="max-batch=0" 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: not dsv3-opt %inputs/model.mlir --dsv3-stage-specialize="dtype=f64" 2>&1 | FileCheck %s --check-prefix=DTYPE
// RUN: not dsv3-opt %inputs/model.mlir --dsv3-stage-specialize="determinism=none" 2>&1 | FileCheck %s --check-prefix=RULE
// RUN: not dsv3-opt %inputs/model.mlir --dsv3-stage-fuse 2>&1 | FileCheck %s --check-prefix=ORDER

// BATCH: expected --max-batch between 1 and 1024, got 0
// DTYPE: expected --dtype f32 or bf16, got 'f64'
// RULE: expected --determinism batch or run, got 'none'
// ORDER: expected a phase after specialize, got none

// CHECK-LABEL: dsv3.program @prefill_t32
// CHECK: dsv3.linear {{.*}} site "l0.q_a_kv_a"
// CHECK: dsv3.split {{.*}} -> tensor<32x128xbf16>, tensor<32x128xbf16>, tensor<32x64xbf16>
// CHECK: dsv3.mla_attention
// CHECK: dsv3.rms_norm {{.*}} residual({{.*}} site "l0.post_norm"
// CHECK: dsv3.gated_linear {{.*}} via f32 site "l0.act"
// CHECK: dsv3.rms_norm {{.*}} residual({{.*}} site "l1.input_norm"
// CHECK: dsv3.gated_linear {{.*}} site "l1.shared.act"
// CHECK: dsv3.routed_experts {{.*}} plus({{.*}} site "l1.mlp"
// CHECK: dsv3.rms_norm {{.*}} residual({{.*}} site "final_norm"
// CHECK-LABEL: dsv3.program @decode_b2
// CHECK: dsv3.batched_linear {{.*}} site "l0.absorb_q"
// CHECK: dsv3.latent_attention {{.*}} site "l0.attn"
// CHECK: dsv3.batched_linear {{.*}} site "l0.absorb_v"
// CHECK: dsv3.routed_experts
// CHECK-LABEL: dsv3.program @score_t32
// CHECK-LABEL: dsv3.program @mtp_t32
// CHECK-NOT: dsv3.add

// A pair whose inner value is tapped stays in pieces there, and is fused elsewhere.
// TAPS-LABEL: dsv3.program @prefill_t32
// TAPS: dsv3.linear {{.*}} site "l0.gate_up"
// TAPS: dsv3.tap "l0.gate"
// TAPS: dsv3.swiglu {{.*}} site "l0.act"
// TAPS: dsv3.routed_experts
// TAPS: %[[SUM:.*]], %{{.*}} = dsv3.rms_norm {{.*}} site "final_norm"
// TAPS: dsv3.tap "l1.out", %[[SUM]]
// TAPS-LABEL: dsv3.program @decode_b1
// TAPS: dsv3.gated_linear {{.*}} site "l0.act"
// TAPS: dsv3.routed_experts
