// What a host program must not do.
// RUN: dsv3-opt %s --dsv3-verify-rt -split-input-file -verify-diagnostics

// A program that holds.
rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  rt.field "q_start" kind 5 at 320 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
  rt.program @p phase 0 tokens 16 seqs 1 qblocks 0 kblocks 0 {
    %w = rt.view weights at 256 size 64
    %a = rt.view arena at 0 size 128
    %b = rt.view arena at 128 size 64
    %o = rt.view persist at 0 size 64
    rt.launch_range @k tiles(tokens div 4 mul 1) (%w, %a) writes [1] consts [] site "one"
    rt.launch_range @k tiles(tokens div 4 mul 1) (%a, %b) writes [1] consts [] site "two"
    rt.launch_range @k tiles(tokens div 4 mul 1) (%b, %o) writes [1] consts [] site "three"
    rt.output "logits", %o cols 4 : f32
  }
}

// -----

// %b is read, only %a was written.
rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  rt.field "q_start" kind 5 at 320 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
  rt.program @p phase 0 tokens 16 seqs 1 qblocks 0 kblocks 0 {
    %w = rt.view weights at 256 size 64
    %a = rt.view arena at 0 size 128
    %b = rt.view arena at 128 size 64
    %o = rt.view persist at 0 size 64
    rt.launch_range @k tiles(tokens div 4 mul 1) (%w, %a) writes [1] consts [] site "one"
    // expected-error @+1 {{reference 0 reads arena bytes [128, 192), which were not all written before}}
    rt.launch_range @k tiles(tokens div 4 mul 1) (%b, %o) writes [1] consts [] site "two"
  }
}

// -----

// Half of what is read was written.
rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  rt.field "q_start" kind 5 at 320 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
  rt.program @p phase 0 tokens 16 seqs 1 qblocks 0 kblocks 0 {
    %w = rt.view weights at 256 size 64
    %a = rt.view arena at 0 size 64
    %b = rt.view arena at 0 size 128
    %o = rt.view persist at 0 size 64
    rt.launch_range @k tiles(tokens div 4 mul 1) (%w, %a) writes [1] consts [] site "one"
    // expected-error @+1 {{reference 0 reads arena bytes [0, 128), which were not all written before}}
    rt.launch_range @k tiles(tokens div 4 mul 1) (%b, %o) writes [1] consts [] site "two"
  }
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  rt.field "q_start" kind 5 at 320 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
  rt.program @p phase 0 tokens 16 seqs 1 qblocks 0 kblocks 0 {
    // expected-error @+1 {{expected bytes [192, 320) inside pool arena of 256 bytes}}
    %a = rt.view arena at 192 size 128
  }
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  rt.field "q_start" kind 5 at 320 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
  rt.program @p phase 0 tokens 16 seqs 1 qblocks 0 kblocks 0 {
    // expected-error @+1 {{expected an offset that is a multiple of 64, got 32}}
    %a = rt.view arena at 32 size 128
  }
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  rt.field "q_start" kind 5 at 320 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
  rt.program @p phase 0 tokens 16 seqs 1 qblocks 0 kblocks 0 {
    // expected-error @+1 {{expected an offset that is a multiple of 256, got 64}}
    %a = rt.view weights at 64 size 128
  }
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  rt.field "q_start" kind 5 at 320 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
  rt.program @p phase 0 tokens 16 seqs 1 qblocks 0 kblocks 0 {
    %w = rt.view weights at 256 size 64
    %a = rt.view arena at 0 size 128
    %b = rt.view arena at 128 size 64
    %o = rt.view persist at 0 size 64
    // expected-error @+1 {{reference 1 would write to pool weights}}
    rt.launch_range @k tiles(tokens div 4 mul 1) (%w, %w) writes [1] consts [] site "one"
  }
}

// -----

// The program has no query tiles.
rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  rt.field "q_start" kind 5 at 320 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
  rt.program @p phase 0 tokens 16 seqs 1 qblocks 0 kblocks 0 {
    %w = rt.view weights at 256 size 64
    %a = rt.view arena at 0 size 128
    %b = rt.view arena at 128 size 64
    %o = rt.view persist at 0 size 64
    // expected-error @+1 {{counts its tiles by qblocks, of which the program has none}}
    rt.launch_range @k tiles(qblocks div 1 mul 1) (%w, %a) writes [1] consts [] site "one"
  }
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  rt.field "q_start" kind 5 at 320 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
  rt.program @p phase 0 tokens 16 seqs 1 qblocks 0 kblocks 0 {
    %w = rt.view weights at 256 size 64
    %a = rt.view arena at 0 size 128
    %b = rt.view arena at 128 size 64
    %o = rt.view persist at 0 size 64
    // expected-error @+1 {{expected a positive divisor and factor, got 1 and 0}}
    rt.launch_range @k tiles(one div 1 mul 0) (%w, %a) writes [1] consts [] site "one"
  }
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  rt.field "q_start" kind 5 at 320 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
  rt.program @p phase 0 tokens 16 seqs 1 qblocks 0 kblocks 0 {
    %w = rt.view weights at 256 size 64
    %a = rt.view arena at 0 size 128
    %b = rt.view arena at 128 size 64
    %o = rt.view persist at 0 size 64
    // expected-error @+1 {{'logits' is not written by the program}}
    rt.output "logits", %o cols 4 : f32
  }
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  rt.field "q_start" kind 5 at 320 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
  rt.program @p phase 0 tokens 16 seqs 1 qblocks 0 kblocks 0 {
    %w = rt.view weights at 256 size 64
    %a = rt.view arena at 0 size 128
    %b = rt.view arena at 128 size 64
    %o = rt.view persist at 0 size 64
    rt.launch_range @k tiles(tokens div 4 mul 1) (%w, %a) writes [1] consts [] site "one"
    // expected-error @+1 {{expected 'logits' in pool persist, got arena}}
    rt.output "logits", %a cols 4 : f32
  }
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  rt.field "q_start" kind 5 at 320 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
  rt.program @p phase 0 tokens 16 seqs 1 qblocks 0 kblocks 0 {
    %w = rt.view weights at 256 size 64
    %a = rt.view arena at 0 size 128
    %b = rt.view arena at 128 size 64
    %o = rt.view persist at 0 size 64
    rt.launch_range @k tiles(tokens div 4 mul 1) (%w, %a) writes [1] consts [] site "one"
    // expected-error @+1 {{expected a tap point 'x'}}
    rt.tap "x", %a rows tokens
  }
}

// -----

// 16 rows of 4 floats do not fit.
rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  rt.field "q_start" kind 5 at 320 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
  rt.tap_point "x" cols 4 : f32
  rt.program @p phase 0 tokens 16 seqs 1 qblocks 0 kblocks 0 {
    %w = rt.view weights at 256 size 64
    %a = rt.view arena at 0 size 128
    %b = rt.view arena at 128 size 64
    %o = rt.view persist at 0 size 64
    rt.launch_range @k tiles(tokens div 4 mul 1) (%w, %a) writes [1] consts [] site "one"
    // expected-error @+1 {{expected a buffer of 256 bytes or more, got 128}}
    rt.tap "x", %a rows tokens
  }
}

// -----

// expected-error @+1 {{expected all 13 fields of the step buffer, got 12}}
rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  // expected-error @+1 {{overlaps another field at 256}}
  rt.field "q_start" kind 5 at 256 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
}

// -----

rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  // expected-error @+1 {{expected an offset that is a multiple of 64, got 324}}
  rt.field "q_start" kind 5 at 324 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
}

// -----

// expected-error @+1 {{expected abi 4, got 2}}
rt.module @m target "x86-64" abi 2 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.pool persist size 64
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  rt.field "q_start" kind 5 at 320 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
}

// -----

// expected-error @+1 {{expected a pool persist, got none}}
rt.module @m target "x86-64" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, f32) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 256
  rt.pool step size 832
  rt.field "ids" kind 0 at 0 count 1 : i32
  rt.field "next_ids" kind 1 at 64 count 1 : i32
  rt.field "token_seq" kind 2 at 128 count 1 : i32
  rt.field "token_pos" kind 3 at 192 count 1 : i32
  rt.field "token_slot" kind 4 at 256 count 1 : i64
  rt.field "q_start" kind 5 at 320 count 1 : i32
  rt.field "ctx_len" kind 6 at 384 count 1 : i32
  rt.field "block_table" kind 7 at 448 count 1 : i32
  rt.field "logit_row" kind 8 at 512 count 1 : i32
  rt.field "qblock" kind 9 at 576 count 1 : i32
  rt.field "kblock" kind 10 at 640 count 1 : i32
  rt.field "kblock_start" kind 11 at 704 count 1 : i32
  rt.field "sampling" kind 12 at 768 count 1 : i32
  rt.kernel @k key "k" refs 2 consts 0 scratch 0
}
