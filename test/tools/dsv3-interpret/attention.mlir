// The cache, RoPE and both forms of attention on numbers that can be checked by hand.
// RUN: dsv3-interpret %s --program=rope --lengths=2 --arg=0=1,2,3,1,2,3 --values=6 | FileCheck %s --check-prefix=ROPE
// RUN: dsv3-interpret %s --program=halves --lengths=2 --arg=0=1,2,3,4,1,2,3,4 --values=8 | FileCheck %s --check-prefix=HALVES
// RUN: dsv3-interpret %s --program=mha --lengths=2 --arg=0=0,0,0,0,0,0 --arg=1=1,3 --arg=2=9,9,9,9 --arg=3=0,10 | FileCheck %s --check-prefix=MHA
// RUN: dsv3-interpret %s --program=latent --lengths=2 --arg=0=0,0 --arg=1=0,0,0,0 --arg=2=1,3 --arg=3=9,9,9,9 | FileCheck %s --check-prefix=LATENT
// Neither chunks nor neighbours change a bit, with shuffled pages and rows from before.
// RUN: dsv3-interpret %s --program=mha --lengths=70,3 --past=61 --chunk=16 --hash-only > %t.chunks
// RUN: dsv3-interpret %s --program=mha --lengths=70,3 --past=61 --hash-only | diff %t.chunks -
// RUN: dsv3-interpret %s --program=mha --lengths=70 --past=61 --values=70 | grep result0 | sed "s/.*values//" > %t.alone
// RUN: dsv3-interpret %s --program=mha --lengths=70,3 --past=61 --values=70 | grep result0 | sed "s/.*values//" | diff %t.alone -

#rope = #dsv3.rope<dims = 2, theta = 10000.0, interleaved = true>
#half = #dsv3.rope<dims = 4, theta = 10000.0, interleaved = false, scale = 2.0>
!kv = !dsv3.kv<layers = 2, page = 64, latent = 1, rope = 2, f32>

// Position 0 does not turn, position 1 by one radian: 2 cos 1 - 3 sin 1, 2 sin 1 + 3 cos 1.
// ROPE: result0: [2, 3] f32 hash {{[0-9a-f]+}} values 1 2 3 1 -1.44381 3.30385
dsv3.program @rope(%x: tensor<?x3xf32>, %seq: !dsv3.seq) -> tensor<?x3xf32> {
  %y = dsv3.rope %x, %seq at 1 #rope site "r" : tensor<?x3xf32> -> tensor<?x3xf32>
  dsv3.return %y : tensor<?x3xf32>
}

// Pairs (0, 2) and (1, 3), by 1 and 0.01 radians, all of it times 2: 2 (cos 1 - 3 sin 1) = -3.96822.
// HALVES: result0: [2, 4] f32 hash {{[0-9a-f]+}} values 2 4 6 8 -3.96822 3.9198 4.92476 8.0396
dsv3.program @halves(%x: tensor<?x4xf32>, %seq: !dsv3.seq) -> tensor<?x4xf32> {
  %y = dsv3.rope %x, %seq at 0 #half site "r" : tensor<?x4xf32> -> tensor<?x4xf32>
  dsv3.return %y : tensor<?x4xf32>
}

// Scores are 0, so the values 10 * latent are averaged over positions 0 .. p: 10, then (10 + 30) / 2.
// MHA: result0: [2, 1, 1] f32 hash {{[0-9a-f]+}} values 10 20
// MHA: kv: [2, 2, 3] f32
dsv3.program @mha(%q: tensor<?x1x3xf32>, %c: tensor<?x1xf32>, %r: tensor<?x2xf32>, %w: tensor<2x1xf32>, %seq: !dsv3.seq, %kv0: !kv) -> (tensor<?x1x1xf32>, !kv) {
  %kv = dsv3.kv_append %kv0[1] latent(%c) rope(%r), %seq site "a" : tensor<?x1xf32>, tensor<?x2xf32>, !kv
  %y = dsv3.mla_attention %q, %kv[1], %w, %seq scale 0.5 site "m" : tensor<?x1x3xf32>, !kv, tensor<2x1xf32> -> tensor<?x1x1xf32>
  dsv3.return %y, %kv : tensor<?x1x1xf32>, !kv
}

// LATENT: result0: [2, 1, 1] f32 hash {{[0-9a-f]+}} values 1 2
dsv3.program @latent(%ql: tensor<?x1x1xf32>, %qr: tensor<?x1x2xf32>, %c: tensor<?x1xf32>, %r: tensor<?x2xf32>, %seq: !dsv3.seq, %kv0: !kv) -> (tensor<?x1x1xf32>, !kv) {
  %kv = dsv3.kv_append %kv0[1] latent(%c) rope(%r), %seq site "a" : tensor<?x1xf32>, tensor<?x2xf32>, !kv
  %y = dsv3.latent_attention %ql, %qr, %kv[1], %seq scale 0.5 site "l" : tensor<?x1x1xf32>, tensor<?x1x2xf32>, !kv -> tensor<?x1x1xf32>
  dsv3.return %y, %kv : tensor<?x1x1xf32>, !kv
}
