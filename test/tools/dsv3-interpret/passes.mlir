// The oracle at work on the passes: with a dense, a routed and an MTP layer over drawn weights, on two sequences in
// chunks, neither static programs nor fusions move a bit, and absorption reorders sums only.
// RUN: dsv3-opt %inputs/model.mlir --dsv3-make-programs="max-batch=2 prefill-chunk=32" -o %t.programs.mlir
// RUN: dsv3-interpret %inputs/model.mlir --dummy-weights --program=trunk_head --mtp --lengths=70,5 --chunk=16 --against=%t.programs.mlir | FileCheck %s
// RUN: dsv3-opt %t.programs.mlir --dsv3-fuse-norm --dsv3-fuse-gated --dsv3-fuse-linears --dsv3-fuse-moe -o %t.fused.mlir
// RUN: dsv3-interpret %t.programs.mlir --dummy-weights --program=trunk_head --mtp --lengths=70,5 --chunk=16 --against=%t.fused.mlir | FileCheck %s
// RUN: dsv3-interpret %t.programs.mlir --dummy-weights --decode --lengths=20,5 --against=%t.fused.mlir | FileCheck %s --check-prefix=DECODE
// Absorption in bf16 rounds other inner values: the tolerance is that of bf16.
// RUN: dsv3-opt %t.programs.mlir --dsv3-absorb-mla -o %t.absorbed.mlir
// RUN: dsv3-interpret %t.programs.mlir --dummy-weights --decode --lengths=20,5 --against=%t.absorbed.mlir --tolerance=0.05 | FileCheck %s --check-prefix=ABSORB
// In float32 it is exact to 1e-5.
// RUN: sed "s/xbf16/xf32/g; s/rope = 64, bf16>/rope = 64, f32>/" %t.programs.mlir > %t.programs32.mlir
// RUN: dsv3-opt %t.programs32.mlir --dsv3-absorb-mla -o %t.absorbed32.mlir
// RUN: dsv3-interpret %t.programs32.mlir --dummy-weights --decode --lengths=20,5 --against=%t.absorbed32.mlir --tolerance=1e-5 | FileCheck %s --check-prefix=ABSORB

// CHECK-DAG: logits: equal
// CHECK-DAG: hidden: equal
// CHECK-DAG: mtp_logits: equal
// CHECK-DAG: kv: equal
// DECODE: logits: equal
// DECODE: kv: equal
// ABSORB: logits: row {{[0-9]+}} differs by {{.*}} (tolerance

// Kernel IR of all phases: lowering, binding and packing move no bit either.
// RUN: dsv3-opt %t.programs.mlir --dsv3-absorb-mla --dsv3-stage-fuse --dsv3-stage-bind --dsv3-stage-pack -o %t.packed.mlir
// RUN: FileCheck %s --check-prefix=KERNELS < %t.packed.mlir
// RUN: dsv3-interpret %t.programs.mlir --dummy-weights --program=trunk_head --mtp --lengths=70,5 --chunk=16 --against=%t.packed.mlir | FileCheck %s
// RUN: dsv3-interpret %t.absorbed.mlir --dummy-weights --decode --lengths=20,5 --against=%t.packed.mlir | FileCheck %s --check-prefix=DECODE
// KERNELS-DAG: kernel.weight
// KERNELS-DAG: kernel.gemm
// KERNELS-DAG: kernel.batched_gemm
// KERNELS-DAG: kernel.gated_gemm
// KERNELS-DAG: kernel.grouped_gated_gemm
// KERNELS-DAG: kernel.grouped_gemm
// KERNELS-DAG: kernel.add_norm
// KERNELS-DAG: kernel.concat
// KERNELS-DAG: kernel.view
// KERNELS-DAG: kernel.kv_append
// KERNELS-DAG: kernel.kv_expand
// KERNELS-DAG: kernel.attn_prefill
// KERNELS-DAG: kernel.attn_decode

// In the form of a device too: plan, split and combine stand for the decode attention, keys stand by row.
// RUN: dsv3-opt %t.programs.mlir --dsv3-absorb-mla --dsv3-stage-fuse --dsv3-stage-bind=target=test-gpu --dsv3-stage-pack=target=test-gpu -o %t.device.mlir
// RUN: FileCheck %s --check-prefix=DEVICE < %t.device.mlir
// RUN: dsv3-interpret %t.programs.mlir --dummy-weights --program=trunk_head --mtp --lengths=70,5 --chunk=16 --against=%t.device.mlir | FileCheck %s
// RUN: dsv3-interpret %t.absorbed.mlir --dummy-weights --decode --lengths=20,5 --against=%t.device.mlir | FileCheck %s --check-prefix=DECODE
// DEVICE-DAG: kernel.attn_plan
// DEVICE-DAG: kernel.attn_split
// DEVICE-DAG: kernel.attn_combine
// DEVICE-DAG: key_rows
