// On a device: one gpu.module, one kernel per distinct launch, which programs share.
// RUN: dsv3-opt %s --dsv3-outline-kernels="target=test-gpu" | FileCheck %s
// RUN: dsv3-opt %s --dsv3-outline-kernels="target=test-gpu" --dsv3-verify-stage=stage=tile | FileCheck %s
// RUN: not dsv3-opt %s --dsv3-outline-kernels="target=sm_10" 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not dsv3-opt %s --dsv3-outline-kernels="target=x86-64" 2>&1 | FileCheck %s --check-prefix=FOREIGN
// TARGET: expected a target ({{.*}}test-gpu, x86-64), got 'sm_10'
// FOREIGN: 'kernel.gemm' op has no emitter for target x86-64

#num = #kernel.numerics<acc = f32, mul = bf16, chain = "k_ascending">
#sch = #kernel.schedule<"testgpu.gemm", {}>
#plain = #kernel.packed<none, #kernel.layout<"(n, k) -> [n, k]">>

dsv3.weight @w : tensor<32x64xbf16> from #dsv3.file<"w">
kernel.weight @w.packed at 0 bytes 4096 : tensor<32x64xbf16, #plain> from @w

// CHECK-LABEL: dsv3.program @prefill
// CHECK: kernel.gemm {{.*}} site "one" {kernel.symbol = @[[GEMM:gemm_bf16_n32_k64_0]]}
dsv3.program @prefill(%x: tensor<16x64xbf16>) -> tensor<16x32xbf16> {
  %w = kernel.use @w.packed : tensor<32x64xbf16, #plain>
  %d = kernel.empty : tensor<16x32xbf16>
  %y = kernel.gemm ins(%x, %w : tensor<16x64xbf16>, tensor<32x64xbf16, #plain>) outs(%d : tensor<16x32xbf16>) numerics #num schedule #sch site "one"
  dsv3.return %y : tensor<16x32xbf16>
}
// CHECK-LABEL: dsv3.program @decode
// CHECK: kernel.gemm {{.*}} site "one" {kernel.symbol = @[[GEMM]]}
dsv3.program @decode(%x: tensor<1x64xbf16>) -> tensor<1x32xbf16> {
  %w = kernel.use @w.packed : tensor<32x64xbf16, #plain>
  %d = kernel.empty : tensor<1x32xbf16>
  %y = kernel.gemm ins(%x, %w : tensor<1x64xbf16>, tensor<32x64xbf16, #plain>) outs(%d : tensor<1x32xbf16>) numerics #num schedule #sch site "one"
  dsv3.return %y : tensor<1x32xbf16>
}
// CHECK: gpu.module @test_gpu {
// CHECK: llvm.func @[[GEMM]](%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: i64) attributes {nvvm.kernel}
// CHECK-NOT: llvm.func
