#include "tools/dsv3-bench/slice/StepData.h"

#include <algorithm>

namespace dsv3::bench {

//===-- Weights -----------------------------------------------------------===//

DrawnWeights::DrawnWeights(const Manifest::Target &target) {
  for (const Manifest::Weight &w : target.weights)
    byName.emplace(w.name, &w);
}

Result<reference::Array<double>> DrawnWeights::read(const std::string &name, const std::vector<int64_t> &shape, int64_t from, int64_t to) const {
  auto known = byName.find(name);
  if (known == byName.end() || known->second->draw.empty())
    return checkpointError("weight " + printable(name) + ": expected one that is drawn");
  reference::Array<double> out({to - from, shape.back()});
  std::vector<int64_t> index(shape.size() - 1);
  for (int64_t row = from; row < to; ++row) {
    int64_t rest = row, found = 0;
    for (size_t d = index.size(); d-- > 0; rest /= shape[d])
      index[d] = rest % shape[d];
    for (const DummyFill &fill : known->second->draw) {
      if (fill.kind == DummyFill::Kind::Scales || fill.dims.size() != shape.size())
        continue;
      if (int64_t run = fill.runAt(index); run >= 0) {
        fill.numbers(run, out.row(row - from) + fill.dims.back().first);
        found += fill.dims.back().count;
      }
    }
    if (found != shape.back())
      return checkpointError("weight " + printable(name) + ": row " + std::to_string(row) + ": expected " + std::to_string(shape.back()) + " numbers, got " +
                             std::to_string(found));
  }
  return out;
}

bool DrawnWeights::isFp8(const std::string &name) const {
  auto known = byName.find(name);
  return known != byName.end() && std::any_of(known->second->draw.begin(), known->second->draw.end(), [](const DummyFill &f) { return f.kind == DummyFill::Kind::Codes; });
}

DType StepData::heldTo(const Buffer &output) const {
  for (const OperandPlace &p : op.places)
    if (!p.weight.empty() && weights.isFp8(p.weight))
      return DType::BF16;
  return output.elem;
}

//===-- Operands ----------------------------------------------------------===//

void StepData::fail(const Error &e) const {
  std::lock_guard<std::mutex> lock(mutex);
  if (first)
    first = e;
}

bool StepData::fetch(const dsv3_ref &from, uint64_t bytes, void *to) const {
  std::lock_guard<std::mutex> lock(mutex);
  Status s = device.read(from, bytes, to);
  if (!s && first)
    first = s;
  return bool(s);
}

static dsv3_ref behind(dsv3_ref ref, int64_t bytes) {
  ref.offset += uint64_t(bytes);
  return ref;
}

void StepData::read(const Buffer &input, int64_t at, int64_t count, double *out) const {
  const OperandPlace &place = placeOf(input);
  DType stored = place.scales >= 0 ? DType::F8E4M3 : input.elem;
  std::vector<uint8_t> bytes(size_t(count) * byteSize(stored));
  std::fill(out, out + count, 0.0);
  if (!fetch(behind(place.ref, at * int64_t(byteSize(stored))), bytes.size(), bytes.data()))
    return;
  for (int64_t i = 0; i < count; ++i)
    out[i] = double(loadAsFloat(stored, bytes.data(), size_t(i)));
  if (place.scales < 0)
    return;
  int64_t cols = input.shape.back(), perRow = (cols + place.scaleColumns - 1) / place.scaleColumns;
  auto scaleAt = [&](int64_t i) { return i / cols * perRow + i % cols / place.scaleColumns; };
  int64_t low = scaleAt(at);
  std::vector<float> scales(size_t(scaleAt(at + count - 1) - low + 1));
  if (!fetch(behind(place.ref, place.scales + low * 4), scales.size() * 4, scales.data()))
    return;
  for (int64_t i = 0; i < count; ++i)
    out[i] *= double(scales[size_t(scaleAt(at + i) - low)]);
}

std::vector<int32_t> StepData::integers(const Buffer &input, int64_t count) const {
  std::vector<int32_t> values(size_t(count), 0);
  fetch(placeOf(input).ref, values.size() * 4, values.data());
  return values;
}

int64_t StepData::weightRows(std::string_view name) const {
  const Buffer *b = op.c.find(name);
  int64_t n = 1;
  for (size_t d = 0; b && d + 1 < b->shape.size(); ++d)
    n *= b->shape[d];
  return n;
}

reference::Array<double> StepData::weight(std::string_view name, int64_t from, int64_t to) const {
  const Buffer *b = op.c.find(name);
  Result<reference::Array<double>> rows = b ? weights.read(placeOf(*b).weight, b->shape, from, to) : Result<reference::Array<double>>(internalError("no weight of that name"));
  if (rows)
    return std::move(*rows);
  fail(rows.error());
  return reference::Array<double>({to - from, b ? b->shape.back() : 1});
}

/// Rows are asked for in order: a page is read once.
void StepData::cached(const Buffer &cache, int64_t page, int64_t slot, double *row) const {
  int64_t width = cache.shape[3], rowBytes = width * int64_t(byteSize(cache.elem));
  std::lock_guard<std::mutex> lock(mutex);
  if (page != heldPage) {
    pageBytes.assign(size_t(reference::kPageTokens * rowBytes), 0);
    dsv3_ref from = behind(placeOf(cache).ref, (layer() * cachePages() + page) * reference::kPageTokens * rowBytes);
    Status s = device.read(from, pageBytes.size(), pageBytes.data());
    if (!s && first)
      first = s;
    heldPage = page;
  }
  for (int64_t i = 0; i < width; ++i)
    row[i] = double(loadAsFloat(cache.elem, pageBytes.data() + slot * rowBytes, size_t(i)));
}

} // namespace dsv3::bench
