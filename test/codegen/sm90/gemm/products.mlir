// The tile IR of products: many tokens take tokens as M, few take weights as M.
// RUN: dsv3-opt %s --dsv3-outline-kernels --canonicalize --cse | FileCheck %s

// Tokens as M: the k-block before is awaited and released while this one is in flight; rows past the true count stay.
// CHECK-DAG: #[[AB:.*]] = #tile.ring<"ab", stages = 4, bufs = [!tile.buf<128x64xbf16, sw128>, !tile.buf<128x64xbf16, sw128>], free = [all by @mma], arrive = warpgroup>
// CHECK-DAG: #[[FEW:.*]] = #tile.ring<"wx", stages = 4, bufs = [!tile.buf<64x128xbf16, sw128>, !tile.buf<8x128xbf16, sw128>], free = [all by @mma], arrive = warpgroup>
// CHECK-DAG: #[[PAIR:.*]] = #tile.ring<"wx", stages = 4, bufs = [!tile.buf<128x64xbf16, sw128>, !tile.buf<128x64xbf16, sw128>, !tile.buf<16x64xbf16, sw128>], free = [all by @mma], arrive = warpgroup>
// CHECK-DAG: #[[FP8:.*]] = #tile.ring<"wx", stages = 4, bufs = [!tile.buf<2x64x128xf8E4M3FN, frag<acc>>, !tile.buf<8x128xbf16, sw128>], free = [all by @mma]>

// CHECK: tile.kernel @gemm_bf16_n128_k256_0(%[[S:.*]]: !llvm.ptr<1>, %[[X:.*]]: !tile.tma<?x?xbf16, box 128x64, sw128>, %[[W:.*]]: !tile.tma<?x?xbf16, box 128x64, sw128>, %[[Y:.*]]: !tile.gmem<?x128xbf16>)
// CHECK: %[[T:.*]] = count %[[S]][0]
// CHECK: %[[WORK:.*]] = raster [%[[T]], 128] tile [128, 128] group 8 -> (m, n)
// CHECK: role @load producer regs(40)
// CHECK: foreach (%[[M:.*]], %[[N:.*]]) in %[[WORK]]
// CHECK: loop %[[K:.*]] = 0 to 256 step 64
// CHECK: fill
// CHECK-NEXT: copy %[[X]][%[[M]], %[[K]]]
// CHECK-NEXT: copy %[[W]][%[[N]], %[[K]]]
// CHECK: role @mma warpgroups(2) as %[[G:.*]] regs(232)
// CHECK: %[[ROW:.*]] = arith.muli %[[G]], %c64_i32
// CHECK: loop {{.*}} peel(first) iter(%[[SLOT:[^ ]*]] = {{[^,]*}}, %[[PREV:[^ ]*]] = {{[^,]*}}, %[[TOKEN:[^ ]*]] = {{[^,]*}}, %[[ACC:[^ ]*]] =
// CHECK-NEXT: %[[BUF:.*]]:2 = wait full %[[SLOT]]
// CHECK-NEXT: %[[MINE:.*]] = view %[[BUF]]#0[%[[ROW]], 0]
// CHECK-NEXT: mma nt %[[MINE]], %[[BUF]]#1 into %[[ACC]]
// CHECK-NEXT: await %[[TOKEN]]
// CHECK-NEXT: release %[[PREV]]
// CHECK: write %{{.*}}, %[[Y]][%{{.*}}, %{{.*}}] rows(%{{.*}}) : tensor<64x128xbf16, #acc>

// Weights as M: 64 rows a warpgroup, 8 tokens; results turn to rows of y in shared memory.
// CHECK: tile.kernel @gemm_bf16_n128_k256_1({{.*}}, %[[X:.*]]: !tile.tma<?x?xbf16, box 8x64, sw128>, %[[W:.*]]: !tile.tma<?x?xbf16, box 64x64, sw128>, %[[Y:.*]]: !tile.gmem<?x128xbf16>)
// CHECK: %[[STAGE:.*]] = alloc : !tile.buf<4x8x16xbf16, swizzle<1, 4, 3>>
// CHECK: raster [128, %{{.*}}] tile [64, 8] group 8 -> (n, row)
// CHECK: loop %{{.*}} = 0 to 256 step 128
// CHECK: copy %[[W]]
// CHECK-NEXT: copy %[[X]]
// CHECK: mma nt {{.*}} : !tile.buf<64x128xbf16, sw128>, !tile.buf<8x128xbf16, sw128>, !tile.acc<64x8xf32>
// CHECK: write %{{.*}}, %[[Y]]{{.*}} trans rows(%{{.*}}) via %[[STAGE]]

// Gate and up share x; two blocks of a cluster share K, cut at multiples of 128, and each stores half of the tokens.
// CHECK: tile.kernel @gated_gemm_bf16_f32_n128_k256_0({{.*}}) cluster(2)
// CHECK: raster [128, %{{.*}}, 2] tile [128, 16, 1] -> (n, row, part)
// CHECK: role @load producer regs(56)
// CHECK: role @mma warpgroups(2) as %{{.*}} regs(224)
// CHECK: mma nt
// CHECK: mma nt
// CHECK: cluster_sum %{{.*}} via %{{.*}} -> tensor<64x8xf32, #acc>
// CHECK: cluster_sum %{{.*}} via %{{.*}} -> tensor<64x8xf32, #acc>
// CHECK: math.exp2 {{.*}} fastmath<afn>
// CHECK: arith.divf
// CHECK: write {{.*}} trans rows(%{{.*}}) : tensor<64x8xf32, #acc>

// FP8: blocks in fragment order, expanded in registers, promoted every 128 of K by their scale, read one block ahead.
// CHECK: tile.kernel @gemm_bf16_f8e4m3fn_n128_k256_0({{.*}}, %[[W:.*]]: !tile.gmem<?x16384xf8E4M3FN>, %[[SC:.*]]: !tile.gmem<?x2xf32>,
// CHECK-COUNT-2: copy %[[W]][{{.*}} -> !tile.buf<64x128xf8E4M3FN, frag<acc>>
// CHECK: %[[FIRST:.*]] = read %[[SC]]
// CHECK: loop {{.*}} iter({{.*}}, %[[SUM:[^ ]*]] = %{{[^,]*}}, %[[SCALE:[^ ]*]] = %[[FIRST]])
// CHECK: %[[NEXT:.*]] = read %[[SC]]
// CHECK: %[[CODES:.*]] = load
// CHECK: %[[A:.*]] = expand %[[CODES]] : tensor<64x128xf8E4M3FN, #acc> -> tensor<64x128xbf16, #acc>
// CHECK: %[[NONE:.*]] = none : !tile.acc<64x8xf32>
// CHECK: mma nt %[[A]], %{{.*}} into %[[NONE]]
// CHECK: %[[PART:.*]] = await
// CHECK-NEXT: release
// CHECK-NEXT: %[[B:.*]] = bcast %[[SCALE]]
// CHECK-NEXT: %[[NEW:.*]] = math.fma %[[PART]], %[[B]], %[[SUM]]
// CHECK-NEXT: yield %{{.*}}, %[[NEW]], %[[NEXT]]

// int8: one exact sum over K, of both parts of it; scales are read ahead of the products and multiply once.
// CHECK: tile.kernel @gemm_bf16_i8_n128_k256_0({{.*}}, %[[X:.*]]: !tile.tma<?x?xi8, box 16x128, sw128>, %[[SX:.*]]: !tile.gmem<?x1xf32>, %[[W:.*]]: !tile.tma<?x?xi8, box 64x128, sw128>, %[[SW:.*]]: !tile.gmem<?x1xf32>, {{.*}}) cluster(2)
// CHECK: %[[ROW:.*]] = read %[[SW]]{{.*}} trans : !tile.gmem<?x1xf32> -> tensor<64xf32, #row>
// CHECK: %[[COL:.*]] = read %[[SX]]{{.*}} trans rows({{.*}}) : !tile.gmem<?x1xf32> -> tensor<8xf32, #col>
// CHECK: mma nt {{.*}} : !tile.buf<64x128xi8, sw128>, !tile.buf<16x128xi8, sw128>, !tile.acc<64x16xi32>
// CHECK: %[[SUM:.*]] = cluster_sum %{{.*}} via %{{.*}} -> tensor<64x8xi32, #acc>
// CHECK-DAG: %[[F:.*]] = arith.sitofp %[[SUM]]
// CHECK-DAG: %[[A:.*]] = bcast %[[COL]]
// CHECK-DAG: %[[B:.*]] = bcast %[[ROW]]
// CHECK: %[[S:.*]] = arith.mulf %[[A]], %[[B]]
// CHECK: arith.mulf %[[F]], %[[S]]

#plain = #kernel.packed<none, #kernel.layout<"(n, k) -> [n, k]">>
#num = #kernel.numerics<acc = f32, mul = bf16, chain = "k_ascending">
#rows = #kernel.schedule<"sm90.gemm", {warpgroups = 2 : i64, bn = 128 : i64, bk = 64 : i64, stages = 4 : i64, group = 8 : i64, narrow = 0 : i64, staged = 0 : i64, ahead = 0 : i64, parts = 1 : i64, later = 0 : i64}>
#cols = #kernel.schedule<"sm90.gemm_wm", {warpgroups = 1 : i64, tokens = 8 : i64, bk = 128 : i64, stages = 4 : i64, split = 1 : i64, once = 0 : i64}>
#split = #kernel.schedule<"sm90.gated_gemm_wm", {warpgroups = 2 : i64, tokens = 16 : i64, bk = 64 : i64, stages = 4 : i64, split = 2 : i64, once = 0 : i64}>
#fp8 = #kernel.packed<#dsv3.blocked<f8E4M3FN, 128x128, f32>, #kernel.layout<"(n, k) -> [n/64, k/32, n/16%4, n%8, k/2%4, k/8%4, n/8%2, k%2] pad n:64 k:128">, scale = #kernel.layout<"(n, k) -> [n/64, k/128] pad n:64 k:128">>
#num8 = #kernel.numerics<acc = f32, mul = bf16, chain = "k_blocks128">
#expand = #kernel.schedule<"sm90.gemm_wm", {warpgroups = 2 : i64, tokens = 8 : i64, bk = 128 : i64, stages = 4 : i64, split = 1 : i64, once = 0 : i64}>
#i8 = #dsv3.blocked<i8, 1x?, f32>
#int8 = #kernel.packed<#i8, #kernel.layout<"(n, k) -> [n, k]">, scale = #kernel.layout<"(n, k) -> [n] pad n:256">>
#numi = #kernel.numerics<acc = i32, mul = i8, chain = "k_ascending">
#exact = #kernel.schedule<"sm90.gemm_wm", {warpgroups = 1 : i64, tokens = 16 : i64, bk = 128 : i64, stages = 4 : i64, split = 2 : i64, once = 0 : i64}>

module attributes {dsv3.target = #target.gpu<"sm_90a", sm_count = 132, smem = 232448, has = ["tma"]>,
                   dsv3.capacities = {tokens = 256 : i64, seqs = 8 : i64, pages = 4 : i64, qblocks = 24 : i64, kblocks = 12 : i64, max_model_len = 256 : i64}} {
dsv3.weight @w : tensor<128x256xbf16> from #dsv3.file<"w">
kernel.weight @w.packed at 0 bytes 65536 : tensor<128x256xbf16, #plain> from @w
dsv3.weight @q : tensor<128x256xbf16, #dsv3.blocked<f8E4M3FN, 128x128, f32>> from #dsv3.file<"q", scale "s">
kernel.weight @q.packed at 65536 bytes 32784 : tensor<128x256xbf16, #fp8> from @q
dsv3.weight @i : tensor<128x256xbf16, #i8> from #dsv3.file<"i", scale "t">
kernel.weight @i.packed at 131072 bytes 33792 : tensor<128x256xbf16, #int8> from @i

dsv3.program @prefill(%x: tensor<256x256xbf16> {dsv3.name = "ids"}) -> (tensor<256x128xbf16> {dsv3.name = "logits"}) attributes {phase = "prefill", tokens = 256 : i64, seqs = 8 : i64} {
  %w = kernel.use @w.packed : tensor<128x256xbf16, #plain>
  %o = kernel.empty : tensor<256x128xbf16>
  %y = kernel.gemm ins(%x, %w : tensor<256x256xbf16>, tensor<128x256xbf16, #plain>) outs(%o : tensor<256x128xbf16>) numerics #num schedule #rows site "many"
  dsv3.return %y : tensor<256x128xbf16>
}
dsv3.program @decode(%x: tensor<8x256xbf16> {dsv3.name = "ids"}, %xi: tensor<8x256xbf16, #i8> {dsv3.name = "codes"}) -> (tensor<8x128xbf16> {dsv3.name = "logits"}, tensor<8x128xf32> {dsv3.name = "a"}, tensor<8x128xbf16> {dsv3.name = "b"}, tensor<8x128xbf16> {dsv3.name = "c"}) attributes {phase = "decode", tokens = 8 : i64, seqs = 8 : i64} {
  %w = kernel.use @w.packed : tensor<128x256xbf16, #plain>
  %q = kernel.use @q.packed : tensor<128x256xbf16, #fp8>
  %o = kernel.empty : tensor<8x128xbf16>
  %y = kernel.gemm ins(%x, %w : tensor<8x256xbf16>, tensor<128x256xbf16, #plain>) outs(%o : tensor<8x128xbf16>) numerics #num schedule #cols site "few"
  %o1 = kernel.empty : tensor<8x128xf32>
  %y1 = kernel.gated_gemm ins(%x, %w, %w : tensor<8x256xbf16>, tensor<128x256xbf16, #plain>, tensor<128x256xbf16, #plain>) outs(%o1 : tensor<8x128xf32>) via f32 numerics #kernel.numerics<acc = f32, mul = bf16, chain = "k_split2"> schedule #split site "pair"
  %o2 = kernel.empty : tensor<8x128xbf16>
  %y2 = kernel.gemm ins(%x, %q : tensor<8x256xbf16>, tensor<128x256xbf16, #fp8>) outs(%o2 : tensor<8x128xbf16>) numerics #num8 schedule #expand site "fp8"
  %i = kernel.use @i.packed : tensor<128x256xbf16, #int8>
  %o3 = kernel.empty : tensor<8x128xbf16>
  %y3 = kernel.gemm ins(%xi, %i : tensor<8x256xbf16, #i8>, tensor<128x256xbf16, #int8>) outs(%o3 : tensor<8x128xbf16>) numerics #numi schedule #exact site "int8"
  dsv3.return %y, %y1, %y2, %y3 : tensor<8x128xbf16>, tensor<8x128xf32>, tensor<8x128xbf16>, tensor<8x128xbf16>
}
}
