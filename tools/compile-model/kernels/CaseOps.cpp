// The kernel ops a case can ask for: one function each, and the table at the end.
#include "runtime/core/Abi.h"
#include "tools/compile-model/kernels/CaseBuilder.h"

using namespace mlir;

namespace dsv3 {

namespace {
const kernel::NumericsAttr unbound;
const kernel::ScheduleAttr unscheduled;

Type i32(CaseBuilder &c) { return c.b.getI32Type(); }

ir::RopeAttr ropeOf(CaseBuilder &c, int64_t dims) {
  return ir::RopeAttr::get(c.b.getContext(), dims, c.numberOr("theta", 10000), c.flagOr("interleaved", true), 0.0, 0, 0.0, 0.0, 1.0);
}

/// cos and sin for every position a sequence of the case has.
Value ropeTable(CaseBuilder &c, int64_t dims) { return c.plainWeight("table", {c.entry.longest(), dims}, c.b.getF32Type()); }

//===-- Products ----------------------------------------------------------===//

void gemm(CaseBuilder &c) {
  int64_t n = c.size("n"), k = c.size("k");
  Value x = c.inputRows("x", {c.T, k}), w = c.weight("w", {n, k}), out = c.output({c.T, n}, c.elem("out"));
  c.result("out", kernel::GemmOp::create(c.b, c.loc, out.getType(), x, w, out, unbound, unscheduled, c.site()));
}

void gatedGemm(CaseBuilder &c) {
  int64_t n = c.size("n"), k = c.size("k");
  Value x = c.inputRows("x", {c.T, k}), gate = c.weight("w_gate", {n, k}), up = c.weight("w_up", {n, k});
  Value out = c.outputRows({c.T, n});
  c.result("out", kernel::GatedGemmOp::create(c.b, c.loc, out.getType(), x, gate, up, out, TypeAttr::get(c.elem("via")), unbound,
                                              unscheduled, c.site()));
}

void batchedGemm(CaseBuilder &c) {
  int64_t h = c.size("heads"), n = c.size("n"), k = c.size("k");
  Value x = c.inputView("x", {c.T, h, k}, c.elem("x")), w = c.weight("w", {h, n, k}), out = c.output({c.T, h, n}, c.elem("out"));
  c.result("out", kernel::BatchedGemmOp::create(c.b, c.loc, out.getType(), x, w, out, unbound, unscheduled, c.site()));
}

void groupedGemm(CaseBuilder &c) {
  int64_t experts = c.size("experts"), n = c.size("n"), k = c.size("k"), rows = c.T * c.size("top");
  Value x = c.inputRows("x", {rows, k}), w = c.weight("w", {experts, n, k});
  Value offsets = c.input("offsets", {experts + 1}, i32(c)), out = c.output({rows, n}, c.elem("out"));
  c.result("out", kernel::GroupedGemmOp::create(c.b, c.loc, out.getType(), x, w, offsets, out, unbound, unscheduled, c.site()));
}

void groupedGatedGemm(CaseBuilder &c) {
  int64_t experts = c.size("experts"), n = c.size("n"), k = c.size("k"), rows = c.T * c.size("top");
  bool gathered = c.flagOr("gathered", false); // rows of x are those of the experts, else rows of tokens
  Value x = c.inputRows("x", {gathered ? rows : c.T, k});
  Value gate = c.weight("w_gate", {experts, n, k}), up = c.weight("w_up", {experts, n, k});
  Value offsets = c.input("offsets", {experts + 1}, i32(c)), tokenOf = gathered ? Value() : c.input("token_of", {rows}, i32(c));
  if (c.flagOr("apart", false)) { // a launch of its own gathers, even if the product could
    auto type = cast<RankedTensorType>(x.getType());
    type = RankedTensorType::get({rows, k}, type.getElementType(), type.getEncoding());
    Value dest = kernel::EmptyOp::create(c.b, c.loc, type);
    x = kernel::GatherOp::create(c.b, c.loc, type, x, tokenOf, dest, unbound, unscheduled, c.b.getStringAttr(c.site().getValue() + ".gather"));
    tokenOf = {};
  }
  Value out = c.outputRows({rows, n});
  c.result("out", kernel::GroupedGatedGemmOp::create(c.b, c.loc, out.getType(), x, gate, up, offsets, tokenOf, out,
                                                     TypeAttr::get(c.elem("via")), unbound, unscheduled, c.site()));
}

//===-- Rows --------------------------------------------------------------===//

void norm(CaseBuilder &c) {
  int64_t d = c.size("d");
  Value x = c.inputView("x", {c.T, d}, c.elem("x")), gamma = c.plainWeight("gamma", {d}, c.elem("w")), out = c.outputRows({c.T, d});
  c.result("out", kernel::NormOp::create(c.b, c.loc, out.getType(), x, gamma, out, c.f64(c.numberOr("eps", 1e-6)), unbound, unscheduled, c.site()));
}

void addNorm(CaseBuilder &c) {
  int64_t d = c.size("d");
  Value x = c.input("x", {c.T, d}, c.elem("x")), residual = c.input("residual", {c.T, d}, c.elem("x"));
  Value gamma = c.plainWeight("gamma", {d}, c.elem("w")), sum = c.output({c.T, d}, c.elem("sum")), out = c.outputRows({c.T, d});
  auto op = kernel::AddNormOp::create(c.b, c.loc, sum.getType(), out.getType(), x, residual, gamma, sum, out, c.f64(c.numberOr("eps", 1e-6)),
                                      unbound, unscheduled, c.site());
  c.result("sum", op.getSum());
  c.result("out", op.getResult());
}

void addNormQuantize(CaseBuilder &c) {
  int64_t d = c.size("d");
  Value x = c.input("x", {c.T, d}, c.elem("x")), residual = c.input("residual", {c.T, d}, c.elem("x"));
  Value gamma = c.plainWeight("gamma", {d}, c.elem("w")), sum = c.output({c.T, d}, c.elem("sum")), out = c.output({c.T, d}, c.elem("out"));
  Value codes = c.outputCodes({c.T, d}, "codes");
  auto op = kernel::AddNormQuantizeOp::create(c.b, c.loc, sum.getType(), out.getType(), codes.getType(), x, residual, gamma, sum, out, codes,
                                              c.f64(c.numberOr("eps", 1e-6)), unbound, unscheduled, c.site());
  c.result("sum", op.getSum());
  c.result("out", op.getResult());
  c.result("codes", op.getCodes());
}

void quantize(CaseBuilder &c) {
  int64_t d = c.size("d");
  Value x = c.inputView("x", {c.T, d}, c.elem("x")), out = c.outputCodes({c.T, d}, "out");
  c.result("out", kernel::QuantizeOp::create(c.b, c.loc, out.getType(), x, out, unbound, unscheduled, c.site()));
}

void add(CaseBuilder &c) {
  int64_t d = c.size("d");
  Value x = c.input("x", {c.T, d}, c.elem("x")), y = c.input("y", {c.T, d}, c.elem("x")), out = c.output({c.T, d}, c.elem("out"));
  c.result("out", kernel::AddOp::create(c.b, c.loc, out.getType(), x, y, out, unbound, unscheduled, c.site()));
}

/// Gate and up are the halves of one buffer, as fuse-linears leaves them.
void swiglu(CaseBuilder &c) {
  int64_t d = c.size("d");
  Value both = c.input("gate_up", {c.T, 2 * d}, c.elem("x"));
  Value gate = c.view(both, 0, {c.T, d}), up = c.view(both, d, {c.T, d}), out = c.outputRows({c.T, d});
  c.result("out", kernel::SwigluOp::create(c.b, c.loc, out.getType(), gate, up, out, unbound, unscheduled, c.site()));
}

void concat(CaseBuilder &c) {
  int64_t dx = c.size("dx"), dy = c.size("dy");
  Value x = c.input("x", {c.T, dx}, c.elem("x")), y = c.input("y", {c.T, dy}, c.elem("x")), out = c.output({c.T, dx + dy}, c.elem("out"));
  c.result("out", kernel::ConcatOp::create(c.b, c.loc, out.getType(), x, y, out, unbound, unscheduled, c.site()));
}

void embed(CaseBuilder &c) {
  int64_t vocab = c.size("vocab"), d = c.size("d");
  Value ids = c.input("ids", {c.T}, i32(c)), table = c.plainWeight("table", {vocab, d}, c.elem("w")), out = c.output({c.T, d}, c.elem("out"));
  c.result("out", kernel::EmbedOp::create(c.b, c.loc, out.getType(), ids, table, out, unbound, unscheduled, c.site()));
}

void selectRows(CaseBuilder &c) {
  int64_t d = c.size("d");
  Value x = c.input("x", {c.T, d}, c.elem("x")), out = c.output({c.entry.seqs, d}, c.elem("out"));
  c.result("out", kernel::SelectRowsOp::create(c.b, c.loc, out.getType(), x, c.seq(), out, unbound, unscheduled, c.site()));
}

void sample(CaseBuilder &c) {
  Value logits = c.input("logits", {c.entry.seqs, c.size("vocab")}, c.elem("x", "f32")), out = c.output({c.entry.seqs, DSV3_SAMPLED_WORDS}, i32(c));
  c.result("out", kernel::SampleOp::create(c.b, c.loc, out.getType(), logits, c.seq(), out, unbound, unscheduled, c.site()));
}

//===-- Attention ---------------------------------------------------------===//

void rope(CaseBuilder &c) {
  int64_t h = c.size("heads"), d = c.size("d"), dims = c.sizeOr("dims", 64);
  Value x = c.input("x", {c.T, h, d}, c.elem("x")), out = c.flagOr("in_place", false) ? x : c.output({c.T, h, d}, c.elem("x"));
  c.result("out", kernel::RopeOp::create(c.b, c.loc, out.getType(), x, ropeTable(c, dims), c.seq(), out,
                                         c.b.getI64IntegerAttr(c.sizeOr("at", d - dims)), ropeOf(c, dims), unbound, unscheduled, c.site()));
}

void kvAppend(CaseBuilder &c) {
  int64_t latent = c.sizeOr("latent", 512), dims = c.sizeOr("rope_dims", 64);
  Value rows = c.inputView("kv_a", {c.T, latent + dims}, c.elem("x")), gamma = c.plainWeight("gamma", {latent}, c.elem("w"));
  Value table = ropeTable(c, dims), seq = c.seq(), kv = c.cache();
  if (cast<ir::KvType>(kv.getType()).getScheme())
    c.fail(c.entry.name + ": kv: expected bf16 or f32, got codes: what is appended is compared number by number");
  c.result("kv", kernel::KvAppendOp::create(c.b, c.loc, kv.getType(), rows, gamma, table, seq, kv, c.b.getI64IntegerAttr(c.sizeOr("layer", 0)),
                                            c.f64(c.numberOr("eps", 1e-6)), ropeOf(c, dims), unbound, unscheduled, c.site()));
}

void attnDecode(CaseBuilder &c) {
  int64_t h = c.size("heads"), latent = c.sizeOr("latent", 512), dims = c.sizeOr("rope_dims", 64), nope = c.sizeOr("nope", 128);
  Value q = c.input("q_latent", {c.T, h, latent}, c.elem("x"));
  Value qRope = c.view(c.input("q", {c.T, h, nope + dims}, c.elem("x")), nope, {c.T, h, dims});
  Value seq = c.seq(), kv = c.cache(), out = c.output({c.T, h, latent}, c.elem("out"));
  double scale = c.numberOr("scale", 0.1352337788); // (nope + rope)^-0.5 * 1.3689^2: the release's, with YaRN's factor
  c.result("out", kernel::AttnDecodeOp::create(c.b, c.loc, out.getType(), q, qRope, kv, seq, out, c.b.getI64IntegerAttr(c.sizeOr("layer", 0)),
                                               c.f64(scale), unbound, unscheduled, c.site()));
}

/// Key blocks of the step: every page of every sequence.
int64_t keyBlocks(CaseBuilder &c) {
  int64_t n = 0;
  for (const bench::Sequence &s : c.entry.sequences)
    n += llvm::divideCeil(s.past + s.count, 64);
  return std::max(n, c.sizeOr("kblocks", n));
}

void attnPrefill(CaseBuilder &c) {
  int64_t h = c.size("heads"), d = c.sizeOr("qk", 192), v = c.sizeOr("v", 128), blocks = keyBlocks(c);
  Value q = c.input("q", {c.T, h, d}, c.elem("x")), keys = c.input("keys", {blocks, h, 64, d}, c.elem("x"));
  Value values = c.input("values", {blocks, h, 64, v}, c.elem("x")), seq = c.seq(), out = c.output({c.T, h, v}, c.elem("out"));
  c.result("out", kernel::AttnPrefillOp::create(c.b, c.loc, out.getType(), q, keys, values, seq, out, c.f64(c.numberOr("scale", 0.1352337788)),
                                                c.b.getUnitAttr(), unbound, unscheduled, c.site()));
}

void kvExpand(CaseBuilder &c) {
  int64_t h = c.size("heads"), nope = c.sizeOr("nope", 128), v = c.sizeOr("v", 128), latent = c.sizeOr("latent", 512);
  int64_t blocks = keyBlocks(c);
  Value wK = c.weight("w_k", {h, nope, latent}), wV = c.weight("w_v", {h, v, latent}), seq = c.seq(), kv = c.cache();
  Value keys = c.output({blocks, h, 64, nope + c.sizeOr("rope_dims", 64)}, c.elem("out")), values = c.output({blocks, h, 64, v}, c.elem("out"));
  auto op = kernel::KvExpandOp::create(c.b, c.loc, keys.getType(), values.getType(), kv, wK, wV, seq, /*rows=*/Value(), keys, values,
                                       c.b.getI64IntegerAttr(c.sizeOr("layer", 0)), c.b.getUnitAttr(), unbound, unscheduled, c.site());
  c.result("keys", op.getKeys());
  c.result("values", op.getValues());
}

//===-- Experts -----------------------------------------------------------===//

void route(CaseBuilder &c) {
  int64_t experts = c.size("experts"), top = c.size("top");
  Value logits = c.input("logits", {c.T, experts}, c.elem("x", "f32")), bias = c.plainWeight("bias", {experts}, c.elem("bias", "f32"));
  Value ids = c.output({c.T, top}, i32(c)), weights = c.output({c.T, top}, c.b.getF32Type());
  auto op = kernel::RouteOp::create(c.b, c.loc, ids.getType(), weights.getType(), logits, bias, ids, weights, c.b.getI64IntegerAttr(c.size("groups")),
                                    c.b.getI64IntegerAttr(c.size("keep")), c.b.getI64IntegerAttr(top), c.b.getBoolAttr(c.flagOr("norm", true)),
                                    c.f64(c.numberOr("scale", 2.5)), unbound, unscheduled, c.site());
  c.result("ids", op.getIds());
  c.result("weights", op.getWeights());
}

void dispatch(CaseBuilder &c) {
  int64_t experts = c.size("experts"), top = c.size("top");
  Value ids = c.input("ids", {c.T, top}, i32(c)), offsets = c.output({experts + 1}, i32(c));
  Value tokenOf = c.output({c.T * top}, i32(c)), rowOf = c.output({c.T, top}, i32(c));
  auto op = kernel::DispatchOp::create(c.b, c.loc, offsets.getType(), tokenOf.getType(), rowOf.getType(), ids, offsets, tokenOf, rowOf, unbound,
                                       unscheduled, c.site());
  c.result("offsets", op.getOffsets());
  c.result("token_of", op.getTokenOf());
  c.result("row_of", op.getRowOf());
}

void gather(CaseBuilder &c) {
  int64_t d = c.size("d"), rows = c.T * c.size("top");
  Value x = c.inputRows("x", {c.T, d}), tokenOf = c.input("token_of", {rows}, i32(c));
  Value out = cast<RankedTensorType>(x.getType()).getEncoding() ? c.outputCodes({rows, d}, "x") : c.output({rows, d}, c.elem("x"));
  c.result("out", kernel::GatherOp::create(c.b, c.loc, out.getType(), x, tokenOf, out, unbound, unscheduled, c.site()));
}

void combine(CaseBuilder &c) {
  int64_t d = c.size("d"), top = c.size("top");
  Value rows = c.input("rows", {c.T * top, d}, c.elem("x")), rowOf = c.input("row_of", {c.T, top}, i32(c));
  Value weights = c.input("weights", {c.T, top}, c.b.getF32Type()), plus = c.flagOr("plus", true) ? c.input("plus", {c.T, d}, c.elem("x")) : Value();
  Value out = c.output({c.T, d}, c.elem("out"));
  c.result("out", kernel::CombineOp::create(c.b, c.loc, out.getType(), rows, rowOf, weights, plus, out, unbound, unscheduled, c.site()));
}

constexpr std::pair<llvm::StringLiteral, CaseFn> table[] = {
    {"gemm", gemm}, {"gated_gemm", gatedGemm}, {"batched_gemm", batchedGemm}, {"grouped_gemm", groupedGemm},
    {"grouped_gated_gemm", groupedGatedGemm}, {"norm", norm}, {"add_norm", addNorm}, {"add_norm_quantize", addNormQuantize},
    {"quantize", quantize}, {"add", add}, {"swiglu", swiglu}, {"concat", concat}, {"embed", embed}, {"select_rows", selectRows},
    {"sample", sample}, {"rope", rope}, {"kv_append", kvAppend},
    {"attn_decode", attnDecode}, {"attn_prefill", attnPrefill}, {"kv_expand", kvExpand}, {"route", route}, {"dispatch", dispatch}, {"gather", gather}, {"combine", combine},
};
} // namespace

CaseFn findCase(StringRef op) {
  for (auto [name, fn] : table)
    if (op == name)
      return fn;
  return nullptr;
}

std::string caseNames() {
  std::string names;
  for (auto [name, fn] : table)
    names += (names.empty() ? "" : ", ") + name.str();
  return names;
}

} // namespace dsv3
