// One line, and the exit code says what kind of mistake it is.
// RUN: not dsv3-interpret %s 2>&1 | FileCheck %s --check-prefix=SEVERAL
// SEVERAL: dsv3-interpret: error: expected --program=NAME, since there are several; the programs are @sum, @decode, @file, @other, @same_shape
// RUN: not dsv3-interpret %s --program=nope 2>&1 | FileCheck %s --check-prefix=NOPE
// NOPE: expected a program @nope; the programs are @sum
// RUN: not dsv3-interpret %s --program=trunk_head 2>&1 | FileCheck %s --check-prefix=WHOLE
// WHOLE: --program=trunk_head: expected programs @trunk and @head, or one of phase score
// RUN: not dsv3-interpret %s --program=sum --mtp 2>&1 | FileCheck %s --check-prefix=MTP
// MTP: --mtp: expected --program=trunk_head, got 'sum'
// RUN: not dsv3-interpret %s --program=sum --arg=0=1,x 2>&1 | FileCheck %s --check-prefix=NUMBERS
// NUMBERS: --arg: expected numbers for argument 0, got '1,x'
// RUN: not dsv3-interpret %s --program=sum --arg=0=1,2,3 2>&1 | FileCheck %s --check-prefix=COUNT
// COUNT: --arg: expected numbers for shape [?, 2] of argument 0, got 3
// RUN: not dsv3-interpret %s --program=sum --arg=99=1 2>&1 | FileCheck %s --check-prefix=NOSUCH
// NOSUCH: --arg=99: expected a tensor among the {{[0-9]+}} arguments of @sum
// RUN: not dsv3-interpret %s --program=sum --arg=0=1,2 --lengths=2 2>&1 | FileCheck %s --check-prefix=SITE
// SITE: a: add: expected b of shape [1, 2], got [2, 2]
// RUN: not dsv3-interpret %s --program=decode --lengths=1,1,1 2>&1 | FileCheck %s --check-prefix=CAPACITY
// CAPACITY: @decode: expected at most 2 tokens of 2 sequences in a step, got 3 of 3 (see --chunk)
// RUN: not dsv3-interpret %s --program=file 2>&1 | FileCheck %s --check-prefix=FILE
// FILE: expected --checkpoint or --dummy-weights, since a weight reads tensor 'a.weight'
// RUN: not dsv3-interpret %s --program=file --checkpoint=%source/examples/dsv3-tiny 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: expected a tensor 'a.weight' in {{.*}}dsv3-tiny, got none
// RUN: not dsv3-interpret %s --program=other 2>&1 | FileCheck %s --check-prefix=OP
// OP: expected an op of the dsv3 or kernel dialect, got 'builtin.unrealized_conversion_cast'
// RUN: not dsv3-interpret %s --program=sum --ids=1,,2 2>&1 | FileCheck %s --check-prefix=IDS
// IDS: --ids: expected integers like 0,17 or 0,17;5, got '1,,2'
// RUN: not dsv3-interpret %s --program=sum --tolerance=1 2>&1 | FileCheck %s --check-prefix=TOLERANCE
// TOLERANCE: expected --against
// RUN: not dsv3-interpret %s --program=sum --lengths=2 --against=%s --against-program=decode 2>&1 | FileCheck %s --check-prefix=TYPES
// TYPES: result0: expected equal types, got [2, 2] f32 and [2, 2] bf16
// A difference is not an error: the line says how large it is, the exit code is 1.
// RUN: not dsv3-interpret %s --program=sum --against=%s --against-program=same_shape | FileCheck %s --check-prefix=DIFFERENT
// DIFFERENT: result0: row 0 differs by 0.5 (tolerance 0)
// RUN: dsv3-interpret %s --program=sum --against=%s --against-program=same_shape --tolerance=0.6 | FileCheck %s --check-prefix=CLOSE
// CLOSE: result0: row 0 differs by 0.5 (tolerance 0.6)

dsv3.program @sum(%x: tensor<?x2xf32>, %y: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %s = dsv3.add %x, %x site "twice" : tensor<?x2xf32>, tensor<?x2xf32> -> tensor<?x2xf32>
  %t = dsv3.add %x, %y site "a" : tensor<?x2xf32>, tensor<?x2xf32> -> tensor<?x2xf32>
  dsv3.return %s : tensor<?x2xf32>
}
dsv3.program @decode(%x: tensor<2x2xbf16>) -> tensor<2x2xbf16> attributes {phase = "decode", tokens = 2 : i64, seqs = 2 : i64} {
  dsv3.return %x : tensor<2x2xbf16>
}
dsv3.weight @a : tensor<2x2xf32> from #dsv3.file<"a.weight">
dsv3.program @file() -> tensor<2x2xf32> {
  %w = dsv3.use @a : tensor<2x2xf32>
  dsv3.return %w : tensor<2x2xf32>
}
dsv3.program @other(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %y = builtin.unrealized_conversion_cast %x : tensor<2x2xf32> to tensor<2x2xf32>
  dsv3.return %y : tensor<2x2xf32>
}
dsv3.program @same_shape(%x: tensor<?x2xf32>, %y: tensor<?x2xf32>) -> tensor<?x2xf32> {
  dsv3.return %x : tensor<?x2xf32>
}
