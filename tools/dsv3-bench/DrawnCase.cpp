// The reference over a case whose inputs are drawn.
#include "tools/dsv3-bench/Expected.h"

#include <cstring>
#include <functional>
#include <numeric>

namespace dsv3::bench {

namespace {
/// Set 0 of a case.
class DrawnCase : public OpData {
public:
  explicit DrawnCase(const CaseData &data) : data(data) {}
  int64_t rows() const override { return data.shape().rows; }
  void read(const Buffer &input, int64_t first, int64_t count, double *out) const override {
    for (int64_t i = 0; i < count; ++i)
      out[i] = data.input(input, first + i);
  }
  std::vector<int32_t> integers(const Buffer &input, int64_t count) const override {
    std::vector<uint8_t> bytes = data.bytes(input, 0);
    std::vector<int32_t> values(static_cast<size_t>(count));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(int32_t));
    return values;
  }
  int64_t weightRows(std::string_view name) const override { return data.weight(name).rows(); }
  reference::Array<double> weight(std::string_view name, int64_t from, int64_t to) const override { return data.weight(name).read(from, to); }
  reference::SeqMeta sequences() const override { return data.sequences(0); }
  void cached(const Buffer &cache, int64_t page, int64_t slot, double *row) const override {
    data.cachedRow(cache, page, slot, row);
  }
  int64_t layer() const override { return data.layer(); }
  int64_t cachePages() const override { return data.cachePages(); }

private:
  const CaseData &data;
};
} // namespace

Result<Expected> expect(const Case &c, const CaseData &data, int64_t samples) { return expect(c, data.shape().json, DrawnCase(data), samples); }

int64_t definedElements(const Case &c, const CaseData &data, const Buffer &output) {
  int64_t n = std::accumulate(output.shape.begin(), output.shape.end(), int64_t(1), std::multiplies<>()), first = output.shape[0], used = first;
  if (output.name == "offsets")
    return n;
  if (c.op == "select_rows" || c.op == "sample")
    used = int64_t(data.shape().sequences.size());
  else if (output.name == "keys" || output.name == "values")
    used = data.scalars().scalars[DSV3_SCALAR_KBLOCKS];
  else if (first % data.shape().tokens == 0)
    used = first / data.shape().tokens * data.shape().rows;
  return n / first * used;
}

} // namespace dsv3::bench
