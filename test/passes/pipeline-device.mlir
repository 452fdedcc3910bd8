// The stages on a whole small model for a device: what each leaves there.
// RUN: dsv3-opt %inputs/model.mlir --dsv3-stage-specialize="max-batch=2 prefill-chunk=32" --dsv3-stage-fuse --dsv3-stage-bind=target=test-gpu --dsv3-stage-pack=target=test-gpu --dsv3-stage-tile=target=test-gpu 2>/dev/null -o %t
// RUN: FileCheck %s --check-prefix=TILE --input-file=%t
// RUN: dsv3-opt %t --dsv3-stage-schedule=target=test-gpu 2>/dev/null | FileCheck %s
// RUN: not dsv3-opt %t --dsv3-stage-schedule=target=vax 2>&1 | FileCheck %s --check-prefix=VAX
// VAX: expected a target ({{.*}}test-gpu{{.*}}), got 'vax'

// TILE-LABEL: dsv3.program @prefill_t32
// TILE-NOT: kernel.attn_plan
// TILE: kernel.kv_expand {{.*}} key_rows {{.*}}site "l0.kv_expand"
// TILE: kernel.attn_prefill {{.*}} key_rows {{.*}}site "l0.attn"
// TILE-LABEL: dsv3.program @decode_b1
// TILE: kernel.attn_plan {{.*}}site "attn_plan"
// TILE-NOT: kernel.attn_plan
// TILE: kernel.attn_split {{.*}} schedule #{{.*}} site "l0.attn" {kernel.symbol = @[[SPLIT:attn_split_.*]]}
// TILE: kernel.attn_combine {{.*}} site "l0.attn_combine"
// Buckets and layers share bodies: their sizes are launch data.
// TILE-LABEL: dsv3.program @decode_b2
// TILE: kernel.attn_split {{.*}} {kernel.symbol = @[[SPLIT]]}
// TILE: gpu.module @test_gpu {
// TILE: llvm.func @[[SPLIT]](

// CHECK: rt.module @test_gpu_host target "test-gpu" abi 4
// CHECK-NOT: rt.launch_range
// CHECK: rt.program @prefill_t32
// CHECK: rt.launch_grid @embed_{{.*}} site "embed"
// CHECK: rt.launch_grid @sample_{{.*}} grid {{.*}} site "sample"
// CHECK: rt.output "sampled", %{{.*}} cols 8 : i32
// CHECK: rt.program @decode_b2
// CHECK: rt.launch_grid @attn_plan_i32_0 {{.*}} site "attn_plan"
// CHECK: rt.launch_grid @attn_split_{{.*}} site "l0.attn"
// CHECK: rt.launch_grid @attn_combine_{{.*}} site "l0.attn_combine"
// CHECK: rt.launch_grid @sample_{{.*}} grid {{.*}} site "sample"
// CHECK: gpu.module @test_gpu {
