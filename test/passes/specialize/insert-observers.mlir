// What linears read is tapped once for all its readers, and what a routed layer chose.
// RUN: dsv3-opt %inputs/model.mlir --dsv3-insert-observers | FileCheck %s

// CHECK-LABEL: dsv3.program @trunk
// CHECK: %[[N:.*]] = dsv3.rms_norm {{.*}} site "l0.input_norm"
// CHECK-NEXT: dsv3.tap "l0.input_norm", %[[N]]
// CHECK-NOT: dsv3.tap "l0.input_norm"
// CHECK: dsv3.tap "l0.q_a_norm"
// The latents that kv_b expands.
// CHECK: dsv3.tap "l0.kv_a_norm"
// CHECK: dsv3.tap "l0.attn", %{{.*}} : tensor<?x2x128xbf16>
// CHECK: dsv3.tap "l0.post_norm"
// CHECK: dsv3.tap "l0.act"
// No weight reads these.
// CHECK-NOT: dsv3.tap "l0.out"
// CHECK: dsv3.tap "l1.post_norm"
// CHECK: dsv3.tap "l1.route.ids", %{{.*}} : tensor<?x2xi32>
// Rows inside the experts have no order of tokens.
// CHECK-NOT: dsv3.tap "l1.act"
// CHECK: dsv3.tap "l1.shared.act"
// CHECK-NOT: dsv3.tap "l1.act"
// What would enter the next layer.
// CHECK: %[[OUT:.*]] = dsv3.add {{.*}} site "l1.out"
// CHECK-NEXT: dsv3.tap "l1.out", %[[OUT]]
// CHECK-NEXT: dsv3.use @final_norm

// A head reads what enters its program.
// CHECK-LABEL: dsv3.program @head
// CHECK-NOT: dsv3.tap
// CHECK-LABEL: dsv3.program @mtp
