#include "tools/dsv3-bench/Check.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

namespace dsv3::bench {

double tolerance(DType stored) { return stored == DType::F32 ? 1e-3 : 5e-3; }

namespace {
/// An element may be off by this much of its own size plus the row's root mean square: a wrong element in a long row hardly
/// moves the row's norm.
constexpr double kElement = 0.05;

/// Element `i` of a buffer as a number: of quantised rows a code times its scale.
double numberAt(const Buffer &b, const std::vector<uint8_t> &bytes, size_t i) {
  if (!b.isQuantised())
    return loadAsFloat(b.elem, bytes.data(), i);
  size_t cols = size_t(b.shape.back()), across = (cols + size_t(b.block[1]) - 1) / size_t(b.block[1]);
  size_t scale = i / cols / size_t(b.block[0]) * across + i % cols / size_t(b.block[1]);
  return double(loadAsFloat(b.parts[0].elem, bytes.data() + b.parts[0].offset, i)) *
         double(loadAsFloat(b.parts[1].elem, bytes.data() + b.parts[1].offset, scale));
}

std::string place(const std::string &buffer, int64_t row) { return buffer + " row " + std::to_string(row); }

std::string text(double v) {
  char out[32];
  std::snprintf(out, sizeof out, "%.3g", v);
  return out;
}

} // namespace

std::string rowFault(DType elem, const std::vector<double> &expected, const std::vector<double> &got, double &relative) {
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    double d = got[i] - expected[i];
    error += d * d;
    size += expected[i] * expected[i];
  }
  relative = size > 0 ? std::sqrt(error / size) : std::sqrt(error);
  if (!(relative <= tolerance(elem)))
    return ": expected relative error below " + text(tolerance(elem)) + ", got " + text(relative);
  double rms = std::sqrt(size / double(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i)
    if (!(std::fabs(got[i] - expected[i]) <= kElement * (std::fabs(expected[i]) + rms)))
      return " lane " + std::to_string(i) + ": expected " + text(expected[i]) + ", got " + text(got[i]);
  return "";
}

std::string expertFault(const ExpectedExperts &e, const std::vector<int32_t> &got, bool &tie) {
  for (size_t k = 0; k < e.ids.size(); ++k) {
    if (got[k] == e.ids[k])
      continue;
    bool known = got[k] >= 0 && size_t(got[k]) < e.scores.size();
    if (!known || std::fabs(e.scores[size_t(got[k])] - e.scores[size_t(e.ids[k])]) > 2e-6)
      return "lane " + std::to_string(k) + ": expected expert " + std::to_string(e.ids[k]) + ", got " + std::to_string(got[k]);
    tie = true;
  }
  return "";
}

namespace {
class Checker {
public:
  Checker(const Case &c, const CaseData &data, const Outputs &first, const Outputs &second) : c(c), data(data), first(first), second(second) {}

  Verdict run(const Expected &expected) {
    for (const auto &[name, bytes] : first)
      if (const Buffer *b = c.find(name); b && verdict.ok())
        wholeBuffer(*b, bytes);
    for (const ExpectedInts &e : expected.ints)
      if (verdict.ok())
        integers(e);
    for (const ExpectedExperts &e : expected.experts)
      if (verdict.ok())
        experts(e);
    for (const ExpectedRow &e : expected.rows)
      if (verdict.ok() && !ties.count(e.row))
        row(e);
    verdict.bits = digest();
    return verdict;
  }

private:
  /// FNV-1a over the defined elements, output by output.
  std::string digest() const {
    uint64_t hash = 0xcbf29ce484222325ull;
    for (const auto &[name, bytes] : first) {
      const Buffer *b = c.find(name);
      bool whole = !b || b->role == Role::Cache || b->isQuantised();
      size_t n = whole ? bytes.size() : size_t(definedElements(c, data, *b)) * byteSize(b->elem);
      for (size_t i = 0; i < std::min(n, bytes.size()); ++i)
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    }
    char out[17];
    std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(hash));
    return out;
  }

  void fail(const std::string &problem) { verdict.problem = problem; }

  const std::vector<uint8_t> *bytesOf(const std::string &name) {
    auto found = first.find(name);
    if (found == first.end())
      fail("expected output " + name + ", got none");
    return found == first.end() ? nullptr : &found->second;
  }

  /// What holds for every element: written, and the same in both runs.
  void wholeBuffer(const Buffer &b, const std::vector<uint8_t> &bytes) {
    if (b.role == Role::Cache)
      return cacheRows(b, bytes);
    if (b.isQuantised())
      return quantisedRows(b, bytes);
    size_t size = byteSize(b.elem), n = size_t(definedElements(c, data, b));
    const std::vector<uint8_t> &again = second.at(b.name);
    if (bytes.size() < n * size || again.size() != bytes.size())
      return fail(b.name + ": expected " + std::to_string(n * size) + " bytes, got " + std::to_string(bytes.size()));
    // Attention writes a gigabyte: all cores look for the first bad element.
    std::atomic<size_t> bad{n};
    parallelFor(int64_t(n), 1 << 16, [&](int64_t begin, int64_t end) {
      for (auto i = size_t(begin); i < size_t(end) && i < bad; ++i)
        if (!isNumber(b.elem, bytes, i) || std::memcmp(bytes.data() + i * size, again.data() + i * size, size) != 0) {
          for (size_t known = bad; i < known && !bad.compare_exchange_weak(known, i);)
            ;
          return;
        }
    });
    if (bad == n)
      return;
    size_t i = bad, lanes = size_t(b.shape.back());
    std::string where = place(b.name, int64_t(i / lanes)) + " lane " + std::to_string(i % lanes);
    if (isPoison(b.elem, bytes, i))
      return fail(where + ": expected a number, got what was there before");
    if (!isNumber(b.elem, bytes, i))
      return fail(where + ": expected a number, got NaN");
    fail(where + ": expected equal bits in two runs, got " + text(loadAsFloat(b.elem, bytes.data(), i)) + " and " +
         text(loadAsFloat(b.elem, again.data(), i)));
  }

  /// Codes and scales of the step's rows are written, and the same in both runs.
  void quantisedRows(const Buffer &b, const std::vector<uint8_t> &bytes) {
    const std::vector<uint8_t> &again = second.at(b.name);
    size_t n = size_t(definedElements(c, data, b)), cols = size_t(b.shape.back());
    if (again.size() != bytes.size() || bytes.size() < size_t(b.bytes))
      return fail(b.name + ": expected " + std::to_string(b.bytes) + " bytes, got " + std::to_string(bytes.size()));
    for (size_t i = 0; i < n; ++i) {
      double got = numberAt(b, bytes, i), other = numberAt(b, again, i);
      std::string where = place(b.name, int64_t(i / cols)) + " lane " + std::to_string(i % cols);
      if (std::isnan(got))
        return fail(where + ": expected a number, got NaN or what was there before");
      if (got != other)
        return fail(where + ": expected equal bits in two runs, got " + text(got) + " and " + text(other));
    }
  }

  static bool isPoison(DType t, const std::vector<uint8_t> &bytes, size_t i) {
    const uint8_t *at = bytes.data() + i * byteSize(t);
    return std::all_of(at, at + byteSize(t), [](uint8_t v) { return v == kPoison; });
  }
  static bool isNumber(DType t, const std::vector<uint8_t> &bytes, size_t i) {
    return isFloat(t) ? !std::isnan(loadAsFloat(t, bytes.data(), i)) : !isPoison(t, bytes, i);
  }

  /// Rows that the step appends are compared elsewhere; all others keep their bits.
  void cacheRows(const Buffer &b, const std::vector<uint8_t> &bytes) {
    if (bytes != second.at(b.name))
      return fail(b.name + ": expected equal bits in two runs");
    std::set<int64_t> appended;
    reference::SeqMeta seq = data.sequences(0);
    for (int64_t t = 0; t < seq.tokens(); ++t) {
      int64_t position = seq.tokenPos[size_t(t)], page = seq.blockTable[size_t(seq.tokenSeq[size_t(t)])][size_t(position / reference::kPageTokens)];
      appended.insert((data.layer() * data.cachePages() + page) * reference::kPageTokens + position % reference::kPageTokens);
    }
    std::vector<uint8_t> before = data.bytes(b, 0);
    size_t rowBytes = size_t(b.shape[3]) * byteSize(b.elem);
    for (size_t r = 0; r * rowBytes < before.size(); ++r)
      if (!appended.count(int64_t(r)) && std::memcmp(before.data() + r * rowBytes, bytes.data() + r * rowBytes, rowBytes) != 0)
        return fail(place(b.name, int64_t(r)) + ": expected a row that the step does not append to keep its bits");
  }

  void integers(const ExpectedInts &e) {
    const std::vector<uint8_t> *bytes = bytesOf(e.buffer);
    for (size_t i = 0; bytes && i < e.values.size(); ++i) {
      int32_t got = 0;
      std::memcpy(&got, bytes->data() + i * 4, 4);
      if (got != e.values[i])
        return fail(e.buffer + " element " + std::to_string(i) + ": expected " + std::to_string(e.values[i]) + ", got " + std::to_string(got));
    }
    verdict.rows += int64_t(e.values.size());
  }

  void experts(const ExpectedExperts &e) {
    const std::vector<uint8_t> *bytes = bytesOf("ids");
    if (!bytes)
      return;
    std::vector<int32_t> got(e.ids.size());
    std::memcpy(got.data(), bytes->data() + size_t(e.token) * got.size() * 4, got.size() * 4);
    bool tie = false;
    std::string fault = expertFault(e, got, tie);
    if (!fault.empty())
      return fail(place("ids", e.token) + " " + fault);
    if (tie)
      ties.insert(e.token);
    ++verdict.rows;
  }

  void row(const ExpectedRow &e) {
    const Buffer *b = c.find(e.buffer);
    const std::vector<uint8_t> *bytes = bytesOf(e.buffer);
    if (!b || !bytes)
      return;
    std::vector<double> got(e.values.size());
    for (size_t i = 0; i < got.size(); ++i)
      got[i] = numberAt(*b, *bytes, size_t(e.row * b->shape.back()) + i);
    for (size_t i = 0; i < e.plain.size(); ++i) // what another code is further off than the reference's
      got[i] = e.values[i] + std::max(0.0, std::fabs(got[i] - e.plain[i]) - std::fabs(e.values[i] - e.plain[i]));
    double relative = 0;
    std::string fault = rowFault(b->elem, e.values, got, relative);
    verdict.worst = std::max(verdict.worst, relative);
    ++verdict.rows;
    if (!fault.empty())
      fail(place(e.buffer, e.row) + fault);
  }

  const Case &c;
  const CaseData &data;
  const Outputs &first, &second;
  Verdict verdict;
  std::set<int64_t> ties; ///< tokens whose experts are not the reference's
};
} // namespace

Verdict check(const Case &c, const CaseData &data, const Expected &expected, const Outputs &first, const Outputs &second) {
  return Checker(c, data, first, second).run(expected);
}

} // namespace dsv3::bench
