// Programs of launches become host programs over pools.
// RUN: dsv3-opt %s --dsv3-outline-kernels="variants=avx2" --dsv3-lower-to-rt --dsv3-verify-rt 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

#num = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
#add = #kernel.schedule<"x86.add", {}>
#emb = #kernel.schedule<"x86.embed", {}>
#plain = #kernel.packed<none, #kernel.layout<"(n, k) -> [n, k]">>
!kv = !dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>

module attributes {dsv3.capacities = {tokens = 32 : i64, seqs = 2 : i64, pages = 4 : i64, qblocks = 4 : i64, kblocks = 6 : i64, max_model_len = 256 : i64}} {

dsv3.weight @table : tensor<64x32xf32> from #dsv3.file<"table">
kernel.weight @table.packed at 4096 bytes 8192 : tensor<64x32xf32, #plain> from @table

// CHECK: rt.module @x86_64 target "x86-64" abi 4 step(tokens 32, seqs 2, pages 4) kv(layers 2, page 64, row 192, bf16)

// The weights end at 12288; the arena holds what score needs at once: two buffers of 32 rows of 128 bytes.
// CHECK-NEXT: rt.pool weights size 12288
// CHECK-NEXT: rt.pool kv size 0
// CHECK-NEXT: rt.pool arena size 8192
// CHECK-NEXT: rt.pool step size
// Logits and hidden of 32 rows of 128 bytes.
// CHECK-NEXT: rt.pool persist size 8192

// CHECK-NEXT: rt.field "ids" kind 0 at 0 count 32 : i32
// CHECK-NEXT: rt.field "next_ids" kind 1 at 128 count 32 : i32
// CHECK-NEXT: rt.field "token_seq" kind 2 at 256 count 32 : i32
// CHECK-NEXT: rt.field "token_pos" kind 3 at 384 count 32 : i32
// CHECK-NEXT: rt.field "token_slot" kind 4 at 512 count 32 : i64
// CHECK-NEXT: rt.field "q_start" kind 5 at 768 count 3 : i32
// CHECK-NEXT: rt.field "ctx_len" kind 6 at 832 count 2 : i32
// CHECK-NEXT: rt.field "block_table" kind 7 at 896 count 8 : i32
// CHECK-NEXT: rt.field "logit_row" kind 8 at 960 count 2 : i32
// CHECK-NEXT: rt.field "qblock" kind 9 at 1024 count 16 : i32
// CHECK-NEXT: rt.field "kblock" kind 10 at 1088 count 12 : i32
// CHECK-NEXT: rt.field "kblock_start" kind 11 at 1152 count 3 : i32
// CHECK-NEXT: rt.field "sampling" kind 12 at 1216 count 32 : i32

// CHECK: rt.kernel @embed_i32_f32_n64_k32_0 key "kernel.embed({{.*}}" refs 3 consts 0
// CHECK: rt.kernel @add_f32_0 key "kernel.add({{.*}}" refs 3 consts 0
// The key says what the kernel is, not what it is called.
// CHECK-NOT: kernel.symbol
// CHECK: rt.tap_point "mid" cols 32 : f32

// %b takes the place of %x, which is dead: three values in two places.
// CHECK-LABEL: rt.program @score_t32 phase 2 tokens 32 seqs 2 qblocks 0 kblocks 0
// REMARK: arena of @score_t32: 8192 bytes, live set 8192 bytes, 3 buffers
// CHECK-DAG: %[[IDS:.*]] = rt.view step at 0 size 128
// CHECK-DAG: %[[W:.*]] = rt.view weights at 4096 size 8192
// CHECK-DAG: %[[X:.*]] = rt.view arena at 0 size 4096
// CHECK: rt.launch_range @embed_i32_f32_n64_k32_0 tiles(tokens {{.*}}) (%[[IDS]], %[[W]], %[[X]]) writes [2] consts [] site "embed"
// CHECK: %[[A:.*]] = rt.view arena at 4096 size 4096
// CHECK: rt.launch_range @add_f32_0 tiles({{.*}}) (%[[X]], %[[X]], %[[A]]) writes [2] consts [] site "one"
// CHECK: rt.tap "mid", %[[A]] rows tokens
// CHECK: rt.launch_range @add_f32_0 tiles({{.*}}) (%[[A]], %[[A]], %[[X]]) writes [2] consts [] site "two"
// CHECK: %[[L:.*]] = rt.view persist at 0 size 4096
// CHECK: rt.launch_range @add_f32_0 tiles({{.*}}) (%[[X]], %[[X]], %[[L]]) writes [2] consts [] site "logits"
// CHECK: %[[H:.*]] = rt.view persist at 4096 size 4096
// In place: the buffer is the result's, and the kernel another, since its reference comes twice.
// CHECK: rt.launch_range @add_f32_0 tiles({{.*}}) (%[[X]], %[[X]], %[[H]]) writes [2] consts [] site "hidden"
// CHECK: rt.launch_range @add_f32_1 tiles({{.*}}) (%[[H]], %[[L]], %[[H]]) writes [2] consts [] site "more"
// CHECK: rt.output "logits", %[[L]] cols 32 : f32
// CHECK: rt.output "hidden", %[[H]] cols 32 : f32
dsv3.program @score_t32(%ids: tensor<32xi32> {dsv3.name = "ids"}, %kv: !kv {dsv3.name = "kv"}) -> (tensor<32x32xf32> {dsv3.name = "logits"}, tensor<32x32xf32> {dsv3.name = "hidden"}, !kv {dsv3.name = "kv"}) attributes {phase = "score", tokens = 32 : i64, seqs = 2 : i64} {
  %w = kernel.use @table.packed : tensor<64x32xf32, #plain>
  // One kernel.empty for all, as CSE leaves it: every launch has a buffer of its own all the same.
  %d = kernel.empty : tensor<32x32xf32>
  %x = kernel.embed ins(%ids, %w : tensor<32xi32>, tensor<64x32xf32, #plain>) outs(%d : tensor<32x32xf32>) numerics #num schedule #emb site "embed"
  %a = kernel.add ins(%x, %x : tensor<32x32xf32>, tensor<32x32xf32>) outs(%d : tensor<32x32xf32>) numerics #num schedule #add site "one"
  kernel.tap "mid", %a : tensor<32x32xf32>
  %b = kernel.add ins(%a, %a : tensor<32x32xf32>, tensor<32x32xf32>) outs(%d : tensor<32x32xf32>) numerics #num schedule #add site "two"
  %l = kernel.add ins(%b, %b : tensor<32x32xf32>, tensor<32x32xf32>) outs(%d : tensor<32x32xf32>) numerics #num schedule #add site "logits"
  %h = kernel.add ins(%b, %b : tensor<32x32xf32>, tensor<32x32xf32>) outs(%d : tensor<32x32xf32>) numerics #num schedule #add site "hidden"
  %h2 = kernel.add ins(%h, %l : tensor<32x32xf32>, tensor<32x32xf32>) outs(%h : tensor<32x32xf32>) numerics #num schedule #add site "more"
  dsv3.return %l, %h2, %kv : tensor<32x32xf32>, tensor<32x32xf32>, !kv
}

// The hidden state of score is read where it lies; ids that follow come from their own field.
// CHECK-LABEL: rt.program @mtp_t32 phase 3
// CHECK: %[[NEXT:.*]] = rt.view step at 128 size 128
// CHECK: rt.launch_range @embed_i32_f32_n64_k32_0 tiles({{.*}}) (%[[NEXT]],
// CHECK: %[[HID:.*]] = rt.view persist at 4096 size 4096
// CHECK: %[[LOG:.*]] = rt.view persist at 0 size 4096
// CHECK: rt.launch_range @add_f32_0 tiles({{.*}}) (%[[HID]], %{{.*}}, %[[LOG]]) writes [2]
// CHECK: rt.output "logits", %[[LOG]] cols 32 : f32
dsv3.program @mtp_t32(%ids: tensor<32xi32> {dsv3.name = "next_ids"}, %h: tensor<32x32xf32> {dsv3.name = "hidden"}, %kv: !kv {dsv3.name = "kv"}) -> (tensor<32x32xf32> {dsv3.name = "logits"}, !kv {dsv3.name = "kv"}) attributes {phase = "mtp", tokens = 32 : i64, seqs = 2 : i64} {
  %w = kernel.use @table.packed : tensor<64x32xf32, #plain>
  %d = kernel.empty : tensor<32x32xf32>
  %x = kernel.embed ins(%ids, %w : tensor<32xi32>, tensor<64x32xf32, #plain>) outs(%d : tensor<32x32xf32>) numerics #num schedule #emb site "embed"
  %l = kernel.add ins(%h, %x : tensor<32x32xf32>, tensor<32x32xf32>) outs(%d : tensor<32x32xf32>) numerics #num schedule #add site "logits"
  dsv3.return %l, %kv : tensor<32x32xf32>, !kv
}
}
