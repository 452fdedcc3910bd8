// RUN: dsv3-opt %s -split-input-file -verify-diagnostics

rt.module @m target "x86-64" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  // expected-error @+1 {{expected a size of 0 or more, got}}
  rt.pool arena size -1
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool arena size 64
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    // expected-error @+1 {{expected offset and size of 0 or more}}
    %a = rt.view arena at 0 size -4
  }
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    // expected-error @+1 {{expected an offset that is a multiple of 4, got 2}}
    %a = rt.view arena at 2 size 4
  }
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    // expected-error @+1 {{expected an rt.kernel named @nobody}}
    rt.launch_range @nobody tiles(one div 1 mul 1) () writes [] consts [] site "s"
  }
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    // expected-error @+1 {{expected 1 buffers for @k, got 0}}
    rt.launch_range @k tiles(one div 1 mul 1) () writes [] consts [] site "s"
  }
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    %a = rt.view arena at 0 size 4
    // expected-error @+1 {{expected 0 constants for @k, got 1}}
    rt.launch_range @k tiles(one div 1 mul 1) (%a) writes [0] consts [3] site "s"
  }
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    %a = rt.view arena at 0 size 4
    // expected-error @+1 {{expected written buffers below 1, got 1}}
    rt.launch_range @k tiles(one div 1 mul 1) (%a) writes [1] consts [] site "s"
  }
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    %a = rt.view arena at 0 size 4
    // expected-error @+1 {{expected a positive divisor and a factor of 0 or more}}
    rt.launch_range @k tiles(tokens div 0 mul 1) (%a) writes [0] consts [] site "s"
  }
}

// -----

// expected-error @+1 {{op expects parent op 'rt.module'}}
"rt.pool"() {pool = 2 : i32, bytes = 0} : () -> ()

// -----

rt.module @m target "sm_90a" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    %a = rt.view arena at 0 size 1024
    // expected-error @+1 {{expected a grid of 3 numbers, got 2}}
    rt.launch_grid @k grid [2, 1] block 128 smem 0 cluster 1 (%a) params [#rt.ptr<0>] writes [0] site "s"
  }
}

// -----

rt.module @m target "sm_90a" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    %a = rt.view arena at 0 size 1024
    // expected-error @+1 {{expected a grid of 1 to 2147483647 by 1 to 65535 by 1 to 65535 blocks, got 2, 0, 1}}
    rt.launch_grid @k grid [2, 0, 1] block 128 smem 0 cluster 1 (%a) params [#rt.ptr<0>] writes [0] site "s"
  }
}

// -----

rt.module @m target "sm_90a" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    %a = rt.view arena at 0 size 1024
    // expected-error @+1 {{expected 1 to 1024 threads, got 1056}}
    rt.launch_grid @k grid [2, 1, 1] block 1056 smem 0 cluster 1 (%a) params [#rt.ptr<0>] writes [0] site "s"
  }
}

// -----

rt.module @m target "sm_90a" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    %a = rt.view arena at 0 size 1024
    // expected-error @+1 {{expected shared memory of 0 bytes or more, got}}
    rt.launch_grid @k grid [2, 1, 1] block 128 smem -1 cluster 1 (%a) params [#rt.ptr<0>] writes [0] site "s"
  }
}

// -----

rt.module @m target "sm_90a" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    %a = rt.view arena at 0 size 1024
    // expected-error @+1 {{expected a cluster of 1 to 8 blocks that divides 2, got 4}}
    rt.launch_grid @k grid [2, 1, 1] block 128 smem 0 cluster 4 (%a) params [#rt.ptr<0>] writes [0] site "s"
  }
}

// -----

rt.module @m target "sm_90a" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    %a = rt.view arena at 0 size 1024
    // expected-error @+1 {{expected parameter 1 to be a ptr, a tensor_map or a number, got "x"}}
    rt.launch_grid @k grid [2, 1, 1] block 128 smem 0 cluster 1 (%a) params [#rt.ptr<0>, "x"] writes [0] site "s"
  }
}

// -----

rt.module @m target "sm_90a" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    %a = rt.view arena at 0 size 1024
    // expected-error @+1 {{expected parameter 0 to name a buffer below 1, got 1}}
    rt.launch_grid @k grid [2, 1, 1] block 128 smem 0 cluster 1 (%a) params [#rt.ptr<1>] writes [0] site "s"
  }
}

// -----

rt.module @m target "sm_90a" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    %a = rt.view arena at 0 size 1024
    // expected-error @+1 {{expected written buffers below 1, got 1}}
    rt.launch_grid @k grid [2, 1, 1] block 128 smem 0 cluster 1 (%a) params [#rt.ptr<0>] writes [1] site "s"
  }
}

// -----

rt.module @m target "sm_90a" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    %a = rt.view arena at 0 size 1024
    // expected-error @+1 {{expected an rt.kernel named @nobody}}
    rt.launch_grid @nobody grid [2, 1, 1] block 128 smem 0 cluster 1 (%a) params [#rt.ptr<0>] writes [0] site "s"
  }
}

// -----

rt.module @m target "sm_90a" abi 4 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    %a = rt.view arena at 0 size 1024
    // expected-error @+1 {{expected 1 buffers for @k, got 2}}
    rt.launch_grid @k grid [2, 1, 1] block 128 smem 0 cluster 1 (%a, %a) params [#rt.ptr<0>] writes [0] site "s"
  }
}

// -----

// expected-error @+1 {{expected a reference and an offset of 0 or more, got -1 and 0}}
#a = #rt.ptr<-1>

// -----

// expected-error @+1 {{expected a reference of 0 or more and an offset that is a multiple of 16, got 0 and 8}}
#a = #rt.tensor_map<0 + 8, bf16, dims = [64, 8] strides = [128] box = [64, 8]>

// -----

// expected-error @+1 {{expected 1 to 5 dims, one stride fewer and as many box sizes, got 2, 2 and 2}}
#a = #rt.tensor_map<0, bf16, dims = [64, 8] strides = [128, 128] box = [64, 8]>

// -----

// expected-error @+1 {{expected dim 0 of 1 to 4294967296 elements (0 outermost: all there are), got 0}}
#a = #rt.tensor_map<0, bf16, dims = [0, 8] strides = [128] box = [64, 8]>

// -----

// expected-error @+1 {{expected stride 0 to be a multiple of 16 bytes below 1099511627776, got 120}}
#a = #rt.tensor_map<0, bf16, dims = [60, 8] strides = [120] box = [64, 8]>

// -----

// expected-error @+1 {{expected a box of 1 to 256 elements in each dim, got 257}}
#a = #rt.tensor_map<0, bf16, dims = [64, 512] strides = [128] box = [64, 257]>

// -----

// expected-error @+1 {{expected rows of a box of a multiple of 16 bytes, got 24}}
#a = #rt.tensor_map<0, bf16, dims = [64, 8] strides = [128] box = [12, 8]>

// -----

// expected-error @+1 {{expected a swizzle of 0, 32, 64 or 128 bytes, got 48}}
#a = #rt.tensor_map<0, bf16, dims = [64, 8] strides = [128] box = [16, 8] swizzle = 48>

// -----

// expected-error @+1 {{expected rows of a box of at most 64 bytes (the swizzle), got 128}}
#a = #rt.tensor_map<0, bf16, dims = [64, 8] strides = [128] box = [64, 8] swizzle = 64>
