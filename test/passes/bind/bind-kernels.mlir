// Numerics and schedules from the registry of a target, remarks, and refusals with their reasons.
// RUN: dsv3-opt %s --dsv3-bind-kernels=target=test | FileCheck %s
// RUN: dsv3-opt %s --dsv3-bind-kernels="target=test remarks" 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: not dsv3-opt %s --dsv3-bind-kernels=target=vax 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: dsv3-opt %inputs/model.mlir --dsv3-stage-specialize="max-batch=2 prefill-chunk=16 max-model-len=128" --dsv3-stage-fuse --dsv3-stage-bind | FileCheck %s --check-prefix=X86

// CHECK-DAG: #[[SUM:num[0-9]*]] = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
// CHECK-DAG: #[[NORM:num[0-9]*]] = #kernel.numerics<acc = f32, mul = f32, chain = "lanes16">
// CHECK-DAG: #[[GEMM:sch[0-9]*]] = #kernel.schedule<"test.gemm", {}>
// CHECK-DAG: #[[NORMS:sch[0-9]*]] = #kernel.schedule<"test.norm", {}>

// REMARK: remark: l0.norm: #kernel.schedule<"test.norm", {}>, #kernel.numerics<acc = f32, mul = f32, chain = "lanes16">
// REMARK: remark: l0.q: #kernel.schedule<"test.gemm", {}>

// TARGET: error: expected a target ({{.*}}test, {{.*}}x86-64), got 'vax'

dsv3.program @p(%x: tensor<4x16xbf16>, %g: tensor<16xbf16>, %w: tensor<8x16xbf16>) -> tensor<4x8xbf16> {
  %d = kernel.empty : tensor<4x16xbf16>
  // CHECK: kernel.norm {{.*}} numerics #[[NORM]] schedule #[[NORMS]] site "l0.norm"
  %n = kernel.norm ins(%x, %g : tensor<4x16xbf16>, tensor<16xbf16>) outs(%d : tensor<4x16xbf16>) eps 1.0e-06 site "l0.norm"
  %o = kernel.empty : tensor<4x8xbf16>
  // A choice that stands there already is made again.
  // CHECK: kernel.gemm {{.*}} numerics #[[SUM]] schedule #[[GEMM]] site "l0.q"
  %y = kernel.gemm ins(%n, %w : tensor<4x16xbf16>, tensor<8x16xbf16>) outs(%o : tensor<4x8xbf16>)
    numerics #kernel.numerics<acc = f32, mul = bf16, chain = "lanes16"> schedule #kernel.schedule<"old.gemm", {}> site "l0.q"
  dsv3.return %y : tensor<4x8xbf16>
}

// The target of the product binds a whole model, all buckets alike (its stage verifier runs here).
// X86: dsv3.program @prefill_t16
// X86: kernel.gemm {{.*}} numerics #{{.*}} schedule #{{.*}} site "l0.q_a_kv_a"
// X86: dsv3.program @decode_b2
// X86: kernel.attn_decode {{.*}} numerics #{{.*}} schedule #{{.*}} site "l0.attn"
