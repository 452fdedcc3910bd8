// Every op of the rt dialect in its custom form.
// RUN: dsv3-opt %s | dsv3-opt | FileCheck %s

// CHECK: rt.module @x86_64 target "x86-64" abi 4 step(tokens 32, seqs 2, pages 4) kv(layers 3, page 64, row 40, bf16)
rt.module @x86_64 target "x86-64" abi 4 step(tokens 32, seqs 2, pages 4) kv(layers 3, page 64, row 40, bf16) {
  // CHECK: rt.pool weights size 4096
  rt.pool weights size 4096
  // CHECK: rt.pool kv size 0
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 128
  rt.pool persist size 512
  // CHECK: rt.field "ids" kind 0 at 0 count 32 : i32
  rt.field "ids" kind 0 at 0 count 32 : i32
  // CHECK: rt.kernel @embed key "kernel.embed" refs 3 consts 1 scratch 64
  rt.kernel @embed key "kernel.embed" refs 3 consts 1 scratch 64
  // CHECK: rt.tap_point "embed" cols 2 : f32
  rt.tap_point "embed" cols 2 : f32
  // CHECK: rt.program @decode_b1 phase 1 tokens 1 seqs 1 qblocks 0 kblocks 0
  rt.program @decode_b1 phase 1 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    // CHECK: %[[IDS:.*]] = rt.view step at 0 size 4
    %ids = rt.view step at 0 size 4
    %w = rt.view weights at 0 size 64
    // CHECK: %[[X:.*]] = rt.view arena at 64 size 8
    %x = rt.view arena at 64 size 8
    // CHECK: rt.launch_range @embed tiles(tokens div 4 mul 2) (%[[IDS]], %{{.*}}, %[[X]]) writes [2] consts [7] site "embed"
    rt.launch_range @embed tiles(tokens div 4 mul 2) (%ids, %w, %x) writes [2] consts [7] site "embed"
    // CHECK: rt.launch_range @embed tiles(one div 1 mul 1)
    %y = rt.view persist at 0 size 8
    rt.launch_range @embed tiles(one div 1 mul 1) (%ids, %w, %y) writes [2] consts [0] site "again"
    // CHECK: rt.tap "embed", %[[X]] rows tokens
    rt.tap "embed", %x rows tokens
    // CHECK: rt.output "logits", %{{.*}} cols 2 : f32
    rt.output "logits", %y cols 2 : f32
  }
}

// CHECK: rt.module @sm_90a_host target "sm_90a"
rt.module @sm_90a_host target "sm_90a" abi 4 step(tokens 32, seqs 2, pages 4) kv(layers 3, page 64, row 40, bf16) {
  rt.kernel @gemm key "kernel.gemm" refs 3 consts 0 scratch 0
  rt.program @decode_b1 phase 1 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    %x = rt.view arena at 0 size 64
    %w = rt.view weights at 0 size 4096
    %y = rt.view arena at 64 size 64
    // CHECK: rt.launch_grid @gemm grid [132, 2, 1] block 384 smem 222720 cluster 2 (%{{.*}}, %{{.*}}, %{{.*}}) params [#rt.tensor_map<0, bf16, dims = [32, 1] strides = [64] box = [32, 8] swizzle = 64>, #rt.tensor_map<1 + 1024, u8, dims = [256] box = [256]>, #rt.ptr<2>, #rt.ptr<2 + 16>, #rt.number<-1>] writes [2] site "l0.q"
    rt.launch_grid @gemm grid [132, 2, 1] block 384 smem 222720 cluster 2 (%x, %w, %y) params [#rt.tensor_map<0, bf16, dims = [32, 1] strides = [64] box = [32, 8] swizzle = 64>, #rt.tensor_map<1 + 1024, u8, dims = [256] box = [256]>, #rt.ptr<2>, #rt.ptr<2 + 16>, #rt.number<-1>] writes [2] site "l0.q"
  }
}
