// A whole model as launches; every op by itself: lower-dense.mlir, lower-attention.mlir, lower-experts.mlir.
// RUN: dsv3-opt %inputs/model.mlir --dsv3-stage-specialize="max-batch=2 prefill-chunk=16 max-model-len=128" --dsv3-stage-fuse --dsv3-lower-to-kernel | FileCheck %s --check-prefix=MODEL
// RUN: dsv3-opt %inputs/model.mlir --dsv3-stage-specialize="max-batch=2 prefill-chunk=16 max-model-len=128 taps=l0.(kv_a|kv_a_norm|q_b)|l1.route.*" --dsv3-stage-fuse --dsv3-lower-to-kernel | FileCheck %s --check-prefix=TAPPED

// Nothing of dsv3 computes any more, in any program.
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
