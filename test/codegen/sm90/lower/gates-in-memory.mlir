// Gates as mbarriers and as named barriers: the threads of both roles arrive; who meets waits, with a parity that turns each time.
// RUN: dsv3-opt %s --dsv3-tile-allocate | FileCheck %s --check-prefix=PLAN
// RUN: dsv3-opt %s --dsv3-tile-allocate --dsv3-tile-to-nvvm --dsv3-print-device-code=ptx -o /dev/null | FileCheck %s
// RUN: sed 's/{tile.memory}//' %s | dsv3-opt --dsv3-tile-allocate --dsv3-tile-to-nvvm --dsv3-print-device-code=ptx -o /dev/null | FileCheck %s --check-prefix=NAMED

// PLAN: tile.smem = 272
// PLAN: gate from @a to @b {tile.memory, tile.offset = 256 : i64}
// PLAN: gate between @a, @b {tile.memory, tile.offset = 264 : i64}

// CHECK-NOT: bar.sync 1
// CHECK-NOT: barrier.cta.arrive
// CHECK: mbarrier.init.shared.b64 {{.*}}, 256;
// CHECK: mbarrier.init.shared.b64 {{.*}}, 256;
// CHECK-NOT: ld.local
// CHECK: mbarrier.arrive.shared.b64
// CHECK: mbarrier.try_wait.parity

// NAMED-NOT: mbarrier.arrive
// NAMED: bar{{(rier)?}}.{{.*}} 256;
#row = #tile.frag<row>
gpu.module @sm_90a {
  tile.kernel @handover(%n: i32, %out: !tile.gmem<?xf32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %buf = alloc : !tile.buf<64xf32>
    %gate = gate from @a to @b {tile.memory}
    %end = gate between @a, @b {tile.memory}
    role @a warpgroups(1) {
      %x = arith.constant dense<1.0> : tensor<64xf32, #row>
      scf.for %i = %c0 to %n step %c1 : i32 {
        tile.store %x, %buf : tensor<64xf32, #row>, !tile.buf<64xf32>
        tile.signal %gate
        tile.meet %end
      }
    }
    role @b warpgroups(1) {
      scf.for %i = %c0 to %n step %c1 : i32 {
        tile.meet %gate
        %y = tile.load %buf : !tile.buf<64xf32> -> tensor<64xf32, #row>
        tile.write %y, %out[0] : tensor<64xf32, #row>, !tile.gmem<?xf32>
        tile.meet %end
      }
    }
  }
}
