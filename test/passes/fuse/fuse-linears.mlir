// Linears of one input become one over a joined weight.
// RUN: dsv3-opt %s --dsv3-fuse-linears -split-input-file -verify-diagnostics | FileCheck %s

#fp8b = #dsv3.blocked<f8E4M3FN, 128x128, f32>

// The joined weight stands after its parts, once for both programs.
// CHECK: dsv3.weight @l0.kv_a
// CHECK-NEXT: dsv3.weight @l0.q_a_kv_a : tensor<320x256xbf16, #{{.*}}> from #dsv3.concat<0, [#dsv3.ref<@l0.q_a>, #dsv3.ref<@l0.kv_a>]>
// CHECK-NOT: dsv3.weight
dsv3.weight @l0.q_a : tensor<128x256xbf16, #fp8b> from #dsv3.file<"q_a", scale "q_a.scale">
dsv3.weight @l0.kv_a : tensor<192x256xbf16, #fp8b> from #dsv3.file<"kv_a", scale "kv_a.scale">

// CHECK-LABEL: dsv3.program @pair
// CHECK: %[[W:.*]] = dsv3.use @l0.q_a_kv_a
// CHECK: %[[Y:.*]] = dsv3.linear %arg0, %[[W]] site "l0.q_a_kv_a" {{.*}} -> tensor<4x320xbf16>
// CHECK: %[[P:.*]]:2 = dsv3.split %[[Y]] : tensor<4x320xbf16> -> tensor<4x128xbf16>, tensor<4x192xbf16>
// CHECK-NOT: dsv3.linear
// CHECK: dsv3.return %[[P]]#0, %[[P]]#1
dsv3.program @pair(%x: tensor<4x256xbf16>) -> (tensor<4x128xbf16>, tensor<4x192xbf16>) {
  %wq = dsv3.use @l0.q_a : tensor<128x256xbf16, #fp8b>
  %q = dsv3.linear %x, %wq site "l0.q_a" : tensor<4x256xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<4x128xbf16>
  %wk = dsv3.use @l0.kv_a : tensor<192x256xbf16, #fp8b>
  %k = dsv3.linear %x, %wk site "l0.kv_a" : tensor<4x256xbf16>, tensor<192x256xbf16, #fp8b> -> tensor<4x192xbf16>
  dsv3.return %q, %k : tensor<4x128xbf16>, tensor<4x192xbf16>
}

// What is only split further is split at once; a tap keeps its part whole.
// CHECK-LABEL: dsv3.program @split
// CHECK: %[[P:.*]]:3 = dsv3.split %{{.*}} : tensor<4x320xbf16> -> tensor<4x128xbf16>, tensor<4x128xbf16>, tensor<4x64xbf16>
// CHECK-NEXT: dsv3.tap "l0.q_a", %[[P]]#0
// CHECK: dsv3.return %[[P]]#0, %[[P]]#1, %[[P]]#2
dsv3.program @split(%x: tensor<4x256xbf16>) -> (tensor<4x128xbf16>, tensor<4x128xbf16>, tensor<4x64xbf16>) {
  %wq = dsv3.use @l0.q_a : tensor<128x256xbf16, #fp8b>
  %q = dsv3.linear %x, %wq site "l0.q_a" : tensor<4x256xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<4x128xbf16>
  dsv3.tap "l0.q_a", %q : tensor<4x128xbf16>
  %wk = dsv3.use @l0.kv_a : tensor<192x256xbf16, #fp8b>
  %k = dsv3.linear %x, %wk site "l0.kv_a" : tensor<4x256xbf16>, tensor<192x256xbf16, #fp8b> -> tensor<4x192xbf16>
  %c, %r = dsv3.split %k : tensor<4x192xbf16> -> tensor<4x128xbf16>, tensor<4x64xbf16>
  dsv3.return %q, %c, %r : tensor<4x128xbf16>, tensor<4x128xbf16>, tensor<4x64xbf16>
}

// CHECK-LABEL: dsv3.program @tapped_split
// CHECK: %[[P:.*]]:2 = dsv3.split
// CHECK: dsv3.tap "l0.kv_a", %[[P]]#1
// CHECK-NEXT: dsv3.split %[[P]]#1
dsv3.program @tapped_split(%x: tensor<4x256xbf16>) -> (tensor<4x128xbf16>, tensor<4x128xbf16>, tensor<4x64xbf16>) {
  %wq = dsv3.use @l0.q_a : tensor<128x256xbf16, #fp8b>
  %q = dsv3.linear %x, %wq site "l0.q_a" : tensor<4x256xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<4x128xbf16>
  %wk = dsv3.use @l0.kv_a : tensor<192x256xbf16, #fp8b>
  %k = dsv3.linear %x, %wk site "l0.kv_a" : tensor<4x256xbf16>, tensor<192x256xbf16, #fp8b> -> tensor<4x192xbf16>
  dsv3.tap "l0.kv_a", %k : tensor<4x192xbf16>
  %c, %r = dsv3.split %k : tensor<4x192xbf16> -> tensor<4x128xbf16>, tensor<4x64xbf16>
  dsv3.return %q, %c, %r : tensor<4x128xbf16>, tensor<4x128xbf16>, tensor<4x64xbf16>
}

// -----

#fp8b = #dsv3.blocked<f8E4M3FN, 128x128, f32>

// The first ends inside a block, so it stands last.
// CHECK: dsv3.weight @l0.kv_a_q_a : tensor<320x256xbf16, #{{.*}}> from #dsv3.concat<0, [#dsv3.ref<@l0.kv_a>, #dsv3.ref<@l0.q_a>]>
dsv3.weight @l0.q_a : tensor<192x256xbf16, #fp8b> from #dsv3.file<"q_a", scale "q_a.scale">
dsv3.weight @l0.kv_a : tensor<128x256xbf16, #fp8b> from #dsv3.file<"kv_a", scale "kv_a.scale">
// CHECK-LABEL: dsv3.program @swapped
// CHECK: %[[P:.*]]:2 = dsv3.split %{{.*}} : tensor<4x320xbf16> -> tensor<4x128xbf16>, tensor<4x192xbf16>
// CHECK: dsv3.return %[[P]]#1, %[[P]]#0
dsv3.program @swapped(%x: tensor<4x256xbf16>) -> (tensor<4x192xbf16>, tensor<4x128xbf16>) {
  %wq = dsv3.use @l0.q_a : tensor<192x256xbf16, #fp8b>
  %q = dsv3.linear %x, %wq site "l0.q_a" : tensor<4x256xbf16>, tensor<192x256xbf16, #fp8b> -> tensor<4x192xbf16>
  %wk = dsv3.use @l0.kv_a : tensor<128x256xbf16, #fp8b>
  %k = dsv3.linear %x, %wk site "l0.kv_a" : tensor<4x256xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<4x128xbf16>
  dsv3.return %q, %k : tensor<4x192xbf16>, tensor<4x128xbf16>
}

// -----

#fp8b = #dsv3.blocked<f8E4M3FN, 128x128, f32>

// Both end inside a block: the grid forbids it, and says so.
// CHECK-NOT: dsv3.concat
dsv3.weight @l0.q_a : tensor<192x256xbf16, #fp8b> from #dsv3.file<"q_a", scale "q_a.scale">
dsv3.weight @l0.kv_a : tensor<96x256xbf16, #fp8b> from #dsv3.file<"kv_a", scale "kv_a.scale">
dsv3.program @grid(%x: tensor<4x256xbf16>) -> (tensor<4x192xbf16>, tensor<4x96xbf16>) {
  %wq = dsv3.use @l0.q_a : tensor<192x256xbf16, #fp8b>
  // expected-remark @+1 {{left apart from its 1 neighbours: the scale grids of their weights do not continue}}
  %q = dsv3.linear %x, %wq site "l0.q_a" : tensor<4x256xbf16>, tensor<192x256xbf16, #fp8b> -> tensor<4x192xbf16>
  %wk = dsv3.use @l0.kv_a : tensor<96x256xbf16, #fp8b>
  %k = dsv3.linear %x, %wk site "l0.kv_a" : tensor<4x256xbf16>, tensor<96x256xbf16, #fp8b> -> tensor<4x96xbf16>
  dsv3.return %q, %k : tensor<4x192xbf16>, tensor<4x96xbf16>
}

// -----

#fp8b = #dsv3.blocked<f8E4M3FN, 128x128, f32>

// Left alone: another scheme, another result type, another input, a result with heads.
// CHECK-LABEL: dsv3.program @alone
// CHECK-COUNT-5: dsv3.linear
// CHECK-NOT: dsv3.split
dsv3.weight @w : tensor<128x256xbf16, #fp8b> from #dsv3.file<"w", scale "w.scale">
dsv3.weight @plain : tensor<128x256xbf16> from #dsv3.file<"plain">
dsv3.program @alone(%x: tensor<4x256xbf16>, %z: tensor<4x256xbf16>) -> (tensor<4x128xbf16>, tensor<4x128xbf16>, tensor<4x128xf32>, tensor<4x128xbf16>, tensor<4x2x64xbf16>) {
  %w = dsv3.use @w : tensor<128x256xbf16, #fp8b>
  %p = dsv3.use @plain : tensor<128x256xbf16>
  %a = dsv3.linear %x, %w site "a" : tensor<4x256xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<4x128xbf16>
  %b = dsv3.linear %x, %p site "b" : tensor<4x256xbf16>, tensor<128x256xbf16> -> tensor<4x128xbf16>
  %c = dsv3.linear %x, %w site "c" : tensor<4x256xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<4x128xf32>
  %d = dsv3.linear %z, %w site "d" : tensor<4x256xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<4x128xbf16>
  %e = dsv3.linear %x, %w site "e" : tensor<4x256xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<4x2x64xbf16>
  dsv3.return %a, %b, %c, %d, %e : tensor<4x128xbf16>, tensor<4x128xbf16>, tensor<4x128xf32>, tensor<4x128xbf16>, tensor<4x2x64xbf16>
}
