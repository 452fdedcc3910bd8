// Weights that the compiler quantises itself: readers of #dsv3.quantized.
#include "codegen/emit/QuantReaders.h"
#include "frontends/quantize/RoundToNearest.h"

#include <array>
#include <atomic>
#include <cmath>
#include <mutex>

using namespace mlir;

namespace dsv3 {

namespace {

class RoundingReader : public WeightReader {
public:
  RoundingReader(const std::string &name, ReaderPtr reader, const quantize::Scheme &scheme, quantize::Clip clip)
      : WeightReader(reader->shape()), name(name), from(std::move(reader)), scheme(scheme), clip(clip),
        matrixRows(shape().size() < 2 ? 1 : shape()[shape().size() - 2]), blockRows(scheme.blockRows ? scheme.blockRows : matrixRows),
        blockCols(scheme.blockCols ? scheme.blockCols : cols()), gridRows((matrixRows + blockRows - 1) / blockRows),
        gridCols((cols() + blockCols - 1) / blockCols), rowsOfScales(size_t(rows() / matrixRows * gridRows)) {}

  bool encoded() const override { return true; }

  Status codes(int64_t row, int64_t col, int64_t n, uint8_t *out) const override {
    std::vector<float> numbers(static_cast<size_t>(n));
    if (Status s = from->values(row, col, n, numbers.data()); !s)
      return s;
    return perBlock(row, col, n, [&](int64_t at, int64_t count, float scale) {
      quantize::encode(numbers.data() + at, size_t(count), scale, scheme.code, out + at);
    });
  }

  Status scales(int64_t row, int64_t col, int64_t n, float *out) const override {
    return perBlock(row, col, n, [&](int64_t at, int64_t count, float scale) { std::fill_n(out + at, count, scale); });
  }

  Status values(int64_t row, int64_t col, int64_t n, float *out) const override {
    std::vector<uint8_t> code(static_cast<size_t>(n));
    if (Status s = codes(row, col, n, code.data()); !s)
      return s;
    return perBlock(row, col, n, [&](int64_t at, int64_t count, float scale) {
      for (int64_t i = at; i < at + count; ++i)
        out[i] = quantize::decode(code[size_t(i)], scale, scheme.code);
    });
  }

private:
  template <typename Fn> Status perBlock(int64_t row, int64_t col, int64_t n, Fn fn) const {
    const float *scale = nullptr;
    if (Status s = scalesOf(row, scale); !s)
      return s;
    for (int64_t at = 0; at < n;) {
      int64_t block = (col + at) / blockCols, count = std::min(n - at, (block + 1) * blockCols - (col + at));
      fn(at, count, scale[block]);
      at += count;
    }
    return {};
  }

  /// The scales of the blocks that `row` runs through. Readers are shared by threads: who comes first makes them.
  Status scalesOf(int64_t row, const float *&scale) const {
    const int64_t matrix = row / matrixRows, gridRow = row % matrixRows / blockRows;
    Row &place = rowsOfScales[size_t(matrix * gridRows + gridRow)];
    if (!(scale = place.ready.load(std::memory_order_acquire))) {
      std::lock_guard<std::mutex> lock(mutexes[size_t(row) % mutexes.size()]);
      if (!(scale = place.ready.load(std::memory_order_acquire))) {
        const int64_t first = matrix * matrixRows + gridRow * blockRows;
        if (Status s = find(first, std::min(first + blockRows, (matrix + 1) * matrixRows), place); !s)
          return s;
        place.ready.store(scale = place.scales.get(), std::memory_order_release);
      }
    }
    return {};
  }

  struct Row {
    std::unique_ptr<float[]> scales;
    std::atomic<const float *> ready{nullptr};
  };

  Status find(int64_t begin, int64_t end, Row &place) const {
    std::vector<float> numbers(size_t((end - begin) * cols())), block;
    for (int64_t r = begin; r < end; ++r)
      if (Status s = from->values(r, 0, cols(), numbers.data() + (r - begin) * cols()); !s)
        return s;
    for (size_t i = 0; i < numbers.size(); ++i)
      if (!std::isfinite(numbers[i]))
        return checkpointError("weight " + name + ": expected finite numbers to quantise, got " + std::to_string(numbers[i]) + " in row " +
                               std::to_string(begin + int64_t(i) / cols()) + ", column " + std::to_string(int64_t(i) % cols()));
    place.scales = std::make_unique<float[]>(size_t(gridCols));
    for (int64_t c = 0; c < gridCols; ++c) {
      int64_t width = std::min(blockCols, cols() - c * blockCols);
      block.clear();
      for (int64_t r = 0; r < end - begin; ++r)
        block.insert(block.end(), numbers.begin() + r * cols() + c * blockCols, numbers.begin() + r * cols() + c * blockCols + width);
      place.scales[size_t(c)] = quantize::findScale(block.data(), block.size(), scheme, clip);
      if (Status s = quantize::checkScale(place.scales[size_t(c)], scheme, begin); !s)
        return Error{s.error().code, "weight " + name + ": " + s.error().message};
    }
    return {};
  }

  std::string name;
  ReaderPtr from;
  quantize::Scheme scheme;
  quantize::Clip clip;
  int64_t matrixRows, blockRows, blockCols, gridRows, gridCols;
  mutable std::vector<Row> rowsOfScales;
  mutable std::array<std::mutex, 16> mutexes;
};

} // namespace

Result<ReaderPtr> readRoundedToNearest(const std::string &name, ReaderPtr reader, ir::BlockedAttr attr, ir::Clip clip) {
  ArrayRef<int64_t> block = attr.getBlock();
  Type storage = attr.getStorage();
  if (block.size() != 2 || attr.getZero() || attr.getIndexed() || isa<Float8E5M2Type>(storage))
    return internalError("weight " + name + ": expected a symmetric scheme of rows and columns to quantise to");
  auto size = [](int64_t b) { return ShapedType::isDynamic(b) ? 0 : b; };
  quantize::Scheme scheme;
  scheme.code = isa<Float8E4M3FNType>(storage) ? quantize::Code::F8E4M3 : storage.isInteger(8) ? quantize::Code::I8 : quantize::Code::I4;
  scheme.blockRows = size(block[0]), scheme.blockCols = size(block[1]);
  scheme.scaleType = attr.getScale().isF32() ? DType::F32 : attr.getScale().isBF16() ? DType::BF16 : DType::F16;
  scheme.powerOfTwo = attr.getPow2Scale();
  return ReaderPtr(std::make_unique<RoundingReader>(name, std::move(reader), scheme, clip == ir::Clip::Mse ? quantize::Clip::Mse : quantize::Clip::Absmax));
}

} // namespace dsv3
