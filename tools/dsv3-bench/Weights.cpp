#include "tools/dsv3-bench/Weights.h"

#include <algorithm>
#include <cstring>

namespace dsv3::bench {

namespace {
/// Where the elements of a tensor's inner dims lie. Without xor an offset is a sum of one summand per dim: two tables
/// instead of an evaluation per element.
class Places {
public:
  Places(const Layout &layout, std::vector<int64_t> shape, bool separable) : layout(layout), shape(std::move(shape)), separable(separable) {
    std::vector<int64_t> index(this->shape.size(), 0);
    origin = layout.offset(index, this->shape);
    for (int64_t k = 0; k < this->shape.back(); ++k) {
      index.back() = k;
      columns.push_back(layout.offset(index, this->shape) - origin);
    }
  }

  std::vector<int64_t> index(int64_t row) const {
    std::vector<int64_t> at(shape.size(), 0);
    for (size_t d = shape.size() - 1; d-- > 0;) {
      at[d] = row % shape[d];
      row /= shape[d];
    }
    return at;
  }
  int64_t first(int64_t row) const { return layout.offset(index(row), shape); }
  int64_t of(int64_t row, int64_t first, int64_t col) const {
    if (separable)
      return first + columns[size_t(col)];
    std::vector<int64_t> at = index(row);
    at.back() = col;
    return layout.offset(at, shape);
  }

  /// Whether the first `n` columns of a row share a place, and rows are known by their first column.
  bool repeats(int64_t n) const { return separable && columns[size_t(std::min<int64_t>(n, int64_t(columns.size())) - 1)] == 0; }

private:
  const Layout &layout;
  std::vector<int64_t> shape;
  bool separable;
  int64_t origin = 0;
  std::vector<int64_t> columns;
};

int64_t product(const std::vector<int64_t> &v, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t i = from; i < to; ++i)
    n *= v[i];
  return n;
}
} // namespace

Result<RandomWeight> RandomWeight::make(const Buffer &buffer, uint64_t seed, const WeightSpread &spread) {
  RandomWeight w(buffer, seed);
  // Codes of a quantised weight fill their range, as scales of absmax / 448 or 127 make them; the scales bring the deviation.
  const double ofCodes = buffer.parts[0].elem == DType::I8 ? 32 : 100;
  if (buffer.parts[0].nibbles)
    w.numbers = Normal::integers(-8, 7);
  else
    w.numbers.emplace(buffer.parts[0].elem, buffer.block.empty() ? spread.mean : 0, buffer.block.empty() ? spread.deviation : ofCodes);
  for (const Part &part : buffer.parts) {
    Result<Layout> layout = Layout::parse(part.layout);
    if (!layout)
      return checkpointError(buffer.name + ": " + layout.error().message);
    if (layout->rank() > buffer.shape.size())
      return checkpointError(buffer.name + ": expected a layout of at most " + std::to_string(buffer.shape.size()) + " dims, got '" + part.layout + "'");
    w.layouts.push_back(*layout);
  }
  if (buffer.block.empty() != (buffer.parts.size() == 1))
    return checkpointError(buffer.name + ": expected scales exactly when there is a block");
  return w;
}

Result<RandomWeight> RandomWeight::make(const Buffer &buffer, std::vector<float> values) {
  Result<RandomWeight> w = make(buffer, 0, WeightSpread{});
  if (w && (int64_t(values.size()) != product(buffer.shape, 0, buffer.shape.size()) || !buffer.block.empty()))
    return checkpointError(buffer.name + ": expected a plain weight of " + std::to_string(values.size()) + " numbers");
  if (w)
    w->given = std::move(values);
  return w;
}

int64_t RandomWeight::rows() const { return product(buffer->shape, 0, buffer->shape.size() - 1); }

uint32_t RandomWeight::code(int64_t row, int64_t col) const {
  uint64_t i = uint64_t(row * cols() + col);
  if (given.empty())
    return numbers->code(seed, i);
  uint32_t bits = 0;
  convertFromFloat(buffer->parts[0].elem, &given[i], 1, &bits);
  return bits;
}

float RandomWeight::stored(int64_t row, int64_t col) const {
  if (given.empty())
    return numbers->value(seed, uint64_t(row * cols() + col));
  uint32_t bits = code(row, col);
  return loadAsFloat(buffer->parts[0].elem, &bits, 0);
}

/// Scales differ from block to block by up to 2, so that a kernel that takes the wrong one is seen.
float RandomWeight::scale(int64_t row, int64_t col) const {
  int64_t n = buffer->shape.size() < 2 ? 1 : buffer->shape[buffer->shape.size() - 2];
  int64_t entry = row / n, perRow = (cols() + buffer->block[1] - 1) / buffer->block[1], perEntry = (n + buffer->block[0] - 1) / buffer->block[0];
  uint64_t block = uint64_t((entry * perEntry + row % n / buffer->block[0]) * perRow + col / buffer->block[1]);
  float least = buffer->parts[0].nibbles ? 0.005f : 0.0002f; // codes are at most 7, 127 or 448
  return least * (1.0f + float(mix(seed ^ 0x5ca1e, block) & 1023) / 1023.0f);
}

double RandomWeight::value(int64_t row, int64_t col) const {
  return buffer->block.empty() ? double(stored(row, col)) : double(stored(row, col)) * double(scale(row, col));
}

reference::Array<double> RandomWeight::read(int64_t from, int64_t to) const {
  reference::Array<double> out({to - from, cols()});
  for (int64_t r = from; r < to; ++r)
    for (int64_t c = 0; c < cols(); ++c)
      out.data[size_t((r - from) * cols() + c)] = value(r, c);
  return out;
}

void RandomWeight::packPart(const Part &part, const Layout &layout, uint8_t *out) const {
  size_t rank = layout.rank(), outer = buffer->shape.size() - rank;
  std::vector<int64_t> inner(buffer->shape.begin() + long(outer), buffer->shape.end());
  int64_t innerRows = product(inner, 0, rank - 1);
  Places places(layout, inner, part.layout.find('^') == std::string::npos);
  bool scales = part.name == "scale";
  // A layout of scales may repeat one within its block; where it does not, one write per block is enough.
  int64_t colStep = scales && places.repeats(buffer->block[1]) ? buffer->block[1] : 1;
  size_t size = byteSize(part.elem);
  parallelFor(rows(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t n = row % innerRows;
      if (colStep > 1 && rank > 1 && n % inner[rank - 2] % buffer->block[0] && places.first(n) == places.first(n - 1))
        continue;
      uint8_t *entry = out + row / innerRows * part.outerStride;
      int64_t first = places.first(n);
      for (int64_t col = 0; col < cols(); col += colStep) {
        int64_t place = places.of(n, first, col);
        if (part.nibbles) { // another thread may write the other half
          __atomic_fetch_or(entry + place / 2, uint8_t((code(row, col) & 15) << (place % 2 * 4)), __ATOMIC_RELAXED);
          continue;
        }
        uint8_t *at = entry + size_t(place) * size;
        if (scales) {
          float s = scale(row, col);
          std::memcpy(at, &s, sizeof s);
        } else {
          uint32_t bits = code(row, col);
          std::memcpy(at, &bits, size);
        }
      }
    }
  });
}

std::vector<uint8_t> RandomWeight::pack() const {
  std::vector<uint8_t> bytes(size_t(buffer->bytes), 0);
  for (size_t p = 0; p < buffer->parts.size(); ++p)
    packPart(buffer->parts[p], layouts[p], bytes.data() + buffer->parts[p].offset);
  return bytes;
}

} // namespace dsv3::bench
