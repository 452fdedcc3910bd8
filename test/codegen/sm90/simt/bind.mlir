// What thread-level kernels state: threads of a block, which only widths decide, and the order of a norm's additions. Then their
// names: programs of other capacities share them.
// RUN: dsv3-opt %s --dsv3-bind-kernels="target=sm_90a" -o %t.bound
// RUN: FileCheck %s < %t.bound
// RUN: dsv3-opt %t.bound --dsv3-outline-kernels="target=sm_90a" | FileCheck %s --check-prefix=OUT

// 896 vectors of 8: two for each of 448 threads, 3584 chains
// CHECK-DAG: #[[WIDE:num[0-9]*]] = #kernel.numerics<acc = f32, mul = f32, chain = "lanes3584">
// 64 vectors: one each
// CHECK-DAG: #[[LATENT:num[0-9]*]] = #kernel.numerics<acc = f32, mul = f32, chain = "lanes512">
// 33 single values: two warps
// CHECK-DAG: #[[ODD:num[0-9]*]] = #kernel.numerics<acc = f32, mul = f32, chain = "lanes64">
// CHECK-DAG: #[[ONE:num[0-9]*]] = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
// CHECK-DAG: #[[NORM:sch[0-9]*]] = #kernel.schedule<"sm90.norm", {threads = 448 : i64}>
// CHECK-DAG: #[[SMALL:sch[0-9]*]] = #kernel.schedule<"sm90.norm", {threads = 64 : i64}>
// CHECK-DAG: #[[APPEND:sch[0-9]*]] = #kernel.schedule<"sm90.kv_append", {threads = 64 : i64}>
// CHECK-DAG: #[[SWIGLU:sch[0-9]*]] = #kernel.schedule<"sm90.swiglu", {threads = 128 : i64}>
// CHECK-DAG: #[[ROUTE:sch[0-9]*]] = #kernel.schedule<"sm90.route", {threads = 256 : i64}>
// CHECK-DAG: #[[DISPATCH:sch[0-9]*]] = #kernel.schedule<"sm90.dispatch", {threads = 1024 : i64}>
// 1024 experts: 8 histograms fit
// CHECK-DAG: #[[MANY:sch[0-9]*]] = #kernel.schedule<"sm90.dispatch", {threads = 256 : i64}>
// CHECK-DAG: #[[GATHER:sch[0-9]*]] = #kernel.schedule<"sm90.gather", {threads = 128 : i64}>
// CHECK-DAG: #[[CODES:sch[0-9]*]] = #kernel.schedule<"sm90.gather_quantized", {threads = 128 : i64}>
// CHECK-DAG: #[[COMBINE:sch[0-9]*]] = #kernel.schedule<"sm90.attn_combine", {groups = 8 : i64, heads = 1 : i64, threads = 1024 : i64}>

!kv = !dsv3.kv<layers = 2, page = 64, latent = 512, rope = 64, bf16>
#rope = #dsv3.rope<dims = 64, theta = 10000.0, interleaved = true>
#plain = #kernel.packed<none, #kernel.layout<"(n) -> [n]">>
#group = #dsv3.blocked<f8E4M3FN, 1x128, f32>

dsv3.weight @g : tensor<7168xbf16> from #dsv3.file<"g">
kernel.weight @g.packed at 0 bytes 14336 : tensor<7168xbf16, #plain> from @g

// CHECK-LABEL: dsv3.program @decode_b4
dsv3.program @decode_b4(%x: tensor<4x7168xbf16>, %odd: tensor<4x33xf32>, %og: tensor<33xf32>, %logits: tensor<4x256xf32>,
                        %bias: tensor<256xf32>, %a: tensor<4x2112xbf16>, %lg: tensor<512xbf16>, %table: tensor<64x64xf32>, %seq: !dsv3.seq, %kv: !kv,
                        %partial: tensor<32x8x512xf32>, %lse: tensor<32x8xf32>, %splits: tensor<5xi32>, %out: tensor<4x8x512xbf16>,
                        %q: tensor<4x7168xbf16, #group>, %many: tensor<4x8xi32>) attributes {phase = "decode", tokens = 4 : i64, seqs = 4 : i64} {
  %g = kernel.use @g.packed : tensor<7168xbf16, #plain>
  %d = kernel.empty : tensor<4x7168xbf16>
  // CHECK: kernel.norm {{.*}} numerics #[[WIDE]] schedule #[[NORM]] site "norm"
  %n = kernel.norm ins(%x, %g : tensor<4x7168xbf16>, tensor<7168xbf16, #plain>) outs(%d : tensor<4x7168xbf16>) eps 1.0e-06 site "norm"
  %e = kernel.empty : tensor<4x33xf32>
  // CHECK: kernel.norm {{.*}} numerics #[[ODD]] schedule #[[SMALL]] site "odd"
  %o = kernel.norm ins(%odd, %og : tensor<4x33xf32>, tensor<33xf32>) outs(%e : tensor<4x33xf32>) eps 1.0e-06 site "odd"
  %f = kernel.empty : tensor<4x7168xbf16>
  // CHECK: kernel.swiglu {{.*}} numerics #[[ONE]] schedule #[[SWIGLU]] site "act"
  %s = kernel.swiglu ins(%x, %n : tensor<4x7168xbf16>, tensor<4x7168xbf16>) outs(%f : tensor<4x7168xbf16>) site "act"
  %v = kernel.view %a at 1536 : tensor<4x2112xbf16> -> tensor<4x576xbf16>
  // CHECK: kernel.kv_append {{.*}} numerics #[[LATENT]] schedule #[[APPEND]] site "append"
  %c = kernel.kv_append ins(%v, %lg, %table, %seq : tensor<4x576xbf16>, tensor<512xbf16>, tensor<64x64xf32>) outs(%kv[1] : !kv) eps 1.0e-06 #rope site "append"
  %i = kernel.empty : tensor<4x8xi32>
  %w = kernel.empty : tensor<4x8xf32>
  // CHECK: kernel.route {{.*}} numerics #[[ONE]] schedule #[[ROUTE]] site "route"
  %ids, %weights = kernel.route ins(%logits, %bias : tensor<4x256xf32>, tensor<256xf32>) outs(%i, %w : tensor<4x8xi32>, tensor<4x8xf32>)
    groups 8 keep 4 top 8 norm true scale 2.5 site "route" -> tensor<4x8xi32>, tensor<4x8xf32>
  %f0 = kernel.empty : tensor<257xi32>
  %t0 = kernel.empty : tensor<32xi32>
  %r0 = kernel.empty : tensor<4x8xi32>
  // CHECK: kernel.dispatch {{.*}} schedule #[[DISPATCH]] site "dispatch"
  %offsets, %token_of, %row_of = kernel.dispatch ins(%ids : tensor<4x8xi32>) outs(%f0, %t0, %r0 : tensor<257xi32>, tensor<32xi32>, tensor<4x8xi32>)
    site "dispatch" -> tensor<257xi32>, tensor<32xi32>, tensor<4x8xi32>
  %f1 = kernel.empty : tensor<1025xi32>
  %t1 = kernel.empty : tensor<32xi32>
  %r1 = kernel.empty : tensor<4x8xi32>
  // CHECK: kernel.dispatch {{.*}} schedule #[[MANY]] site "many"
  %m0, %m1, %m2 = kernel.dispatch ins(%many : tensor<4x8xi32>) outs(%f1, %t1, %r1 : tensor<1025xi32>, tensor<32xi32>, tensor<4x8xi32>)
    site "many" -> tensor<1025xi32>, tensor<32xi32>, tensor<4x8xi32>
  %y = kernel.empty : tensor<32x7168xbf16>
  // CHECK: kernel.gather {{.*}} schedule #[[GATHER]] site "rows"
  %rows = kernel.gather ins(%n, %token_of : tensor<4x7168xbf16>, tensor<32xi32>) outs(%y : tensor<32x7168xbf16>) site "rows"
  %z = kernel.empty : tensor<32x7168xbf16, #group>
  // CHECK: kernel.gather {{.*}} schedule #[[CODES]] site "codes"
  %codes = kernel.gather ins(%q, %token_of : tensor<4x7168xbf16, #group>, tensor<32xi32>) outs(%z : tensor<32x7168xbf16, #group>) site "codes"
  // CHECK: kernel.attn_combine {{.*}} schedule #[[COMBINE]] site "combine"
  %done = kernel.attn_combine ins(%partial, %lse, %splits, %seq : tensor<32x8x512xf32>, tensor<32x8xf32>, tensor<5xi32>) outs(%out : tensor<4x8x512xbf16>) site "combine"
  dsv3.return
}

dsv3.program @decode_b1(%x: tensor<1x7168xbf16>) attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  %g = kernel.use @g.packed : tensor<7168xbf16, #plain>
  %d = kernel.empty : tensor<1x7168xbf16>
  %n = kernel.norm ins(%x, %g : tensor<1x7168xbf16>, tensor<7168xbf16, #plain>) outs(%d : tensor<1x7168xbf16>) eps 1.0e-06 site "norm"
  dsv3.return
}

// OUT-LABEL: dsv3.program @decode_b4
// OUT: site "norm" {kernel.symbol = @[[NORM:norm_bf16_0]]}
// OUT-LABEL: dsv3.program @decode_b1
// OUT: site "norm" {kernel.symbol = @[[NORM]]}
// OUT: gpu.module @sm_90a
// scalars, x, gamma, out
// OUT: llvm.func @[[NORM]](%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>) attributes {nvvm.kernel, nvvm.reqntid = array<i32: 448, 1, 1>}
// OUT-NOT: llvm.func @{{.*}} attributes {nvvm.kernel, nvvm.reqntid = array<i32: 448, 1, 1>}
// scalars, five tensors and fields, the cache; the layer as a number
// OUT: llvm.func @kv_append_{{.*}}(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: i64) attributes {nvvm.kernel
