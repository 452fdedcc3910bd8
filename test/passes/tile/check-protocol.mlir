// One kernel per rule, each with one mistake, and the report about it.
// RUN: dsv3-opt %s --dsv3-tile-check-protocol="seeds=4 dims=64,256,64,64" -split-input-file -verify-diagnostics
// The kernels of the dialect's tests break no rule.
// RUN: dsv3-opt %S/../../dialects/tile/gemm.mlir --dsv3-tile-check-protocol="seeds=4 scalars=128 dims=128,320,512,320,128,512 args=512,320"
// RUN: dsv3-opt %S/../../dialects/tile/mla-decode.mlir --dsv3-tile-check-protocol="seeds=4 dims=1,16,512,1,5,1,2,1,16,1,16,1,16 args=16,1,0.1 ints=3,1,4,0,2,0,0,5,0,0,1"
// RUN: not dsv3-opt %S/../../dialects/tile/gemm.mlir --dsv3-tile-check-protocol="dims=128" 2>&1 | FileCheck %s --check-prefix=SHORT
// SHORT: expected more numbers in the option '{{args|dims}}' for the arguments of kernel 'gemm'

!A = !tile.buf<64x64xbf16, sw128>
#r = #tile.ring<"r", stages = 2, bufs = [!A], free = [all by @use]>
!S = !tile.slot<#r>
!T = !tile.tma<?x?xbf16, box 64x64, sw128>
!F = tensor<64x64xbf16, #tile.frag<acc>>

// C1: the third k-block needs a stage that nobody gave back.
tile.kernel @never_released(%t: !T, %out: !tile.gmem<?x?xbf16>) {
  %r = ring #r
  role @load producer {
    %s0 = next %r : !tile.ring<#r>
    %e = loop %k = 0 to 256 step 64 iter(%s = %s0) : !S {
      // expected-error @below {{C1: deadlock: load waits for ring 'r' stage 0 turn 1 to be free (0 of 4 arrivals); use waits for ring 'r' stage 0 turn 1 to land}}
      // expected-note @below {{last events}}
      fill %s as (%a) : !S {
        copy %t[0, %k] -> %a : !T -> !A
      }
      %n = next %s : !S
      yield %n : !S
    }
  }
  role @use warpgroups(1) as %g {
    %s0 = next %r : !tile.ring<#r>
    %e = loop %k = 0 to 256 step 64 iter(%s = %s0) : !S {
      // expected-note @below {{and here}}
      %a = wait full %s : !S
      %f = load %a : !A -> !F
      write %f, %out[0, 0] : !F, !tile.gmem<?x?xbf16>
      %n = next %s : !S
      yield %n : !S
    }
  }
}

// -----

!A = !tile.buf<64x64xbf16, sw128>
#r = #tile.ring<"r", stages = 2, bufs = [!A], free = [all by @use]>
!S = !tile.slot<#r>
!T = !tile.tma<?x?xbf16, box 64x64, sw128>
!F = tensor<64x64xbf16, #tile.frag<acc>>

// C4: given back before it is read.
tile.kernel @released_early(%t: !T, %out: !tile.gmem<?x?xbf16>) {
  %r = ring #r
  role @load producer {
    %s0 = next %r : !tile.ring<#r>
    %e = loop %k = 0 to 256 step 64 iter(%s = %s0) : !S {
      fill %s as (%a) : !S {
        // expected-error @below {{C4: load overwrites, while it may still be read, byte}}
        // expected-note @below {{last events}}
        // expected-note @below {{written here}}
        copy %t[0, %k] -> %a : !T -> !A
      }
      %n = next %s : !S
      yield %n : !S
    }
  }
  role @use warpgroups(1) as %g {
    %s0 = next %r : !tile.ring<#r>
    %e = loop %k = 0 to 256 step 64 iter(%s = %s0) : !S {
      %a = wait full %s : !S
      release %s : !S
      // The other order of the same two in another schedule.
      // expected-error @below {{C4: use reads, before it is known to be there, byte}}
      // expected-note @below {{last events}}
      // expected-note @below {{read here}}
      %f = load %a : !A -> !F
      write %f, %out[0, 0] : !F, !tile.gmem<?x?xbf16>
      %n = next %s : !S
      yield %n : !S
    }
  }
}

// -----

!A = !tile.buf<64x64xbf16, sw128>
#r = #tile.ring<"r", stages = 1, bufs = [!A], free = [all by @use]>
!S = !tile.slot<#r>
!T = !tile.tma<?x?xbf16, box 64x64, sw128>

// C2: a turn too far, and the parity of the turn before the first lets it pass.
tile.kernel @aliases(%t: !T, %out: !tile.gmem<?x?xbf16>) {
  // C5: nobody gives back turn 0.
  // expected-error @below {{C5: ring 'r' stage 0 turn 0 was filled 1 times, but released 0 times}}
  // expected-note @below {{last events}}
  %r = ring #r
  role @load producer {
    %s0 = next %r : !tile.ring<#r>
    fill %s0 as (%a) : !S {
      copy %t[0, 0] -> %a : !T -> !A
    }
  }
  role @use warpgroups(1) as %g {
    %s0 = next %r : !tile.ring<#r>
    %s1 = next %s0 : !S
    // expected-error @below {{C2: use waits at the full barrier of ring 'r' stage 0 turn 1 for phase 2, and phase 0 of the same parity lets it pass}}
    // expected-note @below {{last events}}
    %a = wait full %s1 : !S
  }
}

// -----

!A = !tile.buf<64x64xbf16, sw128>
#r = #tile.ring<"r", stages = 2, bufs = [!A], free = [all by @use]>
!S = !tile.slot<#r>
!T = !tile.tma<?x?xbf16, box 64x64, sw128>

// C5: twice.
tile.kernel @twice(%t: !T, %out: !tile.gmem<?x?xbf16>) {
  %r = ring #r
  role @load producer {
    %s0 = next %r : !tile.ring<#r>
    fill %s0 as (%a) : !S {
      copy %t[0, 0] -> %a : !T -> !A
    }
  }
  role @use warpgroups(1) as %g {
    %s0 = next %r : !tile.ring<#r>
    %a = wait full %s0 : !S
    release %s0 : !S
    // expected-error @below {{C5: use releases ring 'r' stage 0 turn 0 twice}}
    // expected-note @below {{last events}}
    release %s0 : !S
  }
}

// -----

!A = !tile.buf<64x64xbf16, sw128>
#r = #tile.ring<"r", stages = 2, bufs = [!A], free = [all by @use], arrive = warpgroup>
!S = !tile.slot<#r>
!T = !tile.tma<?x?xbf16, box 64x64, sw128>
!D = !tile.acc<64x64xf32>

// C5: under the tensor core.
tile.kernel @in_flight(%t: !T, %out: !tile.gmem<?x?xbf16>) {
  %r = ring #r
  role @load producer {
    %s0 = next %r : !tile.ring<#r>
    fill %s0 as (%a) : !S {
      copy %t[0, 0] -> %a : !T -> !A
    }
  }
  role @use warpgroups(1) as %g {
    %s0 = next %r : !tile.ring<#r>
    %none = none : !D
    %a = wait full %s0 : !S
    // expected-note @below {{this mma}}
    %d, %k = mma nt %a, %a into %none : !A, !A, !D
    // expected-error @below {{C5: use releases ring 'r' stage 0 turn 0 while an mma in flight reads it}}
    // expected-note @below {{last events}}
    release %s0 : !S
    %f = await %d : !D
  }
}

// -----

!A = !tile.buf<64x64xbf16, sw128>
#r = #tile.ring<"r", stages = 2, bufs = [!A], free = [all by @use count 8]>
!S = !tile.slot<#r>
!T = !tile.tma<?x?xbf16, box 64x64, sw128>

// C3: 4 warps where 8 are expected.
tile.kernel @counts(%t: !T, %out: !tile.gmem<?x?xbf16>) {
  %r = ring #r
  role @load producer {
    %s0 = next %r : !tile.ring<#r>
    fill %s0 as (%a) : !S {
      copy %t[0, 0] -> %a : !T -> !A
    }
  }
  role @use warpgroups(1) as %g {
    %s0 = next %r : !tile.ring<#r>
    %a = wait full %s0 : !S
    // expected-error @below {{C3: the kernel ends with 4 of 8 arrivals at a free barrier of ring 'r' stage 0 turn 0}}
    // expected-note @below {{last events}}
    release %s0 : !S
  }
}

// -----

!A = !tile.buf<64x64xbf16, sw128>
#r = #tile.ring<"r", stages = 2, bufs = [!A], free = [all by @use]>
!S = !tile.slot<#r>
!T = !tile.tma<?x?xbf16, box 64x64, sw128>

// C6: nobody waited.
tile.kernel @peeks(%t: !T, %out: !tile.gmem<?x?xbf16>) {
  %r = ring #r
  role @load producer {
    %s0 = next %r : !tile.ring<#r>
    fill %s0 as (%a) : !S {
      // expected-note @below {{written here}}
      copy %t[0, 0] -> %a : !T -> !A
    }
  }
  role @use warpgroups(1) as %g {
    %s0 = next %r : !tile.ring<#r>
    %a = peek %s0 : !S
    // expected-error @below {{C6: use reads byte 0 of shared memory of a peeked buffer, which no wait, gate or own fill orders}}
    // expected-note @below {{last events}}
    %f = load %a : !A -> tensor<64x64xbf16, #tile.frag<acc>>
    write %f, %out[0, 0] : tensor<64x64xbf16, #tile.frag<acc>>, !tile.gmem<?x?xbf16>
    %b = wait full %s0 : !S
    release %s0 : !S
  }
}

// -----

!A = !tile.buf<64x64xbf16, sw128>
!T = !tile.tma<?x?xbf16, box 64x64, sw128>
!F = tensor<64x64xbf16, #tile.frag<acc>>

// C7: the leader stores what other warps may still write.
tile.kernel @no_sync(%t: !T, %in: !tile.gmem<?x?xbf16>) {
  %a = alloc : !A
  role @use warpgroups(1) as %g {
    %f = read %in[0, 0] : !tile.gmem<?x?xbf16> -> !F
    // expected-note @below {{written here}}
    store %f, %a : !F, !A
    // expected-error @below {{C7: use reads byte 2048 of shared memory by an engine, but not all warps are known to have stored: expected a 'sync' between}}
    // expected-note @below {{last events}}
    %p = put %a -> %t[0, 0] : !A -> !T
    await %p : !tile.token
  }
}

// -----

// C8: one signal too few.
tile.kernel @gates(%a: !tile.gmem<?x?xbf16>, %b: !tile.gmem<?x?xbf16>) {
  %g = gate from @first to @second
  role @first warpgroups(1) as %i {
    signal %g
  }
  role @second warpgroups(1) as %i {
    meet %g
    // expected-error @below {{C8: deadlock: first has ended; second waits for a gate (1 of 2 warpgroups are there)}}
    // expected-note @below {{last events}}
    meet %g
  }
}
