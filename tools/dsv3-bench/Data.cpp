#include "tools/dsv3-bench/Data.h"

#include "runtime/core/TokenChoice.h"
#include "runtime/engine/StepBuffer.h"
#include "runtime/reference/Moe.h"
#include "runtime/reference/Rope.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace dsv3::bench {

namespace {
constexpr int64_t kPage = reference::kPageTokens;

/// Small stand-in for a module's description, so that the engine's own code writes the step.
struct StepModule {
  std::vector<dsv3_field_desc> fields;
  dsv3_module_desc module{};
  dsv3_program_desc program{};

  StepModule(const Pack &pack, const ShapeEntry &entry) {
    for (const StepField &f : pack.fields)
      fields.push_back({"", uint32_t(f.kind), f.elem == DType::I64 ? uint32_t(DSV3_ELEM_I64) : uint32_t(DSV3_ELEM_I32), uint64_t(f.offset), uint64_t(f.count)});
    module.fields = fields.data();
    module.n_fields = uint32_t(fields.size());
    module.max_tokens = uint32_t(pack.tokens);
    module.max_seqs = uint32_t(pack.seqs);
    module.max_pages = uint32_t(pack.pages);
    module.kv_page_tokens = uint32_t(kPage);
    program.tokens = uint32_t(entry.tokens);
    program.seqs = uint32_t(entry.seqs);
    auto count = [&](int64_t kind) {
      for (const StepField &f : pack.fields)
        if (f.kind == kind)
          return f.count;
      return int64_t(0);
    };
    program.qblocks = uint32_t(count(DSV3_FIELD_QBLOCK) / 4);
    program.kblocks = uint32_t(count(DSV3_FIELD_KBLOCK) / 2);
  }
};

/// `top` different experts for each of `rows` tokens.
reference::Ids drawExperts(int64_t rows, int64_t top, int64_t experts, uint64_t seed) {
  reference::Ids ids({rows, top});
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t k = 0, draw = 0; k < top; ++draw) {
      auto e = int32_t(mix(seed, uint64_t(t * 4096 + draw)) % uint64_t(experts));
      int32_t *row = ids.row(t);
      if (std::find(row, row + k, e) == row + k)
        row[k++] = e;
    }
  return ids;
}

template <typename T> std::vector<uint8_t> asBytes(const std::vector<T> &v) {
  std::vector<uint8_t> out(v.size() * sizeof(T));
  std::memcpy(out.data(), v.data(), out.size());
  return out;
}
} // namespace

dsv3_sampling samplingOfCase(const Json &shape, int64_t index) {
  dsv3_sampling s = samplingOf(shape.value("temperature", 0.0), shape.value("top_k", int64_t(0)), shape.value("top_p", 1.0),
                               shape.value("min_p", 0.0), mix(seedOf("random"), uint64_t(index)) >> 11);
  s.flags |= DSV3_SAMPLE_ROW;
  return s;
}

Result<CaseData> CaseData::make(const Pack &pack, const Case &c, int64_t sets) {
  Result<ShapeEntry> entry = parseShape(c.shape, c.name);
  if (!entry)
    return entry.error();
  CaseData data(pack, c, std::move(*entry));
  data.setCount = sets;
  for (const Sequence &s : data.entry.sequences)
    data.pagesPerSet += (s.past + s.count + kPage - 1) / kPage;
  data.permutation.resize(size_t(data.pagesPerSet * sets));
  std::iota(data.permutation.begin(), data.permutation.end(), 0);
  for (size_t i = data.permutation.size(); i > 1; --i)
    std::swap(data.permutation[i - 1], data.permutation[mix(77, i) % i]);
  if (Status s = data.makeWeights(); !s)
    return s.error();
  if (Status s = data.makeRouting(sets); !s)
    return s.error();
  data.fillStep(0, data.host);
  for (const Buffer &b : c.buffers)
    if (b.role == Role::Cache)
      data.host.scalars[DSV3_SCALAR_KV_LAYER_STRIDE] = data.cachePages() * b.pageBytes();
  return data;
}

Status CaseData::makeWeights() {
  for (const Buffer &b : c->buffers) {
    bool rows = b.role == Role::Input && b.isQuantised();
    if (b.role != Role::Weight && !rows)
      continue;
    Result<RandomWeight> w = internalError("");
    if (b.name == "table" && c->op != "embed") { // cos and sin
      reference::RopeParams params;
      params.dims = b.shape.back();
      params.interleaved = entry.json.value("interleaved", true);
      params.theta = entry.json.value("theta", 10000.0);
      Result<reference::RopeTable> table = reference::ropeTable(params);
      if (!table)
        return table.error();
      std::vector<float> values;
      for (int64_t p = 0; p < b.shape[0]; ++p)
        for (int64_t part = 0; part < 2; ++part)
          for (int64_t i = 0; i < params.dims / 2; ++i)
            values.push_back(part ? table->at(p, i).sin : table->at(p, i).cos);
      w = RandomWeight::make(b, std::move(values));
    } else {
      WeightSpread spread;
      if (b.name == "gamma")
        spread = {1.0, 0.1};
      if (b.name == "bias" || c->op == "embed")
        spread = {0.0, 0.1};
      w = RandomWeight::make(b, seedOf(b.name), spread);
    }
    if (!w)
      return checkpointError(c->name + ": " + w.error().message);
    weights.emplace(b.name, std::move(*w));
  }
  return {};
}

Status CaseData::makeRouting(int64_t sets) {
  static const char *const routed[] = {"grouped_gemm", "grouped_gated_gemm", "dispatch", "gather", "combine"};
  if (std::none_of(std::begin(routed), std::end(routed), [&](const char *op) { return c->op == op; }))
    return {};
  JsonFields f(entry.json, c->name);
  Result<int64_t> top = f.integer("top", 1, 1 << 10), experts = f.integerOr("experts", 256, 1, 1 << 16), seed = f.integerOr("seed", 1, 0, 1 << 30);
  if (!top)
    return top.error();
  if (!experts)
    return experts.error();
  if (!seed)
    return seed.error();
  if (*top > *experts)
    return usageError(c->name + ": top: expected at most experts (" + std::to_string(*experts) + "), got " + std::to_string(*top));
  for (int64_t set = 0; set < sets; ++set) {
    Routing r;
    r.ids = drawExperts(entry.rows, *top, *experts, uint64_t(*seed * 1000 + set));
    reference::Array<double> numbers({entry.rows, 1});
    std::iota(numbers.data.begin(), numbers.data.end(), 0.0);
    Result<reference::Dispatched<double>> d = reference::dispatch(numbers, r.ids, *experts);
    if (!d)
      return d.error();
    r.offsets = std::move(d->offsets);
    r.tokenOf = reference::Ids({d->rows.size()}, std::vector<int32_t>(d->rows.data.begin(), d->rows.data.end()));
    r.rowOf = std::move(d->rowOf);
    for (int64_t e = 0; e < *experts; ++e)
      r.active += r.offsets.data[size_t(e + 1)] > r.offsets.data[size_t(e)];
    routings.push_back(std::move(r));
  }
  return {};
}

int32_t CaseData::pageOf(int64_t set, int64_t sequence, int64_t page) const {
  int64_t at = set * pagesPerSet;
  for (int64_t s = 0; s < sequence; ++s)
    at += (entry.sequences[size_t(s)].past + entry.sequences[size_t(s)].count + kPage - 1) / kPage;
  return permutation[size_t(at + page)];
}

int64_t CaseData::cacheTokens() const {
  int64_t n = 0;
  for (const Sequence &s : entry.sequences)
    n += s.past + s.count;
  return n;
}

reference::SeqMeta CaseData::sequences(int64_t set) const {
  reference::SeqMeta seq;
  for (size_t s = 0; s < entry.sequences.size(); ++s) {
    const Sequence &q = entry.sequences[s];
    std::vector<int32_t> pages;
    for (int64_t p = 0; p < (q.past + q.count + kPage - 1) / kPage; ++p)
      pages.push_back(pageOf(set, int64_t(s), p));
    seq.addSequence(q.past, q.count, std::move(pages));
  }
  return seq;
}

//===-- Bytes -------------------------------------------------------------===//

std::vector<uint8_t> CaseData::fillStep(int64_t set, dsv3_step_host &scalars) const {
  StepModule module(*pack, entry);
  std::vector<uint8_t> memory(size_t(pack->stepBytes), 0);
  std::vector<dsv3::Sequence> sequences(entry.sequences.size());
  std::vector<StepItem> items;
  reference::SeqMeta meta = this->sequences(set);
  for (size_t s = 0; s < sequences.size(); ++s) {
    const Sequence &q = entry.sequences[s];
    sequences[s].tokens.resize(size_t(q.past + q.count));
    for (size_t i = 0; i < sequences[s].tokens.size(); ++i)
      sequences[s].tokens[i] = int32_t(mix(s, i) & 1023);
    sequences[s].cached = q.past;
    sequences[s].pages = meta.blockTable[s];
    items.push_back({&sequences[s], q.past, q.count});
  }
  StepBuffer buffer(module.module, memory.data());
  scalars = buffer.fill(module.program, items);
  if (c->op == "sample")
    for (size_t s = 0; s < items.size(); ++s)
      buffer.setSampling(int64_t(s), samplingOfCase(entry.json, int64_t(s)));
  return memory;
}

void CaseData::cachedRow(const Buffer &buffer, int64_t page, int64_t slot, double *row, uint8_t *codes, float *scale) const {
  static const Normal numbers(DType::BF16, 0, 1);
  int64_t width = buffer.shape[3];
  for (int64_t lane = 0; lane < width; ++lane)
    row[lane] = numbers.value(seedOf("kv"), uint64_t((page * kPage + slot) * width + lane));
  if (!buffer.latent)
    return;
  const bool e5m2 = buffer.codes == DType::F8E5M2;
  float most = 0;
  for (int64_t i = 0; i < buffer.latent; ++i)
    most = std::max(most, std::abs(float(row[i])));
  const float s = most > 0 ? most / (e5m2 ? 57344.0f : 448.0f) : 1.0f;
  for (int64_t i = 0; i < buffer.latent; ++i) {
    uint8_t code = e5m2 ? floatToE5m2(float(row[i]) / s) : floatToE4m3(float(row[i]) / s);
    row[i] = double(e5m2 ? e5m2ToFloat(code) : e4m3ToFloat(code)) * s;
    if (codes)
      codes[i] = code;
  }
  if (scale)
    *scale = s;
}

/// All layers hold NaN but the case's own, whose rows are those of the sequences.
std::vector<uint8_t> CaseData::cache(const Buffer &buffer) const {
  const int64_t width = buffer.shape[3], elem = int64_t(byteSize(buffer.elem)), latent = buffer.latent, rest = width - latent;
  std::vector<uint8_t> out(size_t(buffer.shape[0] * cachePages() * buffer.pageBytes()), 0xff);
  for (int64_t set = 0; set < setCount; ++set)
    for (size_t s = 0; s < entry.sequences.size(); ++s) {
      int64_t context = entry.sequences[s].past + (c->op == "kv_append" ? 0 : entry.sequences[s].count); // what it appends is not there yet
      parallelFor((context + kPage - 1) / kPage, 4, [&](int64_t begin, int64_t end) {
        std::vector<double> row(static_cast<size_t>(width));
        for (int64_t p = begin; p < end; ++p)
          for (int64_t slot = 0; slot < std::min(kPage, context - p * kPage); ++slot) {
            int64_t page = pageOf(set, int64_t(s), p);
            uint8_t *at = out.data() + (layer() * cachePages() + page) * buffer.pageBytes();
            float scale = 0;
            cachedRow(buffer, page, slot, row.data(), latent ? at + slot * latent : nullptr, &scale);
            if (latent)
              std::memcpy(at + kPage * (latent + rest * elem) + slot * 4, &scale, sizeof scale);
            std::vector<float> plain(row.begin() + latent, row.end());
            convertFromFloat(buffer.elem, plain.data(), plain.size(), at + kPage * latent + slot * rest * elem);
          }
      });
    }
  return out;
}

/// Integers. What lies past the step's rows is as a kernel upstream may leave it: anything.
std::vector<uint8_t> CaseData::ids(const Buffer &buffer, int64_t set) const {
  int64_t n = std::accumulate(buffer.shape.begin(), buffer.shape.end(), int64_t(1), std::multiplies<int64_t>());
  std::vector<int32_t> out(size_t(n), 0x7f7f7f7f);
  auto put = [&](const reference::Ids &ids) { std::copy(ids.data.begin(), ids.data.end(), out.begin()); };
  if (buffer.name == "offsets")
    put(routing(set).offsets);
  else if (buffer.name == "token_of")
    put(routing(set).tokenOf);
  else if (buffer.name == "row_of")
    put(routing(set).rowOf);
  else if (c->op == "dispatch")
    put(routing(set).ids);
  else
    for (int64_t t = 0; t < entry.rows; ++t)
      out[size_t(t)] = int32_t(mix(seedOf("ids"), uint64_t(t)) % uint64_t(entry.json.value("vocab", int64_t(1))));
  return asBytes(out);
}

int64_t CaseData::keysInBlock(int64_t block) const {
  for (const Sequence &s : entry.sequences) {
    int64_t context = s.past + s.count, blocks = (context + kPage - 1) / kPage;
    if (block < blocks)
      return std::min(kPage, context - block * kPage);
    block -= blocks;
  }
  return 0;
}

/// Normal numbers with a longer tail, as a trained model's: a few stand out. Quantiles alone would tie, which `ties` wants.
double CaseData::logit(const Buffer &buffer, int64_t i, double normal) const {
  double apart = entry.json.value("ties", false) ? 0 : double(mix(seedOf("jitter"), uint64_t(i)) >> 32) * 0x1p-42;
  double v = entry.json.value("spread", 2.0) * (normal * (1 + normal * normal / 8) + apart);
  return roundTo(buffer.elem, float(v));
}

double CaseData::input(const Buffer &buffer, int64_t i) const {
  if (buffer.isQuantised())
    return weight(buffer.name).value(i / buffer.shape.back(), i % buffer.shape.back());
  static const Normal bf16(DType::BF16, 0, 1), f32(DType::F32, 0, 1);
  if (buffer.name == "keys" || buffer.name == "values") { // [block, head, 64, lanes]: zero past the context, as kv_expand leaves them
    int64_t lanes = buffer.shape[3], slot = i / lanes % kPage, block = i / (lanes * kPage * buffer.shape[1]);
    if (slot >= keysInBlock(block))
      return 0;
  }
  double v = (buffer.elem == DType::F32 ? f32 : bf16).value(seedOf(buffer.name), uint64_t(i));
  return c->op == "sample" ? logit(buffer, i, v) : v;
}

/// Rows of the step; of routed rows all of its pairs; of expanded keys all blocks.
int64_t CaseData::filledRows(const Buffer &buffer) const {
  int64_t rows = buffer.shape[0];
  bool perToken = rows % entry.tokens == 0 && buffer.name != "keys" && buffer.name != "values";
  return perToken ? rows / entry.tokens * entry.rows : rows;
}

/// Codes and scales of rows past the step are NaN, as plain numbers are.
std::vector<uint8_t> CaseData::quantisedRows(const Buffer &buffer) const {
  std::vector<uint8_t> out = weight(buffer.name).pack();
  for (const Part &part : buffer.parts) {
    int64_t rowBytes = part.bytes / buffer.shape[0];
    auto first = out.begin() + part.offset;
    std::fill(first + filledRows(buffer) * rowBytes, first + part.bytes, uint8_t(0xff));
  }
  return out;
}

std::vector<uint8_t> CaseData::bytes(const Buffer &buffer, int64_t set) const {
  if (buffer.role == Role::Weight)
    return weight(buffer.name).pack();
  dsv3_step_host unused;
  if (buffer.role == Role::Step)
    return fillStep(set, unused);
  if (buffer.role == Role::Cache)
    return cache(buffer);
  if (buffer.elem == DType::I32)
    return ids(buffer, set);
  if (buffer.isQuantised())
    return quantisedRows(buffer);
  std::vector<uint8_t> out(size_t(buffer.bytes), 0xff);
  int64_t perRow = std::accumulate(buffer.shape.begin() + 1, buffer.shape.end(), int64_t(1), std::multiplies<int64_t>());
  int64_t rows = filledRows(buffer);
  size_t size = byteSize(buffer.elem);
  parallelFor(rows, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(perRow));
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = 0; i < perRow; ++i)
        row[size_t(i)] = float(input(buffer, r * perRow + i));
      convertFromFloat(buffer.elem, row.data(), row.size(), out.data() + size_t(r * perRow) * size);
    }
  });
  return out;
}

} // namespace dsv3::bench
