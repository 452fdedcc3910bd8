// Taps by name: a site, the two results of a route, the expanded keys and values of an attention.
// RUN: dsv3-opt %inputs/model.mlir --dsv3-insert-taps="regex=embed|final_norm|l1.(out|kv_b|route.*)|l0.mlp" | FileCheck %s
// RUN: not dsv3-opt %inputs/model.mlir --dsv3-insert-taps="regex=l9.out" 2>&1 | FileCheck %s --check-prefix=UNMATCHED
// RUN: not dsv3-opt %inputs/model.mlir --dsv3-insert-taps="regex=l1.(out" 2>&1 | FileCheck %s --check-prefix=ILL
// RUN: dsv3-opt %inputs/model.mlir --dsv3-insert-taps | FileCheck %s --check-prefix=EMPTY

// CHECK-LABEL: dsv3.program @trunk
// CHECK: %[[X:.*]] = dsv3.embed
// CHECK-NEXT: dsv3.tap "embed", %[[X]] : tensor<?x256xbf16>
// CHECK: %[[MLP:.*]] = dsv3.linear {{.*}} site "l0.mlp"
// CHECK-NEXT: dsv3.tap "l0.mlp", %[[MLP]]
// The latent as it went to the cache, through the weight that the attention would use.
// CHECK: %[[KV:.*]] = dsv3.kv_append {{.*}} latent(%[[C:.*]]) rope({{.*}} site "l1.append"
// CHECK: %[[W:.*]] = dsv3.use @l1.kv_b
// CHECK: %[[KVB:.*]] = dsv3.linear %[[C]], %[[W]] site "l1.kv_b" {{.*}} -> tensor<?x512xbf16>
// CHECK-NEXT: dsv3.tap "l1.kv_b", %[[KVB]]
// CHECK-NEXT: dsv3.mla_attention %{{.*}}, %[[KV]][1], %[[W]]
// CHECK: %[[IDS:.*]], %[[WT:.*]] = dsv3.route
// CHECK-NEXT: dsv3.tap "l1.route.ids", %[[IDS]] : tensor<?x2xi32>
// CHECK-NEXT: dsv3.tap "l1.route.weights", %[[WT]] : tensor<?x2xf32>
// CHECK: %[[OUT:.*]] = dsv3.add {{.*}} site "l1.out"
// CHECK-NEXT: dsv3.tap "l1.out", %[[OUT]]
// CHECK: %[[H:.*]] = dsv3.rms_norm {{.*}} site "final_norm"
// CHECK-NEXT: dsv3.tap "final_norm", %[[H]]

// EMPTY-NOT: dsv3.tap

// The whole name has to match, so a prefix is no match.
// RUN: not dsv3-opt %inputs/model.mlir --dsv3-insert-taps="regex=l1" 2>&1 | FileCheck %s --check-prefix=PREFIX
// PREFIX: error: expected taps to match a state, got none for 'l1'
// UNMATCHED: error: expected taps to match a state, got none for 'l9.out' among embed, {{.*}}l0.
// ILL: error: expected a regular expression of tap names, got 'l1.(out': {{.*}}
