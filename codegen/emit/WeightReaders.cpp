#include "codegen/emit/WeightReaders.h"

#include "runtime/core/Dummy.h"
#include "runtime/reference/Rope.h"

#include <cmath>
#include <numeric>

namespace dsv3 {

using Shape = std::vector<int64_t>;

static int64_t product(const Shape &s, size_t begin, size_t end) {
  return std::accumulate(s.begin() + long(begin), s.begin() + long(end), int64_t(1), std::multiplies<int64_t>());
}

int64_t WeightReader::rows() const { return product(dims, 0, dims.size() - 1); }
Status WeightReader::codes(int64_t, int64_t, int64_t, uint8_t *) const { return internalError("a plain weight has no codes"); }
Status WeightReader::scales(int64_t, int64_t, int64_t, float *) const { return internalError("a plain weight has no scales"); }
Status WeightReader::zeros(int64_t, int64_t, int64_t, int8_t *) const { return internalError("a weight has no zero points"); }

namespace {

Error elementError(const std::string &tensor, int64_t index, const std::string &got) {
  return checkpointError(tensor + ": expected finite values, got " + got + " at element " + std::to_string(index));
}

class PlainTensor : public WeightReader {
public:
  explicit PlainTensor(const hf::CheckpointTensor &t) : WeightReader(t.shape()), tensor(t) {}

  Status values(int64_t row, int64_t col, int64_t n, float *out) const override {
    int64_t first = row * cols() + col;
    convertToFloat(tensor.dtype(), tensor.data().data() + size_t(first) * byteSize(tensor.dtype()), size_t(n), out);
    for (int64_t i = 0; i < n; ++i)
      if (!std::isfinite(out[i]))
        return elementError(tensor.name(), first + i, std::isnan(out[i]) ? "NaN" : "infinity");
    return {};
  }

private:
  const hf::CheckpointTensor &tensor;
};

/// A reader whose elements are those of others, found by `locate`: a run of elements of one row of one of them.
class Rearranged : public WeightReader {
public:
  Rearranged(Shape shape, std::vector<ReaderPtr> readers) : WeightReader(std::move(shape)), from(std::move(readers)) {}

  bool encoded() const override {
    for (const ReaderPtr &r : from)
      if (!r->encoded())
        return false;
    return true;
  }
  Status values(int64_t row, int64_t col, int64_t n, float *out) const override { return read(&WeightReader::values, row, col, n, out); }
  Status codes(int64_t row, int64_t col, int64_t n, uint8_t *out) const override { return read(&WeightReader::codes, row, col, n, out); }
  Status scales(int64_t row, int64_t col, int64_t n, float *out) const override { return read(&WeightReader::scales, row, col, n, out); }
  Status zeros(int64_t row, int64_t col, int64_t n, int8_t *out) const override { return read(&WeightReader::zeros, row, col, n, out); }
  bool hasZeros() const override {
    for (const ReaderPtr &r : from)
      if (!r->hasZeros())
        return false;
    return true;
  }

protected:
  struct Run {
    const WeightReader *reader;
    int64_t row, col, n;
  };
  /// Where element (row, col) is, and how many of the next `n` follow it there.
  virtual Run locate(int64_t row, int64_t col, int64_t n) const = 0;

  std::vector<ReaderPtr> from;

private:
  template <typename T>
  Status read(Status (WeightReader::*part)(int64_t, int64_t, int64_t, T *) const, int64_t row, int64_t col, int64_t n, T *out) const {
    for (int64_t done = 0; done < n;) {
      Run run = locate(row, col + done, n - done);
      if (Status s = (run.reader->*part)(run.row, run.col, run.n, out + done); !s)
        return s;
      done += run.n;
    }
    return {};
  }
};

class Stack : public Rearranged {
  using Rearranged::Rearranged;
  Run locate(int64_t row, int64_t col, int64_t n) const override {
    int64_t rowsEach = from[0]->rows();
    return {from[size_t(row / rowsEach)].get(), row % rowsEach, col, n};
  }
};

/// Joins along a dim before the last: rows of one come after rows of another, once per index of the dims before it.
class ConcatRows : public Rearranged {
public:
  ConcatRows(Shape shape, std::vector<ReaderPtr> readers, size_t dim) : Rearranged(std::move(shape), std::move(readers)) {
    for (const ReaderPtr &r : from)
      inner.push_back(product(r->shape(), dim, r->shape().size() - 1));
    period = std::accumulate(inner.begin(), inner.end(), int64_t(0));
  }

private:
  Run locate(int64_t row, int64_t col, int64_t n) const override {
    int64_t outer = row / period, rest = row % period;
    size_t i = 0;
    while (rest >= inner[i])
      rest -= inner[i++];
    return {from[i].get(), outer * inner[i] + rest, col, n};
  }
  std::vector<int64_t> inner;
  int64_t period;
};

class ConcatCols : public Rearranged {
  using Rearranged::Rearranged;
  Run locate(int64_t row, int64_t col, int64_t n) const override {
    size_t i = 0;
    while (col >= from[i]->cols())
      col -= from[i++]->cols();
    return {from[i].get(), row, col, std::min(n, from[i]->cols() - col)};
  }
};

class Slice : public Rearranged {
public:
  Slice(Shape shape, std::vector<ReaderPtr> readers, size_t dim, int64_t offset)
      : Rearranged(std::move(shape), std::move(readers)), columns(dim + 1 == this->shape().size()), offset(offset),
        inner(columns ? 1 : product(from[0]->shape(), dim + 1, from[0]->shape().size() - 1)),
        size(this->shape()[dim]), whole(from[0]->shape()[dim]) {}

private:
  Run locate(int64_t row, int64_t col, int64_t n) const override {
    if (columns)
      return {from[0].get(), row, col + offset, n};
    int64_t outer = row / (size * inner), rest = row % (size * inner);
    return {from[0].get(), (outer * whole + offset) * inner + rest, col, n};
  }
  bool columns;
  int64_t offset, inner, size, whole;
};

class Transpose : public Rearranged {
  using Rearranged::Rearranged;
  Run locate(int64_t row, int64_t col, int64_t) const override {
    int64_t a = cols(), b = from[0]->cols(); // [.., a, b] there, [.., b, a] here
    return {from[0].get(), row / b * a + col, row % b, 1};
  }
};

class Reshape : public Rearranged {
  using Rearranged::Rearranged;
  Run locate(int64_t row, int64_t col, int64_t n) const override { return {from[0].get(), row, col, n}; }
};

class Rounded : public Rearranged {
public:
  Rounded(ReaderPtr reader, DType type, bool keepCodes) : Rearranged(reader->shape(), {}), type(type), keepCodes(keepCodes) {
    from.push_back(std::move(reader));
  }
  bool encoded() const override { return keepCodes && from[0]->encoded(); }
  Status values(int64_t row, int64_t col, int64_t n, float *out) const override {
    Status s = from[0]->values(row, col, n, out);
    for (int64_t i = 0; s && i < n; ++i)
      out[i] = roundTo(type, out[i]);
    return s;
  }

private:
  Run locate(int64_t row, int64_t col, int64_t n) const override { return {from[0].get(), row, col, n}; }
  DType type;
  bool keepCodes;
};

class DummyReader : public WeightReader {
public:
  DummyReader(Shape shape, llvm::StringRef name, double std, bool fp8)
      : WeightReader(std::move(shape)), dummy(std::string_view(name.data(), name.size())), std(std), fp8(fp8) {}

  bool encoded() const override { return fp8; }
  Status codes(int64_t row, int64_t col, int64_t n, uint8_t *out) const override {
    for (int64_t i = 0; i < n; ++i)
      out[i] = floatToE4m3(64 * dummy.normal(uint64_t(row * cols() + col + i)));
    return {};
  }
  Status scales(int64_t, int64_t, int64_t n, float *out) const override {
    std::fill(out, out + n, float(std / 64));
    return {};
  }
  Status values(int64_t row, int64_t col, int64_t n, float *out) const override {
    for (int64_t i = 0; i < n; ++i) {
      float x = dummy.normal(uint64_t(row * cols() + col + i));
      out[i] = fp8 ? e4m3ToFloat(floatToE4m3(64 * x)) * float(std / 64) : float(std) * x;
    }
    return {};
  }

private:
  Dummy dummy;
  double std;
  bool fp8;
};

/// A tensor of a drawn checkpoint, with the scales of its blocks if it has codes.
class DrawnTensor : public WeightReader {
public:
  explicit DrawnTensor(const hf::CheckpointTensor &t)
      : WeightReader(t.shape()), data(t.name()), scale(""), spread(DummyTensor::ofData(t.name(), t.shape())), stored(t.dtype()) {}
  DrawnTensor(const hf::CheckpointTensor &t, const hf::CheckpointTensor &scale, int64_t blockRows, int64_t blockCols, bool powersOfTwo)
      : WeightReader(t.shape()), data(t.name()), scale(scale.name()), spread(DummyTensor::ofScales(cols(), powersOfTwo)), stored(t.dtype()),
        blockRows(blockRows), blockCols(blockCols) {}

  bool encoded() const override { return stored == DType::F8E4M3; }
  Status codes(int64_t row, int64_t col, int64_t n, uint8_t *out) const override {
    for (int64_t i = 0; i < n; ++i)
      out[i] = DummyTensor::code(data, uint64_t(row * cols() + col + i));
    return {};
  }
  Status scales(int64_t row, int64_t col, int64_t n, float *out) const override {
    int64_t gridCols = (cols() + blockCols - 1) / blockCols;
    for (int64_t i = 0; i < n; ++i)
      out[i] = spread.scale(scale, uint64_t(row / blockRows * gridCols + (col + i) / blockCols));
    return {};
  }
  Status values(int64_t row, int64_t col, int64_t n, float *out) const override {
    if (encoded()) {
      if (Status s = scales(row, col, n, out); !s)
        return s;
      for (int64_t i = 0; i < n; ++i)
        out[i] *= e4m3ToFloat(DummyTensor::code(data, uint64_t(row * cols() + col + i)));
      return {};
    }
    for (int64_t i = 0; i < n; ++i)
      out[i] = spread.plain(data, uint64_t(row * cols() + col + i), stored);
    return {};
  }

private:
  Dummy data, scale;
  DummyTensor spread;
  DType stored;
  int64_t blockRows = 1, blockCols = 1;
};

class RopeTableReader : public WeightReader {
public:
  RopeTableReader(reference::RopeTable table, int64_t positions, int64_t dims) : WeightReader({positions, dims}), table(std::move(table)) {}
  Status values(int64_t row, int64_t col, int64_t n, float *out) const override {
    int64_t pairs = cols() / 2;
    for (int64_t i = 0; i < n; ++i) {
      auto [cos, sin] = table.at(row, (col + i) % pairs);
      out[i] = col + i < pairs ? cos : sin;
    }
    return {};
  }

private:
  reference::RopeTable table;
};

template <typename T, typename... Args> Result<ReaderPtr> make(Args &&...args) { return ReaderPtr(std::make_unique<T>(std::forward<Args>(args)...)); }

std::vector<ReaderPtr> one(ReaderPtr reader) {
  std::vector<ReaderPtr> v;
  v.push_back(std::move(reader));
  return v;
}
} // namespace

static Result<const hf::CheckpointTensor *> find(const hf::Checkpoint *checkpoint, llvm::StringRef name) {
  const hf::CheckpointTensor *tensor = checkpoint ? checkpoint->find(std::string_view(name.data(), name.size())) : nullptr;
  if (!tensor)
    return checkpointError(name.str() + " is missing from the checkpoint");
  return tensor;
}

static Error wrongTensor(const hf::CheckpointTensor &t, const std::string &expected) {
  return checkpointError(t.name() + ": expected " + expected + ", got " + std::string(safetensorsName(t.dtype())) + " " + shapeText(t.shape()));
}

Result<ReaderPtr> readTensor(const hf::Checkpoint *checkpoint, llvm::StringRef name) {
  Result<const hf::CheckpointTensor *> tensor = find(checkpoint, name);
  if (!tensor)
    return tensor.error();
  if (checkpoint->isDrawn() && (*tensor)->dtype() != DType::F8E4M3)
    return make<DrawnTensor>(**tensor);
  if (!isFloat((*tensor)->dtype()) || isFp8((*tensor)->dtype()) || (*tensor)->shape().empty())
    return wrongTensor(**tensor, "F32, BF16 or F16 of rank 1 or more");
  return make<PlainTensor>(**tensor);
}

Result<ReaderPtr> readDrawn(const hf::Checkpoint *checkpoint, llvm::StringRef name, llvm::StringRef scaleName, int64_t blockRows,
                            int64_t blockCols, bool powersOfTwo) {
  Result<const hf::CheckpointTensor *> tensor = find(checkpoint, name), scale = find(checkpoint, scaleName);
  if (!tensor || !scale)
    return tensor ? scale.error() : tensor.error();
  if ((*tensor)->dtype() != DType::F8E4M3 || (*tensor)->shape().size() != 2)
    return wrongTensor(**tensor, "F8_E4M3 of rank 2");
  return make<DrawnTensor>(**tensor, **scale, blockRows, blockCols, powersOfTwo);
}

Result<ReaderPtr> readStack(std::vector<ReaderPtr> readers) {
  for (const ReaderPtr &r : readers)
    if (r->shape() != readers[0]->shape())
      return internalError("recipe: expected equal shapes to stack, got " + shapeText(readers[0]->shape()) + " and " + shapeText(r->shape()));
  Shape shape = readers[0]->shape();
  shape.insert(shape.begin(), int64_t(readers.size()));
  return make<Stack>(std::move(shape), std::move(readers));
}

Result<ReaderPtr> readConcat(std::vector<ReaderPtr> readers, int64_t dim) {
  Shape shape = readers[0]->shape();
  if (dim >= int64_t(shape.size()))
    return internalError("recipe: expected a dim below " + std::to_string(shape.size()) + " to concat, got " + std::to_string(dim));
  size_t d = size_t(dim);
  shape[d] = 0;
  for (const ReaderPtr &r : readers) {
    Shape other = r->shape();
    int64_t size = other.size() == shape.size() ? std::exchange(other[d], shape[d]) : -1;
    if (other != shape)
      return internalError("recipe: expected equal shapes but for dim " + std::to_string(dim) + " to concat, got " +
                           shapeText(readers[0]->shape()) + " and " + shapeText(r->shape()));
    shape[d] += size;
  }
  if (d + 1 == shape.size())
    return make<ConcatCols>(std::move(shape), std::move(readers));
  return make<ConcatRows>(std::move(shape), std::move(readers), d);
}

Result<ReaderPtr> readSlice(ReaderPtr reader, int64_t dim, int64_t offset, int64_t size) {
  Shape shape = reader->shape();
  if (dim >= int64_t(shape.size()) || offset + size > shape[size_t(dim)])
    return internalError("recipe: expected a slice inside " + shapeText(shape) + ", got [" + std::to_string(offset) + ", " +
                         std::to_string(offset + size) + ") of dim " + std::to_string(dim));
  shape[size_t(dim)] = size;
  return make<Slice>(std::move(shape), one(std::move(reader)), size_t(dim), offset);
}

Result<ReaderPtr> readTranspose(ReaderPtr reader) {
  Shape shape = reader->shape();
  if (shape.size() < 2)
    return internalError("recipe: expected rank 2 or more to transpose, got " + shapeText(shape));
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  return make<Transpose>(std::move(shape), one(std::move(reader)));
}

Result<ReaderPtr> readReshape(ReaderPtr reader, Shape shape) {
  if (shape.back() != reader->cols() || product(shape, 0, shape.size() - 1) != reader->rows())
    return internalError("recipe: expected the elements and the last dim of " + shapeText(reader->shape()) + ", got " + shapeText(shape));
  return make<Reshape>(std::move(shape), one(std::move(reader)));
}

ReaderPtr readRounded(ReaderPtr reader, DType type, bool keepCodes) { return std::make_unique<Rounded>(std::move(reader), type, keepCodes); }

ReaderPtr readDummy(Shape shape, llvm::StringRef name, double std, bool encoded) {
  return std::make_unique<DummyReader>(std::move(shape), name, std, encoded);
}

Result<ReaderPtr> readRopeTable(ir::RopeAttr rope, int64_t positions) {
  reference::RopeParams params;
  params.dims = rope.getDims();
  params.theta = rope.getTheta();
  params.interleaved = rope.getInterleaved();
  params.yarn = rope.getFactor() > 0.0;
  if (params.yarn) {
    params.factor = rope.getFactor();
    params.original = double(rope.getOriginal());
    params.betaFast = rope.getBetaFast();
    params.betaSlow = rope.getBetaSlow();
  }
  Result<reference::RopeTable> table = reference::ropeTable(params);
  if (!table)
    return table.error();
  table->attentionFactor = float(double(rope.getScale())); // the attribute holds the quotient of the two mscales
  return make<RopeTableReader>(std::move(*table), positions, rope.getDims());
}

} // namespace dsv3
