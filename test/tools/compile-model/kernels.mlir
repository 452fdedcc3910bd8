// compile-model kernels: a shape list becomes a pack; what it refuses.
// REQUIRES: ptxas
// RUN: rm -rf %t && split-file %s %t
// RUN: compile-model kernels %t/rows.json -o %t/pack | FileCheck %s --check-prefix=SUMMARY
// RUN: FileCheck %s < %t/pack/cases.json
// RUN: test -s %t/pack/norm_bf16_0.cubin
// RUN: FileCheck %s --check-prefix=PTX < %t/pack/norm_bf16_0.ptx

// One body serves both row capacities.
// SUMMARY: pack: 3 cases, 2 kernels, 0 cases without a kernel

// CHECK: "target": "sm_90a",
// CHECK-NEXT: "tokens": 300,
// CHECK: "symbol": "norm_bf16_0",
// CHECK: "name": "norm.m5",
// CHECK: "name": "x",
// CHECK-NEXT: "role": "input",
// CHECK: "name": "gamma",
// CHECK-NEXT: "role": "weight",
// CHECK: "layout": "(n) -> [n]"
// CHECK: "name": "out",
// CHECK-NEXT: "role": "output",
// CHECK: "kernel": "norm_bf16_0",
// CHECK-NEXT: "op": "kernel.norm",
// CHECK: "name": "norm.m300",
// CHECK: "kernel": "norm_bf16_0",
// CHECK: "name": "rope",
// CHECK: "name": "step",
// CHECK-NEXT: "role": "step",

// PTX: .target sm_90a
// PTX: .entry norm_bf16_0

// RUN: not compile-model kernels %t/rows.json -o %t/pack 2>&1 | FileCheck %s --check-prefix=EXISTS
// EXISTS: compile-model: error: {{.*}}pack
// RUN: not compile-model kernels %t/unknown.json -o %t/none 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: compile-model: error: convolution: op: expected one of gemm, {{.*}}, got 'convolution'
// RUN: not compile-model kernels %t/missing.json -o %t/none 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: compile-model: error: norm: d is missing
// RUN: not compile-model kernels %t/odd.json -o %t/none 2>&1 | FileCheck %s --check-prefix=ODD
// ODD: compile-model: error: gemm: {{.+}}
// RUN: compile-model kernels %t/odd.json -o %t/kept --keep-going 2>&1 | FileCheck %s --check-prefix=KEPT
// KEPT: compile-model: warning: left out gemm: {{.+}}
// KEPT: kept: 1 cases, 1 kernels, 1 cases without a kernel
// RUN: not compile-model kernels %t/rows.json -o %t/none --target x86-64 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: compile-model: error: --target: expected a device target ({{.*}}), got 'x86-64'
// RUN: not test -e %t/none

//--- rows.json
[
 {"op": "norm", "rows": 3, "d": 512, "sweep": {"m": [5, 300]}},
 {"op": "rope", "lens": [4, 1], "past": [0, 64], "heads": 4, "d": 192}
]
//--- unknown.json
[{"name": "convolution", "op": "convolution", "m": 1}]
//--- missing.json
[{"op": "norm", "m": 1}]
//--- odd.json
[{"op": "gemm", "m": 8, "n": 64, "k": 7}, {"op": "norm", "m": 8, "d": 512}]
