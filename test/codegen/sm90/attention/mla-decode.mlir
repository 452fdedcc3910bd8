// kernel.attn_split of 128 heads as its emitter writes it. After a change on purpose, write this file anew: these lines, then
// what the first command prints.
// RUN: dsv3-opt %S/Inputs/attn-split.mlir --dsv3-bind-kernels=target=sm_90a --dsv3-outline-kernels=target=sm_90a --canonicalize --cse -o %t
// RUN: grep -v '^// ' %s | diff - %t
!kv = !dsv3.kv<layers = 4, page = 64, latent = 512, rope = 64, bf16>
#acc = #tile.frag<acc>
#even = #tile.ring<"even", stages = 1, bufs = [!tile.buf<64x576xbf16, sw128>], landed = cols(64), free = [0:256 by @wg0, 256:576 by @wg1]>
#odd = #tile.ring<"odd", stages = 1, bufs = [!tile.buf<64x576xbf16, sw128>], landed = cols(64), free = [256:512 by @wg1, 0:256 + 512:576 by @wg0]>
#q = #tile.ring<"q", stages = 1, bufs = [!tile.buf<64x576xbf16, sw128>], free = [all by @wg0 and @wg1]>
#quad = #tile.frag<quad>
#row = #tile.frag<row>
module attributes {dsv3.capacities = {kblocks = 72 : i64, max_model_len = 4096 : i64, pages = 64 : i64, qblocks = 40 : i64, seqs = 8 : i64, tokens = 512 : i64}} {
  dsv3.program @decode(%arg0: tensor<8x128x512xbf16>, %arg1: tensor<8x128x192xbf16>, %arg2: tensor<64x5xi32>, %arg3: tensor<67xi32>, %arg4: !dsv3.seq, %arg5: !kv) {
    dsv3.return
  }
  gpu.module @sm_90a {
    tile.kernel @attn_split_bf16_i32_f32_0(%arg0: !tile.gmem<8xi64>, %arg1: !tile.tma<?x?x?xbf16, box 1x64x64, sw128>, %arg2: !tile.tma<?x?x?xbf16, box 1x64x64, sw128>, %arg3: !tile.tma<?x?xbf16, box 64x64, sw128>, %arg4: !tile.gmem<?x64xi32>, %arg5: !tile.gmem<?x5xi32>, %arg6: !tile.gmem<?xi32>, %arg7: !tile.gmem<?x128x512xbf16>, %arg8: !tile.gmem<?x128x512xf32>, %arg9: !tile.gmem<?x128xf32>, %arg10: i64) {
      %c3_i32 = arith.constant 3 : i32
      %cst = arith.constant dense<1.000000e+00> : tensor<64xf32, #row>
      %cst_0 = arith.constant dense<0.180336878> : tensor<64x64xf32, #acc>
      %cst_1 = arith.constant dense<0.180336878> : tensor<64xf32, #row>
      %cst_2 = arith.constant dense<44.3614197> : tensor<64xf32, #row>
      %c0_i32 = arith.constant 0 : i32
      %cst_3 = arith.constant dense<0xFF800000> : tensor<64x64xf32, #acc>
      %cst_4 = arith.constant dense<0.000000e+00> : tensor<64x256xf32, #acc>
      %cst_5 = arith.constant dense<0.000000e+00> : tensor<64x4xf32, #quad>
      %cst_6 = arith.constant dense<-1.000000e+30> : tensor<64xf32, #row>
      %c1_i32 = arith.constant 1 : i32
      %c64_i32 = arith.constant 64 : i32
      %c2_i32 = arith.constant 2 : i32
      %c1152_i64 = arith.constant 1152 : i64
      %0 = read %arg0[4] : !tile.gmem<8xi64> -> i64
      %1 = arith.muli %arg10, %0 : i64
      %2 = arith.divui %1, %c1152_i64 : i64
      %3 = arith.trunci %2 : i64 to i32
      %ring = ring #q
      %ring_7 = ring #even
      %ring_8 = ring #odd
      %4 = alloc : !tile.buf<64xf32>
      %5 = alloc : !tile.buf<64xf32>
      %6 = alloc : !tile.buf<64xf32>
      %7 = alloc : !tile.buf<64xf32>
      %gate = gate from @wg0 to @wg1
      %gate_9 = gate from @wg1 to @wg0
      %gate_10 = gate between @wg0, @wg1
      %work = list %arg5, %arg6 lanes(%c2_i32) -> (tile, seq, begin, end, part, context) : !tile.gmem<?x5xi32>, !tile.gmem<?xi32>
      role @load producer regs(40) {
        %slot = next %ring : !tile.ring<#q>
        %slot_11 = next %ring_7 : !tile.ring<#even>
        %slot_12 = next %ring_8 : !tile.ring<#odd>
        %8:3 = foreach (%tile, %seq, %begin, %end, %part, %context) in %work iter(%slot_13 = %slot, %slot_14 = %slot_11, %slot_15 = %slot_12) : !tile.slot<#q>, !tile.slot<#even>, !tile.slot<#odd> {
          %9 = arith.muli %tile, %c64_i32 : i32
          %10 = arith.subi %end, %begin : i32
          %11 = arith.addi %10, %c1_i32 : i32
          %12 = arith.shrui %11, %c1_i32 : i32
          fill %slot_13 as (%buf) : !tile.slot<#q> {
            %24 = view %buf[0, 0] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x512xbf16, sw128>
            copy %arg1[%seq, %9, 0] -> %24 : !tile.tma<?x?x?xbf16, box 1x64x64, sw128> -> !tile.buf<64x512xbf16, sw128>
            %25 = view %buf[0, 512] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
            copy %arg2[%seq, %9, 0] -> %25 : !tile.tma<?x?x?xbf16, box 1x64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
          }
          %13 = arith.subi %end, %c1_i32 : i32
          %14 = arith.minsi %begin, %13 : i32
          %15 = read %arg4[%seq, %14] : !tile.gmem<?x64xi32> -> i32
          %16 = arith.muli %15, %c64_i32 : i32
          %17 = arith.addi %3, %16 : i32
          %18 = arith.addi %begin, %c1_i32 : i32
          %19 = arith.minsi %18, %13 : i32
          %20 = read %arg4[%seq, %19] : !tile.gmem<?x64xi32> -> i32
          %21 = arith.muli %20, %c64_i32 : i32
          %22 = arith.addi %3, %21 : i32
          %23:4 = loop %i = 0 to %12 iter(%slot_17 = %slot_14, %slot_18 = %slot_15, %arg11 = %17, %arg12 = %22) : !tile.slot<#even>, !tile.slot<#odd>, i32, i32 {
            %24 = arith.muli %i, %c2_i32 : i32
            %25 = arith.addi %begin, %24 : i32
            %26 = arith.addi %25, %c2_i32 : i32
            %27 = arith.minsi %26, %13 : i32
            %28 = read %arg4[%seq, %27] : !tile.gmem<?x64xi32> -> i32
            %29 = arith.muli %28, %c64_i32 : i32
            %30 = arith.addi %3, %29 : i32
            %31 = arith.addi %25, %c3_i32 : i32
            %32 = arith.minsi %31, %13 : i32
            %33 = read %arg4[%seq, %32] : !tile.gmem<?x64xi32> -> i32
            %34 = arith.muli %33, %c64_i32 : i32
            %35 = arith.addi %3, %34 : i32
            fill %slot_17[0] as (%buf) : !tile.slot<#even> {
              copy %arg3[%arg11, *] -> %buf hint evict_first : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x256xbf16, sw128>
            }
            fill %slot_17[1] as (%buf) : !tile.slot<#even> {
              copy %arg3[%arg11, *] -> %buf hint evict_first : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x320xbf16, sw128>
            }
            fill %slot_18[0] as (%buf) : !tile.slot<#odd> {
              copy %arg3[%arg12, *] -> %buf hint evict_first : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x256xbf16, sw128>
            }
            fill %slot_18[1] as (%buf) : !tile.slot<#odd> {
              copy %arg3[%arg12, *] -> %buf hint evict_first : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x320xbf16, sw128>
            }
            %slot_19 = next %slot_17 : !tile.slot<#even>
            %slot_20 = next %slot_18 : !tile.slot<#odd>
            yield %slot_19, %slot_20, %30, %35 : !tile.slot<#even>, !tile.slot<#odd>, i32, i32
          }
          %slot_16 = next %slot_13 : !tile.slot<#q>
          yield %slot_16, %23#0, %23#1 : !tile.slot<#q>, !tile.slot<#even>, !tile.slot<#odd>
        }
      }
      role @wg0 warpgroups(1) regs(232) {
        %acc = none : !tile.acc<64x64xf32>
        %slot = next %ring : !tile.ring<#q>
        %slot_11 = next %ring_7 : !tile.ring<#even>
        %slot_12 = next %ring_8 : !tile.ring<#odd>
        %8:3 = foreach (%tile, %seq, %begin, %end, %part, %context) in %work iter(%slot_13 = %slot, %slot_14 = %slot_11, %slot_15 = %slot_12) : !tile.slot<#q>, !tile.slot<#even>, !tile.slot<#odd> {
          %9 = arith.muli %tile, %c64_i32 : i32
          %10 = arith.subi %end, %begin : i32
          %11 = arith.addi %10, %c1_i32 : i32
          %12 = arith.shrui %11, %c1_i32 : i32
          %13 = arith.muli %end, %c64_i32 : i32
          %14 = arith.minsi %context, %13 : i32
          %15 = arith.muli %12, %c2_i32 : i32
          %16 = arith.subi %15, %c2_i32 : i32
          %17 = arith.addi %begin, %16 : i32
          %18 = arith.muli %17, %c64_i32 : i32
          %19 = arith.subi %14, %18 : i32
          %20 = wait full %slot_13 : !tile.slot<#q>
          %acc_16, %token = mma nt %20, %slot_14 into %acc : !tile.buf<64x576xbf16, sw128>, !tile.slot<#even>, !tile.acc<64x64xf32>
          %21:6 = loop %i = 0 to %12 peel(last) as %fin iter(%slot_18 = %slot_14, %slot_19 = %slot_15, %arg11 = %cst_6, %arg12 = %cst_5, %arg13 = %cst_4, %acc_20 = %acc_16) : !tile.slot<#even>, !tile.slot<#odd>, tensor<64xf32, #row>, tensor<64x4xf32, #quad>, tensor<64x256xf32, #acc>, !tile.acc<64x64xf32> {
            %26 = peek %slot_18 : !tile.slot<#even>
            %27 = await %acc_20 : !tile.acc<64x64xf32>
            %28 = scf.if %fin -> (tensor<64x64xf32, #acc>) {
              tile.release %slot_13 : !tile.slot<#q>
              %64 = tile.iota dim 1 : tensor<64x64xi32, #acc>
              %65 = tile.bcast %19 : i32 -> tensor<64x64xi32, #acc>
              %66 = arith.cmpi slt, %64, %65 : tensor<64x64xi32, #acc>
              %67 = arith.select %66, %27, %cst_3 : tensor<64x64xi1, #acc>, tensor<64x64xf32, #acc>
              tile.sync
              %68 = tile.view %26[0, 0] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x512xbf16, sw128>
              %69 = arith.maxsi %19, %c0_i32 : i32
              tile.zero %68 rows [%69, 64] : !tile.buf<64x512xbf16, sw128>
              scf.yield %67 : tensor<64x64xf32, #acc>
            } else {
              scf.yield %27 : tensor<64x64xf32, #acc>
            }
            %29 = reduce max %28 dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #row>
            %30 = arith.addf %arg11, %cst_2 : tensor<64xf32, #row>
            %31 = arith.cmpf olt, %30, %29 : tensor<64xf32, #row>
            %32 = arith.select %31, %29, %arg11 : tensor<64xi1, #row>, tensor<64xf32, #row>
            %33 = arith.mulf %32, %cst_1 : tensor<64xf32, #row>
            %34 = arith.negf %33 : tensor<64xf32, #row>
            %35 = bcast %34 : tensor<64xf32, #row> -> tensor<64x64xf32, #acc>
            %36 = math.fma %28, %cst_0, %35 : tensor<64x64xf32, #acc>
            %37 = math.exp2 %36 fastmath<afn> : tensor<64x64xf32, #acc>
            %38 = reduce add %37 dim 1 : tensor<64x64xf32, #acc> -> tensor<64x4xf32, #quad>
            %39 = arith.truncf %37 : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
            sync
            %40 = view %26[0, 512] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
            store %39, %40 : tensor<64x64xbf16, #acc>, !tile.buf<64x64xbf16, sw128>
            store %32, %4 : tensor<64xf32, #row>, !tile.buf<64xf32>
            signal %gate
            %41 = arith.subf %arg11, %32 : tensor<64xf32, #row>
            %42 = arith.mulf %41, %cst_1 : tensor<64xf32, #row>
            %43 = math.exp2 %42 fastmath<afn> : tensor<64xf32, #row>
            %44 = bcast %43 : tensor<64xf32, #row> -> tensor<64x4xf32, #quad>
            %45 = math.fma %arg12, %44, %38 : tensor<64x4xf32, #quad>
            %46 = arith.cmpf olt, %43, %cst : tensor<64xf32, #row>
            %47 = any %46 : tensor<64xi1, #row>
            %48 = scf.if %47 -> (tensor<64x256xf32, #acc>) {
              %64 = tile.bcast %43 : tensor<64xf32, #row> -> tensor<64x256xf32, #acc>
              %65 = arith.mulf %arg13, %64 : tensor<64x256xf32, #acc>
              scf.yield %65 : tensor<64x256xf32, #acc>
            } else {
              scf.yield %arg13 : tensor<64x256xf32, #acc>
            }
            %49 = view %26[0, 0] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x256xbf16, sw128>
            %acc_21, %token_22 = mma nn %39, %49 into %48 : tensor<64x64xbf16, #acc>, !tile.buf<64x256xbf16, sw128>, tensor<64x256xf32, #acc>
            %50 = await %acc_21 : !tile.acc<64x256xf32>
            release %slot_18[0] : !tile.slot<#even>
            meet %gate_9
            %51 = load %5 : !tile.buf<64xf32> -> tensor<64xf32, #row>
            %52 = arith.subf %32, %51 : tensor<64xf32, #row>
            %53 = arith.mulf %52, %cst_1 : tensor<64xf32, #row>
            %54 = math.exp2 %53 fastmath<afn> : tensor<64xf32, #row>
            %55 = bcast %54 : tensor<64xf32, #row> -> tensor<64x4xf32, #quad>
            %56 = arith.mulf %45, %55 : tensor<64x4xf32, #quad>
            %57 = peek %slot_19 : !tile.slot<#odd>
            %58 = view %57[0, 512] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
            %59 = arith.cmpf olt, %54, %cst : tensor<64xf32, #row>
            %60 = any %59 : tensor<64xi1, #row>
            %61 = scf.if %60 -> (tensor<64x256xf32, #acc>) {
              %64 = tile.bcast %54 : tensor<64xf32, #row> -> tensor<64x256xf32, #acc>
              %65 = arith.mulf %50, %64 : tensor<64x256xf32, #acc>
              scf.yield %65 : tensor<64x256xf32, #acc>
            } else {
              scf.yield %50 : tensor<64x256xf32, #acc>
            }
            %62 = view %57[0, 0] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x256xbf16, sw128>
            %acc_23, %token_24 = mma nn %58, %62 into %61 : !tile.buf<64x64xbf16, sw128>, !tile.buf<64x256xbf16, sw128>, tensor<64x256xf32, #acc>
            %slot_25 = next %slot_18 : !tile.slot<#even>
            %slot_26 = next %slot_19 : !tile.slot<#odd>
            %63:2 = scf.if %fin -> (tensor<64x256xf32, #acc>, !tile.acc<64x64xf32>) {
              %64 = tile.await %acc_23 : !tile.acc<64x256xf32>
              tile.release %slot_19[1] : !tile.slot<#odd>
              scf.yield %64, %acc : tensor<64x256xf32, #acc>, !tile.acc<64x64xf32>
            } else {
              %acc_27, %token_28 = tile.mma nt %20, %slot_25[0] into %acc : !tile.buf<64x576xbf16, sw128>, !tile.slot<#even>, !tile.acc<64x64xf32>
              %64 = tile.await %acc_23 : !tile.acc<64x256xf32>
              tile.release %slot_19[1] : !tile.slot<#odd>
              %acc_29, %token_30 = tile.mma nt %20, %slot_25[1] into %acc_27 : !tile.buf<64x576xbf16, sw128>, !tile.slot<#even>, !tile.acc<64x64xf32>
              scf.yield %64, %acc_29 : tensor<64x256xf32, #acc>, !tile.acc<64x64xf32>
            }
            yield %slot_25, %slot_26, %51, %56, %63#0, %63#1 : !tile.slot<#even>, !tile.slot<#odd>, tensor<64xf32, #row>, tensor<64x4xf32, #quad>, tensor<64x256xf32, #acc>, !tile.acc<64x64xf32>
          }
          %22 = reduce add %21#3 dim 1 : tensor<64x4xf32, #quad> -> tensor<64xf32, #row>
          store %22, %6 : tensor<64xf32, #row>, !tile.buf<64xf32>
          meet %gate_10
          %23 = load %7 : !tile.buf<64xf32> -> tensor<64xf32, #row>
          %24 = arith.addf %22, %23 : tensor<64xf32, #row>
          %25 = arith.cmpi slt, %part, %c0_i32 : i32
          scf.if %25 {
            %26 = arith.divf %cst, %24 : tensor<64xf32, #row>
            %27 = tile.bcast %26 : tensor<64xf32, #row> -> tensor<64x256xf32, #acc>
            %28 = arith.mulf %21#4, %27 : tensor<64x256xf32, #acc>
            %29 = arith.truncf %28 : tensor<64x256xf32, #acc> to tensor<64x256xbf16, #acc>
            tile.write %29, %arg7[%seq, %9, 0] : tensor<64x256xbf16, #acc>, !tile.gmem<?x128x512xbf16>
          } else {
            %26 = arith.divf %cst, %24 : tensor<64xf32, #row>
            %27 = tile.bcast %26 : tensor<64xf32, #row> -> tensor<64x256xf32, #acc>
            %28 = arith.mulf %21#4, %27 : tensor<64x256xf32, #acc>
            tile.write %28, %arg8[%part, %9, 0] : tensor<64x256xf32, #acc>, !tile.gmem<?x128x512xf32>
          }
          %slot_17 = next %slot_13 : !tile.slot<#q>
          yield %slot_17, %21#0, %21#1 : !tile.slot<#q>, !tile.slot<#even>, !tile.slot<#odd>
        }
      }
      role @wg1 warpgroups(1) regs(232) {
        %acc = none : !tile.acc<64x64xf32>
        %slot = next %ring : !tile.ring<#q>
        %slot_11 = next %ring_7 : !tile.ring<#even>
        %slot_12 = next %ring_8 : !tile.ring<#odd>
        %8:3 = foreach (%tile, %seq, %begin, %end, %part, %context) in %work iter(%slot_13 = %slot, %slot_14 = %slot_11, %slot_15 = %slot_12) : !tile.slot<#q>, !tile.slot<#even>, !tile.slot<#odd> {
          %9 = arith.muli %tile, %c64_i32 : i32
          %10 = arith.subi %end, %begin : i32
          %11 = arith.addi %10, %c1_i32 : i32
          %12 = arith.shrui %11, %c1_i32 : i32
          %13 = arith.muli %end, %c64_i32 : i32
          %14 = arith.minsi %context, %13 : i32
          %15 = arith.muli %12, %c2_i32 : i32
          %16 = arith.subi %15, %c1_i32 : i32
          %17 = arith.addi %begin, %16 : i32
          %18 = arith.muli %17, %c64_i32 : i32
          %19 = arith.subi %14, %18 : i32
          %20 = wait full %slot_13 : !tile.slot<#q>
          %acc_16, %token = mma nt %20, %slot_15 into %acc : !tile.buf<64x576xbf16, sw128>, !tile.slot<#odd>, !tile.acc<64x64xf32>
          %21:6 = loop %i = 0 to %12 peel(last) as %fin iter(%slot_18 = %slot_14, %slot_19 = %slot_15, %arg11 = %cst_6, %arg12 = %cst_5, %arg13 = %cst_4, %acc_20 = %acc_16) : !tile.slot<#even>, !tile.slot<#odd>, tensor<64xf32, #row>, tensor<64x4xf32, #quad>, tensor<64x256xf32, #acc>, !tile.acc<64x64xf32> {
            %26 = peek %slot_19 : !tile.slot<#odd>
            %27 = await %acc_20 : !tile.acc<64x64xf32>
            %28 = scf.if %fin -> (tensor<64x64xf32, #acc>) {
              tile.release %slot_13 : !tile.slot<#q>
              %64 = tile.iota dim 1 : tensor<64x64xi32, #acc>
              %65 = tile.bcast %19 : i32 -> tensor<64x64xi32, #acc>
              %66 = arith.cmpi slt, %64, %65 : tensor<64x64xi32, #acc>
              %67 = arith.select %66, %27, %cst_3 : tensor<64x64xi1, #acc>, tensor<64x64xf32, #acc>
              tile.sync
              %68 = tile.view %26[0, 0] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x512xbf16, sw128>
              %69 = arith.maxsi %19, %c0_i32 : i32
              tile.zero %68 rows [%69, 64] : !tile.buf<64x512xbf16, sw128>
              tile.sync
              scf.yield %67 : tensor<64x64xf32, #acc>
            } else {
              scf.yield %27 : tensor<64x64xf32, #acc>
            }
            %29 = reduce max %28 dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #row>
            meet %gate
            %30 = load %4 : !tile.buf<64xf32> -> tensor<64xf32, #row>
            %31 = arith.subf %arg11, %30 : tensor<64xf32, #row>
            %32 = arith.mulf %31, %cst_1 : tensor<64xf32, #row>
            %33 = math.exp2 %32 fastmath<afn> : tensor<64xf32, #row>
            %34 = peek %slot_18 : !tile.slot<#even>
            %35 = view %34[0, 512] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
            %36 = arith.cmpf olt, %33, %cst : tensor<64xf32, #row>
            %37 = any %36 : tensor<64xi1, #row>
            %38 = scf.if %37 -> (tensor<64x256xf32, #acc>) {
              %64 = tile.bcast %33 : tensor<64xf32, #row> -> tensor<64x256xf32, #acc>
              %65 = arith.mulf %arg13, %64 : tensor<64x256xf32, #acc>
              scf.yield %65 : tensor<64x256xf32, #acc>
            } else {
              scf.yield %arg13 : tensor<64x256xf32, #acc>
            }
            %39 = view %34[0, 256] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x256xbf16, sw128>
            %acc_21, %token_22 = mma nn %35, %39 into %38 : !tile.buf<64x64xbf16, sw128>, !tile.buf<64x256xbf16, sw128>, tensor<64x256xf32, #acc>
            %40 = arith.addf %30, %cst_2 : tensor<64xf32, #row>
            %41 = arith.cmpf olt, %40, %29 : tensor<64xf32, #row>
            %42 = arith.select %41, %29, %30 : tensor<64xi1, #row>, tensor<64xf32, #row>
            %43 = arith.mulf %42, %cst_1 : tensor<64xf32, #row>
            %44 = arith.negf %43 : tensor<64xf32, #row>
            %45 = bcast %44 : tensor<64xf32, #row> -> tensor<64x64xf32, #acc>
            %46 = math.fma %28, %cst_0, %45 : tensor<64x64xf32, #acc>
            %47 = math.exp2 %46 fastmath<afn> : tensor<64x64xf32, #acc>
            %48 = reduce add %47 dim 1 : tensor<64x64xf32, #acc> -> tensor<64x4xf32, #quad>
            %49 = arith.truncf %47 : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
            %50 = view %26[0, 512] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
            store %49, %50 : tensor<64x64xbf16, #acc>, !tile.buf<64x64xbf16, sw128>
            store %42, %5 : tensor<64xf32, #row>, !tile.buf<64xf32>
            signal %gate_9
            %51 = arith.subf %30, %42 : tensor<64xf32, #row>
            %52 = arith.mulf %51, %cst_1 : tensor<64xf32, #row>
            %53 = math.exp2 %52 fastmath<afn> : tensor<64xf32, #row>
            %54 = arith.mulf %33, %53 : tensor<64xf32, #row>
            %55 = bcast %54 : tensor<64xf32, #row> -> tensor<64x4xf32, #quad>
            %56 = math.fma %arg12, %55, %48 : tensor<64x4xf32, #quad>
            %57 = await %acc_21 : !tile.acc<64x256xf32>
            release %slot_18[1] : !tile.slot<#even>
            %58 = arith.cmpf olt, %53, %cst : tensor<64xf32, #row>
            %59 = any %58 : tensor<64xi1, #row>
            %60 = scf.if %59 -> (tensor<64x256xf32, #acc>) {
              %64 = tile.bcast %53 : tensor<64xf32, #row> -> tensor<64x256xf32, #acc>
              %65 = arith.mulf %57, %64 : tensor<64x256xf32, #acc>
              scf.yield %65 : tensor<64x256xf32, #acc>
            } else {
              scf.yield %57 : tensor<64x256xf32, #acc>
            }
            %slot_23 = next %slot_18 : !tile.slot<#even>
            %slot_24 = next %slot_19 : !tile.slot<#odd>
            %61 = view %26[0, 256] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x256xbf16, sw128>
            %acc_25, %token_26 = mma nn %49, %61 into %60 : tensor<64x64xbf16, #acc>, !tile.buf<64x256xbf16, sw128>, tensor<64x256xf32, #acc>
            %62 = await %acc_25 : !tile.acc<64x256xf32>
            release %slot_19[0] : !tile.slot<#odd>
            %63 = scf.if %fin -> (!tile.acc<64x64xf32>) {
              scf.yield %acc : !tile.acc<64x64xf32>
            } else {
              %acc_27, %token_28 = tile.mma nt %20, %slot_24 into %acc : !tile.buf<64x576xbf16, sw128>, !tile.slot<#odd>, !tile.acc<64x64xf32>
              scf.yield %acc_27 : !tile.acc<64x64xf32>
            }
            yield %slot_23, %slot_24, %42, %56, %62, %63 : !tile.slot<#even>, !tile.slot<#odd>, tensor<64xf32, #row>, tensor<64x4xf32, #quad>, tensor<64x256xf32, #acc>, !tile.acc<64x64xf32>
          }
          %22 = reduce add %21#3 dim 1 : tensor<64x4xf32, #quad> -> tensor<64xf32, #row>
          store %22, %7 : tensor<64xf32, #row>, !tile.buf<64xf32>
          meet %gate_10
          %23 = load %6 : !tile.buf<64xf32> -> tensor<64xf32, #row>
          %24 = arith.addf %22, %23 : tensor<64xf32, #row>
          %25 = arith.cmpi slt, %part, %c0_i32 : i32
          scf.if %25 {
            %26 = arith.divf %cst, %24 : tensor<64xf32, #row>
            %27 = tile.bcast %26 : tensor<64xf32, #row> -> tensor<64x256xf32, #acc>
            %28 = arith.mulf %21#4, %27 : tensor<64x256xf32, #acc>
            %29 = arith.truncf %28 : tensor<64x256xf32, #acc> to tensor<64x256xbf16, #acc>
            tile.write %29, %arg7[%seq, %9, 256] : tensor<64x256xbf16, #acc>, !tile.gmem<?x128x512xbf16>
          } else {
            %26 = arith.divf %cst, %24 : tensor<64xf32, #row>
            %27 = tile.bcast %26 : tensor<64xf32, #row> -> tensor<64x256xf32, #acc>
            %28 = arith.mulf %21#4, %27 : tensor<64x256xf32, #acc>
            tile.write %28, %arg8[%part, %9, 256] : tensor<64x256xf32, #acc>, !tile.gmem<?x128x512xf32>
            %29 = math.log2 %24 fastmath<afn> : tensor<64xf32, #row>
            %30 = math.fma %21#2, %cst_1, %29 : tensor<64xf32, #row>
            tile.write %30, %arg9[%part, %9] : tensor<64xf32, #row>, !tile.gmem<?x128xf32>
          }
          %slot_17 = next %slot_13 : !tile.slot<#q>
          yield %slot_17, %21#0, %21#1 : !tile.slot<#q>, !tile.slot<#even>, !tile.slot<#odd>
        }
      }
    }
  }
}

