// One body per distinct launch and variant; launches name it.
// RUN: dsv3-opt %s --dsv3-outline-kernels="variants=avx2,avx512" | FileCheck %s
// RUN: not dsv3-opt %s --dsv3-outline-kernels="variants=sse2" 2>&1 | FileCheck %s --check-prefix=VARIANT
// VARIANT: expected the name of a code variant, got 'sse2'

#num = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
#add = #kernel.schedule<"x86.add", {}>
#plain = #kernel.packed<none, #kernel.layout<"(n, k) -> [n, k]">>

dsv3.weight @table : tensor<64x32xf32> from #dsv3.file<"table">
kernel.weight @table.packed at 0 bytes 8192 : tensor<64x32xf32, #plain> from @table

// Rows are capacities, so the two programs share the kernel of `add`; another width has its own.
// CHECK-LABEL: dsv3.program @prefill
// CHECK: kernel.embed {{.*}} site "embed" {kernel.symbol = @[[EMBED:embed_i32_f32_n64_k32_0]]}
// CHECK: kernel.add {{.*}} site "one" {kernel.symbol = @[[ADD:add_f32_0]]}
// CHECK: kernel.add {{.*}} site "two" {kernel.symbol = @[[ADD]]}
// CHECK: kernel.add {{.*}} site "wide" {kernel.symbol = @[[WIDE:add_f32_1]]}
dsv3.program @prefill(%ids: tensor<16xi32> {dsv3.name = "ids"}, %y: tensor<16x64xf32>) -> (tensor<16x32xf32>, tensor<16x64xf32>) {
  %w = kernel.use @table.packed : tensor<64x32xf32, #plain>
  %d0 = kernel.empty : tensor<16x32xf32>
  %x = kernel.embed ins(%ids, %w : tensor<16xi32>, tensor<64x32xf32, #plain>) outs(%d0 : tensor<16x32xf32>) numerics #num schedule #kernel.schedule<"x86.embed", {}> site "embed"
  %d1 = kernel.empty : tensor<16x32xf32>
  %a = kernel.add ins(%x, %x : tensor<16x32xf32>, tensor<16x32xf32>) outs(%d1 : tensor<16x32xf32>) numerics #num schedule #add site "one"
  %d2 = kernel.empty : tensor<16x32xf32>
  %b = kernel.add ins(%a, %x : tensor<16x32xf32>, tensor<16x32xf32>) outs(%d2 : tensor<16x32xf32>) numerics #num schedule #add site "two"
  %d3 = kernel.empty : tensor<16x64xf32>
  %c = kernel.add ins(%y, %y : tensor<16x64xf32>, tensor<16x64xf32>) outs(%d3 : tensor<16x64xf32>) numerics #num schedule #add site "wide"
  dsv3.return %b, %c : tensor<16x32xf32>, tensor<16x64xf32>
}

// CHECK-LABEL: dsv3.program @decode
// CHECK: kernel.add {{.*}} site "one" {kernel.symbol = @[[ADD]]}
dsv3.program @decode(%x: tensor<1x32xf32>) -> tensor<1x32xf32> {
  %d = kernel.empty : tensor<1x32xf32>
  %a = kernel.add ins(%x, %x : tensor<1x32xf32>, tensor<1x32xf32>) outs(%d : tensor<1x32xf32>) numerics #num schedule #add site "one"
  dsv3.return %a : tensor<1x32xf32>
}

// CHECK: module @avx2 {
// CHECK: llvm.func @[[EMBED]](%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr) {
// CHECK: llvm.func @[[ADD]](
// CHECK: llvm.func @[[WIDE]](
// CHECK-NOT: llvm.func
// CHECK: module @avx512 {
// CHECK: llvm.func @[[EMBED]](
// CHECK: llvm.func @[[ADD]](
// CHECK: llvm.func @[[WIDE]](
// CHECK-NOT: llvm.func
