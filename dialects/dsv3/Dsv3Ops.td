// Operations: the model on tensors.
#ifndef DSV3_DIALECTS_DSV3_OPS
#define DSV3_DIALECTS_DSV3_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/dsv3/Dsv3Attrs.td"
include "dialects/dsv3/Dsv3Types.td"

class Dsv3_Op<string mnemonic, list<Trait> traits = []> : Op<Dsv3_Dialect, mnemonic, traits>;

// A computing op: pure, named by `site`.
class Dsv3_ComputeOp<string mnemonic, list<Trait> traits = []>
    : Dsv3_Op<mnemonic, !listconcat([Pure], traits)>;

//===-- Programs and weights ----------------------------------------------===//

def Dsv3_ProgramOp : Dsv3_Op<"program", [FunctionOpInterface, IsolatedFromAbove]> {
  let summary = "One entry of the model: trunk, head, mtp, or a specialised prefill or decode";
  let description = [{
    A function of one block. Arguments and results carry `dsv3.name` ("ids", "hidden", "logits", ...):
    the name of the step-buffer field or of the output they become. After `specialize` the attributes
    `phase` ("prefill", "decode", "score", "mtp"), `tokens` and `seqs` are set and no dimension is `?`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
    OptionalAttr<StrAttr>:$phase, OptionalAttr<I64Attr>:$tokens, OptionalAttr<I64Attr>:$seqs,
    OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// `dsv3.name` of argument or result `i`, or an empty string.
    ::llvm::StringRef getArgName(unsigned i);
    ::llvm::StringRef getResultName(unsigned i);
  }];
}

def Dsv3_ReturnOp : Dsv3_Op<"return", [Pure, Terminator, ReturnLike, HasParent<"ProgramOp">]> {
  let summary = "Ends a program with its results";
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "($operands^ `:` type($operands))? attr-dict";
  let hasVerifier = 1;
}

def Dsv3_WeightOp : Dsv3_Op<"weight", [Symbol]> {
  let summary = "A weight as a recipe over checkpoint tensors";
  let description = [{
    Binds a symbol to a `WeightSource`. The type says what the numbers mean (element type) and how
    they are stored (encoding). A plain type rounds the source to its element type; an encoded type
    keeps the stored data and scales as they are.

    `activation` is the scheme that activations have where they meet this weight: what the checkpoint asks (import), or what a
    policy decided. Its blocks lie inside one row of the activation: `#dsv3.blocked<i8, 1x?, f32>` per token, `<i8, 1x128, f32>`
    per token and 128 channels, with `f8E4M3FN` alike. It is an instruction to `--dsv3-quantize-activations`, which turns it
    into types and takes it away: no weight has it after stage quantize.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type, AnyAttr:$source,
                       OptionalAttr<Dsv3_BlockedAttr>:$activation);
  let assemblyFormat = "$sym_name `:` $type `from` $source (`activation` `(` $activation^ `)`)? attr-dict";
  let builders = [OpBuilder<(ins "::llvm::StringRef":$symbol, "::mlir::RankedTensorType":$type, "::mlir::Attribute":$source), [{
    build($_builder, $_state, symbol, type, source, BlockedAttr());
  }]>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
  }];
}

def Dsv3_UseOp : Dsv3_Op<"use", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The value of a weight";
  let arguments = (ins FlatSymbolRefAttr:$weight);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$weight attr-dict `:` type($result)";
}

def Dsv3_IgnoredOp : Dsv3_Op<"ignored"> {
  let summary = "A checkpoint tensor that is knowingly unused";
  let description = [{`dsv3.ignored "model.layers.0.self_attn.rotary_emb.inv_freq" reason "unknown"`. With the leaves of all weights these are exactly the checkpoint's tensors (the ledger).}];
  let arguments = (ins StrAttr:$tensor, StrAttr:$reason);
  let assemblyFormat = "$tensor `reason` $reason attr-dict";
}

//===-- Dense ops ---------------------------------------------------------===//

def Dsv3_EmbedOp : Dsv3_ComputeOp<"embed"> {
  let summary = "Rows of a table";
  let description = [{ids [T] (i32), table [V, D] -> [T, D].}];
  let arguments = (ins AnyRankedTensor:$ids, AnyRankedTensor:$table, StrAttr:$site);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$ids `,` $table `site` $site attr-dict `:` type($ids) `,` type($table) `->` type($result)";
  let hasVerifier = 1;
}

def Dsv3_RmsNormOp : Dsv3_ComputeOp<"rms_norm"> {
  let summary = "Root mean square norm over the last dim, optionally after adding a residual";
  let description = [{
    x [.., D], gamma [D] -> y = s * rsqrt(mean(s^2) + eps) * gamma with s = x, or s = x + residual rounded
    to `sum`'s type, which is then also a result. (Zhang and Sennrich, 2019.)
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$gamma, Optional<AnyRankedTensor>:$residual,
                       F64Attr:$eps, StrAttr:$site);
  let results = (outs Optional<AnyRankedTensor>:$sum, AnyRankedTensor:$y);
  let assemblyFormat = [{
    $x `,` $gamma (`residual` `(` $residual^ `:` type($residual) `)`)? `eps` custom<F64>($eps) `site` $site attr-dict
    `:` type($x) `,` type($gamma) `->` (`sum` `(` type($sum)^ `)`)? type($y)
  }];
  let hasVerifier = 1;
}

def Dsv3_QuantizeOp : Dsv3_ComputeOp<"quantize"> {
  let summary = "The same numbers in the storage of the result's scheme";
  let description = [{
    x [T, K] or [T, H, D] with H * D = K, plain; the result [T, K] has x's element type and a scheme whose blocks lie inside one
    row: heads are joined, so that a scale may span them. `#dsv3.blocked<f8E4M3FN, 1x128, f32>` is a scale per token and 128
    channels, absmax / 448 (DeepSeek-V3 technical report, section 3.3); `<i8, 1x?, f32>` a scale per token, absmax / 127. Scales
    are computed at run time, from each row alone.
  }];
  let arguments = (ins AnyRankedTensor:$x, StrAttr:$site);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x `site` $site attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
}

def Dsv3_LinearOp : Dsv3_ComputeOp<"linear"> {
  let summary = "y = x w^T";
  let description = [{
    x [T, K] or [T, H, D] with H * D = K; w [N, K]; y [T, N] or [T, H', D'] with H' * D' = N. Float32
    accumulation; an encoded w is dequantised and rounded to its element type before the multiply. x may be
    quantised row by row (dsv3.quantize): then codes meet codes, scales follow, and nothing of w is rounded.
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$w, StrAttr:$site);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x `,` $w `site` $site attr-dict `:` type($x) `,` type($w) `->` type($y)";
  let hasVerifier = 1;
}

def Dsv3_GatedLinearOp : Dsv3_ComputeOp<"gated_linear"> {
  let summary = "y = silu(x w_gate^T) * (x w_up^T)";
  let description = [{
    The first half of a SwiGLU FFN in one op: x [T, K], both weights [F, K], y [T, F]. `via` is the
    type the two products are rounded to before the activation, as the unfused form would.
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$w_gate, AnyRankedTensor:$w_up,
                       TypeAttr:$via, StrAttr:$site);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x `,` $w_gate `,` $w_up `via` $via `site` $site attr-dict `:` type($x) `,` type($w_gate) `,` type($w_up) `->` type($y)";
  let hasVerifier = 1;
}

def Dsv3_BatchedLinearOp : Dsv3_ComputeOp<"batched_linear"> {
  let summary = "One linear per head: y[t, h] = x[t, h] w[h]^T";
  let description = [{x [T, H, K], w [H, N, K] -> y [T, H, N]. The two products of MLA's absorbed form.}];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$w, StrAttr:$site);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x `,` $w `site` $site attr-dict `:` type($x) `,` type($w) `->` type($y)";
  let hasVerifier = 1;
}

def Dsv3_SwigluOp : Dsv3_ComputeOp<"swiglu"> {
  let summary = "silu(gate) * up";
  let arguments = (ins AnyRankedTensor:$gate, AnyRankedTensor:$up, StrAttr:$site);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$gate `,` $up `site` $site attr-dict `:` type($gate) `,` type($up) `->` type($y)";
  let hasVerifier = 1;
}

def Dsv3_AddOp : Dsv3_ComputeOp<"add"> {
  let summary = "x + y, rounded to the result's type";
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$y, StrAttr:$site);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x `,` $y `site` $site attr-dict `:` type($x) `,` type($y) `->` type($result)";
  let hasVerifier = 1;
}

def Dsv3_SplitOp : Dsv3_ComputeOp<"split"> {
  let summary = "Cuts the last dim";
  let description = [{x [.., D] -> parts whose last dims add up to D.}];
  let arguments = (ins AnyRankedTensor:$x);
  let results = (outs Variadic<AnyRankedTensor>:$parts);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($parts)";
  let hasVerifier = 1;
}

def Dsv3_ConcatOp : Dsv3_ComputeOp<"concat"> {
  let summary = "Joins along the last dim";
  let arguments = (ins Variadic<AnyRankedTensor>:$parts, StrAttr:$site);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$parts `site` $site attr-dict `:` type($parts) `->` type($result)";
  let hasVerifier = 1;
}

def Dsv3_SelectRowsOp : Dsv3_ComputeOp<"select_rows"> {
  let summary = "The row of each sequence whose logits are wanted";
  let description = [{x [T, D] -> [S, D]: row `logit_row[s]` of the step.}];
  let arguments = (ins AnyRankedTensor:$x, Dsv3_SeqType:$seq, StrAttr:$site);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x `,` $seq `site` $site attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
}

//===-- Attention ---------------------------------------------------------===//

def Dsv3_RopeOp : Dsv3_ComputeOp<"rope"> {
  let summary = "Rotary embedding of `dims` lanes from lane `at`";
  let description = [{x [T, H, D] or [T, D]; lanes outside [at, at + dims) pass unchanged.}];
  let arguments = (ins AnyRankedTensor:$x, Dsv3_SeqType:$seq, I64Attr:$at, Dsv3_RopeAttr:$rope, StrAttr:$site);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x `,` $seq `at` $at $rope `site` $site attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
}

def Dsv3_KvAppendOp : Dsv3_ComputeOp<"kv_append", [AllTypesMatch<["kv", "result"]>]> {
  let summary = "Stores this step's rows in the cache";
  let description = [{
    latent [T, latent], rope [T, rope] (normalised, rotated) go to the cache rows of their tokens in
    `layer`; tokens without a slot store nothing. Yields the cache that readers after it must use.
  }];
  let arguments = (ins Dsv3_KvType:$kv, I64Attr:$layer, AnyRankedTensor:$latent, AnyRankedTensor:$rope,
                       Dsv3_SeqType:$seq, StrAttr:$site);
  let results = (outs Dsv3_KvType:$result);
  let assemblyFormat = "$kv `[` $layer `]` `latent` `(` $latent `)` `rope` `(` $rope `)` `,` $seq `site` $site attr-dict `:` type($latent) `,` type($rope) `,` type($kv)";
  let hasVerifier = 1;
}

def Dsv3_MlaAttentionOp : Dsv3_ComputeOp<"mla_attention"> {
  let summary = "Multi-head latent attention in its multi-head form";
  let description = [{
    q [T, H, nope + rope]; w_kvb [H * (nope + v), latent]. For each cached row of the sequence up to the
    query's position, `[k_nope | v] = latent w_kvb^T` per head, rounded to q's element type; the key is
    `[k_nope | rope row]`. y [T, H, v] = softmax(scale q k^T) v, softmax in float32. The chunk's own rows
    are read back from the cache too, so chunking cannot change bits. (DeepSeek-V2, section 2.1.)
  }];
  let arguments = (ins AnyRankedTensor:$q, Dsv3_KvType:$kv, I64Attr:$layer, AnyRankedTensor:$w_kvb,
                       Dsv3_SeqType:$seq, F64Attr:$scale, StrAttr:$site);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$q `,` $kv `[` $layer `]` `,` $w_kvb `,` $seq `scale` custom<F64>($scale) `site` $site attr-dict `:` type($q) `,` type($kv) `,` type($w_kvb) `->` type($y)";
  let hasVerifier = 1;
}

def Dsv3_LatentAttentionOp : Dsv3_ComputeOp<"latent_attention"> {
  let summary = "Multi-head latent attention in its absorbed form";
  let description = [{
    q_latent [T, H, latent], q_rope [T, H, rope]; score = scale (q_latent . latent row + q_rope . rope
    row); y [T, H, latent] = softmax(score) . latent rows. One key row serves all heads.
  }];
  let arguments = (ins AnyRankedTensor:$q_latent, AnyRankedTensor:$q_rope, Dsv3_KvType:$kv, I64Attr:$layer,
                       Dsv3_SeqType:$seq, F64Attr:$scale, StrAttr:$site);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$q_latent `,` $q_rope `,` $kv `[` $layer `]` `,` $seq `scale` custom<F64>($scale) `site` $site attr-dict `:` type($q_latent) `,` type($q_rope) `,` type($kv) `->` type($y)";
  let hasVerifier = 1;
}

//===-- Mixture of experts ------------------------------------------------===//

def Dsv3_RouteOp : Dsv3_ComputeOp<"route"> {
  let summary = "Chooses experts (`noaux_tc` of DeepSeek-V3)";
  let description = [{
    logits [T, E] float32, bias [E] -> ids [T, k] i32, weights [T, k] float32. s = sigmoid(logits); selection
    uses s + bias: a group's score is the sum of its two best biased scores, the best `keep` of `groups`
    groups stay, outside them the score is minus infinity; the `top` best are chosen in descending order,
    ties to the lower id. Weights are the unbiased s of the chosen, divided by (their sum + 1e-20) if
    `norm`, times `scale`.
  }];
  let arguments = (ins AnyRankedTensor:$logits, AnyRankedTensor:$bias, I64Attr:$groups, I64Attr:$keep,
                       I64Attr:$top, BoolAttr:$norm, F64Attr:$scale, StrAttr:$site);
  let results = (outs AnyRankedTensor:$ids, AnyRankedTensor:$weights);
  let assemblyFormat = "$logits `,` $bias `groups` $groups `keep` $keep `top` $top `norm` $norm `scale` custom<F64>($scale) `site` $site attr-dict `:` type($logits) `,` type($bias) `->` type($ids) `,` type($weights)";
  let hasVerifier = 1;
}

def Dsv3_DispatchOp : Dsv3_ComputeOp<"dispatch"> {
  let summary = "Copies token rows to their experts, grouped by expert";
  let description = [{
    x [T, D], ids [T, k] -> rows [R, D] (R = T k), offsets [E + 1] i32 (rows of expert e are
    [offsets[e], offsets[e+1])), row_of [T, k] i32. Within an expert rows keep token order.
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$ids, I64Attr:$experts, StrAttr:$site);
  let results = (outs AnyRankedTensor:$rows, AnyRankedTensor:$offsets, AnyRankedTensor:$row_of);
  let assemblyFormat = "$x `,` $ids `experts` $experts `site` $site attr-dict `:` type($x) `,` type($ids) `->` type($rows) `,` type($offsets) `,` type($row_of)";
  let hasVerifier = 1;
}

def Dsv3_GroupedLinearOp : Dsv3_ComputeOp<"grouped_linear"> {
  let summary = "One linear per expert over its rows";
  let description = [{x [R, K], w [E, N, K], offsets [E + 1] -> y [R, N].}];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$w, AnyRankedTensor:$offsets, StrAttr:$site);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x `,` $w `,` $offsets `site` $site attr-dict `:` type($x) `,` type($w) `,` type($offsets) `->` type($y)";
  let hasVerifier = 1;
}

def Dsv3_CombineOp : Dsv3_ComputeOp<"combine"> {
  let summary = "Weighted sum of a token's expert rows";
  let description = [{rows [R, D], row_of [T, k], weights [T, k] [, plus [T, D]] -> y [T, D]: adds weight * row in k order from 0, then `plus`, in float32, and rounds once.}];
  let arguments = (ins AnyRankedTensor:$rows, AnyRankedTensor:$row_of, AnyRankedTensor:$weights,
                       Optional<AnyRankedTensor>:$plus, StrAttr:$site);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$rows `,` $row_of `,` $weights (`plus` `(` $plus^ `:` type($plus) `)`)? `site` $site attr-dict `:` type($rows) `,` type($row_of) `,` type($weights) `->` type($y)";
  let hasVerifier = 1;
}

def Dsv3_RoutedExpertsOp : Dsv3_ComputeOp<"routed_experts", [AttrSizedResultSegments]> {
  let summary = "The routed experts of a layer in one op";
  let description = [{
    Equal to route, dispatch, two grouped linears, swiglu, grouped linear and combine, with the
    intermediate types of `via`. x [T, D], logits [T, E], bias [E], w_gate and w_up [E, F, D], w_down
    [E, D, F] [, plus [T, D]] -> y [T, D], and the routing if somebody else needs it. Only the chosen
    experts' weights are touched. x may be quantised row by row; `quantized` quantises the activation before the
    second product, after its rounding to `act`.
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$logits, AnyRankedTensor:$bias,
    AnyRankedTensor:$w_gate, AnyRankedTensor:$w_up, AnyRankedTensor:$w_down, Optional<AnyRankedTensor>:$plus,
    I64Attr:$groups, I64Attr:$keep, I64Attr:$top, BoolAttr:$norm, F64Attr:$scale,
    TypeAttr:$via_gate_up, TypeAttr:$via_act, OptionalAttr<Dsv3_BlockedAttr>:$act_scheme, TypeAttr:$via_down, StrAttr:$site);
  let results = (outs AnyRankedTensor:$y, Optional<AnyRankedTensor>:$ids, Optional<AnyRankedTensor>:$weights);
  let assemblyFormat = [{
    $x `,` $logits `,` $bias `,` $w_gate `,` $w_up `,` $w_down (`plus` `(` $plus^ `:` type($plus) `)`)?
    `groups` $groups `keep` $keep `top` $top `norm` $norm `scale` custom<F64>($scale)
    `via` `(` `gate_up` `:` $via_gate_up `,` `act` `:` $via_act (`quantized` `(` $act_scheme^ `)`)? `,` `down` `:` $via_down `)` `site` $site attr-dict
    `:` type($x) `,` type($logits) `,` type($bias) `,` type($w_gate) `,` type($w_up) `,` type($w_down)
    `->` type($y) (`ids` `(` type($ids)^ `)`)? (`weights` `(` type($weights)^ `)`)?
  }];
  let hasVerifier = 1;
}

//===-- Observation -------------------------------------------------------===//

def Dsv3_TapOp : Dsv3_Op<"tap"> {
  let summary = "Keeps a named state for the user";
  let description = [{An ordinary user of the value with an ordered effect: fusions must leave the value available, in the same bits.}];
  let arguments = (ins StrAttr:$name, AnyRankedTensor:$value);
  let assemblyFormat = "$name `,` $value attr-dict `:` type($value)";
}

#endif
