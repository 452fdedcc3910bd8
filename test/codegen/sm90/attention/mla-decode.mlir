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
    func.func private @attn_split_bf16_i32_f32_0.page_row(%arg0: !tile.gmem<?x64xi32>, %arg1: i32, %arg2: i32, %arg3: i32, %arg4: i32) -> i32 {
      %c64_i32 = arith.constant 64 : i32
      %c1_i32 = arith.constant 1 : i32
      %0 = arith.subi %arg4, %c1_i32 : i32
      %1 = arith.minsi %arg3, %0 : i32
      %2 = tile.read %arg0[%arg2, %1] : !tile.gmem<?x64xi32> -> i32
      %3 = arith.muli %2, %c64_i32 : i32
      %4 = arith.addi %arg1, %3 : i32
      return %4 : i32
    }
    func.func private @attn_split_bf16_i32_f32_0.last_page(%arg0: tensor<64x64xf32, #acc>, %arg1: !tile.buf<64x576xbf16, sw128>, %arg2: i32, %arg3: i32, %arg4: i32) -> tensor<64x64xf32, #acc> {
      %c0_i32 = arith.constant 0 : i32
      %cst = arith.constant dense<0xFF800000> : tensor<64x64xf32, #acc>
      %c64_i32 = arith.constant 64 : i32
      %0 = arith.muli %arg3, %c64_i32 : i32
      %1 = arith.minsi %arg4, %0 : i32
      %2 = arith.muli %arg2, %c64_i32 : i32
      %3 = arith.subi %1, %2 : i32
      %4 = tile.iota dim 1 : tensor<64x64xi32, #acc>
      %5 = tile.bcast %3 : i32 -> tensor<64x64xi32, #acc>
      %6 = arith.cmpi slt, %4, %5 : tensor<64x64xi32, #acc>
      %7 = arith.select %6, %arg0, %cst : tensor<64x64xi1, #acc>, tensor<64x64xf32, #acc>
      tile.sync
      %8 = tile.view %arg1[0, 0] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x512xbf16, sw128>
      %9 = arith.maxsi %3, %c0_i32 : i32
      tile.zero %8 rows [%9, 64] : !tile.buf<64x512xbf16, sw128>
      return %7 : tensor<64x64xf32, #acc>
    }
    func.func private @attn_split_bf16_i32_f32_0.softmax(%arg0: tensor<64x64xf32, #acc>, %arg1: tensor<64xf32, #row>, %arg2: tensor<64xf32, #row>) -> (tensor<64xf32, #row>, tensor<64x64xbf16, #acc>, tensor<64x4xf32, #quad>) {
      %cst = arith.constant dense<0.180336878> : tensor<64x64xf32, #acc>
      %cst_0 = arith.constant dense<0.180336878> : tensor<64xf32, #row>
      %cst_1 = arith.constant dense<44.3614197> : tensor<64xf32, #row>
      %0 = arith.addf %arg2, %cst_1 : tensor<64xf32, #row>
      %1 = arith.cmpf olt, %0, %arg1 : tensor<64xf32, #row>
      %2 = arith.select %1, %arg1, %arg2 : tensor<64xi1, #row>, tensor<64xf32, #row>
      %3 = arith.mulf %2, %cst_0 : tensor<64xf32, #row>
      %4 = arith.negf %3 : tensor<64xf32, #row>
      %5 = tile.bcast %4 : tensor<64xf32, #row> -> tensor<64x64xf32, #acc>
      %6 = math.fma %arg0, %cst, %5 : tensor<64x64xf32, #acc>
      %7 = math.exp2 %6 fastmath<afn> : tensor<64x64xf32, #acc>
      %8 = tile.reduce add %7 dim 1 : tensor<64x64xf32, #acc> -> tensor<64x4xf32, #quad>
      %9 = arith.truncf %7 : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
      return %2, %9, %8 : tensor<64xf32, #row>, tensor<64x64xbf16, #acc>, tensor<64x4xf32, #quad>
    }
    func.func private @attn_split_bf16_i32_f32_0.factor(%arg0: tensor<64xf32, #row>, %arg1: tensor<64xf32, #row>) -> tensor<64xf32, #row> {
      %cst = arith.constant dense<0.180336878> : tensor<64xf32, #row>
      %0 = arith.subf %arg0, %arg1 : tensor<64xf32, #row>
      %1 = arith.mulf %0, %cst : tensor<64xf32, #row>
      %2 = math.exp2 %1 fastmath<afn> : tensor<64xf32, #row>
      return %2 : tensor<64xf32, #row>
    }
    func.func private @attn_split_bf16_i32_f32_0.rescale(%arg0: tensor<64x256xf32, #acc>, %arg1: tensor<64xf32, #row>) -> tensor<64x256xf32, #acc> {
      %cst = arith.constant dense<1.000000e+00> : tensor<64xf32, #row>
      %0 = arith.cmpf olt, %arg1, %cst : tensor<64xf32, #row>
      %1 = tile.any %0 : tensor<64xi1, #row>
      %2 = scf.if %1 -> (tensor<64x256xf32, #acc>) {
        %3 = tile.bcast %arg1 : tensor<64xf32, #row> -> tensor<64x256xf32, #acc>
        %4 = arith.mulf %arg0, %3 : tensor<64x256xf32, #acc>
        scf.yield %4 : tensor<64x256xf32, #acc>
      } else {
        scf.yield %arg0 : tensor<64x256xf32, #acc>
      }
      return %2 : tensor<64x256xf32, #acc>
    }
    func.func private @attn_split_bf16_i32_f32_0.write(%arg0: tensor<64x256xf32, #acc>, %arg1: tensor<64xf32, #row>, %arg2: i1, %arg3: i32, %arg4: i32, %arg5: i32, %arg6: i32, %arg7: !tile.gmem<?x128x512xbf16>, %arg8: !tile.gmem<?x128x512xf32>) {
      %cst = arith.constant dense<1.000000e+00> : tensor<64xf32, #row>
      %0 = arith.divf %cst, %arg1 : tensor<64xf32, #row>
      %1 = tile.bcast %0 : tensor<64xf32, #row> -> tensor<64x256xf32, #acc>
      %2 = arith.mulf %arg0, %1 : tensor<64x256xf32, #acc>
      scf.if %arg2 {
        %3 = arith.truncf %2 : tensor<64x256xf32, #acc> to tensor<64x256xbf16, #acc>
        tile.write %3, %arg7[%arg3, %arg5, %arg6] : tensor<64x256xbf16, #acc>, !tile.gmem<?x128x512xbf16>
      } else {
        tile.write %2, %arg8[%arg4, %arg5, %arg6] : tensor<64x256xf32, #acc>, !tile.gmem<?x128x512xf32>
      }
      return
    }
    tile.kernel @attn_split_bf16_i32_f32_0(%arg0: !tile.gmem<8xi64>, %arg1: !tile.tma<?x?x?xbf16, box 1x64x64, sw128>, %arg2: !tile.tma<?x?x?xbf16, box 1x64x64, sw128>, %arg3: !tile.tma<?x?xbf16, box 64x64, sw128>, %arg4: !tile.gmem<?x64xi32>, %arg5: !tile.gmem<?x5xi32>, %arg6: !tile.gmem<?xi32>, %arg7: !tile.gmem<?x128x512xbf16>, %arg8: !tile.gmem<?x128x512xf32>, %arg9: !tile.gmem<?x128xf32>, %arg10: i64) {
      %cst = arith.constant dense<0.180336878> : tensor<64xf32, #row>
      %c256_i32 = arith.constant 256 : i32
      %c0_i32 = arith.constant 0 : i32
      %cst_0 = arith.constant dense<0.000000e+00> : tensor<64x256xf32, #acc>
      %cst_1 = arith.constant dense<0.000000e+00> : tensor<64x4xf32, #quad>
      %cst_2 = arith.constant dense<-1.000000e+30> : tensor<64xf32, #row>
      %c3_i32 = arith.constant 3 : i32
      %c1_i32 = arith.constant 1 : i32
      %c64_i32 = arith.constant 64 : i32
      %c2_i32 = arith.constant 2 : i32
      %c1152_i64 = arith.constant 1152 : i64
      %0 = read %arg0[4] : !tile.gmem<8xi64> -> i64
      %1 = arith.muli %arg10, %0 : i64
      %2 = arith.divui %1, %c1152_i64 : i64
      %3 = arith.trunci %2 : i64 to i32
      %ring = ring #q
      %ring_3 = ring #even
      %ring_4 = ring #odd
      %4 = alloc : !tile.buf<64xf32>
      %5 = alloc : !tile.buf<64xf32>
      %6 = alloc : !tile.buf<64xf32>
      %7 = alloc : !tile.buf<64xf32>
      %gate = gate from @wg0 to @wg1 {tile.memory}
      %gate_5 = gate from @wg1 to @wg0 {tile.memory}
      %gate_6 = gate between @wg0, @wg1 {tile.memory}
      %work = list %arg5, %arg6 lanes(%c2_i32) -> (tile, seq, begin, end, part, context) : !tile.gmem<?x5xi32>, !tile.gmem<?xi32>
      role @load producer regs(40) {
        %slot = next %ring : !tile.ring<#q>
        %slot_7 = next %ring_3 : !tile.ring<#even>
        %slot_8 = next %ring_4 : !tile.ring<#odd>
        %8:3 = foreach (%tile, %seq, %begin, %end, %part, %context) in %work iter(%slot_9 = %slot, %slot_10 = %slot_7, %slot_11 = %slot_8) : !tile.slot<#q>, !tile.slot<#even>, !tile.slot<#odd> {
          %9 = arith.muli %tile, %c64_i32 : i32
          fill %slot_9 as (%buf) : !tile.slot<#q> {
            %14 = view %buf[0, 0] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x512xbf16, sw128>
            copy %arg1[%seq, %9, 0] -> %14 : !tile.tma<?x?x?xbf16, box 1x64x64, sw128> -> !tile.buf<64x512xbf16, sw128>
            %15 = view %buf[0, 512] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
            copy %arg2[%seq, %9, 0] -> %15 : !tile.tma<?x?x?xbf16, box 1x64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
          }
          %10 = func.call @attn_split_bf16_i32_f32_0.page_row(%arg4, %3, %seq, %begin, %end) : (!tile.gmem<?x64xi32>, i32, i32, i32, i32) -> i32
          %11 = arith.addi %begin, %c1_i32 : i32
          %12 = func.call @attn_split_bf16_i32_f32_0.page_row(%arg4, %3, %seq, %11, %end) : (!tile.gmem<?x64xi32>, i32, i32, i32, i32) -> i32
          %13:4 = loop %i = %begin to %end step 2 iter(%slot_13 = %slot_10, %slot_14 = %slot_11, %arg11 = %10, %arg12 = %12) : !tile.slot<#even>, !tile.slot<#odd>, i32, i32 {
            %14 = arith.addi %i, %c2_i32 : i32
            %15 = func.call @attn_split_bf16_i32_f32_0.page_row(%arg4, %3, %seq, %14, %end) : (!tile.gmem<?x64xi32>, i32, i32, i32, i32) -> i32
            %16 = arith.addi %i, %c3_i32 : i32
            %17 = func.call @attn_split_bf16_i32_f32_0.page_row(%arg4, %3, %seq, %16, %end) : (!tile.gmem<?x64xi32>, i32, i32, i32, i32) -> i32
            fill %slot_13[0] as (%buf) : !tile.slot<#even> {
              copy %arg3[%arg11, *] -> %buf hint evict_first : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x256xbf16, sw128>
            }
            fill %slot_13[1] as (%buf) : !tile.slot<#even> {
              copy %arg3[%arg11, *] -> %buf hint evict_first : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x320xbf16, sw128>
            }
            fill %slot_14[0] as (%buf) : !tile.slot<#odd> {
              copy %arg3[%arg12, *] -> %buf hint evict_first : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x256xbf16, sw128>
            }
            fill %slot_14[1] as (%buf) : !tile.slot<#odd> {
              copy %arg3[%arg12, *] -> %buf hint evict_first : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x320xbf16, sw128>
            }
            %slot_15 = next %slot_13 : !tile.slot<#even>
            %slot_16 = next %slot_14 : !tile.slot<#odd>
            yield %slot_15, %slot_16, %15, %17 : !tile.slot<#even>, !tile.slot<#odd>, i32, i32
          }
          %slot_12 = next %slot_9 : !tile.slot<#q>
          yield %slot_12, %13#0, %13#1 : !tile.slot<#q>, !tile.slot<#even>, !tile.slot<#odd>
        }
      }
      role @wg0 warpgroups(1) regs(232) {
        %acc = none : !tile.acc<64x64xf32>
        %slot = next %ring : !tile.ring<#q>
        %slot_7 = next %ring_3 : !tile.ring<#even>
        %slot_8 = next %ring_4 : !tile.ring<#odd>
        %8:3 = foreach (%tile, %seq, %begin, %end, %part, %context) in %work iter(%slot_9 = %slot, %slot_10 = %slot_7, %slot_11 = %slot_8) : !tile.slot<#q>, !tile.slot<#even>, !tile.slot<#odd> {
          %9 = arith.muli %tile, %c64_i32 : i32
          %10 = wait full %slot_9 : !tile.slot<#q>
          %acc_12, %token = mma nt %10, %slot_10 into %acc : !tile.buf<64x576xbf16, sw128>, !tile.slot<#even>, !tile.acc<64x64xf32>
          %11:6 = loop %i = %begin to %end step 2 peel(last) as %fin iter(%slot_14 = %slot_10, %slot_15 = %slot_11, %arg11 = %cst_2, %arg12 = %cst_1, %arg13 = %cst_0, %acc_16 = %acc_12) : !tile.slot<#even>, !tile.slot<#odd>, tensor<64xf32, #row>, tensor<64x4xf32, #quad>, tensor<64x256xf32, #acc>, !tile.acc<64x64xf32> {
            %16 = peek %slot_14 : !tile.slot<#even>
            %17 = await %acc_16 : !tile.acc<64x64xf32>
            %18 = scf.if %fin -> (tensor<64x64xf32, #acc>) {
              tile.release %slot_9 : !tile.slot<#q>
              %37 = func.call @attn_split_bf16_i32_f32_0.last_page(%17, %16, %i, %end, %context) : (tensor<64x64xf32, #acc>, !tile.buf<64x576xbf16, sw128>, i32, i32, i32) -> tensor<64x64xf32, #acc>
              scf.yield %37 : tensor<64x64xf32, #acc>
            } else {
              scf.yield %17 : tensor<64x64xf32, #acc>
            }
            %19 = reduce max %18 dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #row>
            %20:3 = func.call @attn_split_bf16_i32_f32_0.softmax(%18, %19, %arg11) : (tensor<64x64xf32, #acc>, tensor<64xf32, #row>, tensor<64xf32, #row>) -> (tensor<64xf32, #row>, tensor<64x64xbf16, #acc>, tensor<64x4xf32, #quad>)
            sync
            %21 = view %16[0, 512] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
            store %20#1, %21 : tensor<64x64xbf16, #acc>, !tile.buf<64x64xbf16, sw128>
            store %20#0, %4 : tensor<64xf32, #row>, !tile.buf<64xf32>
            signal %gate
            %22 = func.call @attn_split_bf16_i32_f32_0.factor(%arg11, %20#0) : (tensor<64xf32, #row>, tensor<64xf32, #row>) -> tensor<64xf32, #row>
            %23 = bcast %22 : tensor<64xf32, #row> -> tensor<64x4xf32, #quad>
            %24 = math.fma %arg12, %23, %20#2 : tensor<64x4xf32, #quad>
            %25 = func.call @attn_split_bf16_i32_f32_0.rescale(%arg13, %22) : (tensor<64x256xf32, #acc>, tensor<64xf32, #row>) -> tensor<64x256xf32, #acc>
            %26 = view %16[0, 0] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x256xbf16, sw128>
            %acc_17, %token_18 = mma nn %20#1, %26 into %25 : tensor<64x64xbf16, #acc>, !tile.buf<64x256xbf16, sw128>, tensor<64x256xf32, #acc>
            %27 = await %acc_17 : !tile.acc<64x256xf32>
            release %slot_14[0] : !tile.slot<#even>
            meet %gate_5
            %28 = load %5 : !tile.buf<64xf32> -> tensor<64xf32, #row>
            %29 = func.call @attn_split_bf16_i32_f32_0.factor(%20#0, %28) : (tensor<64xf32, #row>, tensor<64xf32, #row>) -> tensor<64xf32, #row>
            %30 = bcast %29 : tensor<64xf32, #row> -> tensor<64x4xf32, #quad>
            %31 = arith.mulf %24, %30 : tensor<64x4xf32, #quad>
            %32 = peek %slot_15 : !tile.slot<#odd>
            %33 = view %32[0, 512] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
            %34 = func.call @attn_split_bf16_i32_f32_0.rescale(%27, %29) : (tensor<64x256xf32, #acc>, tensor<64xf32, #row>) -> tensor<64x256xf32, #acc>
            %35 = view %32[0, 0] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x256xbf16, sw128>
            %acc_19, %token_20 = mma nn %33, %35 into %34 : !tile.buf<64x64xbf16, sw128>, !tile.buf<64x256xbf16, sw128>, tensor<64x256xf32, #acc>
            %slot_21 = next %slot_14 : !tile.slot<#even>
            %slot_22 = next %slot_15 : !tile.slot<#odd>
            %36:2 = scf.if %fin -> (tensor<64x256xf32, #acc>, !tile.acc<64x64xf32>) {
              %37 = tile.await %acc_19 : !tile.acc<64x256xf32>
              tile.release %slot_15[1] : !tile.slot<#odd>
              scf.yield %37, %acc : tensor<64x256xf32, #acc>, !tile.acc<64x64xf32>
            } else {
              %acc_23, %token_24 = tile.mma nt %10, %slot_21[0] into %acc : !tile.buf<64x576xbf16, sw128>, !tile.slot<#even>, !tile.acc<64x64xf32>
              %37 = tile.await %acc_19 : !tile.acc<64x256xf32>
              tile.release %slot_15[1] : !tile.slot<#odd>
              %acc_25, %token_26 = tile.mma nt %10, %slot_21[1] into %acc_23 : !tile.buf<64x576xbf16, sw128>, !tile.slot<#even>, !tile.acc<64x64xf32>
              scf.yield %37, %acc_25 : tensor<64x256xf32, #acc>, !tile.acc<64x64xf32>
            }
            yield %slot_21, %slot_22, %28, %31, %36#0, %36#1 : !tile.slot<#even>, !tile.slot<#odd>, tensor<64xf32, #row>, tensor<64x4xf32, #quad>, tensor<64x256xf32, #acc>, !tile.acc<64x64xf32>
          }
          %12 = reduce add %11#3 dim 1 : tensor<64x4xf32, #quad> -> tensor<64xf32, #row>
          store %12, %6 : tensor<64xf32, #row>, !tile.buf<64xf32>
          meet %gate_6
          %13 = load %7 : !tile.buf<64xf32> -> tensor<64xf32, #row>
          %14 = arith.addf %12, %13 : tensor<64xf32, #row>
          %15 = arith.cmpi slt, %part, %c0_i32 : i32
          func.call @attn_split_bf16_i32_f32_0.write(%11#4, %14, %15, %seq, %part, %9, %c0_i32, %arg7, %arg8) : (tensor<64x256xf32, #acc>, tensor<64xf32, #row>, i1, i32, i32, i32, i32, !tile.gmem<?x128x512xbf16>, !tile.gmem<?x128x512xf32>) -> ()
          %slot_13 = next %slot_9 : !tile.slot<#q>
          yield %slot_13, %11#0, %11#1 : !tile.slot<#q>, !tile.slot<#even>, !tile.slot<#odd>
        }
      }
      role @wg1 warpgroups(1) regs(232) {
        %acc = none : !tile.acc<64x64xf32>
        %slot = next %ring : !tile.ring<#q>
        %slot_7 = next %ring_3 : !tile.ring<#even>
        %slot_8 = next %ring_4 : !tile.ring<#odd>
        %8:3 = foreach (%tile, %seq, %begin, %end, %part, %context) in %work iter(%slot_9 = %slot, %slot_10 = %slot_7, %slot_11 = %slot_8) : !tile.slot<#q>, !tile.slot<#even>, !tile.slot<#odd> {
          %9 = arith.muli %tile, %c64_i32 : i32
          %10 = wait full %slot_9 : !tile.slot<#q>
          %acc_12, %token = mma nt %10, %slot_11 into %acc : !tile.buf<64x576xbf16, sw128>, !tile.slot<#odd>, !tile.acc<64x64xf32>
          %11:6 = loop %i = %begin to %end step 2 peel(last) as %fin iter(%slot_14 = %slot_10, %slot_15 = %slot_11, %arg11 = %cst_2, %arg12 = %cst_1, %arg13 = %cst_0, %acc_16 = %acc_12) : !tile.slot<#even>, !tile.slot<#odd>, tensor<64xf32, #row>, tensor<64x4xf32, #quad>, tensor<64x256xf32, #acc>, !tile.acc<64x64xf32> {
            %17 = peek %slot_15 : !tile.slot<#odd>
            %18 = await %acc_16 : !tile.acc<64x64xf32>
            %19 = scf.if %fin -> (tensor<64x64xf32, #acc>) {
              tile.release %slot_9 : !tile.slot<#q>
              %38 = arith.addi %i, %c1_i32 : i32
              %39 = func.call @attn_split_bf16_i32_f32_0.last_page(%18, %17, %38, %end, %context) : (tensor<64x64xf32, #acc>, !tile.buf<64x576xbf16, sw128>, i32, i32, i32) -> tensor<64x64xf32, #acc>
              tile.sync
              scf.yield %39 : tensor<64x64xf32, #acc>
            } else {
              scf.yield %18 : tensor<64x64xf32, #acc>
            }
            %20 = reduce max %19 dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #row>
            meet %gate
            %21 = load %4 : !tile.buf<64xf32> -> tensor<64xf32, #row>
            %22 = func.call @attn_split_bf16_i32_f32_0.factor(%arg11, %21) : (tensor<64xf32, #row>, tensor<64xf32, #row>) -> tensor<64xf32, #row>
            %23 = peek %slot_14 : !tile.slot<#even>
            %24 = view %23[0, 512] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
            %25 = func.call @attn_split_bf16_i32_f32_0.rescale(%arg13, %22) : (tensor<64x256xf32, #acc>, tensor<64xf32, #row>) -> tensor<64x256xf32, #acc>
            %26 = view %23[0, 256] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x256xbf16, sw128>
            %acc_17, %token_18 = mma nn %24, %26 into %25 : !tile.buf<64x64xbf16, sw128>, !tile.buf<64x256xbf16, sw128>, tensor<64x256xf32, #acc>
            %27:3 = func.call @attn_split_bf16_i32_f32_0.softmax(%19, %20, %21) : (tensor<64x64xf32, #acc>, tensor<64xf32, #row>, tensor<64xf32, #row>) -> (tensor<64xf32, #row>, tensor<64x64xbf16, #acc>, tensor<64x4xf32, #quad>)
            %28 = view %17[0, 512] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
            store %27#1, %28 : tensor<64x64xbf16, #acc>, !tile.buf<64x64xbf16, sw128>
            store %27#0, %5 : tensor<64xf32, #row>, !tile.buf<64xf32>
            signal %gate_5
            %29 = func.call @attn_split_bf16_i32_f32_0.factor(%21, %27#0) : (tensor<64xf32, #row>, tensor<64xf32, #row>) -> tensor<64xf32, #row>
            %30 = arith.mulf %22, %29 : tensor<64xf32, #row>
            %31 = bcast %30 : tensor<64xf32, #row> -> tensor<64x4xf32, #quad>
            %32 = math.fma %arg12, %31, %27#2 : tensor<64x4xf32, #quad>
            %33 = await %acc_17 : !tile.acc<64x256xf32>
            release %slot_14[1] : !tile.slot<#even>
            %34 = func.call @attn_split_bf16_i32_f32_0.rescale(%33, %29) : (tensor<64x256xf32, #acc>, tensor<64xf32, #row>) -> tensor<64x256xf32, #acc>
            %slot_19 = next %slot_14 : !tile.slot<#even>
            %slot_20 = next %slot_15 : !tile.slot<#odd>
            %35 = view %17[0, 256] : !tile.buf<64x576xbf16, sw128> -> !tile.buf<64x256xbf16, sw128>
            %acc_21, %token_22 = mma nn %27#1, %35 into %34 : tensor<64x64xbf16, #acc>, !tile.buf<64x256xbf16, sw128>, tensor<64x256xf32, #acc>
            %36 = await %acc_21 : !tile.acc<64x256xf32>
            release %slot_15[0] : !tile.slot<#odd>
            %37 = scf.if %fin -> (!tile.acc<64x64xf32>) {
              scf.yield %acc : !tile.acc<64x64xf32>
            } else {
              %acc_23, %token_24 = tile.mma nt %10, %slot_20 into %acc : !tile.buf<64x576xbf16, sw128>, !tile.slot<#odd>, !tile.acc<64x64xf32>
              scf.yield %acc_23 : !tile.acc<64x64xf32>
            }
            yield %slot_19, %slot_20, %27#0, %32, %36, %37 : !tile.slot<#even>, !tile.slot<#odd>, tensor<64xf32, #row>, tensor<64x4xf32, #quad>, tensor<64x256xf32, #acc>, !tile.acc<64x64xf32>
          }
          %12 = reduce add %11#3 dim 1 : tensor<64x4xf32, #quad> -> tensor<64xf32, #row>
          store %12, %7 : tensor<64xf32, #row>, !tile.buf<64xf32>
          meet %gate_6
          %13 = load %6 : !tile.buf<64xf32> -> tensor<64xf32, #row>
          %14 = arith.addf %12, %13 : tensor<64xf32, #row>
          %15 = arith.cmpi slt, %part, %c0_i32 : i32
          func.call @attn_split_bf16_i32_f32_0.write(%11#4, %14, %15, %seq, %part, %9, %c256_i32, %arg7, %arg8) : (tensor<64x256xf32, #acc>, tensor<64xf32, #row>, i1, i32, i32, i32, i32, !tile.gmem<?x128x512xbf16>, !tile.gmem<?x128x512xf32>) -> ()
          %16 = arith.cmpi sge, %part, %c0_i32 : i32
          scf.if %16 {
            %17 = math.log2 %14 fastmath<afn> : tensor<64xf32, #row>
            %18 = math.fma %11#2, %cst, %17 : tensor<64xf32, #row>
            tile.write %18, %arg9[%part, %9] : tensor<64xf32, #row>, !tile.gmem<?x128xf32>
          }
          %slot_13 = next %slot_9 : !tile.slot<#q>
          yield %slot_13, %11#0, %11#1 : !tile.slot<#q>, !tile.slot<#even>, !tile.slot<#odd>
        }
      }
    }
  }
}

