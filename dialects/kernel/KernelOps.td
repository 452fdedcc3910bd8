// Operations: one per device kernel call.
#ifndef DSV3_DIALECTS_KERNEL_OPS
#define DSV3_DIALECTS_KERNEL_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/dsv3/Dsv3Attrs.td"
include "dialects/dsv3/Dsv3Types.td"
include "dialects/kernel/KernelAttrs.td"
include "dialects/kernel/KernelInterfaces.td"

class Kernel_Op<string mnemonic, list<Trait> traits = []> : Op<Kernel_Dialect, mnemonic, traits>;

// A launch. Every launch ends with `numerics`, `schedule` (set by bind) and `site`.
class Kernel_LaunchOp<string mnemonic, list<Trait> traits = []>
    : Kernel_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<Kernel_KernelOp>], traits)> {
  dag common = (ins OptionalAttr<Kernel_NumericsAttr>:$numerics, OptionalAttr<Kernel_ScheduleAttr>:$schedule, StrAttr:$site);
  string tail = " (`numerics` $numerics^)? (`schedule` $schedule^)? `site` $site attr-dict";
  let hasVerifier = 1;
}

//===-- Values ------------------------------------------------------------===//

def Kernel_EmptyOp : Kernel_Op<"empty", [Pure]> {
  let summary = "An uninitialised destination";
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Kernel_ViewOp : Kernel_Op<"view", [Pure]> {
  let summary = "A slice of the last dim, or all heads as one row, without a copy";
  let description = [{
    Lanes [offset, offset + last dim of the result) of every row; the row stride stays that of the source. Emitters receive the
    stride at compile time. A result [T, H * D] of a source [T, H, D] joins the heads of whole rows (offset 0, no view of a view).
  }];
  let arguments = (ins AnyRankedTensor:$source, I64Attr:$offset);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source `at` $offset attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether the result is [T, H * D] of a source [T, H, D].
    bool joinsHeads();
  }];
}

def Kernel_WeightOp : Kernel_Op<"weight", [Symbol]> {
  let summary = "A weight in its final layout and place";
  let description = [{`bytes` bytes from `offset` (4 KiB aligned) of the weights file; the numbers are those of the dsv3.weight `source`.}];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type, FlatSymbolRefAttr:$source,
                       I64Attr:$offset, I64Attr:$bytes);
  let assemblyFormat = "$sym_name `at` $offset `bytes` $bytes `:` $type `from` $source attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
  }];
}

def Kernel_UseOp : Kernel_Op<"use", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The value of a packed weight";
  let arguments = (ins FlatSymbolRefAttr:$weight);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$weight attr-dict `:` type($result)";
}

def Kernel_TapOp : Kernel_Op<"tap"> {
  let summary = "Copies a named state to the user";
  let arguments = (ins StrAttr:$name, AnyRankedTensor:$value);
  let assemblyFormat = "$name `,` $value attr-dict `:` type($value)";
}

//===-- Dense launches ----------------------------------------------------===//

def Kernel_EmbedOp : Kernel_LaunchOp<"embed", [AllTypesMatch<["out", "result"]>]> {
  let summary = "Rows of a table: ids [T], table [V, D] -> [T, D]";
  let arguments = !con((ins AnyRankedTensor:$ids, AnyRankedTensor:$table, AnyRankedTensor:$out), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $ids `,` $table `:` type($ids) `,` type($table) `)` `outs` `(` $out `:` type($out) `)`" # tail;
}

def Kernel_NormOp : Kernel_LaunchOp<"norm", [AllTypesMatch<["out", "result"]>]> {
  let summary = "Root mean square norm of rows: x [T, D] (maybe a view), gamma [D] -> [T, D]";
  let description = [{
    As dsv3.rms_norm without residual. Sum of squares in interleaved chains as numerics say, then a fixed tree. An `out` with a
    scheme: the result, rounded to out's element type, then as kernel.quantize stores it.
  }];
  let arguments = !con((ins AnyRankedTensor:$x, AnyRankedTensor:$gamma, AnyRankedTensor:$out, F64Attr:$eps), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $x `,` $gamma `:` type($x) `,` type($gamma) `)` `outs` `(` $out `:` type($out) `)` `eps` custom<F64>($eps)" # tail;
}

def Kernel_AddNormOp : Kernel_LaunchOp<"add_norm"> {
  let summary = "sum = x + residual, then the norm of sum";
  let description = [{As dsv3.rms_norm with residual; destinations: sum, then y. An `out` with a scheme as that of kernel.norm.}];
  let arguments = !con((ins AnyRankedTensor:$x, AnyRankedTensor:$residual, AnyRankedTensor:$gamma,
                            AnyRankedTensor:$sum_out, AnyRankedTensor:$out, F64Attr:$eps), common);
  let results = (outs AnyRankedTensor:$sum, AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $x `,` $residual `,` $gamma `:` type($x) `,` type($residual) `,` type($gamma) `)` `outs` `(` $sum_out `,` $out `:` type($sum_out) `,` type($out) `)` `eps` custom<F64>($eps)" # tail # " `->` type($sum) `,` type($result)";
}

def Kernel_AddNormQuantizeOp : Kernel_LaunchOp<"add_norm_quantize"> {
  let summary = "kernel.add_norm whose y is wanted plain and quantised";
  let description = [{
    Destinations: sum, y, then the codes of y as kernel.quantize stores them. Where nobody reads y itself,
    kernel.add_norm with a quantised destination does.
  }];
  let arguments = !con((ins AnyRankedTensor:$x, AnyRankedTensor:$residual, AnyRankedTensor:$gamma, AnyRankedTensor:$sum_out,
                            AnyRankedTensor:$out, AnyRankedTensor:$codes_out, F64Attr:$eps), common);
  let results = (outs AnyRankedTensor:$sum, AnyRankedTensor:$result, AnyRankedTensor:$codes);
  let assemblyFormat = "`ins` `(` $x `,` $residual `,` $gamma `:` type($x) `,` type($residual) `,` type($gamma) `)` `outs` `(` $sum_out `,` $out `,` $codes_out `:` type($sum_out) `,` type($out) `,` type($codes_out) `)` `eps` custom<F64>($eps)" # tail # " `->` type($sum) `,` type($result) `,` type($codes)";
}

def Kernel_GemmOp : Kernel_LaunchOp<"gemm", [AllTypesMatch<["out", "result"]>]> {
  let summary = "y = x w^T: x rows of K values (maybe a view), w [N, K], y rows of N values";
  let arguments = !con((ins AnyRankedTensor:$x, AnyRankedTensor:$w, AnyRankedTensor:$out), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $x `,` $w `:` type($x) `,` type($w) `)` `outs` `(` $out `:` type($out) `)`" # tail;
}

def Kernel_GatedGemmOp : Kernel_LaunchOp<"gated_gemm", [AllTypesMatch<["out", "result"]>]> {
  let summary = "y = silu(x w_gate^T) * (x w_up^T), both products rounded to `via` first";
  let arguments = !con((ins AnyRankedTensor:$x, AnyRankedTensor:$w_gate, AnyRankedTensor:$w_up, AnyRankedTensor:$out, TypeAttr:$via), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $x `,` $w_gate `,` $w_up `:` type($x) `,` type($w_gate) `,` type($w_up) `)` `outs` `(` $out `:` type($out) `)` `via` $via" # tail;
}

def Kernel_BatchedGemmOp : Kernel_LaunchOp<"batched_gemm", [AllTypesMatch<["out", "result"]>]> {
  let summary = "y[t, h] = x[t, h] w[h]^T: x [T, H, K] (maybe a view), w [H, N, K], y [T, H, N]";
  let arguments = !con((ins AnyRankedTensor:$x, AnyRankedTensor:$w, AnyRankedTensor:$out), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $x `,` $w `:` type($x) `,` type($w) `)` `outs` `(` $out `:` type($out) `)`" # tail;
}

def Kernel_QuantizeOp : Kernel_LaunchOp<"quantize", [AllTypesMatch<["out", "result"]>]> {
  let summary = "Rows in the storage of out's scheme: x [.., K] (maybe a view) -> the same numbers, codes and scales";
  let description = [{
    As dsv3.quantize. A quantised buffer is its parts one after the other, each 256-byte aligned: codes, row-major in the
    shape of the tensor; scales, row-major in the shape of the scale grid. `dsv3::kernel::getValueParts` gives offsets.
  }];
  let arguments = !con((ins AnyRankedTensor:$x, AnyRankedTensor:$out), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $x `:` type($x) `)` `outs` `(` $out `:` type($out) `)`" # tail;
}

def Kernel_AddOp : Kernel_LaunchOp<"add", [AllTypesMatch<["out", "result"]>]> {
  let summary = "x + y";
  let arguments = !con((ins AnyRankedTensor:$x, AnyRankedTensor:$y, AnyRankedTensor:$out), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $x `,` $y `:` type($x) `,` type($y) `)` `outs` `(` $out `:` type($out) `)`" # tail;
}

def Kernel_SwigluOp : Kernel_LaunchOp<"swiglu", [AllTypesMatch<["out", "result"]>]> {
  let summary = "silu(gate) * up, where it was not fused";
  let description = [{An `out` with a scheme: the result, rounded to out's element type, then as kernel.quantize stores it.}];
  let arguments = !con((ins AnyRankedTensor:$gate, AnyRankedTensor:$up, AnyRankedTensor:$out), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $gate `,` $up `:` type($gate) `,` type($up) `)` `outs` `(` $out `:` type($out) `)`" # tail;
}

def Kernel_ConcatOp : Kernel_LaunchOp<"concat", [AllTypesMatch<["out", "result"]>]> {
  let summary = "[x | y] along the last dim";
  let arguments = !con((ins AnyRankedTensor:$x, AnyRankedTensor:$y, AnyRankedTensor:$out), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $x `,` $y `:` type($x) `,` type($y) `)` `outs` `(` $out `:` type($out) `)`" # tail;
}

def Kernel_SelectRowsOp : Kernel_LaunchOp<"select_rows", [AllTypesMatch<["out", "result"]>]> {
  let summary = "Row `logit_row[s]` of x for each sequence: x [T, D] -> [S, D]";
  let arguments = !con((ins AnyRankedTensor:$x, Dsv3_SeqType:$seq, AnyRankedTensor:$out), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $x `,` $seq `:` type($x) `)` `outs` `(` $out `:` type($out) `)`" # tail;
}

def Kernel_SampleOp : Kernel_LaunchOp<"sample", [AllTypesMatch<["out", "result"]>]> {
  let summary = "The next token of each sequence: logits [S, V] -> [S, 8] i32, a dsv3_sampled a row";
  let description = [{
    Field `sampling` of the step says how, a dsv3_sampling a sequence; runtime/core/TokenChoice.h defines the choice, which is
    the same in every bit wherever it is made. Rows without DSV3_SAMPLE_ROW are left alone. V is at most 2^22.
  }];
  let arguments = !con((ins AnyRankedTensor:$logits, Dsv3_SeqType:$seq, AnyRankedTensor:$out), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $logits `,` $seq `:` type($logits) `)` `outs` `(` $out `:` type($out) `)`" # tail;
}

//===-- Attention ---------------------------------------------------------===//

def Kernel_RopeOp : Kernel_LaunchOp<"rope", [AllTypesMatch<["out", "result"]>]> {
  let summary = "Rotary embedding in place or to another buffer: x [T, H, D], table [positions, dims]";
  let description = [{`out` may be the buffer of x: every element is read before it is written.}];
  let arguments = !con((ins AnyRankedTensor:$x, AnyRankedTensor:$table, Dsv3_SeqType:$seq, AnyRankedTensor:$out,
                            I64Attr:$at, Dsv3_RopeAttr:$rope), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $x `,` $table `,` $seq `:` type($x) `,` type($table) `)` `outs` `(` $out `:` type($out) `)` `at` $at $rope" # tail;
}

def Kernel_KvAppendOp : Kernel_LaunchOp<"kv_append", [AllTypesMatch<["kv", "result"]>]> {
  let summary = "Norm of the latent, rotation of the shared key, store to the cache";
  let description = [{kv_a rows are [latent | rope] (maybe a view); gamma [latent]. Writes the cache row of each token that has a slot.}];
  let arguments = !con((ins AnyRankedTensor:$kv_a, AnyRankedTensor:$gamma, AnyRankedTensor:$table, Dsv3_SeqType:$seq,
                            Dsv3_KvType:$kv, I64Attr:$layer, F64Attr:$eps, Dsv3_RopeAttr:$rope), common);
  let results = (outs Dsv3_KvType:$result);
  let assemblyFormat = "`ins` `(` $kv_a `,` $gamma `,` $table `,` $seq `:` type($kv_a) `,` type($gamma) `,` type($table) `)` `outs` `(` $kv `[` $layer `]` `:` type($kv) `)` `eps` custom<F64>($eps) $rope" # tail;
}

def Kernel_KvRowsOp : Kernel_LaunchOp<"kv_rows", [AllTypesMatch<["out", "result"]>]> {
  let summary = "The cached rows of a step's key blocks as numbers";
  let description = [{
    Of a cache whose latent is stored as codes, [KB, 64, latent + rope] in the order of the step's key blocks: code * scale
    rounded to the cache's element type, then the rotated key; zero past the context. For kernels that multiply numbers.
  }];
  let arguments = !con((ins Dsv3_KvType:$kv, Dsv3_SeqType:$seq, AnyRankedTensor:$out, I64Attr:$layer), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $kv `[` $layer `]` `,` $seq `:` type($kv) `)` `outs` `(` $out `:` type($out) `)`" # tail;
}

def Kernel_KvExpandOp : Kernel_LaunchOp<"kv_expand"> {
  let summary = "Keys and values of every head from cached rows, for the step's key blocks";
  let description = [{
    w_k [H, nope, latent], w_v [H, v, latent]. For key block b of the step's list (64 keys of one sequence):
    keys [KB, H, nope + rope, 64] (transposed: a row per lane), or with `key_rows` [KB, H, 64, nope + rope] (a row
    per key); values [KB, H, 64, v]. Rounded to the destinations' element type. Rows past the context are zero. `rows`: the
    same cached rows from kv_rows, for kernels that do not read codes.
  }];
  let arguments = !con((ins Dsv3_KvType:$kv, AnyRankedTensor:$w_k, AnyRankedTensor:$w_v, Dsv3_SeqType:$seq,
                            Optional<AnyRankedTensor>:$rows, AnyRankedTensor:$keys_out, AnyRankedTensor:$values_out, I64Attr:$layer, UnitAttr:$key_rows), common);
  let results = (outs AnyRankedTensor:$keys, AnyRankedTensor:$values);
  let assemblyFormat = "`ins` `(` $kv `[` $layer `]` `,` $w_k `,` $w_v `,` $seq `:` type($kv) `,` type($w_k) `,` type($w_v) `)` (`rows` `(` $rows^ `:` type($rows) `)`)? `outs` `(` $keys_out `,` $values_out `:` type($keys_out) `,` type($values_out) `)` (`key_rows` $key_rows^)?" # tail # " `->` type($keys) `,` type($values)";
}

def Kernel_AttnPrefillOp : Kernel_LaunchOp<"attn_prefill", [AllTypesMatch<["out", "result"]>]> {
  let summary = "Causal attention over expanded keys and values";
  let description = [{
    q [T, H, nope + rope], keys and values of kv_expand -> [T, H, v]. Online softmax in float32 over blocks
    of 64 keys from position 0 (Milakov and Gimelshein, 2018), the running maximum and rescale per row.
    `key_rows` says that keys are [KB, H, 64, nope + rope], as kv_expand's.
  }];
  let arguments = !con((ins AnyRankedTensor:$q, AnyRankedTensor:$keys, AnyRankedTensor:$values, Dsv3_SeqType:$seq,
                            AnyRankedTensor:$out, F64Attr:$scale, UnitAttr:$key_rows), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $q `,` $keys `,` $values `,` $seq `:` type($q) `,` type($keys) `,` type($values) `)` `outs` `(` $out `:` type($out) `)` `scale` custom<F64>($scale) (`key_rows` $key_rows^)?" # tail;
}

def Kernel_AttnDecodeOp : Kernel_LaunchOp<"attn_decode", [AllTypesMatch<["out", "result"]>]> {
  let summary = "Absorbed attention over the paged cache";
  let description = [{q_latent [T, H, latent], q_rope [T, H, rope] (a view) -> [T, H, latent]; online softmax as attn_prefill.}];
  let arguments = !con((ins AnyRankedTensor:$q_latent, AnyRankedTensor:$q_rope, Dsv3_KvType:$kv, Dsv3_SeqType:$seq,
                            AnyRankedTensor:$out, I64Attr:$layer, F64Attr:$scale), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $q_latent `,` $q_rope `,` $kv `[` $layer `]` `,` $seq `:` type($q_latent) `,` type($q_rope) `,` type($kv) `)` `outs` `(` $out `:` type($out) `)` `scale` custom<F64>($scale)" # tail;
}

// The three ops that `--dsv3-expand-attention` makes of attn_decode. S is the program's sequences (one row each), P the
// partitions that share the work, N the capacity of the work list, NSLOTS that of the partial results.
def Kernel_AttnPlanOp : Kernel_LaunchOp<"attn_plan"> {
  let summary = "Cuts the cached tokens of a decode step into work of partitions";
  let description = [{
    Reads the context lengths of the step; one launch serves all layers of a program. Item i is
    `items[i] = {sequence, first page, end page, slot, context}`: pages of 64 tokens, `end page` excluded; `context` the
    sequence's cached tokens, this step's included; `slot` the row of the partial results, or -1 when the item is the
    whole sequence. Partition p does items [parts[p], parts[p + 1]); items are in order of sequence, then page.
    Sequence s has the slots [splits[s], splits[s + 1]): none when it is whole, else two or more, in order of page.
    `splits` of sequences past the step's are those of the last one; `parts` of idle partitions are empty ranges.

    `split` says where a sequence may be cut and thereby changes bits; see `#kernel.split`. Shapes: items [N, 5],
    parts [P + 1], splits [S + 1], all i32. N is at least S * `max` (by length), or P + S (even).
  }];
  let arguments = !con((ins Dsv3_SeqType:$seq, AnyRankedTensor:$items_out, AnyRankedTensor:$parts_out, AnyRankedTensor:$splits_out,
                            Kernel_SplitAttr:$split), common);
  let results = (outs AnyRankedTensor:$items, AnyRankedTensor:$parts, AnyRankedTensor:$splits);
  let assemblyFormat = "`ins` `(` $seq `)` `outs` `(` $items_out `,` $parts_out `,` $splits_out `:` type($items_out) `,` type($parts_out) `,` type($splits_out) `)` `split` $split" # tail # " `->` type($items) `,` type($parts) `,` type($splits)";
}

def Kernel_AttnSplitOp : Kernel_LaunchOp<"attn_split"> {
  let summary = "attn_decode over the items of a plan";
  let description = [{
    q_latent [T, H, latent], quantised row by row where the cache's latent is stored as codes: then codes meet codes, and
    scales multiply their product; q_rope [T, H, rope] (a view). An item that is a whole sequence writes its row of `out`
    [T, H, latent]; any other writes row `slot` of `partial` [NSLOTS, H, latent] f32, the result normalised over the
    item's own keys, and of `lse` [NSLOTS, H] f32: log2 of the sum of 2^(score * scale * log2(e)) over them. Rows of
    `out` of sequences that were cut are left for attn_combine. Online softmax as attn_prefill.
  }];
  let arguments = !con((ins AnyRankedTensor:$q_latent, AnyRankedTensor:$q_rope, Dsv3_KvType:$kv, Dsv3_SeqType:$seq,
                            AnyRankedTensor:$items, AnyRankedTensor:$parts, AnyRankedTensor:$out, AnyRankedTensor:$partial_out,
                            AnyRankedTensor:$lse_out, I64Attr:$layer, F64Attr:$scale), common);
  let results = (outs AnyRankedTensor:$result, AnyRankedTensor:$partial, AnyRankedTensor:$lse);
  let assemblyFormat = "`ins` `(` $q_latent `,` $q_rope `,` $kv `[` $layer `]` `,` $seq `,` $items `,` $parts `:` type($q_latent) `,` type($q_rope) `,` type($kv) `,` type($items) `,` type($parts) `)` `outs` `(` $out `,` $partial_out `,` $lse_out `:` type($out) `,` type($partial_out) `,` type($lse_out) `)` `scale` custom<F64>($scale)" # tail # " `->` type($result) `,` type($partial) `,` type($lse)";
}

def Kernel_AttnCombineOp : Kernel_LaunchOp<"attn_combine", [AllTypesMatch<["out", "result"]>]> {
  let summary = "Joins the partial results of sequences that were cut";
  let description = [{
    Row s of `out` [T, H, latent] becomes the sum over the slots of sequence s, ascending, of
    2^(lse - log2(sum 2^lse)) * partial, in f32, rounded once. Works in place: rows of whole sequences stay.
  }];
  let arguments = !con((ins AnyRankedTensor:$partial, AnyRankedTensor:$lse, AnyRankedTensor:$splits, Dsv3_SeqType:$seq,
                            AnyRankedTensor:$out), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $partial `,` $lse `,` $splits `,` $seq `:` type($partial) `,` type($lse) `,` type($splits) `)` `outs` `(` $out `:` type($out) `)`" # tail;
}

//===-- Mixture of experts ------------------------------------------------===//

def Kernel_RouteOp : Kernel_LaunchOp<"route"> {
  let summary = "Chooses experts: logits [T, E], bias [E] -> ids [T, k], weights [T, k]";
  let arguments = !con((ins AnyRankedTensor:$logits, AnyRankedTensor:$bias, AnyRankedTensor:$ids_out, AnyRankedTensor:$weights_out,
                            I64Attr:$groups, I64Attr:$keep, I64Attr:$top, BoolAttr:$norm, F64Attr:$scale), common);
  let results = (outs AnyRankedTensor:$ids, AnyRankedTensor:$weights);
  let assemblyFormat = "`ins` `(` $logits `,` $bias `:` type($logits) `,` type($bias) `)` `outs` `(` $ids_out `,` $weights_out `:` type($ids_out) `,` type($weights_out) `)` `groups` $groups `keep` $keep `top` $top `norm` $norm `scale` custom<F64>($scale)" # tail # " `->` type($ids) `,` type($weights)";
}

def Kernel_DispatchOp : Kernel_LaunchOp<"dispatch"> {
  let summary = "The work list of the experts";
  let description = [{ids [T, k] -> offsets [E + 1], token_of [R] (token row of each routed row), row_of [T, k]. Stable token order inside an expert; R = T k.}];
  let arguments = !con((ins AnyRankedTensor:$ids, AnyRankedTensor:$offsets_out, AnyRankedTensor:$token_of_out, AnyRankedTensor:$row_of_out), common);
  let results = (outs AnyRankedTensor:$offsets, AnyRankedTensor:$token_of, AnyRankedTensor:$row_of);
  let assemblyFormat = "`ins` `(` $ids `:` type($ids) `)` `outs` `(` $offsets_out `,` $token_of_out `,` $row_of_out `:` type($offsets_out) `,` type($token_of_out) `,` type($row_of_out) `)`" # tail # " `->` type($offsets) `,` type($token_of) `,` type($row_of)";
}

def Kernel_GatherOp : Kernel_LaunchOp<"gather", [AllTypesMatch<["out", "result"]>]> {
  let summary = "Token rows in the order of the work list, where fusion left it to a kernel: x [T, D], token_of [R] -> [R, D]";
  let arguments = !con((ins AnyRankedTensor:$x, AnyRankedTensor:$token_of, AnyRankedTensor:$out), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $x `,` $token_of `:` type($x) `,` type($token_of) `)` `outs` `(` $out `:` type($out) `)`" # tail;
}

def Kernel_GroupedGatedGemmOp : Kernel_LaunchOp<"grouped_gated_gemm", [AllTypesMatch<["out", "result"]>]> {
  let summary = "gated_gemm per expert: x [R, K], or x [T, K] with rows picked by `token_of` [R]; weights [E, F, K] -> [R, F]";
  let arguments = !con((ins AnyRankedTensor:$x, AnyRankedTensor:$w_gate, AnyRankedTensor:$w_up, AnyRankedTensor:$offsets,
                            Optional<AnyRankedTensor>:$token_of, AnyRankedTensor:$out, TypeAttr:$via), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $x `,` $w_gate `,` $w_up `,` $offsets (`,` $token_of^)? `:` type($x) `,` type($w_gate) `,` type($w_up) `,` type($offsets) (`,` type($token_of)^)? `)` `outs` `(` $out `:` type($out) `)` `via` $via" # tail;
}

def Kernel_GroupedGemmOp : Kernel_LaunchOp<"grouped_gemm", [AllTypesMatch<["out", "result"]>]> {
  let summary = "gemm per expert: x [R, K], w [E, N, K] -> [R, N]";
  let arguments = !con((ins AnyRankedTensor:$x, AnyRankedTensor:$w, AnyRankedTensor:$offsets, AnyRankedTensor:$out), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $x `,` $w `,` $offsets `:` type($x) `,` type($w) `,` type($offsets) `)` `outs` `(` $out `:` type($out) `)`" # tail;
}

def Kernel_CombineOp : Kernel_LaunchOp<"combine", [AllTypesMatch<["out", "result"]>]> {
  let summary = "Sum over k of weight * row, in k order, then plus: rows [R, D], row_of [T, k], weights [T, k] [, plus [T, D]]";
  let arguments = !con((ins AnyRankedTensor:$rows, AnyRankedTensor:$row_of, AnyRankedTensor:$weights, Optional<AnyRankedTensor>:$plus,
                            AnyRankedTensor:$out), common);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`ins` `(` $rows `,` $row_of `,` $weights `:` type($rows) `,` type($row_of) `,` type($weights) `)` (`plus` `(` $plus^ `:` type($plus) `)`)? `outs` `(` $out `:` type($out) `)`" # tail;
}

#endif
