// The frame of a kernel: parameters, attributes, barriers, roles. The GEMM of the dialect's tests.
// RUN: dsv3-opt %source/test/dialects/tile/gemm.mlir --dsv3-tile-peel --dsv3-tile-allocate --dsv3-tile-to-nvvm | FileCheck %s

// Pitfall 5: the symbol has the alignment; nothing is rounded up at run time.
// CHECK: llvm.mlir.global external @dsv3_smem() {addr_space = 3 : i32, alignment = 1024 : i64}
// CHECK-LABEL: llvm.func @gemm(%{{[^:]*}}: !llvm.ptr<1>, %{{[^:]*}}: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant}
// Pitfall 6: setmaxnreg is ignored without the number of threads and a minimum of blocks.
// CHECK-SAME: dsv3.smem = 229440 : i64, dsv3.stages = 4 : i64, nvvm.kernel, nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 384, 1, 1>
// Counts are on their way while barriers are made.
// CHECK: ld.global.nc.b32
// One arrival of the producer, one of each consumer warpgroup.
// CHECK: scf.if
// CHECK-COUNT-4: mbarrier.init.shared.b64 [$0], 1;
// CHECK-COUNT-4: mbarrier.init.shared.b64 [$0], 2;
// CHECK: fence.mbarrier_init
// CHECK-COUNT-3: prefetch.tensormap
// CHECK: llvm.nvvm.barrier.cta.sync.aligned.all
// The work is computed by all threads and made uniform: a bound that differs in a warp is a divergent path (pitfall 11).
// CHECK: llvm.nvvm.shfl.sync.idx.i32

// The producer: one thread, no shuffle (pitfall 14).
// CHECK: setmaxnreg.dec.sync.aligned.u32 40;
// CHECK: llvm.nvvm.elect.sync
// CHECK: scf.for
// CHECK-NOT: shfl
// CHECK: scf.for
// CHECK-NOT: shfl
// CHECK: mbarrier.try_wait.parity
// CHECK: mbarrier.arrive.expect_tx
// CHECK-COUNT-2: cp.async.bulk.tensor.2d.shared::cta.global
// CHECK: } else {

// The consumers. The first trip is a copy of its own: its products start from nothing (pitfall 21), tied to no zeros.
// CHECK: setmaxnreg.inc.sync.aligned.u32 232;
// CHECK: scf.for
// CHECK: mbarrier.try_wait.parity
// Pitfall 9: starts of descriptors are opaque.
// CHECK: mov.b64
// CHECK: mov.b64
// Pitfall 10: the fence stands behind the wait.
// CHECK: wgmma.fence.sync.aligned
// CHECK: setp.ne.b32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16{{.*}}"=&f,=&f
// CHECK-COUNT-3: setp.ne.b32 p, 1, 0; wgmma.mma_async
// CHECK: wgmma.commit_group
// CHECK: scf.for
// CHECK: mbarrier.try_wait.parity
// CHECK: wgmma.fence.sync.aligned
// CHECK-COUNT-4: setp.ne.b32 p, 1, 0; wgmma.mma_async
// CHECK: wgmma.commit_group
// The k-block before is over, this one flies on.
// CHECK: wgmma.wait_group.sync.aligned 1;
// Pitfall 11: one lane's arrival is predicated, not branched over.
// CHECK-NOT: scf.if
// CHECK: @$1 mbarrier.arrive.shared.b64
// CHECK: scf.yield
// Pitfall 3: what comes out of the wait are the accumulators themselves.
// CHECK: wgmma.wait_group.sync.aligned 0;", "=f,=f
// CHECK: @$0 cp.async.bulk.wait_group.read 0;
// CHECK: llvm.nvvm.barrier.cta.sync.aligned.count
// CHECK-COUNT-8: stmatrix.sync.aligned.m8n8.x4
// CHECK: fence.proxy.async.shared::cta
// CHECK: llvm.nvvm.barrier.cta.sync.aligned.count
// CHECK-COUNT-2: @$2 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group
// CHECK: @$0 cp.async.bulk.commit_group;
