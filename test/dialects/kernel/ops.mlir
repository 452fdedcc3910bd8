// Every op and attribute of the kernel dialect survives printing and parsing, in its own form and in the generic one.
// RUN: dsv3-opt %s | dsv3-opt | FileCheck %s
// RUN: dsv3-opt %s --mlir-print-op-generic | dsv3-opt | FileCheck %s

// CHECK-DAG: #lay = #kernel.layout<"(n, k) -> [n, k]">
// CHECK-DAG: #lay1 = #kernel.layout<"(n, k) -> [n/16, k/4, n%16, k%4] pad n:16 k:4">
// CHECK-DAG: #lay2 = #kernel.layout<"(n, k) -> [n/128, k/128]">
// CHECK-DAG: #lay3 = #kernel.layout<"(r, c) -> [r/8, r%8, c/8 ^ r%8, c%8] pad r:8 c:64">
// CHECK-DAG: #num = #kernel.numerics<acc = f32, mul = bf16, chain = "k_ascending">
// CHECK-DAG: #num1 = #kernel.numerics<acc = f32, mul = f32, chain = "lanes16", keyBlock = 64>
// CHECK-DAG: #num2 = #kernel.numerics<acc = i32, mul = i8, chain = "k_ascending">
// CHECK-DAG: #sch = #kernel.schedule<"x86.gemm", {mb = 64 : i64, nb = 32 : i64}>
// CHECK-DAG: #sch1 = #kernel.schedule<"x86.norm", {}>
// CHECK-DAG: #packed = #kernel.packed<none, #lay>
// CHECK-DAG: #packed1 = #kernel.packed<#f8E4M3FNb, #lay1, scale = #lay2>
// CHECK-DAG: #packed2 = #kernel.packed<none, #lay3>

!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>
#fp8b = #dsv3.blocked<f8E4M3FN, 128x128, f32>
#rope = #dsv3.rope<dims = 64, theta = 10000.0, interleaved = true>
#num = #kernel.numerics<acc = f32, mul = bf16, chain = "k_ascending">
#softmax = #kernel.numerics<acc = f32, mul = f32, chain = "lanes16", keyBlock = 64>
#int = #kernel.numerics<acc = i32, mul = i8, chain = "k_ascending">
#sch = #kernel.schedule<"x86.gemm", {mb = 64 : i64, nb = 32 : i64}>
#none = #kernel.schedule<"x86.norm", {}>
#rows = #kernel.layout<"(n, k) -> [n, k]">
#panel = #kernel.layout<"(n, k) -> [n/16, k/4, n%16, k%4] pad n:16 k:4">
#swizzle = #kernel.layout<"(r, c) -> [r/8, r%8, c/8 ^ r%8, c%8] pad r:8 c:64">
#plain = #kernel.packed<none, #rows>
#packed = #kernel.packed<#fp8b, #panel, scale = #kernel.layout<"(n, k) -> [n/128, k/128]">>

//===-- Weights -----------------------------------------------------------===//

dsv3.weight @a : tensor<512x256xbf16> from #dsv3.file<"a.weight">
dsv3.weight @b : tensor<4x200x128xbf16, #fp8b> from #dsv3.stack<0 to 4, #dsv3.file<"b.{}.weight", scale "b.{}.scale">>
// 512 * 256 * 2 bytes
// CHECK: kernel.weight @a.packed at 0 bytes 262144 : tensor<512x256xbf16, #packed> from @a
kernel.weight @a.packed at 0 bytes 262144 : tensor<512x256xbf16, #plain> from @a
// 4 times 208 padded rows of 128 bytes; 4 times 2 scales
// CHECK: kernel.weight @b.packed at 262144 bytes 106528 : tensor<4x200x128xbf16, #packed1> from @b
kernel.weight @b.packed at 262144 bytes 106528 : tensor<4x200x128xbf16, #packed> from @b
// a swizzle: chunks of 8 lanes change places with the row
dsv3.weight @c : tensor<64x64xbf16> from #dsv3.file<"c.weight">
// CHECK: kernel.weight @c.packed at 372736 bytes 8192 : tensor<64x64xbf16, #packed2> from @c
kernel.weight @c.packed at 372736 bytes 8192 : tensor<64x64xbf16, #kernel.packed<none, #swizzle>> from @c

//===-- Values and dense launches -----------------------------------------===//

// CHECK-LABEL: dsv3.program @dense
dsv3.program @dense(%ids: tensor<16xi32>, %x: tensor<16x256xbf16>, %gamma: tensor<256xbf16>, %w: tensor<512x256xbf16>, %wh: tensor<4x64x128xbf16>, %seq: !dsv3.seq) {
  // CHECK: %0 = kernel.use @a.packed : tensor<512x256xbf16, #packed>
  %table = kernel.use @a.packed : tensor<512x256xbf16, #plain>
  // CHECK: %1 = kernel.empty : tensor<16x256xbf16>
  %d = kernel.empty : tensor<16x256xbf16>
  // CHECK: %2 = kernel.empty : tensor<16x256xbf16>
  %s = kernel.empty : tensor<16x256xbf16>
  // CHECK: %3 = kernel.embed ins(%arg0, %0 : tensor<16xi32>, tensor<512x256xbf16, #packed>) outs(%1 : tensor<16x256xbf16>) numerics #num schedule #sch site "embed"
  %e = kernel.embed ins(%ids, %table : tensor<16xi32>, tensor<512x256xbf16, #plain>) outs(%d : tensor<16x256xbf16>) numerics #num schedule #sch site "embed"
  // CHECK: %4 = kernel.norm ins(%3, %arg2 : tensor<16x256xbf16>, tensor<256xbf16>) outs(%1 : tensor<16x256xbf16>) eps 1.0e-06 numerics #num1 schedule #sch1 site "norm"
  %n = kernel.norm ins(%e, %gamma : tensor<16x256xbf16>, tensor<256xbf16>) outs(%d : tensor<16x256xbf16>) eps 1.0e-06 numerics #softmax schedule #none site "norm"
  // CHECK: %sum, %result = kernel.add_norm ins(%3, %arg1, %arg2 : tensor<16x256xbf16>, tensor<16x256xbf16>, tensor<256xbf16>) outs(%2, %1 : tensor<16x256xbf16>, tensor<16x256xbf16>) eps 0.5 site "add_norm" -> tensor<16x256xbf16>, tensor<16x256xbf16>
  %sum, %m = kernel.add_norm ins(%e, %x, %gamma : tensor<16x256xbf16>, tensor<16x256xbf16>, tensor<256xbf16>) outs(%s, %d : tensor<16x256xbf16>, tensor<16x256xbf16>) eps 0.5 site "add_norm" -> tensor<16x256xbf16>, tensor<16x256xbf16>
  // CHECK: %5 = kernel.empty : tensor<16x4x128xbf16>
  %h = kernel.empty : tensor<16x4x128xbf16>
  // CHECK: %6 = kernel.gemm ins(%4, %arg3 : tensor<16x256xbf16>, tensor<512x256xbf16>) outs(%5 : tensor<16x4x128xbf16>) numerics #num2 site "gemm"
  %g = kernel.gemm ins(%n, %w : tensor<16x256xbf16>, tensor<512x256xbf16>) outs(%h : tensor<16x4x128xbf16>) numerics #int site "gemm"
  // CHECK: %7 = kernel.empty : tensor<16x512xbf16>
  %f = kernel.empty : tensor<16x512xbf16>
  // CHECK: %8 = kernel.gated_gemm ins(%4, %arg3, %arg3 : tensor<16x256xbf16>, tensor<512x256xbf16>, tensor<512x256xbf16>) outs(%7 : tensor<16x512xbf16>) via f32 site "gated"
  %gg = kernel.gated_gemm ins(%n, %w, %w : tensor<16x256xbf16>, tensor<512x256xbf16>, tensor<512x256xbf16>) outs(%f : tensor<16x512xbf16>) via f32 site "gated"
  // CHECK: %9 = kernel.empty : tensor<16x4x64xf32>
  %hh = kernel.empty : tensor<16x4x64xf32>
  // CHECK: %10 = kernel.batched_gemm ins(%6, %arg4 : tensor<16x4x128xbf16>, tensor<4x64x128xbf16>) outs(%9 : tensor<16x4x64xf32>) schedule #sch site "batched"
  %bg = kernel.batched_gemm ins(%g, %wh : tensor<16x4x128xbf16>, tensor<4x64x128xbf16>) outs(%hh : tensor<16x4x64xf32>) schedule #sch site "batched"
  // CHECK: %11 = kernel.add ins(%3, %arg1 : tensor<16x256xbf16>, tensor<16x256xbf16>) outs(%1 : tensor<16x256xbf16>) site "add"
  %a = kernel.add ins(%e, %x : tensor<16x256xbf16>, tensor<16x256xbf16>) outs(%d : tensor<16x256xbf16>) site "add"
  // CHECK: %12 = kernel.swiglu ins(%8, %8 : tensor<16x512xbf16>, tensor<16x512xbf16>) outs(%7 : tensor<16x512xbf16>) site "act"
  %sw = kernel.swiglu ins(%gg, %gg : tensor<16x512xbf16>, tensor<16x512xbf16>) outs(%f : tensor<16x512xbf16>) site "act"
  // CHECK: %13 = kernel.concat ins(%4, %arg1 : tensor<16x256xbf16>, tensor<16x256xbf16>) outs(%7 : tensor<16x512xbf16>) site "concat"
  %c = kernel.concat ins(%n, %x : tensor<16x256xbf16>, tensor<16x256xbf16>) outs(%f : tensor<16x512xbf16>) site "concat"
  // CHECK: %14 = kernel.view %13 at 448 : tensor<16x512xbf16> -> tensor<16x64xbf16>
  %v = kernel.view %c at 448 : tensor<16x512xbf16> -> tensor<16x64xbf16>
  // CHECK: %15 = kernel.empty : tensor<4x64xbf16>
  %r = kernel.empty : tensor<4x64xbf16>
  // CHECK: %16 = kernel.select_rows ins(%14, %arg5 : tensor<16x64xbf16>) outs(%15 : tensor<4x64xbf16>) site "select"
  %sr = kernel.select_rows ins(%v, %seq : tensor<16x64xbf16>) outs(%r : tensor<4x64xbf16>) site "select"
  // CHECK: kernel.tap "rows", %16 : tensor<4x64xbf16>
  kernel.tap "rows", %sr : tensor<4x64xbf16>
  dsv3.return
}

//===-- Attention ---------------------------------------------------------===//

// CHECK-LABEL: dsv3.program @attention
dsv3.program @attention(%q: tensor<16x2x192xbf16>, %a: tensor<16x192xbf16>, %gamma: tensor<128xbf16>, %table: tensor<4096x64xf32>, %wk: tensor<2x128x128xbf16>, %wv: tensor<2x96x128xbf16>, %ql: tensor<16x2x128xbf16>, %seq: !dsv3.seq, %kv: !kv) {
  // CHECK: %0 = kernel.rope ins(%arg0, %arg3, %arg7 : tensor<16x2x192xbf16>, tensor<4096x64xf32>) outs(%arg0 : tensor<16x2x192xbf16>) at 128 #rope site "rope"
  %q1 = kernel.rope ins(%q, %table, %seq : tensor<16x2x192xbf16>, tensor<4096x64xf32>) outs(%q : tensor<16x2x192xbf16>) at 128 #rope site "rope"
  // CHECK: %1 = kernel.kv_append ins(%arg1, %arg2, %arg3, %arg7 : tensor<16x192xbf16>, tensor<128xbf16>, tensor<4096x64xf32>) outs(%arg8[1] : !kv) eps 1.0e-06 #rope site "append"
  %kv1 = kernel.kv_append ins(%a, %gamma, %table, %seq : tensor<16x192xbf16>, tensor<128xbf16>, tensor<4096x64xf32>) outs(%kv[1] : !kv) eps 1.0e-06 #rope site "append"
  // CHECK: %2 = kernel.empty : tensor<8x2x192x64xbf16>
  %k0 = kernel.empty : tensor<8x2x192x64xbf16>
  // CHECK: %3 = kernel.empty : tensor<8x2x64x96xbf16>
  %v0 = kernel.empty : tensor<8x2x64x96xbf16>
  // CHECK: %keys, %values = kernel.kv_expand ins(%1[1], %arg4, %arg5, %arg7 : !kv, tensor<2x128x128xbf16>, tensor<2x96x128xbf16>) outs(%2, %3 : tensor<8x2x192x64xbf16>, tensor<8x2x64x96xbf16>) site "expand" -> tensor<8x2x192x64xbf16>, tensor<8x2x64x96xbf16>
  %k, %v = kernel.kv_expand ins(%kv1[1], %wk, %wv, %seq : !kv, tensor<2x128x128xbf16>, tensor<2x96x128xbf16>) outs(%k0, %v0 : tensor<8x2x192x64xbf16>, tensor<8x2x64x96xbf16>) site "expand" -> tensor<8x2x192x64xbf16>, tensor<8x2x64x96xbf16>
  // CHECK: %4 = kernel.empty : tensor<16x2x96xbf16>
  %o0 = kernel.empty : tensor<16x2x96xbf16>
  // CHECK: %5 = kernel.attn_prefill ins(%0, %keys, %values, %arg7 : tensor<16x2x192xbf16>, tensor<8x2x192x64xbf16>, tensor<8x2x64x96xbf16>) outs(%4 : tensor<16x2x96xbf16>) scale 0.125 numerics #num1 site "attn"
  %o = kernel.attn_prefill ins(%q1, %k, %v, %seq : tensor<16x2x192xbf16>, tensor<8x2x192x64xbf16>, tensor<8x2x64x96xbf16>) outs(%o0 : tensor<16x2x96xbf16>) scale 0.125 numerics #softmax site "attn"
  // CHECK: %6 = kernel.view %0 at 128 : tensor<16x2x192xbf16> -> tensor<16x2x64xbf16>
  %qr = kernel.view %q1 at 128 : tensor<16x2x192xbf16> -> tensor<16x2x64xbf16>
  // CHECK: %7 = kernel.empty : tensor<16x2x128xbf16>
  %l0 = kernel.empty : tensor<16x2x128xbf16>
  // CHECK: %8 = kernel.attn_decode ins(%arg6, %6, %1[1], %arg7 : tensor<16x2x128xbf16>, tensor<16x2x64xbf16>, !kv) outs(%7 : tensor<16x2x128xbf16>) scale 0.072168784 site "attn"
  %l = kernel.attn_decode ins(%ql, %qr, %kv1[1], %seq : tensor<16x2x128xbf16>, tensor<16x2x64xbf16>, !kv) outs(%l0 : tensor<16x2x128xbf16>) scale 0.072168784 site "attn"
  dsv3.return
}

// CHECK-LABEL: dsv3.program @device_attention
dsv3.program @device_attention(%q: tensor<16x2x192xbf16>, %wk: tensor<2x128x128xbf16>, %wv: tensor<2x96x128xbf16>, %ql: tensor<16x2x128xbf16>, %qr: tensor<16x2x64xbf16>, %seq: !dsv3.seq, %kv: !kv) {
  %k0 = kernel.empty : tensor<8x2x64x192xbf16>
  %v0 = kernel.empty : tensor<8x2x64x96xbf16>
  // CHECK: %keys, %values = kernel.kv_expand {{.*}} outs(%0, %1 : tensor<8x2x64x192xbf16>, tensor<8x2x64x96xbf16>) key_rows site "expand"
  %k, %v = kernel.kv_expand ins(%kv[1], %wk, %wv, %seq : !kv, tensor<2x128x128xbf16>, tensor<2x96x128xbf16>) outs(%k0, %v0 : tensor<8x2x64x192xbf16>, tensor<8x2x64x96xbf16>) key_rows site "expand" -> tensor<8x2x64x192xbf16>, tensor<8x2x64x96xbf16>
  %o0 = kernel.empty : tensor<16x2x96xbf16>
  // CHECK: kernel.attn_prefill {{.*}} scale 0.125 key_rows site "attn"
  %o = kernel.attn_prefill ins(%q, %k, %v, %seq : tensor<16x2x192xbf16>, tensor<8x2x64x192xbf16>, tensor<8x2x64x96xbf16>) outs(%o0 : tensor<16x2x96xbf16>) scale 0.125 key_rows site "attn"
  %i0 = kernel.empty : tensor<128x5xi32>
  %p0 = kernel.empty : tensor<67xi32>
  %s0 = kernel.empty : tensor<17xi32>
  // CHECK: %items, %parts, %splits = kernel.attn_plan ins(%arg5) outs(%4, %5, %6 : tensor<128x5xi32>, tensor<67xi32>, tensor<17xi32>) split <max = 8, pages = 4> site "attn_plan" -> tensor<128x5xi32>, tensor<67xi32>, tensor<17xi32>
  %items, %parts, %splits = kernel.attn_plan ins(%seq) outs(%i0, %p0, %s0 : tensor<128x5xi32>, tensor<67xi32>, tensor<17xi32>) split <max = 8, pages = 4> site "attn_plan" -> tensor<128x5xi32>, tensor<67xi32>, tensor<17xi32>
  %a0 = kernel.empty : tensor<16x2x128xbf16>
  %a1 = kernel.empty : tensor<128x2x128xf32>
  %a2 = kernel.empty : tensor<128x2xf32>
  // CHECK: %result, %partial, %lse = kernel.attn_split ins(%arg3, %arg4, %arg6[1], %arg5, %items, %parts : tensor<16x2x128xbf16>, tensor<16x2x64xbf16>, !kv, tensor<128x5xi32>, tensor<67xi32>) outs(%7, %8, %9 : tensor<16x2x128xbf16>, tensor<128x2x128xf32>, tensor<128x2xf32>) scale 0.072168784 site "attn" -> tensor<16x2x128xbf16>, tensor<128x2x128xf32>, tensor<128x2xf32>
  %r, %partial, %lse = kernel.attn_split ins(%ql, %qr, %kv[1], %seq, %items, %parts : tensor<16x2x128xbf16>, tensor<16x2x64xbf16>, !kv, tensor<128x5xi32>, tensor<67xi32>) outs(%a0, %a1, %a2 : tensor<16x2x128xbf16>, tensor<128x2x128xf32>, tensor<128x2xf32>) scale 0.072168784 site "attn" -> tensor<16x2x128xbf16>, tensor<128x2x128xf32>, tensor<128x2xf32>
  // CHECK: %10 = kernel.attn_combine ins(%partial, %lse, %splits, %arg5 : tensor<128x2x128xf32>, tensor<128x2xf32>, tensor<17xi32>) outs(%result : tensor<16x2x128xbf16>) site "attn_combine"
  %l = kernel.attn_combine ins(%partial, %lse, %splits, %seq : tensor<128x2x128xf32>, tensor<128x2xf32>, tensor<17xi32>) outs(%r : tensor<16x2x128xbf16>) site "attn_combine"
  dsv3.return
}

//===-- Mixture of experts ------------------------------------------------===//

// CHECK-LABEL: dsv3.program @experts
dsv3.program @experts(%x: tensor<16x256xbf16>, %logits: tensor<16x8xf32>, %bias: tensor<8xf32>, %up: tensor<8x128x256xbf16>, %down: tensor<8x256x128xbf16>) {
  // CHECK: %0 = kernel.empty : tensor<16x2xi32>
  %i0 = kernel.empty : tensor<16x2xi32>
  // CHECK: %1 = kernel.empty : tensor<16x2xf32>
  %w0 = kernel.empty : tensor<16x2xf32>
  // CHECK: %ids, %weights = kernel.route ins(%arg1, %arg2 : tensor<16x8xf32>, tensor<8xf32>) outs(%0, %1 : tensor<16x2xi32>, tensor<16x2xf32>) groups 4 keep 2 top 2 norm true scale 2.5 site "route" -> tensor<16x2xi32>, tensor<16x2xf32>
  %ids, %weights = kernel.route ins(%logits, %bias : tensor<16x8xf32>, tensor<8xf32>) outs(%i0, %w0 : tensor<16x2xi32>, tensor<16x2xf32>) groups 4 keep 2 top 2 norm true scale 2.5 site "route" -> tensor<16x2xi32>, tensor<16x2xf32>
  // CHECK: %2 = kernel.empty : tensor<9xi32>
  %o0 = kernel.empty : tensor<9xi32>
  // CHECK: %3 = kernel.empty : tensor<32xi32>
  %t0 = kernel.empty : tensor<32xi32>
  // CHECK: %offsets, %token_of, %row_of = kernel.dispatch ins(%ids : tensor<16x2xi32>) outs(%2, %3, %0 : tensor<9xi32>, tensor<32xi32>, tensor<16x2xi32>) site "dispatch" -> tensor<9xi32>, tensor<32xi32>, tensor<16x2xi32>
  %offsets, %tokens, %rows = kernel.dispatch ins(%ids : tensor<16x2xi32>) outs(%o0, %t0, %i0 : tensor<9xi32>, tensor<32xi32>, tensor<16x2xi32>) site "dispatch" -> tensor<9xi32>, tensor<32xi32>, tensor<16x2xi32>
  // CHECK: %4 = kernel.empty : tensor<32x128xbf16>
  %a0 = kernel.empty : tensor<32x128xbf16>
  // CHECK: %5 = kernel.grouped_gated_gemm ins(%arg0, %arg3, %arg3, %offsets, %token_of : tensor<16x256xbf16>, tensor<8x128x256xbf16>, tensor<8x128x256xbf16>, tensor<9xi32>, tensor<32xi32>) outs(%4 : tensor<32x128xbf16>) via f32 site "act"
  %a = kernel.grouped_gated_gemm ins(%x, %up, %up, %offsets, %tokens : tensor<16x256xbf16>, tensor<8x128x256xbf16>, tensor<8x128x256xbf16>, tensor<9xi32>, tensor<32xi32>) outs(%a0 : tensor<32x128xbf16>) via f32 site "act"
  // CHECK: %6 = kernel.empty : tensor<32x256xbf16>
  %d0 = kernel.empty : tensor<32x256xbf16>
  // CHECK: %7 = kernel.grouped_gemm ins(%5, %arg4, %offsets : tensor<32x128xbf16>, tensor<8x256x128xbf16>, tensor<9xi32>) outs(%6 : tensor<32x256xbf16>) site "down"
  %d = kernel.grouped_gemm ins(%a, %down, %offsets : tensor<32x128xbf16>, tensor<8x256x128xbf16>, tensor<9xi32>) outs(%d0 : tensor<32x256xbf16>) site "down"
  // CHECK: %8 = kernel.empty : tensor<16x256xbf16>
  %y0 = kernel.empty : tensor<16x256xbf16>
  // CHECK: %9 = kernel.combine ins(%7, %row_of, %weights : tensor<32x256xbf16>, tensor<16x2xi32>, tensor<16x2xf32>) outs(%8 : tensor<16x256xbf16>) site "moe"
  %y = kernel.combine ins(%d, %rows, %weights : tensor<32x256xbf16>, tensor<16x2xi32>, tensor<16x2xf32>) outs(%y0 : tensor<16x256xbf16>) site "moe"
  // CHECK: %10 = kernel.combine ins(%7, %row_of, %weights : tensor<32x256xbf16>, tensor<16x2xi32>, tensor<16x2xf32>) plus(%arg0 : tensor<16x256xbf16>) outs(%8 : tensor<16x256xbf16>) site "moe"
  %z = kernel.combine ins(%d, %rows, %weights : tensor<32x256xbf16>, tensor<16x2xi32>, tensor<16x2xf32>) plus(%x : tensor<16x256xbf16>) outs(%y0 : tensor<16x256xbf16>) site "moe"
  // CHECK: %11 = kernel.gather ins(%arg0, %token_of : tensor<16x256xbf16>, tensor<32xi32>) outs(%6 : tensor<32x256xbf16>) site "gather"
  %g = kernel.gather ins(%x, %tokens : tensor<16x256xbf16>, tensor<32xi32>) outs(%d0 : tensor<32x256xbf16>) site "gather"
  // CHECK: %12 = kernel.grouped_gated_gemm ins(%11, %arg3, %arg3, %offsets : tensor<32x256xbf16>, tensor<8x128x256xbf16>, tensor<8x128x256xbf16>, tensor<9xi32>) outs(%4 : tensor<32x128xbf16>) via f32 site "act"
  %b = kernel.grouped_gated_gemm ins(%g, %up, %up, %offsets : tensor<32x256xbf16>, tensor<8x128x256xbf16>, tensor<8x128x256xbf16>, tensor<9xi32>) outs(%a0 : tensor<32x128xbf16>) via f32 site "act"
  dsv3.return
}

//===-- Sampling ----------------------------------------------------------===//

// CHECK-LABEL: dsv3.program @sampling
dsv3.program @sampling(%logits: tensor<4x129280xf32>, %seq: !dsv3.seq) attributes {tokens = 16 : i64, seqs = 4 : i64} {
  // CHECK: %0 = kernel.empty : tensor<4x8xi32>
  %o = kernel.empty : tensor<4x8xi32>
  // CHECK: %1 = kernel.sample ins(%arg0, %arg1 : tensor<4x129280xf32>) outs(%0 : tensor<4x8xi32>) site "sample"
  %s = kernel.sample ins(%logits, %seq : tensor<4x129280xf32>) outs(%o : tensor<4x8xi32>) site "sample"
  dsv3.return
}
