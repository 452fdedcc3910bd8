// Dense dsv3 ops on numbers that can be checked by hand.
// RUN: dsv3-interpret %s --program=embed --ids=2,0 --arg=1=1,2,3,4,5,6 | FileCheck %s --check-prefix=EMBED
// RUN: dsv3-interpret %s --program=norm --arg=0=3,4,0,0 --arg=1=1,2 | FileCheck %s --check-prefix=NORM
// RUN: dsv3-interpret %s --program=add_norm --arg=0=1,2 --arg=1=2,2 --arg=2=1,1 | FileCheck %s --check-prefix=ADDNORM
// RUN: dsv3-interpret %s --program=linear --arg=0=1,2,3,4 --arg=1=1,0,0,0,0,0,0,1,1,1,1,1,1,-1,1,-1 | FileCheck %s --check-prefix=LINEAR
// RUN: dsv3-interpret %s --program=gated --arg=0=1,2 --arg=1=100,0 --arg=2=0,3 | FileCheck %s --check-prefix=GATED
// RUN: dsv3-interpret %s --program=batched --arg=0=1,2,3,4 --arg=1=1,1,1,-1 | FileCheck %s --check-prefix=BATCHED
// RUN: dsv3-interpret %s --program=swiglu --arg=0=0,50 --arg=1=7,2 | FileCheck %s --check-prefix=SWIGLU
// RUN: dsv3-interpret %s --program=rounding --arg=0=1,256 --arg=1=0.00390625,1 | FileCheck %s --check-prefix=ROUND
// RUN: dsv3-interpret %s --program=parts --arg=0=1,2,3,4,5,6 | FileCheck %s --check-prefix=PARTS
// RUN: dsv3-interpret %s --program=select --lengths=2,1 --arg=0=1,2,3,4,5,6 | FileCheck %s --check-prefix=SELECT
// RUN: dsv3-interpret %s --program=select --lengths=2,1 --arg=0=1,2,3,4,5,6 --hash-only | FileCheck %s --check-prefix=HASH

// EMBED: result0: [2, 2] f32 hash {{[0-9a-f]+}} values 5 6 1 2
dsv3.program @embed(%ids: tensor<?xi32>, %table: tensor<3x2xf32>) -> tensor<?x2xf32> {
  %y = dsv3.embed %ids, %table site "e" : tensor<?xi32>, tensor<3x2xf32> -> tensor<?x2xf32>
  dsv3.return %y : tensor<?x2xf32>
}

// The mean square of (3, 4) is 12.5; 3 / 3.5355 = 0.848528, 2 * 4 / 3.5355 = 2.26274. A zero row stays zero.
// NORM: result0: [2, 2] f32 hash {{[0-9a-f]+}} values 0.848528 2.26274 0 0
dsv3.program @norm(%x: tensor<?x2xf32>, %g: tensor<2xf32>) -> tensor<?x2xf32> {
  %y = dsv3.rms_norm %x, %g eps 1.0e-12 site "n" : tensor<?x2xf32>, tensor<2xf32> -> tensor<?x2xf32>
  dsv3.return %y : tensor<?x2xf32>
}

// ADDNORM: result0: [1, 2] f32 hash {{[0-9a-f]+}} values 3 4
// ADDNORM: result1: [1, 2] f32 hash {{[0-9a-f]+}} values 0.848528 1.13137
dsv3.program @add_norm(%x: tensor<?x2xf32>, %r: tensor<?x2xf32>, %g: tensor<2xf32>) -> (tensor<?x2xf32>, tensor<?x2xf32>) {
  %s, %y = dsv3.rms_norm %x, %g residual(%r : tensor<?x2xf32>) eps 1.0e-12 site "n" : tensor<?x2xf32>, tensor<2xf32> -> sum(tensor<?x2xf32>) tensor<?x2xf32>
  dsv3.return %s, %y : tensor<?x2xf32>, tensor<?x2xf32>
}

// Heads on both sides are a row.
// LINEAR: result0: [1, 2, 2] f32 hash {{[0-9a-f]+}} values 1 4 10 -2
dsv3.program @linear(%x: tensor<?x2x2xf32>, %w: tensor<4x4xf32>) -> tensor<?x2x2xf32> {
  %y = dsv3.linear %x, %w site "l" : tensor<?x2x2xf32>, tensor<4x4xf32> -> tensor<?x2x2xf32>
  dsv3.return %y : tensor<?x2x2xf32>
}

// silu(100) * 6: the gate is wide open.
// GATED: result0: [1, 1] f32 hash {{[0-9a-f]+}} values 600
dsv3.program @gated(%x: tensor<?x2xf32>, %g: tensor<1x2xf32>, %u: tensor<1x2xf32>) -> tensor<?x1xf32> {
  %y = dsv3.gated_linear %x, %g, %u via f32 site "g" : tensor<?x2xf32>, tensor<1x2xf32>, tensor<1x2xf32> -> tensor<?x1xf32>
  dsv3.return %y : tensor<?x1xf32>
}

// BATCHED: result0: [1, 2, 1] f32 hash {{[0-9a-f]+}} values 3 -1
dsv3.program @batched(%x: tensor<?x2x2xf32>, %w: tensor<2x1x2xf32>) -> tensor<?x2x1xf32> {
  %y = dsv3.batched_linear %x, %w site "b" : tensor<?x2x2xf32>, tensor<2x1x2xf32> -> tensor<?x2x1xf32>
  dsv3.return %y : tensor<?x2x1xf32>
}

// SWIGLU: result0: [1, 2] f32 hash {{[0-9a-f]+}} values 0 100
dsv3.program @swiglu(%g: tensor<?x2xf32>, %u: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %y = dsv3.swiglu %g, %u site "s" : tensor<?x2xf32>, tensor<?x2xf32> -> tensor<?x2xf32>
  dsv3.return %y : tensor<?x2xf32>
}

// A rounding is a type: bf16 has 8 bits, ties go to even. 1 + 2^-8 is a tie, and so is 257.
// ROUND: result0: [1, 2] bf16 hash {{[0-9a-f]+}} values 1 256
dsv3.program @rounding(%x: tensor<?x2xf32>, %y: tensor<?x2xf32>) -> tensor<?x2xbf16> {
  %s = dsv3.add %x, %y site "a" : tensor<?x2xf32>, tensor<?x2xf32> -> tensor<?x2xbf16>
  dsv3.return %s : tensor<?x2xbf16>
}

// PARTS: result0: [2, 3] f32 hash {{[0-9a-f]+}} values 2 3 1 5
dsv3.program @parts(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %a, %b = dsv3.split %x : tensor<?x3xf32> -> tensor<?x1xf32>, tensor<?x2xf32>
  %y = dsv3.concat %b, %a site "c" : tensor<?x2xf32>, tensor<?x1xf32> -> tensor<?x3xf32>
  dsv3.return %y : tensor<?x3xf32>
}

// The last row of each sequence: of rows 0, 1 and of row 2.
// SELECT: result0: [2, 2] f32 hash {{[0-9a-f]+}} values 3 4 5 6
// HASH: {{^}}result0: {{[0-9a-f]+}}{{$}}
dsv3.program @select(%x: tensor<?x2xf32>, %seq: !dsv3.seq) -> tensor<?x2xf32> {
  %y = dsv3.select_rows %x, %seq site "s" : tensor<?x2xf32> -> tensor<?x2xf32>
  dsv3.return %y : tensor<?x2xf32>
}
