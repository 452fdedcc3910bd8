#include "tools/dsv3-bench/Floor.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <sstream>

namespace dsv3::bench {

double Cost::floorUs(const Ceilings &c) const { return std::max(bytes / c.bytesPerSecond, flops / (fp8 ? c.fp8 : c.bf16)) * 1e6; }

namespace {
double elements(const Buffer &b) { return std::accumulate(b.shape.begin(), b.shape.end(), 1.0, std::multiplies<double>()); }

double partBytes(const Buffer &b) {
  double n = 0;
  for (const Part &p : b.parts)
    n += double(p.bytes);
  return n;
}

/// Of the whole buffer: numbers, or codes and scales.
double bytesOf(const Buffer &b) { return b.isQuantised() ? partBytes(b) : elements(b) * double(byteSize(b.elem)); }

bool hasFp8Rows(const Case &c) {
  const Buffer *x = c.find("x");
  return x && x->isQuantised();
}

/// Every input's used lanes read once, every output written once, weights once, at the rows of the step.
double plainBytes(const Case &c, const CaseData &data) {
  double n = 0;
  for (const Buffer &b : c.buffers) {
    if (b.role == Role::Weight && b.name == "table")
      n += double(data.shape().rows) * double(b.shape.back()) * double(byteSize(b.parts[0].elem)); // the rows it looks up
    else if (b.role == Role::Weight)
      n += partBytes(b);
    else if (b.role == Role::Input || b.role == Role::Output)
      n += bytesOf(b) * double(b.lanes) / double(b.shape.back()) * double(data.shape().rows) / double(data.shape().tokens);
  }
  return n;
}

/// Products: weights W read by `rows` rows.
double productFlops(const Case &c, double rows) {
  double n = 0;
  for (const Buffer &b : c.buffers)
    if (b.role == Role::Weight)
      n += 2 * rows * elements(b);
  return n;
}

/// Weights of experts that have rows, activations of all pairs.
Cost groupedCost(const Case &c, const CaseData &data, int64_t set) {
  const Routing &r = data.routing(set);
  double pairs = r.offsets.data.back();
  Cost cost;
  cost.fp8 = hasFp8Rows(c);
  for (const Buffer &b : c.buffers)
    if (b.role == Role::Weight) {
      cost.bytes += partBytes(b) * double(r.active) / double(b.shape[0]);
      cost.flops += 2 * pairs * double(b.shape[1]) * double(b.shape[2]);
    } else if (b.elem != DType::I32 && (b.role == Role::Input || b.role == Role::Output)) {
      double rows = b.shape[0] == data.shape().tokens ? double(data.shape().rows) : pairs;
      cost.bytes += rows * bytesOf(b) / double(b.shape[0]);
    }
  return cost;
}

/// 2 b h ctx (576 + 512), b ctx 576 elem + b h 1088 * 2.
Cost decodeCost(const Case &c, const CaseData &data) {
  const Buffer *q = c.find("q_latent"), *kv = c.find("kv"), *out = c.find("out");
  double heads = double(q->shape[1]), latent = double(q->shape[2]), width = double(kv->shape[3]), rows = double(data.shape().rows);
  double tokens = double(data.cacheTokens());
  return {tokens * double(kv->pageBytes()) / 64 + rows * heads * (width + latent) * double(byteSize(out->elem)), 2 * tokens * heads * (width + latent)};
}

/// Causal: row p reads p + 1 keys. h s^2 (192 + 128) for one new sequence.
Cost prefillCost(const Case &c, const CaseData &data) {
  const Buffer *q = c.find("q"), *values = c.find("values");
  double heads = double(q->shape[1]), lanes = double(q->shape[2]) + double(values->shape[3]), pairs = 0, keys = 0;
  for (const Sequence &s : data.shape().sequences) {
    double past = double(s.past), count = double(s.count);
    pairs += count * past + count * count / 2;
    keys += past + count;
  }
  return {(double(data.shape().rows) + keys) * heads * lanes * double(byteSize(q->elem)), 2 * pairs * heads * lanes};
}

Cost expandCost(const Case &c, const CaseData &data) {
  const Buffer *kv = c.find("kv"), *keys = c.find("keys"), *values = c.find("values");
  double tokens = double(data.cacheTokens()), heads = double(keys->shape[1]);
  Cost cost{tokens * double(kv->pageBytes()) / 64 +
                tokens * heads * double(keys->shape[3] + values->shape[3]) * double(byteSize(keys->elem)),
            0};
  for (const Buffer &b : c.buffers)
    if (b.role == Role::Weight) {
      cost.bytes += partBytes(b);
      cost.flops += 2 * tokens * elements(b);
    }
  return cost;
}
} // namespace

Cost costOf(const Case &c, const CaseData &data, int64_t set) {
  if (c.op == "grouped_gemm" || c.op == "grouped_gated_gemm")
    return groupedCost(c, data, set);
  if (c.op == "attn_decode")
    return decodeCost(c, data);
  if (c.op == "attn_prefill")
    return prefillCost(c, data);
  if (c.op == "kv_expand")
    return expandCost(c, data);
  bool product = c.op == "gemm" || c.op == "gated_gemm" || c.op == "batched_gemm";
  double bytes = plainBytes(c, data);
  if (c.op == "kv_append")
    bytes += double(data.shape().rows) * double(c.find("kv")->shape[3]) * double(byteSize(c.find("kv")->elem));
  if (c.op == "embed")
    bytes = 2 * double(data.shape().rows) * double(c.find("out")->shape[1]) * double(byteSize(c.find("out")->elem));
  return {bytes, product ? productFlops(c, double(data.shape().rows)) : 0, hasFp8Rows(c)};
}

//===-- Anchors -----------------------------------------------------------===//

/// Fields of one CSV line; quotes may hold commas.
static std::vector<std::string> splitCsv(const std::string &line) {
  std::vector<std::string> fields{""};
  bool quoted = false;
  for (char ch : line) {
    if (ch == '"')
      quoted = !quoted;
    else if (ch == ',' && !quoted)
      fields.emplace_back();
    else if (ch != '\r')
      fields.back() += ch;
  }
  return fields;
}

Result<Anchors> Anchors::parse(const std::string &text, const std::string &what) {
  Anchors anchors;
  std::istringstream lines(text);
  std::string line;
  for (int64_t at = 0; std::getline(lines, line); ++at) {
    std::vector<std::string> f = splitCsv(line);
    if (at == 0 || line.empty())
      continue;
    char *end = nullptr;
    double us = f.size() >= 5 ? std::strtod(f[4].c_str(), &end) : 0;
    if (f.size() < 5 || end == f[4].c_str() || *end || us <= 0)
      return checkpointError(what + ":" + std::to_string(at + 1) + ": expected group,case,type,peer,us, got '" + printable(line) + "'");
    Anchor &best = anchors.rows[f[0] + "|" + f[1] + "|" + f[2]];
    if (best.us == 0 || us < best.us)
      best = {f[3], us};
  }
  return anchors;
}

Result<Anchors> Anchors::read(const std::string &path) {
  std::ifstream file(path);
  if (!file)
    return usageError("cannot read '" + path + "'");
  std::stringstream text;
  text << file.rdbuf();
  return parse(text.str(), path);
}

const Anchor *Anchors::find(const std::string &key) const {
  auto found = rows.find(key);
  return found == rows.end() ? nullptr : &found->second;
}

Summary summarize(const std::vector<double> &ratios) {
  Summary s;
  double logs = 0;
  for (double r : ratios) {
    ++s.count;
    s.worst = std::max(s.worst, r);
    logs += std::log(r);
  }
  s.geomean = s.count ? std::exp(logs / double(s.count)) : 0;
  return s;
}

} // namespace dsv3::bench
