// A cache whose latent is stored as codes says so in its type.
// RUN: dsv3-opt %s | dsv3-opt | FileCheck %s

// CHECK-DAG: !dsv3.kv<layers = 2, page = 64, latent = 512, rope = 64, bf16, stored #{{.*}}>
// CHECK-DAG: = #dsv3.blocked<f8E5M2, 1x?, f32>
!kv = !dsv3.kv<layers = 2, page = 64, latent = 512, rope = 64, bf16, stored #dsv3.blocked<f8E5M2, 1x?, f32>>

// CHECK: dsv3.kv_append
dsv3.program @p(%c: tensor<4x512xbf16>, %r: tensor<4x64xbf16>, %q: !dsv3.seq, %kv: !kv) -> !kv {
  %k = dsv3.kv_append %kv[1] latent(%c) rope(%r), %q site "s" : tensor<4x512xbf16>, tensor<4x64xbf16>, !kv
  dsv3.return %k : !kv
}
