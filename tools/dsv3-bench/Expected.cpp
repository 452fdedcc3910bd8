#include "tools/dsv3-bench/Expected.h"

#include "runtime/core/TokenChoice.h"
#include "runtime/reference/ExpandedAttention.h"
#include "runtime/reference/Linear.h"
#include "runtime/reference/Moe.h"
#include "runtime/reference/Norm.h"
#include "runtime/reference/Quantize.h"
#include "runtime/reference/Rope.h"
#include "tools/dsv3-bench/Errors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

namespace dsv3::bench {

namespace {
using reference::Array;
using reference::Ids;
using reference::Rounding;

/// `samples` different numbers below n: the ends, and others at random.
std::vector<int64_t> sample(int64_t n, int64_t samples, uint64_t seed) {
  std::set<int64_t> chosen;
  if (n > 0)
    chosen = {0, n - 1};
  for (uint64_t i = 0; int64_t(chosen.size()) < std::min(n, samples); ++i)
    chosen.insert(int64_t(mix(seed, i) % uint64_t(n)));
  return {chosen.begin(), chosen.end()};
}

class Reference {
public:
  Reference(const Case &c, const Json &attributes, const OpData &data, int64_t samples) : c(c), data(data), json(attributes), samples(samples) {}

  Result<Expected> run() {
    using Fn = void (Reference::*)();
    static const std::pair<const char *, Fn> table[] = {
        {"gemm", &Reference::gemm}, {"gated_gemm", &Reference::gatedGemm}, {"batched_gemm", &Reference::batchedGemm},
        {"grouped_gemm", &Reference::groupedGemm}, {"grouped_gated_gemm", &Reference::groupedGatedGemm}, {"norm", &Reference::norm},
        {"add_norm", &Reference::addNorm}, {"add_norm_quantize", &Reference::addNorm}, {"quantize", &Reference::quantize},
        {"add", &Reference::add}, {"swiglu", &Reference::swiglu}, {"concat", &Reference::concat},
        {"embed", &Reference::embed}, {"select_rows", &Reference::selectRows}, {"sample", &Reference::sampleTokens}, {"rope", &Reference::rope},
        {"kv_append", &Reference::kvAppend}, {"kv_expand", &Reference::kvExpand}, {"attn_prefill", &Reference::attnPrefill},
        {"attn_decode", &Reference::attnDecode}, {"route", &Reference::route}, {"dispatch", &Reference::dispatch},
        {"gather", &Reference::gather}, {"combine", &Reference::combine}};
    for (auto [name, fn] : table)
      if (c.op == name) {
        (this->*fn)();
        return errors.failed ? Result<Expected>(errors.error) : std::move(out);
      }
    return unsupportedError(c.name + ": op: expected one with a reference, got '" + c.op + "'");
  }

private:
  //===-- Operands --------------------------------------------------------===//

  const Buffer &buffer(const char *name) {
    static const Buffer none;
    const Buffer *b = c.find(name);
    if (!b)
      errors.keep(checkpointError(c.name + ": expected a buffer '" + name + "', got none"));
    return b ? *b : none;
  }
  /// The operand's lanes of row `row` of an input.
  std::vector<double> lanes(const Buffer &b, int64_t row, int64_t at, int64_t count) {
    std::vector<double> v(static_cast<size_t>(count));
    data.read(b, row * b.shape.back() + at, count, v.data());
    return v;
  }
  std::vector<double> lanes(const Buffer &b, int64_t row) { return lanes(b, row, b.at, b.lanes); }
  Array<double> rows(const Buffer &b, const std::vector<int64_t> &which) {
    Array<double> out({int64_t(which.size()), b.lanes});
    for (size_t i = 0; i < which.size(); ++i) {
      std::vector<double> row = lanes(b, which[i]);
      std::copy(row.begin(), row.end(), out.row(int64_t(i)));
    }
    return out;
  }
  static Array<double> one(std::vector<double> v) {
    int64_t n = int64_t(v.size());
    return Array<double>({1, n}, std::move(v));
  }
  double number(const char *key, double fallback) { return json.value(key, fallback); }
  int64_t tokenRows() { return data.rows(); }
  std::vector<int64_t> someRows(int64_t n) { return sample(n, samples, 5); }

  void add(const char *name, int64_t row, std::vector<double> values) { out.rows.push_back({name, row, std::move(values)}); }
  void add(const char *name, const std::vector<int64_t> &which, const Array<double> &values) {
    for (size_t i = 0; i < which.size() && int64_t(i) < values.rows(); ++i)
      add(name, which[i], std::vector<double>(values.row(int64_t(i)), values.row(int64_t(i)) + values.cols()));
  }

  /// What codes and scales of `x` mean together, both found in float32 as kernels do: in double a number half-way between two codes
  /// may fall to the other side.
  Array<double> throughCodes(const Array<double> &x, const reference::QuantScheme &scheme) {
    Array<float> narrow(x.shape, std::vector<float>(x.data.begin(), x.data.end()));
    Array<float> y = errors.take(reference::dequantize(errors.take(reference::quantize(narrow, scheme))));
    return Array<double>(y.shape, std::vector<double>(y.data.begin(), y.data.end()));
  }
  /// Rows of bf16 or f32 as output `b` stores them.
  Array<double> quantised(const Buffer &b, const Array<double> &x) {
    reference::QuantScheme scheme;
    scheme.blockRows = 1;
    scheme.blockCols = b.isQuantised() ? b.block[1] : json.value("block", int64_t(128));
    if (b.isQuantised() && b.parts[0].elem == DType::I8)
      scheme.storage = reference::QuantStorage::I8;
    scheme.powerOfTwo = json.value("powers_of_two", false);
    return throughCodes(x, scheme);
  }
  /// Rows that a launch stores as output `name`. Codes are those of the numbers it would store otherwise.
  void addRows(const char *name, const std::vector<int64_t> &which, const Array<double> &values) {
    bool codes = buffer(name).isQuantised() || (json.contains("block") && (!c.find("codes") || buffer(name).name == "codes"));
    add(name, which, codes ? quantised(buffer(name), reference::roundTo(Rounding::BF16, Array<double>(values))) : values);
  }
  /// Rows of a product. The last place of a sum decides between codes of E4M3, which are up to an eighth apart.
  void addProducts(const char *name, const std::vector<int64_t> &which, const Array<double> &values) {
    addRows(name, which, values);
    const Buffer &b = buffer(name);
    if (!b.isQuantised() || b.parts[0].elem != DType::F8E4M3)
      return;
    const Array<double> stored = reference::roundTo(Rounding::BF16, Array<double>(values));
    for (size_t i = 0; i < which.size(); ++i)
      out.rows[out.rows.size() - which.size() + i].plain = {stored.row(int64_t(i)), stored.row(int64_t(i)) + stored.cols()};
  }

  //===-- Products --------------------------------------------------------===//

  /// x times rows [first, first + n) of a weight, transposed: the weight is read in pieces, so that it need not fit as doubles.
  Array<double> times(const Array<double> &x, const char *w, int64_t first, int64_t n) {
    Array<double> y({x.rows(), n});
    parallelFor(n, 16, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; at += 64) {
        int64_t to = std::min(end, at + 64);
        Array<double> part = errors.take(reference::linear(x, data.weight(w, first + at, first + to)));
        for (int64_t r = 0; r < part.rows(); ++r)
          std::copy(part.row(r), part.row(r) + part.cols(), y.row(r) + at);
      }
    });
    return y;
  }
  Array<double> gate(Array<double> g, Array<double> u) {
    Rounding via = json.value("via", std::string("bf16")) == "f32" ? Rounding::F32 : Rounding::BF16;
    return errors.take(reference::swiglu(reference::roundTo(via, std::move(g)), reference::roundTo(via, std::move(u))));
  }

  void gemm() {
    std::vector<int64_t> which = someRows(tokenRows());
    add("out", which, times(rows(buffer("x"), which), "w", 0, data.weightRows("w")));
  }

  void gatedGemm() {
    std::vector<int64_t> which = someRows(tokenRows());
    Array<double> x = rows(buffer("x"), which);
    int64_t n = data.weightRows("w_gate");
    addProducts("out", which, gate(times(x, "w_gate", 0, n), times(x, "w_up", 0, n)));
  }

  void batchedGemm() {
    int64_t heads = buffer("x").shape[1], n = buffer("out").shape[2];
    for (int64_t row : someRows(tokenRows() * heads))
      add("out", {row}, times(rows(buffer("x"), {row}), "w", row % heads * n, n));
  }

  /// First rows of the experts, and of the end.
  std::vector<int32_t> offsets() { return data.integers(buffer("offsets"), buffer("offsets").shape[0]); }
  static int64_t expertOf(const std::vector<int32_t> &offsets, int64_t row) {
    return std::upper_bound(offsets.begin(), offsets.end(), int32_t(row)) - offsets.begin() - 1;
  }

  void groupedGemm() {
    int64_t n = buffer("out").shape[1];
    std::vector<int32_t> starts = offsets();
    for (int64_t row : someRows(starts.back()))
      add("out", {row}, times(rows(buffer("x"), {row}), "w", expertOf(starts, row) * n, n));
  }

  void groupedGatedGemm() {
    int64_t n = buffer("out").shape[1];
    std::vector<int32_t> starts = offsets(), tokenOf;
    if (const Buffer *b = c.find("token_of")) // else rows were gathered before
      tokenOf = data.integers(*b, starts.back());
    for (int64_t row : someRows(starts.back())) {
      Array<double> x = rows(buffer("x"), {tokenOf.empty() ? row : tokenOf[size_t(row)]});
      int64_t first = expertOf(starts, row) * n;
      addProducts("out", {row}, gate(times(x, "w_gate", first, n), times(x, "w_up", first, n)));
    }
  }

  //===-- Rows ------------------------------------------------------------===//

  Array<double> gamma() {
    Array<double> g = data.weight("gamma", 0, 1);
    g.shape = {g.size()};
    return g;
  }

  void norm() {
    std::vector<int64_t> which = someRows(tokenRows());
    addRows("out", which, errors.take(reference::rmsNorm(rows(buffer("x"), which), gamma(), number("eps", 1e-6))));
  }

  void quantize() {
    std::vector<int64_t> which = someRows(tokenRows());
    add("out", which, quantised(buffer("out"), rows(buffer("x"), which)));
  }

  void addNorm() {
    std::vector<int64_t> which = someRows(tokenRows());
    Rounding sum = buffer("sum").elem == DType::F32 ? Rounding::F32 : Rounding::BF16;
    reference::NormResult<double> r = errors.take(
        reference::rmsNorm(rows(buffer("x"), which), rows(buffer("residual"), which), gamma(), number("eps", 1e-6), sum));
    add("sum", which, r.sum);
    addRows("out", which, r.y);
    if (c.find("codes"))
      addRows("codes", which, r.y);
  }

  void add() {
    std::vector<int64_t> which = someRows(tokenRows());
    add("out", which, errors.take(reference::add(rows(buffer("x"), which), rows(buffer("y"), which))));
  }

  void swiglu() {
    std::vector<int64_t> which = someRows(tokenRows());
    if (c.find("gate_up"))
      return addRows("out", which, errors.take(reference::swiglu(rows(buffer("gate_up"), which))));
    addRows("out", which, errors.take(reference::swiglu(rows(buffer("gate"), which), rows(buffer("up"), which))));
  }

  void concat() {
    std::vector<int64_t> which = someRows(tokenRows());
    add("out", which, errors.take(reference::concat<double>({rows(buffer("x"), which), rows(buffer("y"), which)})));
  }

  void embed() {
    std::vector<int64_t> which = someRows(tokenRows());
    std::vector<int32_t> ids = data.integers(buffer("ids"), tokenRows());
    for (int64_t t : which)
      add("out", {t}, data.weight("table", ids[size_t(t)], ids[size_t(t)] + 1));
  }

  void selectRows() {
    reference::SeqMeta seq = data.sequences();
    for (int64_t s : someRows(seq.seqs()))
      add("out", s, lanes(buffer("x"), seq.qStart[size_t(s + 1)] - 1));
  }

  /// Every word of every row: what the host would choose.
  void sampleTokens() {
    const Buffer &logits = buffer("logits");
    int64_t vocab = logits.shape[1], rows = data.sequences().seqs();
    std::vector<int32_t> words(size_t(rows * DSV3_SAMPLED_WORDS));
    parallelFor(rows, 1, [&](int64_t begin, int64_t end) {
      TokenChooser chooser;
      for (int64_t r = begin; r < end; ++r) {
        std::vector<double> wide = lanes(logits, r);
        std::vector<float> row(wide.begin(), wide.end());
        dsv3_sampled chosen = chooser.choose(row.data(), vocab, samplingOfCase(json, r));
        std::memcpy(words.data() + r * DSV3_SAMPLED_WORDS, &chosen, sizeof chosen);
      }
    });
    out.ints.push_back({"out", std::move(words)});
  }

  void gather() {
    int64_t top = buffer("token_of").shape[0] / buffer("x").shape[0];
    std::vector<int32_t> tokenOf = data.integers(buffer("token_of"), data.rows() * top);
    for (int64_t row : someRows(data.rows() * top))
      add("out", row, lanes(buffer("x"), tokenOf[size_t(row)]));
  }

  void combine() {
    const Buffer *plus = c.find("plus");
    int64_t top = buffer("row_of").shape[1];
    std::vector<int32_t> from = data.integers(buffer("row_of"), tokenRows() * top);
    for (int64_t t : someRows(tokenRows())) {
      std::vector<int64_t> which;
      Ids rowOf({1, top});
      for (int64_t k = 0; k < top; ++k) {
        which.push_back(from[size_t(t * top + k)]);
        rowOf.data[size_t(k)] = int32_t(k);
      }
      Array<double> more = plus ? one(lanes(*plus, t)) : Array<double>();
      add("out", {t}, errors.take(reference::combine(rows(buffer("rows"), which), rowOf, one(lanes(buffer("weights"), t)), more)));
    }
  }

  //===-- Routing ---------------------------------------------------------===//

  void route() {
    reference::RouteParams p;
    p.groups = json.value("groups", int64_t(8));
    p.keep = json.value("keep", int64_t(4));
    p.top = json.value("top", int64_t(8));
    p.norm = json.value("norm", true);
    p.scale = number("scale", 2.5);
    Array<double> bias = data.weight("bias", 0, 1);
    bias.shape = {bias.size()};
    for (int64_t t : someRows(tokenRows())) {
      Array<double> logits = one(lanes(buffer("logits"), t));
      reference::Routing<double> r = errors.take(reference::route(logits, bias, p));
      ExpectedExperts e{t, r.ids.data, {}};
      for (int64_t i = 0; i < logits.size(); ++i)
        e.scores.push_back(1 / (1 + std::exp(-logits.data[size_t(i)])) + bias.data[size_t(i)]);
      out.experts.push_back(std::move(e));
      add("weights", t, r.weights.data);
    }
  }

  void dispatch() {
    int64_t rows = tokenRows(), top = buffer("ids").shape[1];
    Ids ids({rows, top}, data.integers(buffer("ids"), rows * top));
    Array<double> numbers({rows, 1});
    std::iota(numbers.data.begin(), numbers.data.end(), 0.0);
    reference::Dispatched<double> d = errors.take(reference::dispatch(numbers, ids, buffer("offsets").shape[0] - 1));
    out.ints = {{"offsets", d.offsets.data}, {"token_of", {d.rows.data.begin(), d.rows.data.end()}}, {"row_of", d.rowOf.data}};
  }

  //===-- Attention -------------------------------------------------------===//

  Array<double> rotated(Array<double> x, const std::vector<int32_t> &positions, int64_t at, int64_t dims) {
    reference::RopeParams p;
    p.dims = dims;
    p.theta = number("theta", 10000);
    p.interleaved = json.value("interleaved", true);
    if (json.contains("yarn")) {
      const Json &yarn = json["yarn"];
      p.yarn = true;
      p.factor = yarn.value("factor", 1.0);
      p.original = yarn.value("original", 4096.0);
      p.betaFast = yarn.value("beta_fast", 32.0);
      p.betaSlow = yarn.value("beta_slow", 1.0);
    }
    reference::RopeTable table = errors.take(reference::ropeTable(p));
    if (errors.failed)
      return {};
    table.attentionFactor = float(json.value("attention_factor", 1.0));
    return errors.take(reference::rope(x, Ids({int64_t(positions.size())}, positions), table, at, p.interleaved));
  }

  void rope() {
    const Buffer &x = buffer("x");
    int64_t heads = x.shape[1], d = x.shape[2], dims = json.value("dims", int64_t(64));
    reference::SeqMeta seq = data.sequences();
    const char *name = c.find("out") ? "out" : "x"; // in place
    for (int64_t row : someRows(tokenRows() * heads))
      add(name, {row}, rotated(one(lanes(x, row)), {seq.tokenPos[size_t(row / heads)]}, json.value("at", d - dims), dims));
  }

  void kvAppend() {
    const Buffer &kv = buffer("kv");
    int64_t latent = json.value("latent", int64_t(512)), dims = kv.shape[3] - latent;
    reference::SeqMeta seq = data.sequences();
    for (int64_t t : someRows(tokenRows())) {
      std::vector<double> row = lanes(buffer("kv_a"), t);
      Array<double> low = one(std::vector<double>(row.begin(), row.begin() + latent)), key = one(std::vector<double>(row.begin() + latent, row.end()));
      low = errors.take(reference::rmsNorm(low, gamma(), number("eps", 1e-6)));
      key = rotated(std::move(key), {seq.tokenPos[size_t(t)]}, 0, dims);
      low.data.insert(low.data.end(), key.data.begin(), key.data.end());
      int64_t position = seq.tokenPos[size_t(t)], page = seq.blockTable[size_t(seq.tokenSeq[size_t(t)])][size_t(position / reference::kPageTokens)];
      add("kv", (data.layer() * data.cachePages() + page) * reference::kPageTokens + position % reference::kPageTokens, std::move(low.data));
    }
  }

  /// A cache of one sequence alone, pages [first, first + n) of it, in order.
  reference::Cache<double> cacheOf(const Buffer &kv, const std::vector<int32_t> &pages, int64_t first, int64_t n, int64_t context) {
    int64_t latent = json.value("latent", int64_t(512));
    reference::Cache<double> cache(1, n, {latent, kv.shape[3] - latent});
    for (int64_t p = 0; p < n; ++p)
      for (int64_t slot = 0; slot < std::min(reference::kPageTokens, context - (first + p) * reference::kPageTokens); ++slot)
        data.cached(kv, pages[size_t(first + p)], slot, cache.row(0, p, slot));
    return cache;
  }
  static std::vector<int32_t> upTo(int64_t n) {
    std::vector<int32_t> v;
    for (int64_t i = 0; i < n; ++i)
      v.push_back(int32_t(i));
    return v;
  }

  void kvExpand() {
    const Buffer &keys = buffer("keys"), &values = buffer("values"), &kv = buffer("kv");
    int64_t heads = keys.shape[1], nope = data.weightRows("w_k") / heads, v = values.shape[3];
    reference::SeqMeta seq = data.sequences();
    std::vector<std::pair<int64_t, int64_t>> blocks; // sequence, page of it
    for (int64_t s = 0; s < seq.seqs(); ++s)
      for (size_t p = 0; p < seq.blockTable[size_t(s)].size(); ++p)
        blocks.push_back({s, int64_t(p)});
    for (int64_t i : sample(int64_t(blocks.size()) * heads, std::max<int64_t>(2, samples / 4), 6)) {
      int64_t block = i / heads, head = i % heads, page = blocks[size_t(block)].second;
      auto s = size_t(blocks[size_t(block)].first);
      int64_t here = std::min<int64_t>(reference::kPageTokens, seq.ctxLen[s] - page * reference::kPageTokens);
      reference::SeqMeta one;
      one.addSequence(here - 1, 1, {0});
      Array<double> wK = data.weight("w_k", head * nope, (head + 1) * nope), wV = data.weight("w_v", head * v, (head + 1) * v);
      wK.shape.insert(wK.shape.begin(), 1);
      wV.shape.insert(wV.shape.begin(), 1);
      reference::ExpandedKeys<double> e =
          errors.take(reference::expandKeys(cacheOf(kv, seq.blockTable[s], page, 1, seq.ctxLen[s]), 0, wK, wV, one));
      if (errors.failed)
        return;
      bool keyRows = json.value("key_rows", true);
      if (!keyRows) // a row per lane: a lane of one key may be near zero, so all lanes count as one row
        add("keys", i * keys.shape[2], std::move(e.keys.data));
      for (int64_t slot = 0; slot < reference::kPageTokens; ++slot) {
        std::vector<double> key;
        for (int64_t lane = 0; keyRows && lane < keys.shape[3]; ++lane)
          key.push_back(e.keys.data[size_t(lane * reference::kPageTokens + slot)]);
        if (keyRows)
          add("keys", i * reference::kPageTokens + slot, std::move(key));
        add("values", i * reference::kPageTokens + slot, std::vector<double>(e.values.row(slot), e.values.row(slot) + v));
      }
    }
  }

  /// One row of one head at a time: a step of one token whose past is what it may read.
  void attnPrefill() {
    const Buffer &q = buffer("q"), &keys = buffer("keys"), &values = buffer("values");
    int64_t heads = q.shape[1], d = q.shape[2], v = values.shape[3];
    bool keyRows = json.value("key_rows", true);
    reference::SeqMeta seq = data.sequences();
    std::vector<int64_t> firstBlock{0};
    for (int32_t context : seq.ctxLen)
      firstBlock.push_back(firstBlock.back() + (context + reference::kPageTokens - 1) / reference::kPageTokens);
    std::vector<int64_t> which = someRows(tokenRows() * heads);
    std::vector<std::vector<double>> results(which.size());
    parallelFor(int64_t(which.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t token = which[size_t(i)] / heads, head = which[size_t(i)] % heads, context = seq.tokenPos[size_t(token)] + 1;
        int64_t blocks = (context + reference::kPageTokens - 1) / reference::kPageTokens, first = firstBlock[size_t(seq.tokenSeq[size_t(token)])];
        reference::ExpandedKeys<double> kv{Array<double>({blocks, 1, d, reference::kPageTokens}), Array<double>({blocks, 1, reference::kPageTokens, v})};
        std::vector<double> block(size_t(d * reference::kPageTokens));
        for (int64_t at = 0; at < blocks; ++at) {
          int64_t from = ((first + at) * heads + head) * reference::kPageTokens;
          double *key = &kv.keys.data[size_t(at * d * reference::kPageTokens)];
          data.read(keys, from * d, d * reference::kPageTokens, keyRows ? block.data() : key);
          for (int64_t j = 0; keyRows && j < d * reference::kPageTokens; ++j)
            key[j % d * reference::kPageTokens + j / d] = block[size_t(j)];
          data.read(values, from * v, v * reference::kPageTokens, &kv.values.data[size_t(at * v * reference::kPageTokens)]);
        }
        reference::SeqMeta alone;
        alone.addSequence(context - 1, 1, upTo(blocks));
        Array<double> query({1, 1, d}, lanes(q, which[size_t(i)]));
        results[size_t(i)] = errors.take(reference::expandedAttention(query, kv, alone, number("scale", 0.1352337788), int64_t(64))).data;
      }
    });
    for (size_t i = 0; i < which.size(); ++i)
      add("out", which[i], std::move(results[i]));
  }

  void attnDecode() {
    const Buffer &latent = buffer("q_latent"), &q = buffer("q"), &kv = buffer("kv");
    int64_t heads = latent.shape[1], width = latent.shape[2], rope = q.lanes;
    reference::SeqMeta seq = data.sequences();
    // A few sequences, a few heads of each: a cache as doubles is large.
    for (int64_t s : sample(seq.seqs(), std::max<int64_t>(2, samples / 4), 8)) {
      auto context = int64_t(seq.ctxLen[size_t(s)]), pages = int64_t(seq.blockTable[size_t(s)].size());
      reference::Cache<double> cache = cacheOf(kv, seq.blockTable[size_t(s)], 0, pages, context);
      std::vector<int64_t> which = sample(heads, samples, uint64_t(s));
      std::vector<std::vector<double>> results(which.size());
      parallelFor(int64_t(which.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          reference::SeqMeta alone;
          alone.addSequence(context - 1, 1, upTo(pages));
          int64_t row = s * heads + which[size_t(i)];
          Array<double> a({1, 1, width}, lanes(latent, row)), b({1, 1, rope}, lanes(q, row));
          if (kv.latent) // codes meet codes
            a = throughCodes(a, {reference::QuantStorage::F8E4M3, 1, 0});
          results[size_t(i)] = errors.take(reference::latentAttention(a, b, cache, 0, alone, number("scale", 0.1352337788))).data;
        }
      });
      for (size_t i = 0; i < which.size(); ++i)
        add("out", s * heads + which[i], std::move(results[i]));
    }
  }

  const Case &c;
  const OpData &data;
  const Json &json;
  int64_t samples;
  Errors errors;
  Expected out;
};
} // namespace

Result<Expected> expect(const Case &c, const Json &attributes, const OpData &data, int64_t samples) { return Reference(c, attributes, data, samples).run(); }

} // namespace dsv3::bench
