// RUN: dsv3-opt %s -split-input-file -verify-diagnostics

rt.module @m target "x86-64" abi 1 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  // expected-error @+1 {{expected a size of 0 or more, got}}
  rt.pool arena size -1
}

// -----

rt.module @m target "x86-64" abi 1 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool arena size 64
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    // expected-error @+1 {{expected offset and size of 0 or more}}
    %a = rt.view arena at 0 size -4
  }
}

// -----

rt.module @m target "x86-64" abi 1 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    // expected-error @+1 {{expected an offset that is a multiple of 4, got 2}}
    %a = rt.view arena at 2 size 4
  }
}

// -----

rt.module @m target "x86-64" abi 1 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    // expected-error @+1 {{expected an rt.kernel named @nobody}}
    rt.launch_range @nobody tiles(one div 1 mul 1) () writes [] consts [] site "s"
  }
}

// -----

rt.module @m target "x86-64" abi 1 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    // expected-error @+1 {{expected 1 buffers for @k, got 0}}
    rt.launch_range @k tiles(one div 1 mul 1) () writes [] consts [] site "s"
  }
}

// -----

rt.module @m target "x86-64" abi 1 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    %a = rt.view arena at 0 size 4
    // expected-error @+1 {{expected 0 constants for @k, got 1}}
    rt.launch_range @k tiles(one div 1 mul 1) (%a) writes [0] consts [3] site "s"
  }
}

// -----

rt.module @m target "x86-64" abi 1 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.kernel @k key "k" refs 1 consts 0 scratch 0
  rt.program @p phase 0 tokens 1 seqs 1 qblocks 0 kblocks 0 {
    %a = rt.view arena at 0 size 4
    // expected-error @+1 {{expected written buffers below 1, got 1}}
    rt.launch_range @k tiles(one div 1 mul 1) (%a) writes [1] consts [] site "s"
  }
}

// -----

rt.module @m target "x86-64" abi 1 step(tokens 1, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
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
