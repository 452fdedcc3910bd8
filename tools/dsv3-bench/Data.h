// What a case's buffers hold before a run.
#pragma once

#include "runtime/core/Abi.h"
#include "runtime/reference/Cache.h"
#include "tools/dsv3-bench/ShapeList.h"
#include "tools/dsv3-bench/Weights.h"

#include <map>

namespace dsv3::bench {

/// How a case of op "sample" chooses the token of sequence `index`: keys temperature, top_k, top_p, min_p (default: greedy).
/// Its logits have `spread` (default 2) times the deviation of normal ones, and with `ties` only 4096 values.
dsv3_sampling samplingOfCase(const Json &shape, int64_t index);

/// One routing of the case's tokens to experts.
struct Routing {
  reference::Ids ids;     ///< [rows, top]
  reference::Ids offsets; ///< [experts + 1]
  reference::Ids tokenOf; ///< [rows * top]
  reference::Ids rowOf;   ///< [rows, top]
  int64_t active = 0;     ///< experts with a row
};

/// Contents of one case. Sets differ in what must be cold when a launch is timed: routings and cache pages. Weights are the
/// same numbers in every copy.
class CaseData {
public:
  /// `sets` routings and block tables. Errors: a shape that lacks a key, a weight that does not fit its layout.
  static Result<CaseData> make(const Pack &pack, const Case &c, int64_t sets);

  const ShapeEntry &shape() const { return entry; }
  int64_t sets() const { return setCount; }
  const Routing &routing(int64_t set) const { return routings[size_t(set)]; }
  const RandomWeight &weight(std::string_view name) const { return weights.find(std::string(name))->second; }
  /// Tokens and pages of set `set`, as the reference knows them.
  reference::SeqMeta sequences(int64_t set) const;
  const dsv3_step_host &scalars() const { return host; }
  int64_t cachePages() const { return pagesPerSet * setCount; } ///< of all sets
  int64_t cacheTokens() const; ///< cached tokens of a step

  /// Bytes of an input, weight, step or cache buffer. Rows of inputs past the step's are NaN, as are cache rows that no
  /// sequence holds: a kernel that reads them shows it.
  std::vector<uint8_t> bytes(const Buffer &buffer, int64_t set) const;
  /// Element `i` of an input, in logical order: of quantised rows a code times its scale.
  double input(const Buffer &buffer, int64_t i) const;
  /// Keys that block `block` of the step's list holds: 64, or fewer in a sequence's last one.
  int64_t keysInBlock(int64_t block) const;
  /// A cached row that a sequence holds; a latent stored as codes is code * scale, and both are given where asked for.
  void cachedRow(const Buffer &cache, int64_t page, int64_t slot, double *row, uint8_t *codes = nullptr, float *scale = nullptr) const;
  /// Element `lane` of it.
  double cached(const Buffer &cache, int64_t page, int64_t slot, int64_t lane) const {
    std::vector<double> row(static_cast<size_t>(cache.shape[3]));
    cachedRow(cache, page, slot, row.data());
    return row[size_t(lane)];
  }
  int64_t layer() const { return entry.json.value("layer", int64_t(0)); }

private:
  CaseData(const Pack &pack, const Case &c, ShapeEntry entry) : pack(&pack), c(&c), entry(std::move(entry)) {}
  Status makeWeights();
  Status makeRouting(int64_t sets);
  double logit(const Buffer &buffer, int64_t i, double normal) const;
  std::vector<uint8_t> fillStep(int64_t set, dsv3_step_host &scalars) const;
  std::vector<uint8_t> cache(const Buffer &buffer) const;
  std::vector<uint8_t> quantisedRows(const Buffer &buffer) const;
  int64_t filledRows(const Buffer &buffer) const;
  std::vector<uint8_t> ids(const Buffer &buffer, int64_t set) const;
  int32_t pageOf(int64_t set, int64_t sequence, int64_t page) const;

  const Pack *pack;
  const Case *c;
  ShapeEntry entry;
  int64_t setCount = 1, pagesPerSet = 0;
  std::vector<int32_t> permutation; ///< pages in an order that no kernel can guess
  std::vector<Routing> routings;
  std::map<std::string, RandomWeight> weights; ///< and quantised rows
  dsv3_step_host host{};
};

} // namespace dsv3::bench
