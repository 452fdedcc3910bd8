// The text of a product over rows of experts: work from offsets in memory, weights of the item's expert, rows masked by data.
// RUN: dsv3-opt %s --dsv3-bind-kernels=target=sm_90a --dsv3-outline-kernels=target=sm_90a | FileCheck %s

// CHECK: kernel.grouped_gemm {{.*}} {kernel.symbol = @[[SYMBOL:.*]]}
// CHECK: tile.kernel @[[SYMBOL]](%{{.*}}: !llvm.ptr<1>, %[[X:.*]]: !tile.tma<?x?xbf16, box 8x64, sw128>, %[[W:.*]]: !tile.tma<?x?x?xbf16, box 1x64x64, sw128>, %[[Y:.*]]: !tile.gmem<?x192xbf16>, %[[OFFSETS:.*]]: !tile.gmem<?xi32>)
// CHECK: %[[STAGE:.*]] = alloc
// CHECK: %[[E:.*]] = arith.constant 8 : i32
// CHECK: %[[N:.*]] = arith.constant 192 : i32
// 64 rows: 8 experts with a row more than whole tiles of 8 make (64 + 8 * 7) / 8 of them.
// CHECK: %[[WORK:.*]] = groups %[[OFFSETS]] experts(%[[E]]) rows 8 cols(%[[N]], 64) max 15 -> (expert, rows, row, n)
// CHECK: role @load producer
// CHECK: foreach (%[[EXPERT:.*]], %{{.*}}, %[[ROW:.*]], %[[COLUMN:.*]]) in %[[WORK]]
// CHECK: loop %[[K:.*]] = 0 to 256
// CHECK: copy %[[W]][%[[EXPERT]], %[[COLUMN]], %[[K]]] ->
// CHECK: copy %[[X]][%[[ROW]], %[[K]]] ->
// CHECK: role @mma warpgroups
// CHECK: foreach (%{{.*}}, %[[ROWS:.*]], %[[ROW:.*]], %{{.*}}) in %[[WORK]]
// CHECK: mma nt
// CHECK: %[[LEFT:.*]] = arith.subi %[[ROWS]], %{{.*}} : i32
// CHECK: write %{{.*}}, %[[Y]][%[[ROW]], %{{.*}}] trans rows(%[[LEFT]]) via %[[STAGE]]
dsv3.program @decode(%x: tensor<64x256xbf16>, %w: tensor<8x192x256xbf16>, %o: tensor<9xi32>) -> tensor<64x192xbf16> attributes {phase = "decode", tokens = 32 : i64, seqs = 32 : i64} {
  %d = kernel.empty : tensor<64x192xbf16>
  %y = kernel.grouped_gemm ins(%x, %w, %o : tensor<64x256xbf16>, tensor<8x192x256xbf16>, tensor<9xi32>) outs(%d : tensor<64x192xbf16>) site "down"
  dsv3.return %y : tensor<64x192xbf16>
}
