// Register operands, run-time scale, ages of waits, streaming, markers.
// RUN: dsv3-opt %s --dsv3-tile-peel --dsv3-tile-allocate --dsv3-tile-to-nvvm --split-input-file | FileCheck %s

!B = !tile.buf<16x64xbf16, sw128>
#r = #tile.ring<"b", stages = 2, bufs = [!B], free = [all by @mma]>
!S = !tile.slot<#r>
!T = !tile.token
!D = !tile.acc<64x16xf32>
!F = tensor<64x16xf32, #tile.frag<acc>>
!A = tensor<64x64xbf16, #tile.frag<acc>>
// An unpeeled loop that starts with nothing: whether there is something to add to is known at run time only, and the first
// release has nothing to release.
// CHECK-LABEL: llvm.func @registers(
tile.kernel @registers(%g: !tile.gmem<?x64xbf16>, %o: !tile.gmem<?x16xf32>, %n: i32) {
  %r = ring #r
  role @load producer {
  }
  role @mma warpgroups(1) as %i {
    %c0 = arith.constant 0 : i32
    %a = read %g[%c0, %c0] : !tile.gmem<?x64xbf16> -> !A
    %s0 = next %r : !tile.ring<#r>
    %ns = none : !S
    %nt = none : !T
    %na = none : !D
    // CHECK: scf.for
    %e:4 = loop %k = 0 to %n step 1 iter(%t = %s0, %prev = %ns, %acc = %na, %pt = %nt) : !S, !S, !D, !T {
      %b = wait full %t : !S
      // CHECK: wgmma.mma_async{{.*}} {$16, $17, $18, $19}, $20, $21, 1, 1, 0;
      // CHECK-COUNT-3: setp.ne.b32 p, 1, 0; wgmma.mma_async
      %d, %tok = mma nt %a, %b into %acc : !A, !B, !D
      // The product before this one is over: one group stays in flight.
      // CHECK: wgmma.wait_group.sync.aligned 1;
      await %pt : !T
      // CHECK: arith.andi
      // CHECK: @$1 mbarrier.arrive
      release %prev : !S
      %u = next %t : !S
      yield %u, %t, %d, %tok : !S, !S, !D, !T
    }
    // CHECK: wgmma.wait_group.sync.aligned 0;", "=f,=f,=f,=f,=f,=f,=f,=f,0,1,2,3,4,5,6,7,~{memory}"
    %d = await %e#2 : !D
    release %e#1 : !S
    write %d, %o[%c0, %c0] : !F, !tile.gmem<?x16xf32>
  }
}

// -----

!B = !tile.buf<16x64xbf16, sw128>
#r = #tile.ring<"b", stages = 2, bufs = [!B], free = [all by @mma]>
!S = !tile.slot<#r>
!D = !tile.acc<64x16xf32>
!F = tensor<64x16xf32, #tile.frag<acc>>
!A = tensor<64x64xbf16, #tile.frag<acc>>
// Pitfalls 2 and 16: registers that an mma in flight reads go through the wait with its accumulators: 8 + 16 of them.
// CHECK-LABEL: llvm.func @tied(
tile.kernel @tied(%g: !tile.gmem<?x64xbf16>, %o: !tile.gmem<?x16xf32>) {
  %r = ring #r
  role @load producer {
  }
  role @mma warpgroups(1) as %i {
    %c0 = arith.constant 0 : i32
    %a = read %g[%c0, %c0] : !tile.gmem<?x64xbf16> -> !A
    %s0 = next %r : !tile.ring<#r>
    %na = none : !D
    %b = wait full %s0 : !S
    // CHECK: setp.ne.b32 p, 0, 0; wgmma.mma_async{{.*}}"=&f,=&f,=&f,=&f,=&f,=&f,=&f,=&f,r,r,r,r,l,~{memory}"
    %d, %tok = mma nt %a, %b into %na : !A, !B, !D
    // CHECK: wgmma.wait_group.sync.aligned 0;", "=f,=f,=f,=f,=f,=f,=f,=f,=r,=r,=r,=r,=r,=r,=r,=r,=r,=r,=r,=r,=r,=r,=r,=r,0,1,
    %f = await %d : !D
    write %f, %o[%c0, %c0] : !F, !tile.gmem<?x16xf32>
  }
}

// -----

!KV = !tile.buf<64x128xbf16, sw128>
#k = #tile.ring<"k", stages = 1, bufs = [!KV], landed = cols(64), free = [64:128 by @mma, 0:64 by @mma]>
!S = !tile.slot<#k>
!D = !tile.acc<64x64xf32>
!F = tensor<64x64xf32, #tile.frag<acc>>
// A slot streams: each part is waited for just before its k-steps, in the order of loading (columns 64:128 first), with a
// fence behind each wait (pitfall 10). One commit.
// CHECK-LABEL: llvm.func @streams(
tile.kernel @streams(%tq: !tile.tma<?x?xbf16, box 64x64, sw128>, %o: !tile.gmem<?x64xf32>) {
  %r = ring #k
  %q = alloc : !KV
  role @load producer {
    %s0 = next %r : !tile.ring<#k>
    %c0 = arith.constant 0 : i32
    // One barrier per part; the box of column 64 completes on the second part's.
    // CHECK: mbarrier.try_wait.parity
    // CHECK: mbarrier.arrive.expect_tx
    // CHECK-NOT: expect_tx
    // CHECK: cp.async.bulk.tensor.2d
    fill %s0[0] as (%b) : !S {
      copy %tq[%c0, *] -> %b : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
    }
  }
  role @mma warpgroups(1) as %i {
    %c0 = arith.constant 0 : i32
    %s0 = next %r : !tile.ring<#k>
    %na = none : !D
    // CHECK: mov.b64
    // CHECK: mbarrier.try_wait.parity
    // CHECK-NEXT: wgmma.fence
    // CHECK: setp.ne.b32 p, 0, 0; wgmma.mma_async
    // CHECK-COUNT-3: setp.ne.b32 p, 1, 0; wgmma.mma_async
    // CHECK: mbarrier.try_wait.parity
    // CHECK-NEXT: wgmma.fence
    // CHECK-COUNT-4: setp.ne.b32 p, 1, 0; wgmma.mma_async
    // CHECK: wgmma.commit_group
    // CHECK-NOT: wgmma.commit_group
    %d, %tok = mma nt %q, %s0 into %na : !KV, !S, !D
    %f = await %d : !D
    write %f, %o[%c0, %c0] : !F, !tile.gmem<?x64xf32>
  }
}

// -----

!B = !tile.buf<16x64xbf16, sw128>
#r = #tile.ring<"b", stages = 2, bufs = [!B], free = [all by @mma]>
!S = !tile.slot<#r>
!D = !tile.acc<64x16xf32>
!F = tensor<64x16xf32, #tile.frag<acc>>
// Pitfall 20: paths with products end in distinct text, or LLVM merges their ends through the accumulators. Pitfall 12: a
// voted branch stays one.
// CHECK-LABEL: llvm.func @paths(
tile.kernel @paths(%o: !tile.gmem<?x16xf32>, %n: i32) {
  %r = ring #r
  %q = alloc : !tile.buf<64x64xbf16, sw128>
  role @load producer {
  }
  role @mma warpgroups(1) as %i {
    %c0 = arith.constant 0 : i32
    %s0 = next %r : !tile.ring<#r>
    %na = none : !D
    %b = wait full %s0 : !S
    %small = arith.cmpi slt, %n, %c0 : i32
    // CHECK: scf.if
    // CHECK: wgmma.wait_group
    // CHECK: "// path 1"
    // CHECK: } else {
    // CHECK: wgmma.wait_group
    // CHECK: "// path 2"
    %f = scf.if %small -> !F {
      %d, %tok = tile.mma nt %q, %b into %na : !tile.buf<64x64xbf16, sw128>, !B, !D
      %x = tile.await %d : !D
      scf.yield %x : !F
    } else {
      %d, %tok = tile.mma nt %q, %b into %na : !tile.buf<64x64xbf16, sw128>, !B, !D
      %x = tile.await %d : !D
      %y = arith.addf %x, %x : !F
      scf.yield %y : !F
    }
    %zero = arith.constant dense<0.0> : !F
    %m = arith.cmpf ogt, %f, %zero : !F
    // CHECK: llvm.nvvm.vote.any.sync
    %any = any %m : tensor<64x16xi1, #tile.frag<acc>>
    // CHECK: scf.if
    // CHECK-COUNT-8: arith.mulf
    // CHECK-NEXT: "// path 3"
    // CHECK-NEXT: scf.yield
    // CHECK-NOT: path
    %z = scf.if %any -> !F {
      %y = arith.mulf %f, %f : !F
      scf.yield %y : !F
    } else {
      scf.yield %f : !F
    }
    write %z, %o[%c0, %c0] : !F, !tile.gmem<?x16xf32>
  }
}
