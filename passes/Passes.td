// Passes of the stages import to pack: what goes in, what comes out, what is refused.
#ifndef DSV3_PASSES
#define DSV3_PASSES

include "mlir/Pass/PassBase.td"

class Dsv3_Pass<string flag> : Pass<"dsv3-" # flag, "::mlir::ModuleOp"> {
  let dependentDialects = ["::dsv3::ir::Dsv3Dialect", "::dsv3::kernel::KernelDialect"];
}

def VerifyStagePass : Dsv3_Pass<"verify-stage"> {
  let summary = "Check what a stage promises";
  let description = [{Runs the verifier of the stage table's row of that name. Changes nothing.}];
  let options = [Option<"stage", "stage", "std::string", "", "Name of the stage">];
}

//===-- quantize ----------------------------------------------------------===//

def QuantizeWeightsPass : Dsv3_Pass<"quantize-weights"> {
  let summary = "Give weights and their activations the schemes of a policy";
  let description = [{
    In: programs as imported. A policy decides per linear. A weight whose scheme changes becomes `NAME.stored`, as the
    checkpoint has it, and `NAME`, a recipe `#dsv3.quantized<@NAME.stored, CLIP>` of the new scheme: what is rounded are the
    dequantised numbers. The `activation` that is left on weights is an instruction to `--dsv3-quantize-activations`. kv_b, the
    router, embeddings and the head stay as they are stored, with plain activations.

    | policy | weights | activations |
    |---|---|---|
    | `none` | as stored | plain |
    | `checkpoint` | as stored | as the checkpoint asks |
    | `fp8-block` | plain ones: FP8 in blocks of 128x128 | of FP8 blocks: FP8 per token and 128 channels, scales powers of two where those of the weight are |
    | `w8a8` | int8 per channel | int8 per token |
    | `w4a16` | int4 in groups of 128 | plain |
    | `w4a8-experts` | routed experts int4 in groups of 128, others int8 per channel | int8 per token; of the experts' down projection int8 per token and 128 channels |

    A weight that is stored in fewer bits than the policy says stays as it is stored, and so does one in int4 where it says int4,
    groups of another size or zero points included. `config` names a file (docs/cli.md) with groups of its own. `algorithm` says how scales are found:
    `default`, `rtn` or `mse`.

    Refused: gate and up of experts in two schemes; a pattern of the file that matches nothing, or some experts of a layer only.
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"none\"", "Which schemes weights get">,
    Option<"config", "config", "std::string", "", "A file that says it instead">,
    Option<"algorithm", "algorithm", "std::string", "\"default\"", "How scales are found">
  ];
}

def QuantizeActivationsPass : Dsv3_Pass<"quantize-activations"> {
  let summary = "Quantise what meets the weights that ask for it";
  let description = [{
    In: programs as imported, whose weights may have an `activation`. Out: every linear and grouped linear of such a weight
    reads a `dsv3.quantize` of its x to that scheme; one copy serves all readers of a value. Heads [T, H, D] become one row, so
    that a scale may span them. Rows of experts are quantised before they are dispatched, once a token, with their scales
    travelling along, if all linears that read them agree. The attribute is gone afterwards: the types say it.

    kv_b inside attention is read by no linear, so its `activation` has no effect.
  }];
}

//===-- specialize --------------------------------------------------------===//

def InsertTapsPass : Dsv3_Pass<"insert-taps"> {
  let summary = "Keep the states whose names match an expression";
  let description = [{
    In: programs as imported. Out: a `dsv3.tap` after every result whose name fully matches `regex`, an
    extended regular expression. The name of a result is its op's site; besides, `X.route` offers `X.route.ids`
    and `X.route.weights`, and an attention `X.attn` offers `X.kv_b`: keys and values of this step's tokens, a
    linear of the appended latent that exists for the tap alone.

    Refused: an ill-formed expression; one that matches nothing (the message lists some names).
  }];
  let options = [Option<"regex", "regex", "std::string", "", "Which names to tap; empty: none">];
}

def InsertObserversPass : Dsv3_Pass<"insert-observers"> {
  let summary = "Keep the rows that linears multiply their weights with, for calibration";
  let description = [{
    In: programs as imported. Out: a `dsv3.tap` after every value that a linear, a grouped linear or (through the cache) an
    attention's `kv_b` reads, once for all its readers and named by the site of the op that computes it; after the chosen
    experts of every route, `X.ids`; and after the residual that the last norm reads. Rows of experts are observed as the rows of
    all tokens: with the routing they say what each expert saw. What a routed layer's down projection reads is computed inside
    its kernels and has no observer: it follows from the rows before and the weights of gate and up.

    Nothing is refused: rows that enter a program (`@head`) have no name and no observer.
  }];
}

def MakeProgramsPass : Dsv3_Pass<"make-programs"> {
  let summary = "Static programs for prefill, decode buckets, scoring and mtp";
  let description = [{
    In: `@trunk(ids, seq, kv) -> (hidden, kv)`, `@head(hidden) -> logits` and optionally
    `@mtp(ids, hidden, seq, kv) -> (logits, kv)`, with `?` for rows. Out, with T tokens and S sequences:

    | program | phase | T | S | results |
    |---|---|---|---|---|
    | `@prefill_tC` | prefill | C | max-batch | logits [S, V] of the selected rows, kv |
    | `@decode_bB` | decode | B | B | logits [B, V], kv; B = 1, 2, 4, .. max-batch |
    | `@score_tC` | score | C | max-batch | logits [C, V], with `@mtp` also hidden [C, D], kv |
    | `@mtp_tC` | mtp | C | max-batch | logits [C, V], kv |

    Results carry `dsv3.name`. Capacities are static, the true number of rows is data of the step. The
    originals are erased, and the module gets `dsv3.capacities`, the sizes of the step buffer. A decode step has
    one row a sequence in sequence order, so it selects nothing.

    Taps stay in prefill, score and mtp programs and are dropped from decode: they show the states of a
    prompt, and decode computes attention in another form, in which some of them do not exist.

    Refused: a missing program, another signature, `?` elsewhere than in the first dimension.
  }];
  let options = [
    Option<"maxBatch", "max-batch", "int64_t", "8", "Sequences of a step">,
    Option<"prefillChunk", "prefill-chunk", "int64_t", "512", "Tokens of a prefill step">,
    Option<"maxModelLen", "max-model-len", "int64_t", "4096", "Tokens of a sequence">
  ];
}

def AbsorbMlaPass : Dsv3_Pass<"absorb-mla"> {
  let summary = "Decode attention in its absorbed form";
  let description = [{
    In decode programs `mla_attention` becomes `split` (nope | rope), `batched_linear` with the key half of
    w_kvb transposed, `latent_attention`, `batched_linear` with its value half (DeepSeek-V2, section 2.1). The
    halves are new weights `@W.k` and `@W.v`, recipes over `@W`, made once for all programs; they stay encoded
    where the scale grid allows the cut and are dequantised otherwise. Sites: `X.absorb_q`, `X.attn`,
    `X.absorb_v`. Not bit-exact: it reorders sums. Other phases are untouched.

    Refused: a w_kvb that is not a `dsv3.use`.
  }];
}

//===-- fuse --------------------------------------------------------------===//

def FuseNormPass : Dsv3_Pass<"fuse-norm"> {
  let summary = "Residual add into the norm that reads it";
  let description = [{
    `add` followed by `rms_norm` of its result becomes one `rms_norm` with a residual. Its `sum` has the add's
    type and replaces the add for every other user, taps and returns included. Exact.

    Left alone: an add that no norm reads; a norm that has a residual already.
  }];
}

def FuseGatedPass : Dsv3_Pass<"fuse-gated"> {
  let summary = "Gate and up linears with their activation";
  let description = [{
    `swiglu` of two `linear`s of one input becomes `gated_linear`; `via` is the linears' element type. Exact.

    Left alone: a linear with another user (a tap is one), two inputs, different weight or result types.
  }];
}

def FuseLinearsPass : Dsv3_Pass<"fuse-linears"> {
  let summary = "Linears of one input in one";
  let description = [{
    `linear`s with the same input, element type and weight scheme become one linear over the concatenated weight
    and a `split`; in DeepSeek-V3 these are q_a and kv_a. Weight and site are named by joining the names
    (`l3.q_a_kv_a`). When the scale grid does not continue in program order, each weight is tried as the last; when
    it never does, a remark is emitted and they stay apart. Taps stay on the parts. A part that is only split
    further is split at once. Exact.

    Left alone: a linear whose result has heads, or whose weight is not a `dsv3.use`.
  }];
}

def FuseMoePass : Dsv3_Pass<"fuse-moe"> {
  let summary = "The routed experts of a layer in one op";
  let description = [{
    route, dispatch, two grouped linears, swiglu, grouped linear and combine become `routed_experts`, whose `via`
    names every intermediate type. Ids and weights are results too if somebody else reads them (a tap). Exact.

    Left alone: any other inner value that has another user, which in an unfused layer is a tap.
  }];
}

//===-- bind --------------------------------------------------------------===//

def LowerToKernelPass : Dsv3_Pass<"lower-to-kernel"> {
  let summary = "Every dsv3 op as launches in destination-passing style";
  let description = [{
    In: programs of stage fuse and the module's `dsv3.capacities`. Out: kernel ops without numerics and schedule,
    each with its `kernel.empty` destinations; besides, only `dsv3.use` and `dsv3.return` stay.

    | dsv3 | kernel |
    |---|---|
    | embed, linear, gated_linear, batched_linear, add, swiglu, select_rows, route | embed, gemm, gated_gemm, batched_gemm, add, swiglu, select_rows, route |
    | rms_norm | norm, with a residual add_norm |
    | split | a view per part that is read; views of views fold |
    | concat of two parts | concat |
    | rope | rope, in the buffer of x when nobody reads x afterwards |
    | kv_append | kv_append, which does the norm and the rotation of its rows too: it reads the value that was split |
    | mla_attention | kv_expand, attn_prefill with weights `@W.kn` [H, nope, latent] and `@W.v` [H, v, latent], recipes over `@W` |
    | latent_attention | attn_decode |
    | routed_experts | route, dispatch, grouped_gated_gemm, grouped_gemm, combine; sites X.route, X.dispatch, X.act, X.down |
    | tap | tap; a part of a value is copied to rows of its own first, by a concat of its halves |

    Norm, rotation and split that fed an append stay only for taps. cos and sin are one weight `@rope_table`
    [max_model_len, dims] per distinct rotary embedding.

    Refused: a concat of other than two parts; an append whose latent and key are not norm and rotation of
    neighbouring parts of one split, or are rounded to another type than the cache's; an attention whose w_kvb
    is no weight; a routed layer in pieces, with the tap that is the reason.
  }];
}

def ExpandAttentionPass : Dsv3_Pass<"expand-attention"> {
  let summary = "Attention in the form of a device";
  let description = [{
    On a target that runs grids (`#target.gpu`), after lower-to-kernel:

    - `attn_decode` becomes `attn_split` and `attn_combine` (sites X.attn, X.attn_combine), which share one `attn_plan` of
      the program, made before the first of them. With T sequences, H heads and `sm_count` multiprocessors there are P =
      sm_count / ceil(H / 64) partitions, one or more: a partition is the blocks that do one item, 64 heads each.
      Pieces are by length: of up to 64 heads at most 32 per sequence, of at least 8 pages; of more heads at most 16, of at
      least 16 pages. With `even` partitions get equal shares (`#kernel.split`).
    - `kv_expand` and `attn_prefill` get `key_rows`: keys [KB, H, 64, nope + rope], a row per key.

    On a CPU nothing changes. Refused: expanded keys that somebody else reads; two plans that would need different sizes
    (heads differ between layers).
  }];
  let options = [
    Option<"target", "target", "std::string", "", "Target; empty: the module's">,
    Option<"even", "even", "bool", "false", "Cut anywhere for equal work (--determinism=run)">
  ];
}

def ExpandExpertsPass : Dsv3_Pass<"expand-experts"> {
  let summary = "Rows of experts in the form of a device";
  let description = [{
    On a target that runs grids (`#target.gpu`), after lower-to-kernel: a `grouped_gated_gemm` that picks rows by `token_of`, and for
    which the target has no kernel that does, gets a `gather` (site X.gather) in front and reads its rows in order, as bulk copies
    need them. A quantised x is gathered with its scales. Nothing changes on a CPU, whose kernels pick rows themselves.
  }];
  let options = [Option<"target", "target", "std::string", "", "Target; empty: the module's">];
}

def AddSamplingPass : Dsv3_Pass<"add-sampling"> {
  let summary = "Tokens chosen where the logits are";
  let description = [{
    On a target that runs grids (`#target.gpu`), after lower-to-kernel: a program of phase prefill or decode whose result is
    `logits` gets a launch of `kernel.sample` (site sample) over them and one more result, `sampled` [S, 8] i32, behind the
    others. Which rows it chooses for, and how, stands in the step; the runtime copies logits only of rows that it leaves
    out. Nothing changes on a CPU, where the runtime reads the logits in place.

    Refused: a program to be served without a `seq` argument.
  }];
  let options = [Option<"target", "target", "std::string", "", "Target; empty: the module's">];
}

def DequantizeWeightsPass : Dsv3_Pass<"dequantize-weights"> {
  let summary = "Plain copies of weights that no kernel of the target reads as they are stored";
  let description = [{
    In: kernel ops before bind, in the form of the target (expand-attention, expand-experts). Out: where the target's kernels
    cannot read the scheme of a weight (zero points, permuted groups, scales that change along K after a transposition), or have no
    product of it with the rows that some launch multiplies it with, quantised or plain, a weight `NAME.plain` of the same element
    type `from #dsv3.ref<@NAME>` takes its place for all readers: its numbers are dequantised when they are packed, once. A
    warning per scheme says how many weights that are, what they grow to, and why.
  }];
  let options = [Option<"target", "target", "std::string", "", "Target whose kernels read the weights; empty: the module's">];
}

def DequantizeActivationsPass : Dsv3_Pass<"dequantize-activations"> {
  let summary = "Plain activations where the target has no product of quantised ones";
  let description = [{
    After dequantize-weights: a product of quantised rows that no kernel of the target takes, but does with plain ones, reads the
    rows as they were before kernel.quantize; gathered rows are gathered plain. The result is more exact and slower than what was
    asked for, so a warning per scheme and reason says how many products that are. A product without a kernel for either is left
    alone, for bind-kernels to refuse.
  }];
  let options = [Option<"target", "target", "std::string", "", "Target; empty: the module's">];
}

def FuseQuantizePass : Dsv3_Pass<"fuse-quantize"> {
  let summary = "Rows are quantised by the launch that makes them";
  let description = [{
    After lower-to-kernel: a `quantize` of what a norm, a residual norm, a `swiglu`, a `gated_gemm` or a `grouped_gated_gemm` makes
    becomes a destination of that launch. Where somebody else reads the plain result (the router), `add_norm` becomes
    `add_norm_quantize`; others stay as they are. The codes are the same: they are made of the result as it is rounded. A producer
    stays alone where the target has no kernel for both, as a product whose tiles do not see all numbers of a scale.
  }];
  let options = [Option<"target", "target", "std::string", "", "Target; empty: the module's">];
}

def BindKernelsPass : Dsv3_Pass<"bind-kernels"> {
  let summary = "Numerics and schedule of every launch";
  let description = [{
    Asks the target's registry: each kernel op gets the numerics and the schedule of the first emitter that
    accepts it. Choices made before are replaced. `remarks` reports them.

    Refused: an unknown target; an op without emitter; an op that its emitter refuses, with the reason.
  }];
  let options = [
    Option<"target", "target", "std::string", "", "Target whose kernels are chosen; empty: the module's">,
    Option<"remarks", "remarks", "bool", "false", "Emit a remark for each choice">
  ];
}

def VerifyNumericsPass : Dsv3_Pass<"verify-numerics"> {
  let summary = "Equal bits in all buckets";
  let description = [{
    Launches of one site and op must have equal numerics, and plans of attention an equal split, in all programs of a
    family (prefill and score are one), and programs of one phase the same list of sites and ops, in order. Changes nothing. Runs again after every
    later stage.

    Refused: a difference; the message names both programs.
  }];
}

//===-- pack --------------------------------------------------------------===//

def PackWeightsPass : Dsv3_Pass<"pack-weights"> {
  let summary = "One layout and one place in the weights file for every weight";
  let description = [{
    In: launches with schedules. For each `dsv3.weight` that launches read, the emitters of all readers in all
    programs say which encoding they want; a reader without a wish gets rows as they are. Out: `@W.packed`, a
    `kernel.weight` with its bytes at a 4 KiB aligned offset of the weights file, in the order of the recipes, and
    `kernel.use` in the place of `dsv3.use`. Recipes stay as sources. Two symbols with equal recipe and type
    are stored once when their readers agree.

    Refused: readers of one symbol that want different encodings (the message lists program, site and wish); a
    weight read by something else than a launch.
  }];
  let options = [Option<"target", "target", "std::string", "", "Target whose kernels read the weights; empty: the module's">];
}

def EraseUnusedWeightsPass : Dsv3_Pass<"erase-unused-weights"> {
  let summary = "Weights that no program reads";
  let description = [{
    Erases each `dsv3.weight` that no `dsv3.use` and no `kernel.weight` reads, directly or through recipes. A checkpoint tensor that
    loses its last reader becomes `dsv3.ignored` with reason "no_reader", so that the ledger stays complete.
  }];
}

#endif
