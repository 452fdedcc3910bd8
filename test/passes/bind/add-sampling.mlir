// Programs that are served choose tokens where their logits are; those that score do not, and on a CPU none does.
// RUN: dsv3-opt %s --dsv3-add-sampling=target=test-gpu -split-input-file -verify-diagnostics | FileCheck %s
// RUN: dsv3-opt %s --dsv3-add-sampling=target=x86-64 -split-input-file | FileCheck %s --check-prefix=CPU

// CPU-NOT: kernel.sample

// CHECK-LABEL: dsv3.program @decode_b4
// CHECK-SAME: -> (tensor<4x64xf32> {dsv3.name = "logits"}, !kv {dsv3.name = "kv"}, tensor<4x8xi32> {dsv3.name = "sampled"})
// CHECK: %[[L:.*]] = kernel.gemm
// CHECK: %[[O:.*]] = kernel.empty : tensor<4x8xi32>
// CHECK: %[[S:.*]] = kernel.sample ins(%[[L]], %arg1 : tensor<4x64xf32>) outs(%[[O]] : tensor<4x8xi32>) site "sample"
// CHECK: dsv3.return %[[L]], %arg2, %[[S]] :
!kv = !dsv3.kv<layers = 1, page = 64, latent = 512, rope = 64, bf16>
dsv3.program @decode_b4(%x: tensor<4x32xf32>, %seq: !dsv3.seq, %kv: !kv, %w: tensor<64x32xf32>) -> (tensor<4x64xf32> {dsv3.name = "logits"}, !kv {dsv3.name = "kv"})
    attributes {phase = "decode", tokens = 4 : i64, seqs = 4 : i64} {
  %d = kernel.empty : tensor<4x64xf32>
  %l = kernel.gemm ins(%x, %w : tensor<4x32xf32>, tensor<64x32xf32>) outs(%d : tensor<4x64xf32>) site "lm_head"
  dsv3.return %l, %kv : tensor<4x64xf32>, !kv
}

// CHECK-LABEL: dsv3.program @score_t4
// CHECK-NOT: kernel.sample
dsv3.program @score_t4(%x: tensor<4x32xf32>, %seq: !dsv3.seq, %w: tensor<64x32xf32>) -> (tensor<4x64xf32> {dsv3.name = "logits"})
    attributes {phase = "score", tokens = 4 : i64, seqs = 4 : i64} {
  %d = kernel.empty : tensor<4x64xf32>
  %l = kernel.gemm ins(%x, %w : tensor<4x32xf32>, tensor<64x32xf32>) outs(%d : tensor<4x64xf32>) site "lm_head"
  dsv3.return %l : tensor<4x64xf32>
}

// -----

// expected-error @+1 {{expected an argument of type !dsv3.seq, got none}}
dsv3.program @prefill_t4(%x: tensor<4x32xf32>, %w: tensor<64x32xf32>) -> (tensor<4x64xf32> {dsv3.name = "logits"})
    attributes {phase = "prefill", tokens = 4 : i64, seqs = 4 : i64} {
  %d = kernel.empty : tensor<4x64xf32>
  %l = kernel.gemm ins(%x, %w : tensor<4x32xf32>, tensor<64x32xf32>) outs(%d : tensor<4x64xf32>) site "lm_head"
  dsv3.return %l : tensor<4x64xf32>
}
