// Absorbed MLA decode: paged, split, two consumer roles that exchange P by gates; even and odd pages in two rings.
// RUN: dsv3-opt %s | dsv3-opt | FileCheck %s
// Helpers are inlined, as fragments cannot be passed by a call, and the guarded rescale stays a branch:
// RUN: dsv3-opt %s --inline --canonicalize --cse | FileCheck %s --check-prefix=INLINE

// CHECK-DAG: #tile.ring<"odd", stages = 1, bufs = [!tile.buf<64x576xbf16, sw128>], landed = cols(64), free = [256:512 by @wg1, 0:256 + 512:576 by @wg0]>
// CHECK-DAG: #quad = #tile.frag<quad>
// CHECK-DAG: #row = #tile.frag<row>

!KV = !tile.buf<64x576xbf16, sw128>
!P = !tile.buf<64x64xbf16, sw128>
!V = !tile.buf<64x256xbf16, sw128>
!W = !tile.buf<64x320xbf16, sw128>
!L = !tile.buf<64x512xbf16, sw128>
!X = !tile.buf<64xf32>
!R = tensor<64xf32, #tile.frag<row>>
!Q4 = tensor<64x4xf32, #tile.frag<quad>>
!Sf = tensor<64x64xf32, #tile.frag<acc>>
!Pf = tensor<64x64xbf16, #tile.frag<acc>>
!Of = tensor<64x256xf32, #tile.frag<acc>>
!Oh = tensor<64x256xbf16, #tile.frag<acc>>
!I = tensor<64x64xi32, #tile.frag<acc>>
#q = #tile.ring<"q", stages = 1, bufs = [!KV], free = [all by @wg0 and @wg1]>
#k0 = #tile.ring<"even", stages = 1, bufs = [!KV], landed = cols(64), free = [0:256 by @wg0, 256:576 by @wg1]>
#k1 = #tile.ring<"odd", stages = 1, bufs = [!KV], landed = cols(64), free = [256:512 by @wg1, 0:256 + 512:576 by @wg0]>
!Sq = !tile.slot<#q>
!S0 = !tile.slot<#k0>
!S1 = !tile.slot<#k1>
!S = !tile.acc<64x64xf32>
!O = !tile.acc<64x256xf32>
!T = !tile.token
!Tq = !tile.tma<?x?x576xbf16, box 1x64x64, sw128>
!Tk = !tile.tma<?x576xbf16, box 64x64, sw128>
!Items = !tile.gmem<?x4xi32>
!Parts = !tile.gmem<?xi32>
!Pages = !tile.gmem<?x?xi32>
!Out = !tile.gmem<?x?x512xbf16>
!Oacc = !tile.gmem<?x?x512xf32>
!Lacc = !tile.gmem<?x?xf32>

// Lazy maximum, decided per row.
func.func private @newmax(%x: !R, %m: !R) -> !R {
  %tau = arith.constant dense<8.0> : !R
  %lim = arith.addf %m, %tau : !R
  %up = arith.cmpf ogt, %x, %lim : !R
  %n = arith.select %up, %x, %m : tensor<64xi1, #tile.frag<row>>, !R
  return %n : !R
}
func.func private @factor(%old: !R, %new: !R, %c: !R) -> !R {
  %d = arith.subf %old, %new : !R
  %e = arith.mulf %d, %c : !R
  %f = math.exp2 %e fastmath<afn> : !R
  return %f : !R
}
func.func private @probs(%s: !Sf, %m: !R, %c: !R) -> (!Pf, !Q4) {
  %mc = arith.mulf %m, %c : !R
  %n = arith.negf %mc : !R
  %nb = tile.bcast %n : !R -> !Sf
  %cb = tile.bcast %c : !R -> !Sf
  %e = math.fma %s, %cb, %nb : !Sf
  %p = math.exp2 %e fastmath<afn> : !Sf
  // CHECK: tile.reduce add %{{.*}} dim 1 : tensor<64x64xf32, #acc> -> tensor<64x4xf32, #quad>
  %r = tile.reduce add %p dim 1 : !Sf -> !Q4
  %h = arith.truncf %p : !Sf to !Pf
  return %h, %r : !Pf, !Q4
}
func.func private @carry(%l: !Q4, %f: !R, %r: !Q4) -> !Q4 {
  %b = tile.bcast %f : !R -> !Q4
  %x = math.fma %l, %b, %r : !Q4
  return %x : !Q4
}
// A warp none of whose rows moved skips it.
func.func private @rescale(%o: !Of, %f: !R) -> !Of {
  %one = arith.constant dense<1.0> : !R
  %d = arith.cmpf one, %f, %one : !R
  // CHECK: tile.any %{{.*}} : tensor<64xi1, #row>
  %any = tile.any %d : tensor<64xi1, #tile.frag<row>>
  %x = scf.if %any -> !Of {
    %b = tile.bcast %f : !R -> !Of
    %y = arith.mulf %o, %b : !Of
    scf.yield %y : !Of
  } else {
    scf.yield %o : !Of
  }
  return %x : !Of
}
// Last pair only: masks columns, clears rows of V that do not exist.
func.func private @last(%s: !Sf, %kb: !KV, %rem: i32) -> !Sf {
  %i = tile.iota dim 1 : !I
  %rb = tile.bcast %rem : i32 -> !I
  %in = arith.cmpi slt, %i, %rb : !I
  %minf = arith.constant dense<0xFF800000> : !Sf
  %x = arith.select %in, %s, %minf : tensor<64x64xi1, #tile.frag<acc>>, !Sf
  tile.sync
  %v = tile.view %kb[0, 0] : !KV -> !L
  // CHECK: tile.zero %{{.*}} rows [%{{.*}}, 64] : !tile.buf<64x512xbf16, sw128>
  tile.zero %v rows [%rem, 64] : !L
  return %x : !Sf
}
func.func private @finish(%o: !Of, %l: !R, %row: i32, %n: i32, %req: i32, %slot: i32, %col: i32, %out: !Out, %oacc: !Oacc) {
  %one = arith.constant dense<1.0> : !R
  %zero = arith.constant 0 : i32
  %i = arith.divf %one, %l : !R
  %b = tile.bcast %i : !R -> !Of
  %x = arith.mulf %o, %b : !Of
  %whole = arith.cmpi slt, %slot, %zero : i32
  scf.if %whole {
    %h = arith.truncf %x : !Of to !Oh
    // CHECK: tile.write %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}}) : tensor<64x256xbf16, #acc>, !tile.gmem<?x?x512xbf16>
    tile.write %h, %out[%req, %row, %col] rows(%n) : !Oh, !Out
  } else {
    tile.write %x, %oacc[%slot, %row, %col] rows(%n) : !Of, !Oacc
  }
  return
}
// Rows of a pair's pages, the second clamped to the last page.
func.func private @pages(%bt: !Pages, %req: i32, %b0: i32, %b1: i32) -> (i32, i32) {
  %one = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %n = arith.addi %b0, %one : i32
  %e = arith.subi %b1, %one : i32
  %f = arith.minsi %n, %e : i32
  %p0 = tile.read %bt[%req, %b0] : !Pages -> i32
  %p1 = tile.read %bt[%req, %f] : !Pages -> i32
  %r0 = arith.muli %p0, %c64 : i32
  %r1 = arith.muli %p1, %c64 : i32
  return %r0, %r1 : i32, i32
}

// CHECK-LABEL: tile.kernel @mla(
// INLINE-LABEL: tile.kernel @mla(
// INLINE-NOT: func.call
tile.kernel @mla(%tq: !Tq, %tk: !Tk, %bt: !Pages, %items: !Items, %parts: !Parts, %out: !Out, %oacc: !Oacc, %lacc: !Lacc, %H: i32, %HT: i32, %c: f32) {
  %rq = ring #q
  %rx = ring #k0
  %ry = ring #k1
  %mx0 = alloc : !X
  %mx1 = alloc : !X
  %lx0 = alloc : !X
  %lx1 = alloc : !X
  // CHECK: gate from @wg0 to @wg1
  // CHECK: gate between @wg0, @wg1
  %ga = gate from @wg0 to @wg1
  %gb = gate from @wg1 to @wg0
  %gl = gate between @wg0, @wg1
  // CHECK: list %{{.*}}, %{{.*}} lanes(%{{.*}}) -> (ht, req, b0, b1, slot) : !tile.gmem<?x4xi32>, !tile.gmem<?xi32>
  %w = list %items, %parts lanes(%HT) -> (ht, req, b0, b1, slot) : !Items, !Parts
  %one_i = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c64 = arith.constant 64 : i32
  role @load producer regs(40) {
    %q0 = next %rq : !tile.ring<#q>
    %x0 = next %rx : !tile.ring<#k0>
    %y0 = next %ry : !tile.ring<#k1>
    %end:3 = foreach (%ht, %req, %b0, %b1, %slot) in %w iter(%q = %q0, %x = %x0, %y = %y0) : !Sq, !S0, !S1 {
      %h = arith.muli %ht, %c64 : i32
      %n = arith.subi %b1, %b0 : i32
      %n1 = arith.addi %n, %one_i : i32
      %np = arith.shrui %n1, %one_i : i32
      %p0, %p1 = func.call @pages(%bt, %req, %b0, %b1) : (!Pages, i32, i32, i32) -> (i32, i32)
      fill %q as (%b) : !Sq {
        // CHECK: copy %{{.*}}[%{{.*}}, %{{.*}}, *] -> %{{.*}} : !tile.tma<?x?x576xbf16, box 1x64x64, sw128> -> !tile.buf<64x576xbf16, sw128>
        copy %tq[%req, %h, *] -> %b : !Tq -> !KV
      }
      %x2, %y2, %z0, %z1 = loop %i = 0 to %np iter(%u = %x, %v = %y, %r0 = %p0, %r1 = %p1) : !S0, !S1, i32, i32 {
        %i1 = arith.addi %i, %one_i : i32
        %i2 = arith.muli %i1, %c2 : i32
        %nb = arith.addi %b0, %i2 : i32
        %le = arith.subi %b1, %one_i : i32
        %cl = arith.minsi %nb, %le : i32
        %n0, %n2 = func.call @pages(%bt, %req, %cl, %b1) : (!Pages, i32, i32, i32) -> (i32, i32)
        // CHECK: fill %{{.*}}[0] as (%{{.*}}) : !tile.slot<#even> {
        // CHECK-NEXT: copy %{{.*}}[%{{.*}}, *] -> %{{.*}} hint evict_first : !tile.tma<?x576xbf16, box 64x64, sw128> -> !tile.buf<64x256xbf16, sw128>
        fill %u[0] as (%b) : !S0 {
          copy %tk[%r0, *] -> %b hint evict_first : !Tk -> !V
        }
        fill %u[1] as (%b) : !S0 {
          copy %tk[%r0, *] -> %b hint evict_first : !Tk -> !W
        }
        fill %v[0] as (%b) : !S1 {
          copy %tk[%r1, *] -> %b hint evict_first : !Tk -> !V
        }
        fill %v[1] as (%b) : !S1 {
          copy %tk[%r1, *] -> %b hint evict_first : !Tk -> !W
        }
        %un = next %u : !S0
        %vn = next %v : !S1
        yield %un, %vn, %n0, %n2 : !S0, !S1, i32, i32
      }
      %qn = next %q : !Sq
      yield %qn, %x2, %y2 : !Sq, !S0, !S1
    }
  }
  // S0, P0; O[:, 0:256]
  role @wg0 warpgroups(1) regs(232) {
    %q0 = next %rq : !tile.ring<#q>
    %x0 = next %rx : !tile.ring<#k0>
    %y0 = next %ry : !tile.ring<#k1>
    %nS = none : !S
    %cr = bcast %c : f32 -> !R
    %m0 = arith.constant dense<0xFF800000> : !R
    %l0 = arith.constant dense<0.0> : !Q4
    %o0 = arith.constant dense<0.0> : !Of
    %c0 = arith.constant 0 : i32
    %end:3 = foreach (%ht, %req, %b0, %b1, %slot) in %w iter(%q = %q0, %x = %x0, %y = %y0) : !Sq, !S0, !S1 {
      %h = arith.muli %ht, %c64 : i32
      %n = arith.subi %b1, %b0 : i32
      %n1 = arith.addi %n, %one_i : i32
      %np = arith.shrui %n1, %one_i : i32
      %qb = wait full %q : !Sq
      // CHECK: mma nt %{{.*}}, %{{.*}} into %{{.*}} : !tile.buf<64x576xbf16, sw128>, !tile.slot<#even>, !tile.acc<64x64xf32>
      %S0, %t0 = mma nt %qb, %x into %nS : !KV, !S0, !S
      // CHECK: peel(last) as %{{.*}} iter(
      %x2, %y2, %m, %l, %o, %S9 = loop %i = 0 to %np peel(last) as %fin iter(%u = %x, %v = %y, %mi = %m0, %li = %l0, %oi = %o0, %Si = %S0) : !S0, !S1, !R, !Q4, !Of, !S {
        %s = await %Si : !S
        %kx = peek %u : !S0
        %s1 = scf.if %fin -> !Sf {
          tile.release %q : !Sq
          %z = func.call @last(%s, %kx, %n) : (!Sf, !KV, i32) -> !Sf
          scf.yield %z : !Sf
        } else {
          scf.yield %s : !Sf
        }
        %mr = reduce max %s1 dim 1 : !Sf -> !R
        %ma = func.call @newmax(%mr, %mi) : (!R, !R) -> !R
        %p, %r = func.call @probs(%s1, %ma, %cr) : (!Sf, !R, !R) -> (!Pf, !Q4)
        sync
        %pb = view %kx[0, 512] : !KV -> !P
        store %p, %pb : !Pf, !P
        store %ma, %mx0 : !R, !X
        signal %ga
        %f = func.call @factor(%mi, %ma, %cr) : (!R, !R, !R) -> !R
        %l1 = func.call @carry(%li, %f, %r) : (!Q4, !R, !Q4) -> !Q4
        // INLINE: scf.if %{{.*}} -> (tensor<64x256xf32, #acc>)
        // INLINE-NEXT: tile.bcast
        // INLINE-NEXT: arith.mulf
        %o1 = func.call @rescale(%oi, %f) : (!Of, !R) -> !Of
        %v0 = view %kx[0, 0] : !KV -> !V
        // CHECK: mma nn %{{.*}}, %{{.*}} into %{{.*}} : tensor<64x64xbf16, #acc>, !tile.buf<64x256xbf16, sw128>, tensor<64x256xf32, #acc>
        %O1, %t1 = mma nn %p, %v0 into %o1 : !Pf, !V, !Of
        %o2 = await %O1 : !O
        release %u[0] : !S0
        meet %gb
        %mb = load %mx1 : !X -> !R
        %f1 = func.call @factor(%ma, %mb, %cr) : (!R, !R, !R) -> !R
        %l2 = func.call @carry(%l1, %f1, %l0) : (!Q4, !R, !Q4) -> !Q4
        %o3 = func.call @rescale(%o2, %f1) : (!Of, !R) -> !Of
        %ky = peek %v : !S1
        %p1 = view %ky[0, 512] : !KV -> !P
        %v1 = view %ky[0, 0] : !KV -> !V
        %O3, %t3 = mma nn %p1, %v1 into %o3 : !P, !V, !Of
        %un = next %u : !S0
        %vn = next %v : !S1
        %o4, %S2 = scf.if %fin -> (!Of, !S) {
          %e = tile.await %O3 : !O
          tile.release %v[1] : !S1
          scf.yield %e, %nS : !Of, !S
        } else {
          // CHECK: tile.mma nt %{{.*}}, %{{.*}}[0] into
          %Sa, %ta = tile.mma nt %qb, %un[0] into %nS : !KV, !S0, !S
          %e = tile.await %O3 : !O
          tile.release %v[1] : !S1
          %Sb, %tb = tile.mma nt %qb, %un[1] into %Sa : !KV, !S0, !S
          scf.yield %e, %Sb : !Of, !S
        }
        yield %un, %vn, %mb, %l2, %o4, %S2 : !S0, !S1, !R, !Q4, !Of, !S
      }
      %lr = reduce add %l dim 1 : !Q4 -> !R
      store %lr, %lx0 : !R, !X
      meet %gl
      %lo = load %lx1 : !X -> !R
      %lt = arith.addf %lr, %lo : !R
      func.call @finish(%o, %lt, %h, %H, %req, %slot, %c0, %out, %oacc) : (!Of, !R, i32, i32, i32, i32, i32, !Out, !Oacc) -> ()
      %qn = next %q : !Sq
      yield %qn, %x2, %y2 : !Sq, !S0, !S1
    }
  }
  // S1, P1; O[:, 256:512]
  role @wg1 warpgroups(1) regs(232) {
    %q0 = next %rq : !tile.ring<#q>
    %x0 = next %rx : !tile.ring<#k0>
    %y0 = next %ry : !tile.ring<#k1>
    %nS = none : !S
    %cr = bcast %c : f32 -> !R
    %m0 = arith.constant dense<0xFF800000> : !R
    %l0 = arith.constant dense<0.0> : !Q4
    %o0 = arith.constant dense<0.0> : !Of
    %c256 = arith.constant 256 : i32
    %end:3 = foreach (%ht, %req, %b0, %b1, %slot) in %w iter(%q = %q0, %x = %x0, %y = %y0) : !Sq, !S0, !S1 {
      %h = arith.muli %ht, %c64 : i32
      %n = arith.subi %b1, %b0 : i32
      %n1 = arith.addi %n, %one_i : i32
      %np = arith.shrui %n1, %one_i : i32
      %qb = wait full %q : !Sq
      %S0, %t0 = mma nt %qb, %y into %nS : !KV, !S1, !S
      %x2, %y2, %m, %l, %o, %S9 = loop %i = 0 to %np peel(last) as %fin iter(%u = %x, %v = %y, %mi = %m0, %li = %l0, %oi = %o0, %Si = %S0) : !S0, !S1, !R, !Q4, !Of, !S {
        %s = await %Si : !S
        %ky = peek %v : !S1
        %s1 = scf.if %fin -> !Sf {
          tile.release %q : !Sq
          %z = func.call @last(%s, %ky, %n) : (!Sf, !KV, i32) -> !Sf
          tile.sync
          scf.yield %z : !Sf
        } else {
          scf.yield %s : !Sf
        }
        %mr = reduce max %s1 dim 1 : !Sf -> !R
        meet %ga
        %ma = load %mx0 : !X -> !R
        %f0 = func.call @factor(%mi, %ma, %cr) : (!R, !R, !R) -> !R
        %o1 = func.call @rescale(%oi, %f0) : (!Of, !R) -> !Of
        %kx = peek %u : !S0
        %p0 = view %kx[0, 512] : !KV -> !P
        %v0 = view %kx[0, 256] : !KV -> !V
        %O1, %t1 = mma nn %p0, %v0 into %o1 : !P, !V, !Of
        %mb = func.call @newmax(%mr, %ma) : (!R, !R) -> !R
        %p, %r = func.call @probs(%s1, %mb, %cr) : (!Sf, !R, !R) -> (!Pf, !Q4)
        %pb = view %ky[0, 512] : !KV -> !P
        store %p, %pb : !Pf, !P
        store %mb, %mx1 : !R, !X
        signal %gb
        %f1 = func.call @factor(%ma, %mb, %cr) : (!R, !R, !R) -> !R
        %ff = arith.mulf %f0, %f1 : !R
        %l1 = func.call @carry(%li, %ff, %r) : (!Q4, !R, !Q4) -> !Q4
        %o2 = await %O1 : !O
        release %u[1] : !S0
        %o3 = func.call @rescale(%o2, %f1) : (!Of, !R) -> !Of
        %v1 = view %ky[0, 256] : !KV -> !V
        %O3, %t3 = mma nn %p, %v1 into %o3 : !Pf, !V, !Of
        %o4 = await %O3 : !O
        release %v[0] : !S1
        %un = next %u : !S0
        %vn = next %v : !S1
        %S2 = scf.if %fin -> !S {
          scf.yield %nS : !S
        } else {
          %Sn, %tn = tile.mma nt %qb, %vn into %nS : !KV, !S1, !S
          scf.yield %Sn : !S
        }
        yield %un, %vn, %mb, %l1, %o4, %S2 : !S0, !S1, !R, !Q4, !Of, !S
      }
      %lr = reduce add %l dim 1 : !Q4 -> !R
      store %lr, %lx1 : !R, !X
      meet %gl
      %lo = load %lx0 : !X -> !R
      %lt = arith.addf %lr, %lo : !R
      func.call @finish(%o, %lt, %h, %H, %req, %slot, %c256, %out, %oacc) : (!Of, !R, i32, i32, i32, i32, i32, !Out, !Oacc) -> ()
      %log = math.log2 %lt fastmath<afn> : !R
      %mc = arith.mulf %m, %cr : !R
      %lse = arith.addf %mc, %log : !R
      write %lse, %lacc[%slot, %h] cols(%H) : !R, !Lacc
      %qn = next %q : !Sq
      yield %qn, %x2, %y2 : !Sq, !S0, !S1
    }
  }
}
