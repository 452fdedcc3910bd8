// kernel.attn_prefill of 128 heads as its emitter writes it. After a change on purpose, write this file anew: these lines, then
// what the first command prints.
// RUN: dsv3-opt %S/Inputs/attn-prefill.mlir --dsv3-bind-kernels=target=sm_90a --dsv3-outline-kernels=target=sm_90a --canonicalize --cse -o %t
// RUN: grep -v '^// ' %s | diff - %t
#acc = #tile.frag<acc>
#keys = #tile.ring<"keys", stages = 2, bufs = [!tile.buf<128x192xbf16, sw128>], free = [all by @mma], arrive = warpgroup>
#q = #tile.ring<"q", stages = 1, bufs = [!tile.buf<2x64x192xbf16, sw128>], free = [all by @mma], arrive = warpgroup>
#quad = #tile.frag<quad>
#row = #tile.frag<row>
#values = #tile.ring<"values", stages = 2, bufs = [!tile.buf<128x128xbf16, sw128>], free = [all by @mma], arrive = warpgroup>
module attributes {dsv3.capacities = {kblocks = 72 : i64, max_model_len = 4096 : i64, pages = 64 : i64, qblocks = 40 : i64, seqs = 8 : i64, tokens = 512 : i64}} {
  dsv3.program @prefill(%arg0: tensor<512x128x192xbf16>, %arg1: tensor<72x128x64x192xbf16>, %arg2: tensor<72x128x64x128xbf16>, %arg3: !dsv3.seq) {
    dsv3.return
  }
  gpu.module @sm_90a {
    tile.kernel @attn_prefill_bf16_0(%arg0: !llvm.ptr<1>, %arg1: !tile.tma<?x?xbf16, box 64x64, sw128>, %arg2: !tile.tma<?x?xbf16, box 64x64, sw128>, %arg3: !tile.tma<?x?xbf16, box 64x64, sw128>, %arg4: !tile.gmem<?xi32>, %arg5: !tile.gmem<?xi32>, %arg6: !tile.gmem<?xi32>, %arg7: !tile.gmem<?x16384xbf16>) {
      %cst = arith.constant dense<1.000000e+00> : tensor<64xf32, #row>
      %cst_0 = arith.constant dense<0.000000e+00> : tensor<64x128xf32, #acc>
      %cst_1 = arith.constant dense<0.180336878> : tensor<64x128xf32, #acc>
      %cst_2 = arith.constant dense<0.180336878> : tensor<64xf32, #row>
      %cst_3 = arith.constant dense<44.3614197> : tensor<64xf32, #row>
      %cst_4 = arith.constant dense<-1.000000e+30> : tensor<64xf32, #row>
      %cst_5 = arith.constant dense<0xFF800000> : tensor<64x128xf32, #acc>
      %c127_i32 = arith.constant 127 : i32
      %c64_i32 = arith.constant 64 : i32
      %c192_i32 = arith.constant 192 : i32
      %false = arith.constant false
      %c0_i32 = arith.constant 0 : i32
      %c16_i32 = arith.constant 16 : i32
      %c8_i32 = arith.constant 8 : i32
      %c4_i32 = arith.constant 4 : i32
      %c819_i32 = arith.constant 819 : i32
      %c2_i32 = arith.constant 2 : i32
      %c1_i32 = arith.constant 1 : i32
      %c128_i32 = arith.constant 128 : i32
      %0 = count %arg0[1]
      %1 = count %arg0[0]
      %2 = arith.divui %1, %c128_i32 : i32
      %3 = arith.addi %2, %0 : i32
      %4 = count %arg0[3]
      %5 = arith.muli %4, %c2_i32 : i32
      %6 = arith.cmpi slt, %5, %c819_i32 : i32
      %7 = arith.select %6, %c2_i32, %c1_i32 : i32
      %8 = arith.muli %4, %c4_i32 : i32
      %9 = arith.cmpi slt, %8, %c819_i32 : i32
      %10 = arith.select %9, %c4_i32, %7 : i32
      %11 = arith.muli %4, %c8_i32 : i32
      %12 = arith.cmpi slt, %11, %c819_i32 : i32
      %13 = arith.select %12, %c8_i32, %10 : i32
      %14 = arith.muli %4, %c16_i32 : i32
      %15 = arith.cmpi slt, %14, %c819_i32 : i32
      %16 = arith.select %15, %c16_i32, %13 : i32
      %17 = arith.divui %c128_i32, %16 : i32
      %work = raster [%17, %3, %16] tile [1, 1, 1] -> (group, tile, head)
      %ring = ring #q
      %ring_6 = ring #keys
      %ring_7 = ring #values
      %18 = alloc : !tile.buf<2x64x4xf32>
      role @load producer regs(40) {
        %slot = next %ring : !tile.ring<#q>
        %slot_8 = next %ring_6 : !tile.ring<#keys>
        %slot_9 = next %ring_7 : !tile.ring<#values>
        %19:3 = foreach (%group, %tile, %head) in %work iter(%slot_10 = %slot, %slot_11 = %slot_8, %slot_12 = %slot_9) : !tile.slot<#q>, !tile.slot<#keys>, !tile.slot<#values> {
          %20 = arith.muli %group, %16 : i32
          %21 = arith.addi %20, %head : i32
          %22 = arith.subi %3, %c1_i32 : i32
          %23 = arith.subi %22, %tile : i32
          %24 = arith.subi %0, %c1_i32 : i32
          %25 = arith.minsi %24, %c4_i32 : i32
          %26 = read %arg4[%25] : !tile.gmem<?xi32> -> i32
          %27 = arith.divui %26, %c128_i32 : i32
          %28 = arith.addi %27, %c4_i32 : i32
          %29 = arith.cmpi sgt, %0, %c4_i32 : i32
          %30 = arith.cmpi sge, %23, %28 : i32
          %31 = arith.select %29, %30, %false : i1
          %32 = arith.select %31, %c4_i32, %c0_i32 : i32
          %33 = arith.addi %32, %c2_i32 : i32
          %34 = arith.minsi %33, %24 : i32
          %35 = read %arg4[%34] : !tile.gmem<?xi32> -> i32
          %36 = arith.divui %35, %c128_i32 : i32
          %37 = arith.addi %36, %33 : i32
          %38 = arith.cmpi slt, %33, %0 : i32
          %39 = arith.cmpi sge, %23, %37 : i32
          %40 = arith.select %38, %39, %false : i1
          %41 = arith.select %40, %33, %32 : i32
          %42 = arith.addi %41, %c1_i32 : i32
          %43 = arith.minsi %42, %24 : i32
          %44 = read %arg4[%43] : !tile.gmem<?xi32> -> i32
          %45 = arith.divui %44, %c128_i32 : i32
          %46 = arith.addi %45, %42 : i32
          %47 = arith.cmpi slt, %42, %0 : i32
          %48 = arith.cmpi sge, %23, %46 : i32
          %49 = arith.select %47, %48, %false : i1
          %50 = arith.select %49, %42, %41 : i32
          %51 = read %arg4[%50] : !tile.gmem<?xi32> -> i32
          %52 = arith.addi %50, %c1_i32 : i32
          %53 = read %arg4[%52] : !tile.gmem<?xi32> -> i32
          %54 = arith.divui %51, %c128_i32 : i32
          %55 = arith.addi %54, %50 : i32
          %56 = arith.subi %23, %55 : i32
          %57 = arith.muli %56, %c128_i32 : i32
          %58 = arith.addi %51, %57 : i32
          %59 = arith.subi %53, %58 : i32
          %60 = read %arg5[%50] : !tile.gmem<?xi32> -> i32
          %61 = arith.subi %60, %59 : i32
          %62 = arith.minsi %59, %c128_i32 : i32
          %63 = arith.addi %61, %62 : i32
          %64 = arith.subi %63, %c1_i32 : i32
          %65 = arith.divui %64, %c128_i32 : i32
          %66 = arith.addi %65, %c1_i32 : i32
          %67 = arith.cmpi sgt, %59, %c0_i32 : i32
          %68:3 = scf.if %67 -> (!tile.slot<#q>, !tile.slot<#keys>, !tile.slot<#values>) {
            tile.fill %slot_10 as (%buf) : !tile.slot<#q> {
              %73 = arith.muli %21, %c192_i32 : i32
              %74 = view %buf[0] : !tile.buf<2x64x192xbf16, sw128> -> !tile.buf<64x192xbf16, sw128>
              copy %arg1[%58, %73] -> %74 : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x192xbf16, sw128>
              %75 = arith.addi %58, %c64_i32 : i32
              %76 = view %buf[1] : !tile.buf<2x64x192xbf16, sw128> -> !tile.buf<64x192xbf16, sw128>
              copy %arg1[%75, %73] -> %76 : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x192xbf16, sw128>
            }
            %69 = tile.read %arg6[%50] : !tile.gmem<?xi32> -> i32
            %70 = tile.read %arg6[%52] : !tile.gmem<?xi32> -> i32
            %71 = arith.subi %70, %c1_i32 : i32
            %72:2 = tile.loop %i = 0 to %66 iter(%slot_14 = %slot_11, %slot_15 = %slot_12) : !tile.slot<#keys>, !tile.slot<#values> {
              %73 = arith.muli %i, %c2_i32 : i32
              %74 = arith.addi %69, %73 : i32
              %75 = arith.addi %74, %c1_i32 : i32
              %76 = arith.minsi %75, %71 : i32
              %77 = arith.muli %74, %c128_i32 : i32
              %78 = arith.addi %77, %21 : i32
              %79 = arith.muli %78, %c64_i32 : i32
              %80 = arith.muli %76, %c128_i32 : i32
              %81 = arith.addi %80, %21 : i32
              %82 = arith.muli %81, %c64_i32 : i32
              fill %slot_14 as (%buf) : !tile.slot<#keys> {
                %83 = view %buf[0, 0] : !tile.buf<128x192xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
                copy %arg2[%79, 0] -> %83 : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
                %84 = view %buf[64, 0] : !tile.buf<128x192xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
                copy %arg2[%82, 0] -> %84 : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
                %85 = view %buf[0, 64] : !tile.buf<128x192xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
                copy %arg2[%79, 64] -> %85 : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
                %86 = view %buf[64, 64] : !tile.buf<128x192xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
                copy %arg2[%82, 64] -> %86 : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
                %87 = view %buf[0, 128] : !tile.buf<128x192xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
                copy %arg2[%79, 128] -> %87 : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
                %88 = view %buf[64, 128] : !tile.buf<128x192xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
                copy %arg2[%82, 128] -> %88 : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
              }
              fill %slot_15 as (%buf) : !tile.slot<#values> {
                %83 = view %buf[0, 0] : !tile.buf<128x128xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
                copy %arg3[%79, 0] -> %83 : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
                %84 = view %buf[64, 0] : !tile.buf<128x128xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
                copy %arg3[%82, 0] -> %84 : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
                %85 = view %buf[0, 64] : !tile.buf<128x128xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
                copy %arg3[%79, 64] -> %85 : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
                %86 = view %buf[64, 64] : !tile.buf<128x128xbf16, sw128> -> !tile.buf<64x64xbf16, sw128>
                copy %arg3[%82, 64] -> %86 : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
              }
              %slot_16 = next %slot_14 : !tile.slot<#keys>
              %slot_17 = next %slot_15 : !tile.slot<#values>
              yield %slot_16, %slot_17 : !tile.slot<#keys>, !tile.slot<#values>
            }
            %slot_13 = tile.next %slot_10 : !tile.slot<#q>
            scf.yield %slot_13, %72#0, %72#1 : !tile.slot<#q>, !tile.slot<#keys>, !tile.slot<#values>
          } else {
            scf.yield %slot_10, %slot_11, %slot_12 : !tile.slot<#q>, !tile.slot<#keys>, !tile.slot<#values>
          }
          yield %68#0, %68#1, %68#2 : !tile.slot<#q>, !tile.slot<#keys>, !tile.slot<#values>
        }
      }
      role @mma warpgroups(2) as %g regs(232) {
        %acc = none : !tile.acc<64x128xf32>
        %19 = view %18[%g, 0, 0] : !tile.buf<2x64x4xf32> -> !tile.buf<64x4xf32>
        %20 = arith.muli %g, %c64_i32 : i32
        %slot = next %ring : !tile.ring<#q>
        %slot_8 = next %ring_6 : !tile.ring<#keys>
        %slot_9 = next %ring_7 : !tile.ring<#values>
        %21:3 = foreach (%group, %tile, %head) in %work iter(%slot_10 = %slot, %slot_11 = %slot_8, %slot_12 = %slot_9) : !tile.slot<#q>, !tile.slot<#keys>, !tile.slot<#values> {
          %22 = arith.muli %group, %16 : i32
          %23 = arith.addi %22, %head : i32
          %24 = arith.subi %3, %c1_i32 : i32
          %25 = arith.subi %24, %tile : i32
          %26 = arith.subi %0, %c1_i32 : i32
          %27 = arith.minsi %26, %c4_i32 : i32
          %28 = read %arg4[%27] : !tile.gmem<?xi32> -> i32
          %29 = arith.divui %28, %c128_i32 : i32
          %30 = arith.addi %29, %c4_i32 : i32
          %31 = arith.cmpi sgt, %0, %c4_i32 : i32
          %32 = arith.cmpi sge, %25, %30 : i32
          %33 = arith.select %31, %32, %false : i1
          %34 = arith.select %33, %c4_i32, %c0_i32 : i32
          %35 = arith.addi %34, %c2_i32 : i32
          %36 = arith.minsi %35, %26 : i32
          %37 = read %arg4[%36] : !tile.gmem<?xi32> -> i32
          %38 = arith.divui %37, %c128_i32 : i32
          %39 = arith.addi %38, %35 : i32
          %40 = arith.cmpi slt, %35, %0 : i32
          %41 = arith.cmpi sge, %25, %39 : i32
          %42 = arith.select %40, %41, %false : i1
          %43 = arith.select %42, %35, %34 : i32
          %44 = arith.addi %43, %c1_i32 : i32
          %45 = arith.minsi %44, %26 : i32
          %46 = read %arg4[%45] : !tile.gmem<?xi32> -> i32
          %47 = arith.divui %46, %c128_i32 : i32
          %48 = arith.addi %47, %44 : i32
          %49 = arith.cmpi slt, %44, %0 : i32
          %50 = arith.cmpi sge, %25, %48 : i32
          %51 = arith.select %49, %50, %false : i1
          %52 = arith.select %51, %44, %43 : i32
          %53 = read %arg4[%52] : !tile.gmem<?xi32> -> i32
          %54 = arith.addi %52, %c1_i32 : i32
          %55 = read %arg4[%54] : !tile.gmem<?xi32> -> i32
          %56 = arith.divui %53, %c128_i32 : i32
          %57 = arith.addi %56, %52 : i32
          %58 = arith.subi %25, %57 : i32
          %59 = arith.muli %58, %c128_i32 : i32
          %60 = arith.addi %53, %59 : i32
          %61 = arith.subi %55, %60 : i32
          %62 = read %arg5[%52] : !tile.gmem<?xi32> -> i32
          %63 = arith.subi %62, %61 : i32
          %64 = arith.minsi %61, %c128_i32 : i32
          %65 = arith.addi %63, %64 : i32
          %66 = arith.subi %65, %c1_i32 : i32
          %67 = arith.divui %66, %c128_i32 : i32
          %68 = arith.addi %67, %c1_i32 : i32
          %69 = arith.cmpi sgt, %61, %c0_i32 : i32
          %70:3 = scf.if %69 -> (!tile.slot<#q>, !tile.slot<#keys>, !tile.slot<#values>) {
            %71 = tile.wait full %slot_10 : !tile.slot<#q>
            %72 = tile.view %71[%g, 0, 0] : !tile.buf<2x64x192xbf16, sw128> -> !tile.buf<64x192xbf16, sw128>
            %73 = arith.addi %63, %20 : i32
            %74 = tile.wait full %slot_11 : !tile.slot<#keys>
            %acc_13, %token = tile.mma nt %72, %74 into %acc : !tile.buf<64x192xbf16, sw128>, !tile.buf<128x192xbf16, sw128>, !tile.acc<64x128xf32>
            %75 = tile.await %acc_13 : !tile.acc<64x128xf32>
            tile.release %slot_11 : !tile.slot<#keys>
            %76 = arith.cmpi slt, %73, %c127_i32 : i32
            %77 = scf.if %76 -> (tensor<64x128xf32, #acc>) {
              %99 = tile.iota dim 0 : tensor<64xi32, #row>
              %100 = tile.bcast %73 : i32 -> tensor<64xi32, #row>
              %101 = arith.addi %99, %100 : tensor<64xi32, #row>
              %102 = tile.bcast %101 : tensor<64xi32, #row> -> tensor<64x128xi32, #acc>
              %103 = tile.iota dim 1 : tensor<64x128xi32, #acc>
              %104 = arith.cmpi sge, %102, %103 : tensor<64x128xi32, #acc>
              %105 = arith.select %104, %75, %cst_5 : tensor<64x128xi1, #acc>, tensor<64x128xf32, #acc>
              scf.yield %105 : tensor<64x128xf32, #acc>
            } else {
              scf.yield %75 : tensor<64x128xf32, #acc>
            }
            %78 = tile.reduce max %77 dim 1 : tensor<64x128xf32, #acc> -> tensor<64xf32, #row>
            %79 = arith.cmpf olt, %cst_4, %78 : tensor<64xf32, #row>
            %80 = arith.select %79, %78, %cst_4 : tensor<64xi1, #row>, tensor<64xf32, #row>
            %81 = arith.mulf %80, %cst_2 : tensor<64xf32, #row>
            %82 = arith.negf %81 : tensor<64xf32, #row>
            %83 = tile.bcast %82 : tensor<64xf32, #row> -> tensor<64x128xf32, #acc>
            %84 = math.fma %77, %cst_1, %83 : tensor<64x128xf32, #acc>
            %85 = math.exp2 %84 fastmath<afn> : tensor<64x128xf32, #acc>
            %86 = tile.reduce add %85 dim 1 : tensor<64x128xf32, #acc> -> tensor<64x4xf32, #quad>
            %slot_14 = tile.next %slot_11 : !tile.slot<#keys>
            %87 = arith.truncf %85 : tensor<64x128xf32, #acc> to tensor<64x128xbf16, #acc>
            %88:6 = tile.loop %i = 1 to %68 iter(%slot_19 = %slot_14, %slot_20 = %slot_12, %arg8 = %80, %arg9 = %86, %arg10 = %cst_0, %arg11 = %87) : !tile.slot<#keys>, !tile.slot<#values>, tensor<64xf32, #row>, tensor<64x4xf32, #quad>, tensor<64x128xf32, #acc>, tensor<64x128xbf16, #acc> {
              %99 = wait full %slot_19 : !tile.slot<#keys>
              %acc_21, %token_22 = mma nt %72, %99 into %acc : !tile.buf<64x192xbf16, sw128>, !tile.buf<128x192xbf16, sw128>, !tile.acc<64x128xf32>
              %100 = wait full %slot_20 : !tile.slot<#values>
              %acc_23, %token_24 = mma nn %arg11, %100 into %arg10 : tensor<64x128xbf16, #acc>, !tile.buf<128x128xbf16, sw128>, tensor<64x128xf32, #acc>
              %101 = await %acc_21 : !tile.acc<64x128xf32>
              release %slot_19 : !tile.slot<#keys>
              %102 = arith.muli %i, %c128_i32 : i32
              %103 = arith.subi %73, %102 : i32
              %104 = arith.cmpi slt, %103, %c127_i32 : i32
              %105 = scf.if %104 -> (tensor<64x128xf32, #acc>) {
                %126 = tile.iota dim 0 : tensor<64xi32, #row>
                %127 = tile.bcast %103 : i32 -> tensor<64xi32, #row>
                %128 = arith.addi %126, %127 : tensor<64xi32, #row>
                %129 = tile.bcast %128 : tensor<64xi32, #row> -> tensor<64x128xi32, #acc>
                %130 = tile.iota dim 1 : tensor<64x128xi32, #acc>
                %131 = arith.cmpi sge, %129, %130 : tensor<64x128xi32, #acc>
                %132 = arith.select %131, %101, %cst_5 : tensor<64x128xi1, #acc>, tensor<64x128xf32, #acc>
                scf.yield %132 : tensor<64x128xf32, #acc>
              } else {
                scf.yield %101 : tensor<64x128xf32, #acc>
              }
              %106 = reduce max %105 dim 1 : tensor<64x128xf32, #acc> -> tensor<64xf32, #row>
              %107 = arith.addf %arg8, %cst_3 : tensor<64xf32, #row>
              %108 = arith.cmpf olt, %107, %106 : tensor<64xf32, #row>
              %109 = arith.select %108, %106, %arg8 : tensor<64xi1, #row>, tensor<64xf32, #row>
              %110 = arith.mulf %109, %cst_2 : tensor<64xf32, #row>
              %111 = arith.negf %110 : tensor<64xf32, #row>
              %112 = bcast %111 : tensor<64xf32, #row> -> tensor<64x128xf32, #acc>
              %113 = math.fma %105, %cst_1, %112 : tensor<64x128xf32, #acc>
              %114 = math.exp2 %113 fastmath<afn> : tensor<64x128xf32, #acc>
              %115 = reduce add %114 dim 1 : tensor<64x128xf32, #acc> -> tensor<64x4xf32, #quad>
              %116 = arith.subf %arg8, %109 : tensor<64xf32, #row>
              %117 = arith.mulf %116, %cst_2 : tensor<64xf32, #row>
              %118 = math.exp2 %117 fastmath<afn> : tensor<64xf32, #row>
              %119 = bcast %118 : tensor<64xf32, #row> -> tensor<64x4xf32, #quad>
              %120 = math.fma %arg9, %119, %115 : tensor<64x4xf32, #quad>
              store %115, %19 : tensor<64x4xf32, #quad>, !tile.buf<64x4xf32>
              %121 = await %acc_23 : !tile.acc<64x128xf32>
              release %slot_20 : !tile.slot<#values>
              %slot_25 = next %slot_19 : !tile.slot<#keys>
              %slot_26 = next %slot_20 : !tile.slot<#values>
              %122 = arith.cmpf olt, %118, %cst : tensor<64xf32, #row>
              %123 = any %122 : tensor<64xi1, #row>
              %124 = scf.if %123 -> (tensor<64x128xf32, #acc>) {
                %126 = tile.bcast %118 : tensor<64xf32, #row> -> tensor<64x128xf32, #acc>
                %127 = arith.mulf %121, %126 : tensor<64x128xf32, #acc>
                scf.yield %127 : tensor<64x128xf32, #acc>
              } else {
                scf.yield %121 : tensor<64x128xf32, #acc>
              }
              %125 = arith.truncf %114 : tensor<64x128xf32, #acc> to tensor<64x128xbf16, #acc>
              yield %slot_25, %slot_26, %109, %120, %124, %125 : !tile.slot<#keys>, !tile.slot<#values>, tensor<64xf32, #row>, tensor<64x4xf32, #quad>, tensor<64x128xf32, #acc>, tensor<64x128xbf16, #acc>
            }
            tile.release %slot_10 : !tile.slot<#q>
            %89 = tile.wait full %88#1 : !tile.slot<#values>
            %acc_15, %token_16 = tile.mma nn %88#5, %89 into %88#4 : tensor<64x128xbf16, #acc>, !tile.buf<128x128xbf16, sw128>, tensor<64x128xf32, #acc>
            %90 = tile.await %acc_15 : !tile.acc<64x128xf32>
            tile.release %88#1 : !tile.slot<#values>
            %91 = tile.reduce add %88#3 dim 1 : tensor<64x4xf32, #quad> -> tensor<64xf32, #row>
            %92 = arith.divf %cst, %91 : tensor<64xf32, #row>
            %93 = tile.bcast %92 : tensor<64xf32, #row> -> tensor<64x128xf32, #acc>
            %94 = arith.mulf %90, %93 : tensor<64x128xf32, #acc>
            %95 = arith.truncf %94 : tensor<64x128xf32, #acc> to tensor<64x128xbf16, #acc>
            %96 = arith.addi %60, %20 : i32
            %97 = arith.muli %23, %c128_i32 : i32
            %98 = arith.subi %61, %20 : i32
            tile.write %95, %arg7[%96, %97] rows(%98) : tensor<64x128xbf16, #acc>, !tile.gmem<?x16384xbf16>
            %slot_17 = tile.next %slot_10 : !tile.slot<#q>
            %slot_18 = tile.next %88#1 : !tile.slot<#values>
            scf.yield %slot_17, %88#0, %slot_18 : !tile.slot<#q>, !tile.slot<#keys>, !tile.slot<#values>
          } else {
            scf.yield %slot_10, %slot_11, %slot_12 : !tile.slot<#q>, !tile.slot<#keys>, !tile.slot<#values>
          }
          yield %70#0, %70#1, %70#2 : !tile.slot<#q>, !tile.slot<#keys>, !tile.slot<#values>
        }
      }
    }
  }
}

