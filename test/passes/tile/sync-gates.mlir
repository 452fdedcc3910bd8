// One-sided arrivals become full barriers; nothing else changes.
// RUN: dsv3-opt %s --dsv3-tile-sync-gates | FileCheck %s
// The decode kernel of the dialect's tests obeys its protocol in this form too.
// RUN: dsv3-opt %S/../../dialects/tile/mla-decode.mlir --dsv3-tile-sync-gates --dsv3-tile-check-protocol="seeds=4 dims=1,16,512,1,5,1,2,1,16,1,16,1,16 args=16,1,0.1 ints=3,1,4,0,2,0,0,5,0,0,1"

// CHECK-LABEL: tile.kernel @handover
// CHECK: gate between @a, @b
// CHECK: gate between @a, @b
// CHECK: role @a
// CHECK: store
// CHECK-NEXT: meet %[[G:.*]]
// CHECK: role @b
// CHECK: meet %[[G]]
// CHECK-NEXT: load
// CHECK-NOT: signal
tile.kernel @handover(%out: !tile.gmem<?xf32>) {
  %buf = alloc : !tile.buf<64xf32>
  %gate = gate from @a to @b
  %end = gate between @a, @b
  role @a warpgroups(1) {
    %x = arith.constant dense<1.0> : tensor<64xf32, #tile.frag<row>>
    store %x, %buf : tensor<64xf32, #tile.frag<row>>, !tile.buf<64xf32>
    signal %gate
    meet %end
  }
  role @b warpgroups(1) {
    meet %gate
    %y = load %buf : !tile.buf<64xf32> -> tensor<64xf32, #tile.frag<row>>
    write %y, %out[0] : tensor<64xf32, #tile.frag<row>>, !tile.gmem<?xf32>
    meet %end
  }
}
