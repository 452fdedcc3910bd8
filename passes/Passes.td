// Passes of the stages import to fuse: what goes in, what comes out, what is refused.
#ifndef DSV3_PASSES
#define DSV3_PASSES

include "mlir/Pass/PassBase.td"

class Dsv3_Pass<string flag> : Pass<"dsv3-" # flag, "::mlir::ModuleOp"> {
  let dependentDialects = ["::dsv3::ir::Dsv3Dialect"];
}

def VerifyStagePass : Dsv3_Pass<"verify-stage"> {
  let summary = "Check what a stage promises";
  let description = [{Runs the verifier of the stage table's row of that name. Changes nothing.}];
  let options = [Option<"stage", "stage", "std::string", "", "Name of the stage">];
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
    originals are erased. A decode step has one row a sequence in sequence order, so it selects nothing.

    Taps stay in prefill, score and mtp programs and are dropped from decode: they show the states of a
    prompt, and decode computes attention in another form, in which some of them do not exist.

    Refused: a missing program, another signature, `?` elsewhere than in the first dimension.
  }];
  let options = [
    Option<"maxBatch", "max-batch", "int64_t", "8", "Sequences of a step">,
    Option<"prefillChunk", "prefill-chunk", "int64_t", "256", "Tokens of a prefill step">
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

def EraseUnusedWeightsPass : Dsv3_Pass<"erase-unused-weights"> {
  let summary = "Weights that no program reads";
  let description = [{
    Erases each `dsv3.weight` that no `dsv3.use` reads, directly or through recipes. A checkpoint tensor that
    loses its last reader becomes `dsv3.ignored` with reason "no_reader", so that the ledger stays complete.
  }];
}

#endif
