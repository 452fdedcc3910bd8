// Rows are quantised by the launch that makes them; the router still reads plain ones.
// RUN: dsv3-opt %s --dsv3-fuse-quantize=target=sm_90a | FileCheck %s
// RUN: dsv3-opt %s --dsv3-fuse-quantize=target=x86-64 | FileCheck %s
// On a whole model no bit moves, and no norm is left that another launch quantises.
// RUN: dsv3-opt %inputs/model.mlir --dsv3-quantize-weights="policy=fp8-block" --dsv3-quantize-activations --dsv3-make-programs="max-batch=2 prefill-chunk=32" --dsv3-stage-fuse --dsv3-lower-to-kernel -o %t.kernel.mlir
// RUN: dsv3-opt %t.kernel.mlir --dsv3-fuse-quantize=target=sm_90a -o %t.fused.mlir
// RUN: dsv3-interpret %t.kernel.mlir --dummy-weights --program=trunk_head --mtp --lengths=40,5 --chunk=16 --against=%t.fused.mlir | FileCheck %s --check-prefix=EQUAL
// RUN: FileCheck %s --check-prefix=MODEL < %t.fused.mlir
// RUN: dsv3-opt %inputs/model.mlir --dsv3-quantize-weights="policy=w4a8-experts" --dsv3-quantize-activations --dsv3-make-programs="max-batch=2 prefill-chunk=32" --dsv3-stage-fuse --dsv3-lower-to-kernel -o %t.int.mlir
// RUN: dsv3-opt %t.int.mlir --dsv3-fuse-quantize=target=x86-64 -o %t.fused-int.mlir
// RUN: dsv3-interpret %t.int.mlir --dummy-weights --program=trunk_head --mtp --lengths=40,5 --chunk=16 --against=%t.fused-int.mlir | FileCheck %s --check-prefix=EQUAL
// RUN: FileCheck %s --check-prefix=INT < %t.fused-int.mlir

// EQUAL-DAG: logits: equal
// EQUAL-DAG: hidden: equal
// EQUAL-DAG: mtp_logits: equal
// MODEL: kernel.norm ins({{.*}}) outs({{.*}}, #{{.*}}>)
// MODEL: kernel.add_norm_quantize
// The experts' activation is quantised in groups where it is made; a scale of a whole row spans tiles.
// INT: kernel.gated_gemm {{.*}} outs(%{{.*}} : tensor<32x256xbf16>)
// INT-NEXT: kernel.empty
// INT-NEXT: kernel.quantize
// INT: kernel.grouped_gated_gemm {{.*}} outs(%{{.*}} : tensor<64x128xbf16, #{{.*}}>)
// INT-NOT: site "l1.act.quant"
// INT: kernel.grouped_gemm

#act = #dsv3.blocked<f8E4M3FN, 1x128, f32>

// CHECK-LABEL: dsv3.program @norms
// CHECK: %[[C:.*]] = kernel.empty : tensor<16x256xbf16, #{{.*}}>
// CHECK-NEXT: %[[N:.*]] = kernel.norm ins(%arg0, %arg2 : {{.*}}) outs(%[[C]] : tensor<16x256xbf16, #{{.*}}>) eps 1.0e-06 site "a"
// CHECK: %[[S:.*]], %[[A:.*]] = kernel.add_norm ins(%arg0, %arg1, %arg2 : {{.*}}) outs(%{{.*}}, %{{.*}} : tensor<16x256xbf16>, tensor<16x256xbf16, #{{.*}}>) eps 1.0e-06 site "b"
// CHECK-NOT: kernel.quantize
// CHECK: dsv3.return %[[N]], %[[S]], %[[A]]
dsv3.program @norms(%x: tensor<16x256xbf16>, %r: tensor<16x256xbf16>, %g: tensor<256xbf16>)
    -> (tensor<16x256xbf16, #act>, tensor<16x256xbf16>, tensor<16x256xbf16, #act>) attributes {phase = "decode", tokens = 16 : i64, seqs = 16 : i64} {
  %d = kernel.empty : tensor<16x256xbf16>
  %n = kernel.norm ins(%x, %g : tensor<16x256xbf16>, tensor<256xbf16>) outs(%d : tensor<16x256xbf16>) eps 1.0e-06 site "a"
  %c = kernel.empty : tensor<16x256xbf16, #act>
  %q = kernel.quantize ins(%n : tensor<16x256xbf16>) outs(%c : tensor<16x256xbf16, #act>) site "a.quant"
  %e = kernel.empty : tensor<16x256xbf16>
  %f = kernel.empty : tensor<16x256xbf16>
  %s, %y = kernel.add_norm ins(%x, %r, %g : tensor<16x256xbf16>, tensor<16x256xbf16>, tensor<256xbf16>) outs(%e, %f : tensor<16x256xbf16>, tensor<16x256xbf16>) eps 1.0e-06 site "b" -> tensor<16x256xbf16>, tensor<16x256xbf16>
  %h = kernel.empty : tensor<16x256xbf16, #act>
  %p = kernel.quantize ins(%y : tensor<16x256xbf16>) outs(%h : tensor<16x256xbf16, #act>) site "b.quant"
  dsv3.return %q, %s, %p : tensor<16x256xbf16, #act>, tensor<16x256xbf16>, tensor<16x256xbf16, #act>
}

// Somebody else reads the norm: a residual norm stores both, another stays alone.
// CHECK-LABEL: dsv3.program @read
// CHECK: %[[S:.*]], %[[Y:.*]], %[[Q:.*]] = kernel.add_norm_quantize ins(%arg0, %arg1, %arg2 : {{.*}}) outs(%{{.*}}, %{{.*}}, %{{.*}} : tensor<16x256xbf16>, tensor<16x256xbf16>, tensor<16x256xbf16, #{{.*}}>) eps 1.0e-06 site "b" -> tensor<16x256xbf16>, tensor<16x256xbf16>, tensor<16x256xbf16, #{{.*}}>
// CHECK: %[[N:.*]] = kernel.norm {{.*}} outs(%{{.*}} : tensor<16x256xbf16>)
// CHECK: %[[P:.*]] = kernel.quantize ins(%[[N]]
// CHECK: dsv3.return %[[S]], %[[Y]], %[[Q]], %[[N]], %[[P]]
dsv3.program @read(%x: tensor<16x256xbf16>, %r: tensor<16x256xbf16>, %g: tensor<256xbf16>)
    -> (tensor<16x256xbf16>, tensor<16x256xbf16>, tensor<16x256xbf16, #act>, tensor<16x256xbf16>, tensor<16x256xbf16, #act>) attributes {phase = "decode", tokens = 16 : i64, seqs = 16 : i64} {
  %e = kernel.empty : tensor<16x256xbf16>
  %f = kernel.empty : tensor<16x256xbf16>
  %s, %y = kernel.add_norm ins(%x, %r, %g : tensor<16x256xbf16>, tensor<16x256xbf16>, tensor<256xbf16>) outs(%e, %f : tensor<16x256xbf16>, tensor<16x256xbf16>) eps 1.0e-06 site "b" -> tensor<16x256xbf16>, tensor<16x256xbf16>
  %h = kernel.empty : tensor<16x256xbf16, #act>
  %p = kernel.quantize ins(%y : tensor<16x256xbf16>) outs(%h : tensor<16x256xbf16, #act>) site "b.quant"
  %d = kernel.empty : tensor<16x256xbf16>
  %n = kernel.norm ins(%x, %g : tensor<16x256xbf16>, tensor<256xbf16>) outs(%d : tensor<16x256xbf16>) eps 1.0e-06 site "a"
  %c = kernel.empty : tensor<16x256xbf16, #act>
  %q = kernel.quantize ins(%n : tensor<16x256xbf16>) outs(%c : tensor<16x256xbf16, #act>) site "a.quant"
  dsv3.return %s, %y, %p, %n, %q : tensor<16x256xbf16>, tensor<16x256xbf16>, tensor<16x256xbf16, #act>, tensor<16x256xbf16>, tensor<16x256xbf16, #act>
}

// CHECK-LABEL: dsv3.program @swiglu
// CHECK: %[[A:.*]] = kernel.swiglu ins(%arg0, %arg1 : {{.*}}) outs(%{{.*}} : tensor<16x256xbf16, #{{.*}}>) site "act"
// CHECK-NEXT: dsv3.return %[[A]]
dsv3.program @swiglu(%x: tensor<16x256xbf16>, %u: tensor<16x256xbf16>) -> tensor<16x256xbf16, #act> attributes {phase = "decode", tokens = 16 : i64, seqs = 16 : i64} {
  %d = kernel.empty : tensor<16x256xbf16>
  %y = kernel.swiglu ins(%x, %u : tensor<16x256xbf16>, tensor<16x256xbf16>) outs(%d : tensor<16x256xbf16>) site "act"
  %c = kernel.empty : tensor<16x256xbf16, #act>
  %q = kernel.quantize ins(%y : tensor<16x256xbf16>) outs(%c : tensor<16x256xbf16, #act>) site "act.quant"
  dsv3.return %q : tensor<16x256xbf16, #act>
}

// Gate and up with their activation, as codes in groups that a tile holds whole; a scale of the whole row is another launch.
// CHECK-LABEL: dsv3.program @gated
// CHECK: %[[G:.*]] = kernel.gated_gemm ins(%arg0, %{{.*}}, %{{.*}} : {{.*}}) outs(%{{.*}} : tensor<16x256xbf16, #{{.*}}>) via f32 site "g"
// CHECK: %[[T:.*]] = kernel.gated_gemm ins(%arg0, %{{.*}}, %{{.*}} : {{.*}}) outs(%{{.*}} : tensor<16x256xbf16>) via f32 site "t"
// CHECK: %[[Q:.*]] = kernel.quantize ins(%[[T]]
// CHECK: dsv3.return %[[G]], %[[Q]]
#token = #dsv3.blocked<i8, 1x?, f32>
#group = #dsv3.blocked<i8, 1x128, f32>
dsv3.weight @gate : tensor<256x256xbf16, #token> from #dsv3.file<"g.weight", scale "g.s">
dsv3.weight @up : tensor<256x256xbf16, #token> from #dsv3.file<"u.weight", scale "u.s">
dsv3.program @gated(%x: tensor<16x256xbf16, #token>) -> (tensor<16x256xbf16, #group>, tensor<16x256xbf16, #token>) attributes {phase = "decode", tokens = 16 : i64, seqs = 16 : i64} {
  %g = dsv3.use @gate : tensor<256x256xbf16, #token>
  %u = dsv3.use @up : tensor<256x256xbf16, #token>
  %d = kernel.empty : tensor<16x256xbf16>
  %y = kernel.gated_gemm ins(%x, %g, %u : tensor<16x256xbf16, #token>, tensor<256x256xbf16, #token>, tensor<256x256xbf16, #token>) outs(%d : tensor<16x256xbf16>) via f32 site "g"
  %c = kernel.empty : tensor<16x256xbf16, #group>
  %q = kernel.quantize ins(%y : tensor<16x256xbf16>) outs(%c : tensor<16x256xbf16, #group>) site "g.quant"
  %e = kernel.empty : tensor<16x256xbf16>
  %z = kernel.gated_gemm ins(%x, %g, %u : tensor<16x256xbf16, #token>, tensor<256x256xbf16, #token>, tensor<256x256xbf16, #token>) outs(%e : tensor<16x256xbf16>) via f32 site "t"
  %f = kernel.empty : tensor<16x256xbf16, #token>
  %p = kernel.quantize ins(%z : tensor<16x256xbf16>) outs(%f : tensor<16x256xbf16, #token>) site "t.quant"
  dsv3.return %q, %p : tensor<16x256xbf16, #group>, tensor<16x256xbf16, #token>
}

#rows = #dsv3.blocked<i8, 1x?, f32>
#groups = #dsv3.blocked<i8, 1x128, f32>
#int4 = #dsv3.blocked<i4, 1x?, f32>

// SwiGLU of int4 experts: two warpgroups hold the 128 columns that share a scale. A scale per row spans columns that no tile sees.
// CHECK-LABEL: dsv3.program @experts
// CHECK: kernel.grouped_gated_gemm ins({{.*}}) outs(%{{.*}} : tensor<16x256xbf16, #{{.*}}>)
// CHECK: kernel.grouped_gated_gemm ins({{.*}}) outs(%{{.*}} : tensor<16x256xbf16>)
// CHECK: kernel.quantize
dsv3.program @experts(%x: tensor<16x512xbf16, #rows>, %g: tensor<4x256x512xbf16, #int4>, %u: tensor<4x256x512xbf16, #int4>, %o: tensor<5xi32>)
    -> (tensor<16x256xbf16, #groups>, tensor<16x256xbf16, #rows>) attributes {phase = "decode", tokens = 16 : i64, seqs = 16 : i64} {
  %d = kernel.empty : tensor<16x256xbf16>
  %y = kernel.grouped_gated_gemm ins(%x, %g, %u, %o : tensor<16x512xbf16, #rows>, tensor<4x256x512xbf16, #int4>, tensor<4x256x512xbf16, #int4>, tensor<5xi32>) outs(%d : tensor<16x256xbf16>) via bf16 site "a"
  %c = kernel.empty : tensor<16x256xbf16, #groups>
  %q = kernel.quantize ins(%y : tensor<16x256xbf16>) outs(%c : tensor<16x256xbf16, #groups>) site "a.quant"
  %e = kernel.empty : tensor<16x256xbf16>
  %z = kernel.grouped_gated_gemm ins(%x, %g, %u, %o : tensor<16x512xbf16, #rows>, tensor<4x256x512xbf16, #int4>, tensor<4x256x512xbf16, #int4>, tensor<5xi32>) outs(%e : tensor<16x256xbf16>) via bf16 site "b"
  %f = kernel.empty : tensor<16x256xbf16, #rows>
  %p = kernel.quantize ins(%z : tensor<16x256xbf16>) outs(%f : tensor<16x256xbf16, #rows>) site "b.quant"
  dsv3.return %q, %p : tensor<16x256xbf16, #groups>, tensor<16x256xbf16, #rows>
}

// The same in E4M3.
// CHECK-LABEL: dsv3.program @e4m3
// CHECK: kernel.grouped_gated_gemm ins({{.*}}) outs(%{{.*}} : tensor<16x256xbf16, #{{.*}}>)
// CHECK-NOT: kernel.quantize
dsv3.program @e4m3(%x: tensor<16x512xbf16, #dsv3.blocked<f8E4M3FN, 1x?, f32>>, %g: tensor<4x256x512xbf16, #int4>, %u: tensor<4x256x512xbf16, #int4>, %o: tensor<5xi32>)
    -> tensor<16x256xbf16, #dsv3.blocked<f8E4M3FN, 1x128, f32>> attributes {phase = "decode", tokens = 16 : i64, seqs = 16 : i64} {
  %d = kernel.empty : tensor<16x256xbf16>
  %y = kernel.grouped_gated_gemm ins(%x, %g, %u, %o : tensor<16x512xbf16, #dsv3.blocked<f8E4M3FN, 1x?, f32>>, tensor<4x256x512xbf16, #int4>, tensor<4x256x512xbf16, #int4>, tensor<5xi32>) outs(%d : tensor<16x256xbf16>) via bf16 site "c"
  %c = kernel.empty : tensor<16x256xbf16, #dsv3.blocked<f8E4M3FN, 1x128, f32>>
  %q = kernel.quantize ins(%y : tensor<16x256xbf16>) outs(%c : tensor<16x256xbf16, #dsv3.blocked<f8E4M3FN, 1x128, f32>>) site "c.quant"
  dsv3.return %q : tensor<16x256xbf16, #dsv3.blocked<f8E4M3FN, 1x128, f32>>
}
