// Four warpgroups add partial sums; whose turn it is to add rotates, stages of the exchange do so faster. The owner waits
// for the free barrier too, although it stores nothing: its full barrier is waited for by another warpgroup each time, so
// that one that runs ahead meets the parity of the phase before (a hang on a device taught this).
// RUN: dsv3-opt %s --dsv3-tile-check-protocol="seeds=24 dims=64,8 args=2048"
// RUN: sed -e '/FREE-OF-OWNER/d' %s > %t.mlir
// RUN: not dsv3-opt %t.mlir --dsv3-tile-check-protocol="seeds=24 dims=64,8 args=2048" 2>&1 | FileCheck %s
// CHECK: error: C2: add[{{[0-3]}}] waits at the full barrier of ring 'sums' stage {{[01]}} turn {{[0-9]+}} for phase {{[0-9]+}}, and phase {{[0-9]+}} of the same parity lets it pass

!P = !tile.buf<3x64x8xf32, frag<acc>>
!P1 = !tile.buf<64x8xf32, frag<acc>>
#x = #tile.ring<"sums", stages = 2, bufs = [!P], fill = arrive(12), free = [all by @add count 4]>
!X = !tile.slot<#x>
!F = tensor<64x8xf32, #tile.frag<acc>>
!Out = !tile.gmem<?x?xf32>

tile.kernel @turning_owner(%out: !Out, %n: i32) {
  %x = ring #x
  %w = raster [%n] tile [128] -> (at)
  %c3 = arith.constant 3 : i32
  %c4 = arith.constant 4 : i32
  role @add warpgroups(4) as %g {
    %x0 = next %x : !tile.ring<#x>
    %one = arith.constant dense<1.0> : !F
    %e = foreach (%at) at %c in %w iter(%y = %x0) : !X {
      %own = arith.andi %c, %c3 : i32
      %mine = arith.cmpi eq, %own, %g : i32
      scf.if %mine {
        %b = tile.wait free %y : !X // FREE-OF-OWNER
        %p = tile.wait full %y : !X
        %p0 = tile.view %p[0] : !P -> !P1
        %p1 = tile.view %p[1] : !P -> !P1
        %p2 = tile.view %p[2] : !P -> !P1
        %f0 = tile.load %p0 : !P1 -> !F
        %f1 = tile.load %p1 : !P1 -> !F
        %f2 = tile.load %p2 : !P1 -> !F
        %s0 = arith.addf %one, %f0 : !F
        %s1 = arith.addf %s0, %f1 : !F
        %s2 = arith.addf %s1, %f2 : !F
        tile.release %y : !X
        tile.write %s2, %out[0, 0] : !F, !Out
      } else {
        %b = tile.wait free %y : !X
        // Places of the three others, from the owner on.
        %d0 = arith.subi %g, %own : i32
        %d1 = arith.addi %d0, %c3 : i32
        %place = arith.andi %d1, %c3 : i32
        %p = tile.view %b[%place] : !P -> !P1
        tile.store %one, %p : !F, !P1
        tile.release full %y : !X
      }
      %u = next %y : !X
      yield %u : !X
    }
  }
}
