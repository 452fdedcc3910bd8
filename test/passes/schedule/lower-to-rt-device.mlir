// Launches of a device become grids with parameters.
// RUN: dsv3-opt %s --dsv3-outline-kernels --dsv3-lower-to-rt --dsv3-verify-rt --dsv3-verify-stage=stage=schedule 2>/dev/null | FileCheck %s

#num = #kernel.numerics<acc = f32, mul = bf16, chain = "k_ascending">
#gemm = #kernel.schedule<"testgpu.gemm", {}>
#plan = #kernel.schedule<"testgpu.attn_plan", {}>
#split = #kernel.schedule<"testgpu.attn_split", {}>
#combine = #kernel.schedule<"testgpu.attn_combine", {}>
#embed = #kernel.schedule<"testgpu.embed", {}>
#plain = #kernel.packed<none, #kernel.layout<"(n, k) -> [n, k]">>
!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>

module attributes {dsv3.target = #target.gpu<"test-gpu", sm_count = 4, smem = 65536, has = ["tma"]>,
                   dsv3.capacities = {tokens = 32 : i64, seqs = 2 : i64, pages = 4 : i64, qblocks = 4 : i64, kblocks = 6 : i64, max_model_len = 256 : i64}} {

dsv3.weight @table : tensor<64x128xbf16> from #dsv3.file<"table">
kernel.weight @table.packed at 0 bytes 16384 : tensor<64x128xbf16, #plain> from @table

// CHECK: rt.module @test_gpu_host target "test-gpu" abi 4
// CHECK: rt.kernel @embed_{{.*}} key "kernel.embed({{.*}}" refs 3 consts 0 scratch 0
// CHECK: rt.program @decode_b2
// CHECK: %[[IDS:.*]] = rt.view step at 0 size 8
// CHECK: %[[W:.*]] = rt.view weights at 0 size 16384
// CHECK: %[[X:.*]] = rt.view arena at {{.*}} size 512
// CHECK: rt.launch_grid @embed_{{.*}} grid [2, 1, 1] block 128 smem 1024 cluster 1 (%[[IDS]], %[[W]], %[[X]]) params [#rt.ptr<0>, #rt.ptr<1>, #rt.ptr<2>, #rt.number<7>] writes [2] site "embed"
// CHECK: rt.launch_grid @gemm_{{.*}} (%[[X]], %[[W]], %[[Y:.*]]) params [#rt.tensor_map<0, bf16, dims = [128, 2] strides = [256] box = [64, 64] swizzle = 128>, #rt.ptr<1>, #rt.ptr<2>, #rt.number<7>] writes [2] site "head"
// The sequences of the step are the field that the emitter asks for; three destinations are written.
// CHECK: %[[CTX:.*]] = rt.view step at {{.*}} size 8
// CHECK: rt.launch_grid @attn_plan_i32_0 {{.*}} (%[[CTX]], %[[I:.*]], %[[P:.*]], %[[S:.*]]) params [#rt.ptr<0>, #rt.ptr<1>, #rt.ptr<2>, #rt.ptr<3>, #rt.number<7>] writes [1, 2, 3] site "attn_plan"
// The cache's map is open. Query and rope of this test are the same rows.
// CHECK: rt.launch_grid @attn_split_{{.*}} (%{{.*}}, %{{.*}}, %{{.*}}, %[[CTX]], %[[I]], %[[P]], %[[O:.*]], %[[PART:.*]], %[[LSE:.*]]) params [#rt.ptr<0>, #rt.ptr<1>, #rt.tensor_map<2, bf16, dims = [192, 0] strides = [384] box = [64, 64] swizzle = 128>, {{.*}}] writes [6, 7, 8] site "attn"
// In place: combine writes the rows that split left.
// CHECK: rt.launch_grid @attn_combine_{{.*}} (%[[PART]], %[[LSE]], %[[S]], %[[CTX]], %[[O]]) params {{.*}} writes [4] site "attn_combine"
// CHECK: rt.output "logits", %[[Y]] cols 64 : f32
dsv3.program @decode_b2(%ids: tensor<2xi32> {dsv3.name = "ids"}, %h: tensor<2x1x128xbf16> {dsv3.name = "hidden"}, %seq: !dsv3.seq {dsv3.name = "seq"}, %kv: !kv {dsv3.name = "kv"}) -> (tensor<2x64xf32> {dsv3.name = "logits"}, tensor<2x1x128xbf16> {dsv3.name = "hidden"}, !kv {dsv3.name = "kv"}) attributes {phase = "decode", tokens = 2 : i64, seqs = 2 : i64} {
  %w = kernel.use @table.packed : tensor<64x128xbf16, #plain>
  %d = kernel.empty : tensor<2x128xbf16>
  %x = kernel.embed ins(%ids, %w : tensor<2xi32>, tensor<64x128xbf16, #plain>) outs(%d : tensor<2x128xbf16>) numerics #num schedule #embed site "embed"
  %l0 = kernel.empty : tensor<2x64xf32>
  %l = kernel.gemm ins(%x, %w : tensor<2x128xbf16>, tensor<64x128xbf16, #plain>) outs(%l0 : tensor<2x64xf32>) numerics #num schedule #gemm site "head"
  %qr = kernel.view %h at 64 : tensor<2x1x128xbf16> -> tensor<2x1x64xbf16>
  %i0 = kernel.empty : tensor<16x5xi32>
  %p0 = kernel.empty : tensor<5xi32>
  %s0 = kernel.empty : tensor<3xi32>
  %i, %p, %s = kernel.attn_plan ins(%seq) outs(%i0, %p0, %s0 : tensor<16x5xi32>, tensor<5xi32>, tensor<3xi32>) split <max = 8, pages = 4> numerics #num schedule #plan site "attn_plan" -> tensor<16x5xi32>, tensor<5xi32>, tensor<3xi32>
  %o0 = kernel.empty : tensor<2x1x128xbf16>
  %t0 = kernel.empty : tensor<2x1x128xf32>
  %e0 = kernel.empty : tensor<2x1xf32>
  %o, %t, %e = kernel.attn_split ins(%h, %qr, %kv[1], %seq, %i, %p : tensor<2x1x128xbf16>, tensor<2x1x64xbf16>, !kv, tensor<16x5xi32>, tensor<5xi32>) outs(%o0, %t0, %e0 : tensor<2x1x128xbf16>, tensor<2x1x128xf32>, tensor<2x1xf32>) scale 0.125 numerics #num schedule #split site "attn" -> tensor<2x1x128xbf16>, tensor<2x1x128xf32>, tensor<2x1xf32>
  %q = kernel.attn_combine ins(%t, %e, %s, %seq : tensor<2x1x128xf32>, tensor<2x1xf32>, tensor<3xi32>) outs(%o : tensor<2x1x128xbf16>) numerics #num schedule #combine site "attn_combine"
  dsv3.return %l, %q, %kv : tensor<2x64xf32>, tensor<2x1x128xbf16>, !kv
}
}
