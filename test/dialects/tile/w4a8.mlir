// W4A8 grouped GEMM: weights are the register operand (M), tokens are N; two warpgroups share K and meet in shared memory.
// RUN: dsv3-opt %s | dsv3-opt | FileCheck %s

// CHECK-DAG: #tile.ring<"stage", stages = 4, bufs = [!tile.buf<4x16x128xi8, sw128>, !tile.buf<2x4x64x128xi4, frag<opA4>>], free = [all by @mma]>
// CHECK-DAG: #tile.ring<"scales", stages = 4, bufs = [!tile.buf<20xf32>, !tile.buf<128xf32>], landed = other, free = [all by @mma count 8]>
// CHECK-DAG: #tile.ring<"sums", stages = 2, lanes = 2, bufs = [!tile.buf<64x16xi32, frag<acc>>], free = [all by @mma count 4], fill = arrive(4)>

!Act = !tile.buf<4x16x128xi8, sw128>
!Wt = !tile.buf<2x4x64x128xi4, frag<opA4>>
!W1 = !tile.buf<64x128xi4, frag<opA4>>
!Ab = !tile.buf<16x128xi8, sw128>
!Ps = !tile.buf<64x16xi32, frag<acc>>
!Sa = !tile.buf<20xf32>
!Sa16 = !tile.buf<16xf32>
!Sv = !tile.buf<128xf32>
!Sv64 = !tile.buf<64xf32>
!Stg = !tile.buf<16x16x16xbf16, swizzle<1, 4, 3>>
!I4 = tensor<64x128xi4, #tile.frag<opA4>>
!I8 = tensor<64x128xi8, #tile.frag<opA>>
!N = tensor<64x16xi32, #tile.frag<acc>>
!Nf = tensor<64x16xf32, #tile.frag<acc>>
!Nh = tensor<64x16xbf16, #tile.frag<acc>>
!Rf = tensor<64xf32, #tile.frag<row>>
!Cf = tensor<16xf32, #tile.frag<col>>
#r = #tile.ring<"stage", stages = 4, bufs = [!Act, !Wt], free = [all by @mma]>
#z = #tile.ring<"scales", stages = 4, bufs = [!Sa, !Sv], landed = other, free = [all by @mma count 8]>
#x = #tile.ring<"sums", stages = 2, lanes = 2, bufs = [!Ps], fill = arrive(4), free = [all by @mma count 4]>
!S = !tile.slot<#r>
!Z = !tile.slot<#z>
!Xs = !tile.slot<#x>
!T = !tile.token
!Ac = !tile.acc<64x16xi32>
!Ta = !tile.tma<?x?x128xi8, box 4x16x128, sw128>
!Ts = !tile.tma<?xf32, box 20>
!Wq = !tile.gmem<?x?x?x4096xi8>
!Sw = !tile.gmem<?x?xf32>
!Out = !tile.gmem<?x?xbf16>

// CHECK-LABEL: func.func private @item16(
func.func private @item16(%s: !S, %q: !Z, %y: !Xs, %kw: i32, %mw: i32, %c: i32, %nst: i32, %cnt: i32, %row0: i32, %n: i32, %out: !Out, %stg: !Stg) -> !S {
  %c1 = arith.constant 1 : i32
  %b0 = arith.shli %kw, %c1 : i32
  %b1 = arith.addi %b0, %c1 : i32
  %nS = tile.none : !S
  %na = tile.none : !Ac
  %nt = tile.none : !T
  // CHECK: tile.loop
  %e, %last, %acc, %t9 = tile.loop %k = 0 to %nst iter(%t = %s, %prev = %nS, %ac = %na, %pt = %nt) : !S, !S, !Ac, !T {
    %act, %wt = wait full %t : !S
    // CHECK: view %{{.*}}[%{{.*}}, %{{.*}}] : !tile.buf<2x4x64x128xi4, frag<opA4>> -> !tile.buf<64x128xi4, frag<opA4>>
    %wv0 = view %wt[%mw, %b0] : !Wt -> !W1
    // CHECK: load %{{.*}} : !tile.buf<64x128xi4, frag<opA4>> -> tensor<64x128xi4, #opA4>
    %w0 = load %wv0 : !W1 -> !I4
    // CHECK: expand %{{.*}} : tensor<64x128xi4, #opA4> -> tensor<64x128xi8, #opA>
    %a0 = expand %w0 : !I4 -> !I8
    %wv1 = view %wt[%mw, %b1] : !Wt -> !W1
    %w1 = load %wv1 : !W1 -> !I4
    %x0 = view %act[%b0] : !Act -> !Ab
    // CHECK: mma nt %{{.*}}, %{{.*}} into %{{.*}} : tensor<64x128xi8, #opA>, !tile.buf<16x128xi8, sw128>, !tile.acc<64x16xi32>
    %c0, %t0 = mma nt %a0, %x0 into %ac : !I8, !Ab, !Ac
    await %pt : !T
    release %prev : !S
    %a1 = expand %w1 : !I4 -> !I8
    %x1 = view %act[%b1] : !Act -> !Ab
    %cc, %t1 = mma nt %a1, %x1 into %c0 : !I8, !Ab, !Ac
    await %t0 : !T
    %u = next %t : !S
    yield %u, %t, %cc, %t1 : !S, !S, !Ac, !T
  }
  %d = tile.await %acc : !Ac
  tile.release %last : !S
  %own = arith.andi %c, %c1 : i32
  %mine = arith.cmpi eq, %own, %kw : i32
  // CHECK: tile.wait free %{{.*}} : !tile.slot<#sums>
  %pb = tile.wait free %y : !Xs
  scf.if %mine {
    %pf = tile.wait full %y : !Xs
    %o = tile.load %pf : !Ps -> !N
    %sum = arith.addi %d, %o : !N
    tile.release %y : !Xs
    %sa, %sv = tile.peek %q : !Z
    %f = arith.sitofp %sum : !N to !Nf
    %c3 = arith.constant 3 : i32
    %at = arith.andi %row0, %c3 : i32
    %sac = tile.view %sa[%at] : !Sa -> !Sa16
    %c64 = arith.constant 64 : i32
    %m0 = arith.muli %mw, %c64 : i32
    %svr = tile.view %sv[%m0] : !Sv -> !Sv64
    %rows = tile.load %svr : !Sv64 -> !Rf
    %cols = tile.load %sac : !Sa16 -> !Cf
    // CHECK: tile.bcast %{{.*}} : tensor<64xf32, #row> -> tensor<64x16xf32, #acc>
    // CHECK: tile.bcast %{{.*}} : tensor<16xf32, #col> -> tensor<64x16xf32, #acc>
    %rb = tile.bcast %rows : !Rf -> !Nf
    %cb = tile.bcast %cols : !Cf -> !Nf
    %h0 = arith.mulf %f, %rb : !Nf
    %h1 = arith.mulf %h0, %cb : !Nf
    %h = arith.truncf %h1 : !Nf to !Nh
    %nm = arith.addi %n, %m0 : i32
    // CHECK: tile.write %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] trans rows(%{{.*}}) via %{{.*}} : !tile.buf<16x16x16xbf16, swizzle<1, 4, 3>> : tensor<64x16xbf16, #acc>, !tile.gmem<?x?xbf16>
    tile.write %h, %out[%row0, %nm] trans rows(%cnt) via %stg : !Stg : !Nh, !Out
    tile.release %q : !Z
  } else {
    tile.store %d, %pb : !N, !Ps
    // CHECK: tile.release full %{{.*}} : !tile.slot<#sums>
    tile.release full %y : !Xs
  }
  return %e : !S
}

// CHECK-LABEL: tile.kernel @w4a8(
tile.kernel @w4a8(%ta: !Ta, %ts: !Ts, %wq: !Wq, %off: !tile.gmem<?xi32>, %sw: !Sw, %out: !Out, %E: i32, %N: i32, %nst: i32) {
  %r = ring #r
  %z = ring #z
  %x = ring #x
  %stg = alloc : !Stg
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c6 = arith.constant 6 : i32
  %cm4 = arith.constant -4 : i32
  // CHECK: groups %{{.*}} experts(%{{.*}}) rows 16 cols(%{{.*}}, 128) max 512 -> (e, cnt, row0, n) : !tile.gmem<?xi32>
  %w = groups %off experts(%E) rows 16 cols(%N, 128) max 512 -> (e, cnt, row0, n) : !tile.gmem<?xi32>
  role @load producer {
    %s0 = next %r : !tile.ring<#r>
    %z0 = next %z : !tile.ring<#z>
    %end:2 = foreach (%e, %cnt, %row0, %n) in %w iter(%s = %s0, %q = %z0) : !S, !Z {
      %ra = arith.andi %row0, %cm4 : i32
      %nb = arith.shrui %n, %c6 : i32
      %sa, %sv = wait free %q : !Z
      %s2 = loop %k = 0 to %nst iter(%t = %s) : !S {
        %k4 = arith.shli %k, %c2 : i32
        %first = arith.cmpi eq, %k, %c0 : i32
        fill %t as (%act, %wt) : !S {
          copy %wq[%e, %nb, %k4, 0] -> %wt : !Wq -> !Wt
          copy %ta[%k4, %row0, 0] -> %act : !Ta -> !Act
          scf.if %first {
            // CHECK: tile.copy %{{.*}}[%{{.*}}] -> %{{.*}} on %{{.*}} : !tile.slot<#stage> : !tile.tma<?xf32, box 20> -> !tile.buf<20xf32>
            tile.copy %ts[%ra] -> %sa on %t : !S : !Ts -> !Sa
            tile.copy %sw[%e, %n] -> %sv on %t : !S : !Sw -> !Sv
          }
        }
        %u = next %t : !S
        yield %u : !S
      }
      %q2 = next %q : !Z
      yield %s2, %q2 : !S, !Z
    }
  }
  role @mma warpgroups(4) as %g {
    %kw = arith.shrui %g, %c1 : i32
    %mw = arith.andi %g, %c1 : i32
    %s0 = next %r : !tile.ring<#r>
    %z0 = next %z : !tile.ring<#z>
    // CHECK: next %{{.*}}[%{{.*}}] : !tile.ring<#sums>
    %x0 = next %x[%mw] : !tile.ring<#x>
    // CHECK: foreach (%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) at %{{.*}} in
    %end:3 = foreach (%e, %cnt, %row0, %n) at %c in %w iter(%s = %s0, %q = %z0, %y = %x0) : !S, !Z, !Xs {
      %s2 = func.call @item16(%s, %q, %y, %kw, %mw, %c, %nst, %cnt, %row0, %n, %out, %stg) : (!S, !Z, !Xs, i32, i32, i32, i32, i32, i32, i32, !Out, !Stg) -> !S
      %q2 = next %q : !Z
      %y2 = next %y : !Xs
      yield %s2, %q2, %y2 : !S, !Z, !Xs
    }
  }
}
