// Routing and experts on numbers that can be checked by hand; one op and its parts have equal bits.
// RUN: dsv3-interpret %s --program=route --arg=0=0,0,0,0 --arg=1=0.3,0.1,0.2,0.25 | FileCheck %s --check-prefix=ROUTE
// RUN: dsv3-interpret %s --program=dispatch --arg=0=10,20,30 --arg=1=1,0,1,2,0,1 --values=7 | FileCheck %s --check-prefix=DISPATCH
// RUN: dsv3-interpret %s --program=combine --arg=0=10,20 --arg=1=1,0 --arg=2=0.5,2 --arg=3=3 | FileCheck %s --check-prefix=COMBINE
// RUN: dsv3-interpret %s --program=grouped --arg=0=1,2,3 --arg=1=10,100 --arg=2=0,1,3 | FileCheck %s --check-prefix=GROUPED
// RUN: dsv3-interpret %s --program=parts --lengths=9,4 --against=%s --against-program=fused --taps | FileCheck %s --check-prefix=FUSED
// RUN: dsv3-interpret %s --program=parts --lengths=9,4 --against=%s --against-program=kernels --taps | FileCheck %s --check-prefix=FUSED
// RUN: dsv3-opt %s --dsv3-expand-experts=target=test-gpu -o %t.gathered.mlir
// RUN: dsv3-interpret %s --program=parts --lengths=9,4 --against=%t.gathered.mlir --against-program=kernels --taps | FileCheck %s --check-prefix=FUSED

// All scores are 0.5. Groups {0, 1} and {2, 3} score by bias 0.4 and 0.45: the second wins, its best is 3. Weights:
// 0.5 / (0.5 + 0.5) * 3, without the bias.
// ROUTE: result0: [1, 2] i32 hash {{[0-9a-f]+}} values 3 2
// ROUTE: result1: [1, 2] f32 hash {{[0-9a-f]+}} values 1.5 1.5
dsv3.program @route(%logits: tensor<?x4xf32>, %bias: tensor<4xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>) {
  %i, %w = dsv3.route %logits, %bias groups 2 keep 1 top 2 norm true scale 3.0 site "r" : tensor<?x4xf32>, tensor<4xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  dsv3.return %i, %w : tensor<?x2xi32>, tensor<?x2xf32>
}

// Expert 0 gets tokens 0 and 2, expert 1 all three, expert 2 token 1; expert 3 none.
// DISPATCH: result0: [6, 1] f32 hash {{[0-9a-f]+}} values 10 30 10 20 30 20
// DISPATCH: result1: [5] i32 hash {{[0-9a-f]+}} values 0 2 5 6 6
// DISPATCH: result2: [3, 2] i32 hash {{[0-9a-f]+}} values 2 0 3 5 1 4
dsv3.program @dispatch(%x: tensor<?x1xf32>, %ids: tensor<?x2xi32>) -> (tensor<?x1xf32>, tensor<5xi32>, tensor<?x2xi32>) {
  %r, %o, %of = dsv3.dispatch %x, %ids experts 4 site "d" : tensor<?x1xf32>, tensor<?x2xi32> -> tensor<?x1xf32>, tensor<5xi32>, tensor<?x2xi32>
  dsv3.return %r, %o, %of : tensor<?x1xf32>, tensor<5xi32>, tensor<?x2xi32>
}

// 0.5 * 20 + 2 * 10 + 3.
// COMBINE: result0: [1, 1] f32 hash {{[0-9a-f]+}} values 33
dsv3.program @combine(%rows: tensor<?x1xf32>, %of: tensor<?x2xi32>, %w: tensor<?x2xf32>, %plus: tensor<?x1xf32>) -> tensor<?x1xf32> {
  %y = dsv3.combine %rows, %of, %w plus(%plus : tensor<?x1xf32>) site "c" : tensor<?x1xf32>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x1xf32>
  dsv3.return %y : tensor<?x1xf32>
}

// GROUPED: result0: [3, 1] f32 hash {{[0-9a-f]+}} values 10 200 300
dsv3.program @grouped(%x: tensor<?x1xf32>, %w: tensor<2x1x1xf32>, %o: tensor<3xi32>) -> tensor<?x1xf32> {
  %y = dsv3.grouped_linear %x, %w, %o site "g" : tensor<?x1xf32>, tensor<2x1x1xf32>, tensor<3xi32> -> tensor<?x1xf32>
  dsv3.return %y : tensor<?x1xf32>
}

dsv3.weight @gate : tensor<8x5x6xbf16> from #dsv3.dummy<"gate", std 1.0>
dsv3.weight @up : tensor<8x5x6xbf16> from #dsv3.dummy<"up", std 1.0>
dsv3.weight @down : tensor<8x6x5xbf16> from #dsv3.dummy<"down", std 1.0>

// FUSED: result0: equal
// FUSED-NEXT: tap ids: equal
// FUSED-NEXT: tap weights: equal
dsv3.program @parts(%x: tensor<?x6xbf16>, %logits: tensor<?x8xf32>, %bias: tensor<8xf32>) -> tensor<?x6xbf16> {
  %g = dsv3.use @gate : tensor<8x5x6xbf16>
  %u = dsv3.use @up : tensor<8x5x6xbf16>
  %d = dsv3.use @down : tensor<8x6x5xbf16>
  %ids, %w = dsv3.route %logits, %bias groups 4 keep 2 top 3 norm true scale 2.5 site "route" : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x3xi32>, tensor<?x3xf32>
  dsv3.tap "ids", %ids : tensor<?x3xi32>
  dsv3.tap "weights", %w : tensor<?x3xf32>
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 8 site "dispatch" : tensor<?x6xbf16>, tensor<?x3xi32> -> tensor<?x6xbf16>, tensor<9xi32>, tensor<?x3xi32>
  %a = dsv3.grouped_linear %rows, %g, %off site "gate" : tensor<?x6xbf16>, tensor<8x5x6xbf16>, tensor<9xi32> -> tensor<?x5xf32>
  %b = dsv3.grouped_linear %rows, %u, %off site "up" : tensor<?x6xbf16>, tensor<8x5x6xbf16>, tensor<9xi32> -> tensor<?x5xf32>
  %h = dsv3.swiglu %a, %b site "act" : tensor<?x5xf32>, tensor<?x5xf32> -> tensor<?x5xbf16>
  %e = dsv3.grouped_linear %h, %d, %off site "down" : tensor<?x5xbf16>, tensor<8x6x5xbf16>, tensor<9xi32> -> tensor<?x6xbf16>
  %y = dsv3.combine %e, %of, %w plus(%x : tensor<?x6xbf16>) site "moe" : tensor<?x6xbf16>, tensor<?x3xi32>, tensor<?x3xf32> -> tensor<?x6xbf16>
  dsv3.return %y : tensor<?x6xbf16>
}
dsv3.program @fused(%x: tensor<?x6xbf16>, %logits: tensor<?x8xf32>, %bias: tensor<8xf32>) -> tensor<?x6xbf16> {
  %g = dsv3.use @gate : tensor<8x5x6xbf16>
  %u = dsv3.use @up : tensor<8x5x6xbf16>
  %d = dsv3.use @down : tensor<8x6x5xbf16>
  %y, %ids, %w = dsv3.routed_experts %x, %logits, %bias, %g, %u, %d plus(%x : tensor<?x6xbf16>) groups 4 keep 2 top 3 norm true scale 2.5 via(gate_up : f32, act : bf16, down : bf16) site "moe" : tensor<?x6xbf16>, tensor<?x8xf32>, tensor<8xf32>, tensor<8x5x6xbf16>, tensor<8x5x6xbf16>, tensor<8x6x5xbf16> -> tensor<?x6xbf16> ids(tensor<?x3xi32>) weights(tensor<?x3xf32>)
  dsv3.tap "ids", %ids : tensor<?x3xi32>
  dsv3.tap "weights", %w : tensor<?x3xf32>
  dsv3.return %y : tensor<?x6xbf16>
}
dsv3.program @kernels(%x: tensor<16x6xbf16>, %logits: tensor<16x8xf32>, %bias: tensor<8xf32>) -> tensor<16x6xbf16> attributes {phase = "score", tokens = 16 : i64, seqs = 2 : i64} {
  %g = dsv3.use @gate : tensor<8x5x6xbf16>
  %u = dsv3.use @up : tensor<8x5x6xbf16>
  %d = dsv3.use @down : tensor<8x6x5xbf16>
  %i0 = kernel.empty : tensor<16x3xi32>
  %w0 = kernel.empty : tensor<16x3xf32>
  %ids, %w = kernel.route ins(%logits, %bias : tensor<16x8xf32>, tensor<8xf32>) outs(%i0, %w0 : tensor<16x3xi32>, tensor<16x3xf32>) groups 4 keep 2 top 3 norm true scale 2.5 site "route" -> tensor<16x3xi32>, tensor<16x3xf32>
  kernel.tap "ids", %ids : tensor<16x3xi32>
  kernel.tap "weights", %w : tensor<16x3xf32>
  %o0 = kernel.empty : tensor<9xi32>
  %t0 = kernel.empty : tensor<48xi32>
  %off, %tok, %of = kernel.dispatch ins(%ids : tensor<16x3xi32>) outs(%o0, %t0, %i0 : tensor<9xi32>, tensor<48xi32>, tensor<16x3xi32>) site "dispatch" -> tensor<9xi32>, tensor<48xi32>, tensor<16x3xi32>
  %a0 = kernel.empty : tensor<48x5xbf16>
  %h = kernel.grouped_gated_gemm ins(%x, %g, %u, %off, %tok : tensor<16x6xbf16>, tensor<8x5x6xbf16>, tensor<8x5x6xbf16>, tensor<9xi32>, tensor<48xi32>) outs(%a0 : tensor<48x5xbf16>) via f32 site "act"
  %d0 = kernel.empty : tensor<48x6xbf16>
  %e = kernel.grouped_gemm ins(%h, %d, %off : tensor<48x5xbf16>, tensor<8x6x5xbf16>, tensor<9xi32>) outs(%d0 : tensor<48x6xbf16>) site "down"
  %y0 = kernel.empty : tensor<16x6xbf16>
  %y = kernel.combine ins(%e, %of, %w : tensor<48x6xbf16>, tensor<16x3xi32>, tensor<16x3xf32>) plus(%x : tensor<16x6xbf16>) outs(%y0 : tensor<16x6xbf16>) site "moe"
  dsv3.return %y : tensor<16x6xbf16>
}
