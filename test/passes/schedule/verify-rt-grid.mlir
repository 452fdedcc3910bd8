// What a grid in a host program must not do.
// RUN: dsv3-opt %s --dsv3-verify-rt -split-input-file -verify-diagnostics

// A program that holds: 8 rows of 64 bytes are read through a map, the cache through an open one.
module attributes {dsv3.target = #target.gpu<"sm_90a", sm_count = 132, smem = 232448, has = ["tma"]>} {
rt.module @sm_90a target "sm_90a" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 1024
  rt.pool step size 832
  rt.pool persist size 1024
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
    %w = rt.view weights at 256 size 512
    %kv = rt.view kv at 0 size 0
    %a = rt.view arena at 0 size 512
    %o = rt.view persist at 0 size 512
    rt.launch_grid @k grid [8, 2, 1] block 128 smem 232448 cluster 2 (%w, %a) params [#rt.tensor_map<0, bf16, dims = [32, 8] strides = [64] box = [32, 8] swizzle = 64>, #rt.ptr<1 + 256>, #rt.number<3>] writes [1] site "one"
    rt.launch_grid @k grid [1, 1, 1] block 1 smem 0 cluster 1 (%kv, %o) params [#rt.tensor_map<0, bf16, dims = [8, 0] strides = [16] box = [8, 64]>] writes [1] site "two"
    rt.launch_grid @k grid [1, 1, 1] block 1 smem 0 cluster 1 (%a, %o) params [#rt.ptr<0>, #rt.ptr<1>] writes [1] site "three"
    rt.output "logits", %o cols 4 : f32
  }
}
}

// -----

module attributes {dsv3.target = #target.gpu<"sm_90a", sm_count = 132, smem = 232448, has = ["tma"]>} {
rt.module @sm_90a target "sm_90a" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 1024
  rt.pool step size 832
  rt.pool persist size 1024
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
    %w = rt.view weights at 256 size 512
    %kv = rt.view kv at 0 size 0
    %a = rt.view arena at 0 size 512
    // expected-error @+1 {{expected at most 232448 bytes of shared memory on sm_90a, got 232449}}
    rt.launch_grid @k grid [1, 1, 1] block 128 smem 232449 cluster 1 (%w, %a) params [#rt.ptr<0>] writes [1] site "s"
  }
}
}

// -----

module attributes {dsv3.target = #target.gpu<"sm_90a", sm_count = 132, smem = 232448, has = ["tma"]>} {
rt.module @sm_90a target "sm_90a" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 1024
  rt.pool step size 832
  rt.pool persist size 1024
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
    %w = rt.view weights at 256 size 512
    %kv = rt.view kv at 0 size 0
    %a = rt.view arena at 0 size 512
    // expected-error @+1 {{expected parameter 1 inside its buffer of 512 bytes, got offset 512}}
    rt.launch_grid @k grid [1, 1, 1] block 128 smem 0 cluster 1 (%w, %a) params [#rt.ptr<0>, #rt.ptr<1 + 512>] writes [1] site "s"
  }
}
}

// -----

module attributes {dsv3.target = #target.gpu<"sm_90a", sm_count = 132, smem = 232448, has = ["tma"]>} {
rt.module @sm_90a target "sm_90a" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 1024
  rt.pool step size 832
  rt.pool persist size 1024
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
    %w = rt.view weights at 256 size 512
    %kv = rt.view kv at 0 size 0
    %a = rt.view arena at 0 size 512
    // expected-error @+1 {{expected tensor map 0 inside its buffer of 512 bytes, got bytes [0, 576)}}
    rt.launch_grid @k grid [1, 1, 1] block 128 smem 0 cluster 1 (%w, %a) params [#rt.tensor_map<0, bf16, dims = [32, 9] strides = [64] box = [32, 8] swizzle = 64>] writes [1] site "s"
  }
}
}

// -----

module attributes {dsv3.target = #target.gpu<"sm_90a", sm_count = 132, smem = 232448, has = ["tma"]>} {
rt.module @sm_90a target "sm_90a" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 1024
  rt.pool step size 832
  rt.pool persist size 1024
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
    %w = rt.view weights at 256 size 512
    %kv = rt.view kv at 0 size 0
    %a = rt.view arena at 0 size 512
    // expected-error @+1 {{expected tensor map 0 inside its buffer of 512 bytes, got bytes [16, 528)}}
    rt.launch_grid @k grid [1, 1, 1] block 128 smem 0 cluster 1 (%w, %a) params [#rt.tensor_map<0 + 16, bf16, dims = [32, 8] strides = [64] box = [32, 8] swizzle = 64>] writes [1] site "s"
  }
}
}

// -----

module attributes {dsv3.target = #target.gpu<"sm_90a", sm_count = 132, smem = 232448, has = ["tma"]>} {
rt.module @sm_90a target "sm_90a" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 1024
  rt.pool step size 832
  rt.pool persist size 1024
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
    %w = rt.view weights at 256 size 512
    %kv = rt.view kv at 0 size 0
    %a = rt.view arena at 0 size 512
    // expected-error @+1 {{expected tensor map 0 of a stated size outside pool kv}}
    rt.launch_grid @k grid [1, 1, 1] block 128 smem 0 cluster 1 (%w, %a) params [#rt.tensor_map<0, bf16, dims = [8, 0] strides = [16] box = [8, 64]>] writes [1] site "s"
  }
}
}

// -----

module attributes {dsv3.target = #target.gpu<"sm_90a", sm_count = 132, smem = 232448, has = ["tma"]>} {
rt.module @sm_90a target "sm_90a" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 1024
  rt.pool step size 832
  rt.pool persist size 1024
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
    %w = rt.view weights at 256 size 512
    %kv = rt.view kv at 0 size 0
    %a = rt.view arena at 0 size 512
    // expected-error @+1 {{expected tensor map 0 of an open outermost dim in pool kv}}
    rt.launch_grid @k grid [1, 1, 1] block 128 smem 0 cluster 1 (%kv, %a) params [#rt.tensor_map<0, bf16, dims = [8, 64] strides = [16] box = [8, 64]>] writes [1] site "s"
  }
}
}

// -----

module attributes {dsv3.target = #target.gpu<"sm_90a", sm_count = 132, smem = 232448, has = ["tma"]>} {
rt.module @sm_90a target "sm_90a" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 1024
  rt.pool step size 832
  rt.pool persist size 1024
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
    %w = rt.view weights at 256 size 512
    %kv = rt.view kv at 0 size 0
    %a = rt.view arena at 0 size 512
    // expected-error @+1 {{reference 0 would write to pool weights}}
    rt.launch_grid @k grid [1, 1, 1] block 128 smem 0 cluster 1 (%w, %a) params [#rt.ptr<0>] writes [0, 1] site "s"
  }
}
}

// -----

module attributes {dsv3.target = #target.gpu<"sm_90a", sm_count = 132, smem = 232448, has = ["tma"]>} {
rt.module @sm_90a target "sm_90a" abi 4 step(tokens 16, seqs 1, pages 1) kv(layers 1, page 64, row 8, bf16) {
  rt.pool weights size 4096
  rt.pool kv size 0
  rt.pool arena size 1024
  rt.pool step size 832
  rt.pool persist size 1024
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
    %w = rt.view weights at 256 size 512
    %kv = rt.view kv at 0 size 0
    %a = rt.view arena at 0 size 512
    // expected-error @+1 {{reference 0 reads arena bytes [0, 512), which were not all written before}}
    rt.launch_grid @k grid [1, 1, 1] block 128 smem 0 cluster 1 (%a, %w) params [#rt.ptr<0>] writes [] site "s"
  }
}
}
