// A cache of codes: E4M3 has 32 and 36 but not 33, and a row of zeros is one. Chunks change no bit.
// RUN: dsv3-interpret %s --program=latent --lengths=2 --arg=0=0,0,0,0 --arg=1=0,0,0,0 --arg=2=448,33,0,0 --arg=3=9,9,9,9 | FileCheck %s
// RUN: dsv3-interpret %s --program=mha --lengths=70,3 --past=61 --chunk=16 --hash-only > %t.chunks
// RUN: dsv3-interpret %s --program=mha --lengths=70,3 --past=61 --hash-only | diff %t.chunks -

!kv = !dsv3.kv<layers = 2, page = 64, latent = 2, rope = 2, f32, stored #dsv3.blocked<f8E4M3FN, 1x?, f32>>

// Scores are 0: the first row, then the mean of it and zeros.
// CHECK: result0: [2, 1, 2] f32 hash {{[0-9a-f]+}} values 448 32 224 16
dsv3.program @latent(%ql: tensor<?x1x2xf32>, %qr: tensor<?x1x2xf32>, %c: tensor<?x2xf32>, %r: tensor<?x2xf32>, %seq: !dsv3.seq, %kv0: !kv) -> (tensor<?x1x2xf32>, !kv) {
  %kv = dsv3.kv_append %kv0[1] latent(%c) rope(%r), %seq site "a" : tensor<?x2xf32>, tensor<?x2xf32>, !kv
  %y = dsv3.latent_attention %ql, %qr, %kv[1], %seq scale 0.5 site "l" : tensor<?x1x2xf32>, tensor<?x1x2xf32>, !kv -> tensor<?x1x2xf32>
  dsv3.return %y, %kv : tensor<?x1x2xf32>, !kv
}

dsv3.program @mha(%q: tensor<?x1x3xf32>, %c: tensor<?x2xf32>, %r: tensor<?x2xf32>, %w: tensor<2x2xf32>, %seq: !dsv3.seq, %kv0: !kv) -> (tensor<?x1x1xf32>, !kv) {
  %kv = dsv3.kv_append %kv0[1] latent(%c) rope(%r), %seq site "a" : tensor<?x2xf32>, tensor<?x2xf32>, !kv
  %y = dsv3.mla_attention %q, %kv[1], %w, %seq scale 0.5 site "m" : tensor<?x1x3xf32>, !kv, tensor<2x2xf32> -> tensor<?x1x1xf32>
  dsv3.return %y, %kv : tensor<?x1x1xf32>, !kv
}
