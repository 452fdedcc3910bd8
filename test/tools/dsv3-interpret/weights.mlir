// Weight recipes. The dummies' bits are those of every other evaluator (runtime/core/Dummy.h).
// RUN: dsv3-interpret %s --program=dummy | FileCheck %s --check-prefix=DUMMY
// RUN: dsv3-interpret %s --program=arranged --values=8 | FileCheck %s --check-prefix=ARRANGED
// RUN: dsv3-interpret %s --program=table --values=8 | FileCheck %s --check-prefix=TABLE
// RUN: dsv3-interpret %s --program=packed --against=%s --against-program=plain | FileCheck %s --check-prefix=PACKED
// RUN: dsv3-interpret %s --program=file --checkpoint=%source/examples/dsv3-tiny | FileCheck %s --check-prefix=FILE
// RUN: dsv3-interpret %s --program=file --dummy-weights | FileCheck %s --check-prefix=DRAWN

dsv3.weight @d : tensor<2x3xf32> from #dsv3.dummy<"model.norm.weight", std 1.0>
// DUMMY: result0: [2, 3] f32 hash {{[0-9a-f]+}} values -0.899835
dsv3.program @dummy() -> tensor<2x3xf32> {
  %w = dsv3.use @d : tensor<2x3xf32>
  dsv3.return %w : tensor<2x3xf32>
}

// Cosines, then sines, of positions 0 and 1: a number known before evaluation.
#rope = #dsv3.rope<dims = 4, theta = 10000.0, interleaved = true>
dsv3.weight @t : tensor<2x4xf32> from #dsv3.rope_table<#rope, 2>
// TABLE: result0: [2, 4] f32 hash {{[0-9a-f]+}} values 1 1 0 0 0.540302 0.99995 0.841471 0.00999983
dsv3.program @table() -> tensor<2x4xf32> {
  %w = dsv3.use @t : tensor<2x4xf32>
  dsv3.return %w : tensor<2x4xf32>
}

// The table [1 1 0 0 / c C s S], its columns 0 and 2 transposed: [1 c] and [0 s]; joined along dim 0 with itself
// and cut in two by a reshape.
dsv3.weight @a : tensor<2x2x2xf32> from #dsv3.reshape<[2, 2, 2], #dsv3.concat<0, [#dsv3.transpose<#dsv3.slice<1, 0, 2, #dsv3.ref<@t>>>, #dsv3.slice<1, 2, 2, #dsv3.ref<@t>>]>>
// ARRANGED: result0: [2, 2, 2] f32 hash {{[0-9a-f]+}} values 1 0.540302 1 0.99995 0 0 0.841471 0.00999983
dsv3.program @arranged() -> tensor<2x2x2xf32> {
  %w = dsv3.use @a : tensor<2x2x2xf32>
  dsv3.return %w : tensor<2x2x2xf32>
}

// A layout moves numbers and changes none.
#lay = #kernel.layout<"(n, k) -> [n/16, k, n%16] pad n:16">
!packed = tensor<2x3xf32, #kernel.packed<none, #lay>>
kernel.weight @p at 0 bytes 192 : !packed from @d
// PACKED: result0: equal
dsv3.program @packed(%x: tensor<?x3xf32>) -> tensor<?x2xf32> attributes {} {
  %w = kernel.use @p : !packed
  %y = dsv3.linear %x, %w site "l" : tensor<?x3xf32>, !packed -> tensor<?x2xf32>
  dsv3.return %y : tensor<?x2xf32>
}
dsv3.program @plain(%x: tensor<?x3xf32>) -> tensor<?x2xf32> {
  %w = dsv3.use @d : tensor<2x3xf32>
  %y = dsv3.linear %x, %w site "l" : tensor<?x3xf32>, tensor<2x3xf32> -> tensor<?x2xf32>
  dsv3.return %y : tensor<?x2xf32>
}

// A stack of encoded experts: data times scale, rounded to bf16.
#fp8b = #dsv3.blocked<f8E4M3FN, 128x128, f32>
dsv3.weight @e : tensor<16x128x256xbf16, #fp8b> from #dsv3.stack<0 to 16, #dsv3.file<"model.layers.1.mlp.experts.{}.up_proj.weight", scale "model.layers.1.mlp.experts.{}.up_proj.weight_scale_inv">>
// FILE: result0: [16, 128, 256] bf16 hash [[HASH:[0-9a-f]+]] values
// DRAWN: result0: [16, 128, 256] bf16 hash [[HASH:[0-9a-f]+]] values
dsv3.program @file() -> tensor<16x128x256xbf16, #fp8b> {
  %w = dsv3.use @e : tensor<16x128x256xbf16, #fp8b>
  dsv3.return %w : tensor<16x128x256xbf16, #fp8b>
}
