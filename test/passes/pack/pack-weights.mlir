// One layout and one place for every weight, from what all readers in all programs want.
// RUN: dsv3-opt %s --dsv3-pack-weights=target=test --dsv3-erase-unused-weights --dsv3-verify-stage=stage=pack -split-input-file | FileCheck %s
// RUN: dsv3-opt %inputs/model.mlir --dsv3-stage-specialize="max-batch=2 prefill-chunk=16 max-model-len=128" --dsv3-stage-fuse --dsv3-stage-bind --dsv3-stage-pack | FileCheck %s --check-prefix=X86

// CHECK-DAG: #[[ROWS:lay[0-9]*]] = #kernel.layout<"(n, k) -> [n, k]">
// CHECK-DAG: #[[VECTOR:lay[0-9]*]] = #kernel.layout<"(n) -> [n]">
// CHECK-DAG: #[[PANEL:lay[0-9]*]] = #kernel.layout<"(n, k) -> [n/16, k, n%16] pad n:16">
// CHECK-DAG: #[[SCALE:lay[0-9]*]] = #kernel.layout<"(n, k) -> [n/128, k/128]">
// CHECK-DAG: #[[PROWS:packed[0-9]*]] = #kernel.packed<none, #[[ROWS]]>
// CHECK-DAG: #[[PVECTOR:packed[0-9]*]] = #kernel.packed<none, #[[VECTOR]]>
// CHECK-DAG: #[[PPANEL:packed[0-9]*]] = #kernel.packed<#{{.*}}, #[[PANEL]], scale = #[[SCALE]]>

#fp8b = #dsv3.blocked<f8E4M3FN, 128x128, f32>
#num = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">

// A recipe that another reads stays; one that nobody reads goes and its tensor is accounted for.
// CHECK: dsv3.weight @half : tensor<100x128xbf16
// CHECK: dsv3.weight @w :
// 2 halves of 100 rows, padded to 208 rows of 128 bytes; 2 scales.
// CHECK-NEXT: kernel.weight @w.packed at 0 bytes 26632 : tensor<200x128xbf16, #[[PPANEL]]> from @w
// CHECK: dsv3.weight @gamma
// CHECK-NEXT: kernel.weight @gamma.packed at 28672 bytes 256 : tensor<128xbf16, #[[PVECTOR]]> from @gamma
// CHECK: dsv3.weight @table
// CHECK-NEXT: dsv3.ignored "unread" reason "no_reader"
// CHECK-NEXT: kernel.weight @table.packed at 32768 bytes 8192 : tensor<32x128xbf16, #[[PROWS]]> from @table
// CHECK-NOT: dsv3.weight
dsv3.weight @half : tensor<100x128xbf16, #fp8b> from #dsv3.file<"w.weight", scale "w.scale">
dsv3.weight @w : tensor<200x128xbf16, #fp8b> from #dsv3.concat<0, [#dsv3.ref<@half>, #dsv3.ref<@half>]>
dsv3.weight @gamma : tensor<128xbf16> from #dsv3.file<"gamma">
dsv3.weight @table : tensor<32x128xbf16> from #dsv3.file<"table">
dsv3.weight @unread : tensor<32x128xbf16> from #dsv3.file<"unread">
// Equal recipe and type: one place serves both names.
dsv3.weight @again : tensor<32x128xbf16> from #dsv3.file<"table">

// CHECK-LABEL: dsv3.program @decode_b1
dsv3.program @decode_b1(%ids: tensor<1xi32>, %x: tensor<1x128xbf16>, %o: tensor<1x200xbf16>) attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  // CHECK-NOT: dsv3.use
  // CHECK: %[[T:.*]] = kernel.use @table.packed : tensor<32x128xbf16, #[[PROWS]]>
  // CHECK: %[[A:.*]] = kernel.use @table.packed : tensor<32x128xbf16, #[[PROWS]]>
  // CHECK: %[[G:.*]] = kernel.use @gamma.packed : tensor<128xbf16, #[[PVECTOR]]>
  // CHECK: %[[W:.*]] = kernel.use @w.packed : tensor<200x128xbf16, #[[PPANEL]]>
  %t = dsv3.use @table : tensor<32x128xbf16>
  %a = dsv3.use @again : tensor<32x128xbf16>
  %g = dsv3.use @gamma : tensor<128xbf16>
  %w = dsv3.use @w : tensor<200x128xbf16, #fp8b>
  // CHECK: kernel.embed ins(%arg0, %[[T]] :
  // CHECK: kernel.embed ins(%arg0, %[[A]] :
  // CHECK: kernel.norm ins(%arg1, %[[G]] :
  // CHECK: kernel.gemm ins(%{{.*}}, %[[W]] :
  %e = kernel.embed ins(%ids, %t : tensor<1xi32>, tensor<32x128xbf16>) outs(%x : tensor<1x128xbf16>) numerics #num schedule #kernel.schedule<"test.embed", {}> site "e"
  %f = kernel.embed ins(%ids, %a : tensor<1xi32>, tensor<32x128xbf16>) outs(%x : tensor<1x128xbf16>) numerics #num schedule #kernel.schedule<"test.embed", {}> site "f"
  %n = kernel.norm ins(%x, %g : tensor<1x128xbf16>, tensor<128xbf16>) outs(%x : tensor<1x128xbf16>) eps 1.0e-06 numerics #num schedule #kernel.schedule<"test.norm", {}> site "n"
  %y = kernel.gemm ins(%n, %w : tensor<1x128xbf16>, tensor<200x128xbf16, #fp8b>) outs(%o : tensor<1x200xbf16>) numerics #num schedule #kernel.schedule<"test.gemm", {}> site "y"
  dsv3.return
}

// -----

// A tied table whose readers want two packings is stored under both names.
// CHECK: #[[TIED:packed]] = #kernel.packed<none, #{{.*}}>
// CHECK: #[[HEAD:packed1]] = #kernel.packed<none, #{{.*}}>
// CHECK: kernel.weight @embed.packed at 0 bytes 8192 : tensor<32x128xbf16, #[[TIED]]> from @embed
// CHECK: kernel.weight @head.packed at 8192 bytes 8192 : tensor<32x128xbf16, #[[HEAD]]> from @head
#num = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
dsv3.weight @embed : tensor<32x128xbf16> from #dsv3.file<"table">
dsv3.weight @head : tensor<32x128xbf16> from #dsv3.file<"table">
dsv3.program @p(%ids: tensor<1xi32>, %x: tensor<1x128xbf16>, %o: tensor<1x32xbf16>) {
  %t = dsv3.use @embed : tensor<32x128xbf16>
  %w = dsv3.use @head : tensor<32x128xbf16>
  %e = kernel.embed ins(%ids, %t : tensor<1xi32>, tensor<32x128xbf16>) outs(%x : tensor<1x128xbf16>) numerics #num schedule #kernel.schedule<"test.embed", {}> site "e"
  %y = kernel.gemm ins(%e, %w : tensor<1x128xbf16>, tensor<32x128xbf16>) outs(%o : tensor<1x32xbf16>) numerics #num schedule #kernel.schedule<"test.gemm", {}> site "y"
  dsv3.return
}

// The product's target: prefill and decode read one packed copy of the value half.
// X86: kernel.weight @l0.kv_b.v.packed
// X86-LABEL: dsv3.program @prefill_t16
// X86: kernel.use @l0.kv_b.v.packed
// X86-LABEL: dsv3.program @decode_b1
// X86: kernel.use @l0.kv_b.v.packed
// X86-NOT: dsv3.use
