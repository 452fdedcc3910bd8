#include "Weights.h"

#include "Quantised.h"
#include "Values.h"

#include "dialects/kernel/KernelDialect.h"
#include "runtime/core/Dummy.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

namespace dsv3::interpret {

using namespace dsv3::reference;
using Numbers = Result<Array<float>>;

Result<RopeTable> ropeTableOf(ir::RopeAttr rope) {
  RopeParams p;
  p.dims = rope.getDims();
  p.theta = rope.getTheta();
  p.interleaved = rope.getInterleaved();
  p.yarn = rope.getFactor() > 0;
  if (p.yarn) {
    p.factor = rope.getFactor();
    p.original = double(rope.getOriginal());
    p.betaFast = rope.getBetaFast();
    p.betaSlow = rope.getBetaSlow();
  }
  Result<RopeTable> table = ropeTable(p);
  if (table)
    table->attentionFactor = float(rope.getScale());
  return table;
}

/// [positions, dims]: dims / 2 cosines, then dims / 2 sines.
static Numbers ropeRows(ir::RopeTableSourceAttr source) {
  auto rope = llvm::cast<ir::RopeAttr>(source.getRope());
  Result<RopeTable> table = ropeTableOf(rope);
  if (!table)
    return table.error();
  int64_t half = rope.getDims() / 2;
  Array<float> rows({source.getPositions(), 2 * half});
  for (int64_t p = 0; p < rows.dim(0); ++p)
    for (int64_t i = 0; i < half; ++i) {
      RopeTable::CosSin turn = table->at(p, i);
      rows.row(p)[i] = turn.cos;
      rows.row(p)[half + i] = turn.sin;
    }
  return rows;
}

static std::string nameAt(llvm::StringRef name, std::optional<int64_t> index) {
  std::string out = name.str();
  for (size_t at; index && (at = out.find("{}")) != std::string::npos;)
    out.replace(at, 2, std::to_string(*index));
  return out;
}

static Error wrongShape(const std::string &name, const Shape &want, const Shape &got) {
  return checkpointError(name + ": expected shape " + toString(want) + ", got " + toString(got));
}

Numbers WeightReader::read(llvm::StringRef symbol, bool exact) const {
  mlir::Operation *op = mlir::SymbolTable::lookupSymbolIn(module, symbol);
  if (auto packed = llvm::dyn_cast_or_null<kernel::WeightOp>(op)) {
    Numbers numbers = read(packed.getSource(), exact);
    if (!numbers)
      return numbers;
    Result<Rounding> rounding = roundingOf(packed.getTensorType().getElementType());
    if (!rounding)
      return rounding.error();
    Shape want(packed.getTensorType().getShape());
    if (numbers->shape != want)
      return wrongShape("@" + symbol.str(), want, numbers->shape);
    return exact ? std::move(numbers) : std::move(roundTo(*rounding, *numbers));
  }
  auto weight = llvm::dyn_cast_or_null<ir::WeightOp>(op);
  if (!weight)
    return usageError("expected a dsv3.weight named @" + symbol.str() + ", got none");
  mlir::RankedTensorType type = weight.getTensorType();
  Shape want(type.getShape());
  Result<Rounding> rounding = roundingOf(type.getElementType());
  if (!rounding)
    return rounding.error();
  Numbers numbers =
      evaluate(weight.getSource(), {{}, llvm::dyn_cast_or_null<ir::BlockedAttr>(type.getEncoding()), want, exact});
  if (!numbers)
    return numbers;
  if (numbers->shape != want)
    return wrongShape("@" + symbol.str(), want, numbers->shape);
  return exact && type.getEncoding() ? std::move(numbers) : std::move(roundTo(*rounding, *numbers));
}

Numbers WeightReader::evaluate(mlir::Attribute source, const Place &place) const {
  return llvm::TypeSwitch<mlir::Attribute, Numbers>(source)
      .Case([&](ir::FileSourceAttr s) { return file(s, place); })
      .Case([&](ir::StackSourceAttr s) { return stack(s, place); })
      .Case([&](ir::ConcatSourceAttr s) { return concat(s, place); })
      .Case([&](ir::SliceSourceAttr s) { return slice(s, place); })
      .Case([&](ir::TransposeSourceAttr s) { return transpose(s, place); })
      .Case([&](ir::ReshapeSourceAttr s) { return reshape(s, place); })
      .Case([&](ir::RefSourceAttr s) { return read(s.getWeight().getValue(), place.exact); })
      .Case([&](ir::QuantizedSourceAttr s) { return quantized(s, place); })
      .Case([&](ir::RopeTableSourceAttr s) { return ropeRows(s); })
      .Case([&](ir::DummySourceAttr s) -> Numbers {
        Array<float> numbers(place.shape);
        Dummy dummy(nameAt(s.getName().getValue(), place.index));
        for (int64_t i = 0; i < numbers.size(); ++i)
          numbers.data[i] = float(s.getStd()) * dummy.normal(i);
        return numbers;
      })
      .Default([](mlir::Attribute s) -> Numbers {
        std::string text;
        llvm::raw_string_ostream(text) << s;
        return unsupportedError("expected a weight source that can be evaluated, got " + text);
      });
}

/// What the compiler quantises, by the reference instead of its own rounding.
Numbers WeightReader::quantized(ir::QuantizedSourceAttr source, const Place &place) const {
  Numbers numbers = read(source.getWeight().getValue());
  if (!numbers)
    return numbers;
  if (!place.scheme)
    return usageError("expected a scheme to quantise @" + source.getWeight().getValue().str() + " to");
  Result<QuantScheme> scheme = schemeOf(place.scheme);
  if (!scheme)
    return scheme.error();
  scheme->searched = source.getClip() == ir::Clip::Mse;
  Result<Quantized<float>> q = quantize(*numbers, *scheme);
  return q ? dequantize(*q) : Numbers(q.error());
}

//===-- Checkpoint tensors ------------------------------------------------===//

Numbers WeightReader::stored(llvm::StringRef name) const {
  if (!checkpoint)
    return usageError("expected --checkpoint or --dummy-weights, since a weight reads tensor '" + name.str() + "'");
  const hf::CheckpointTensor *tensor = checkpoint->find(std::string_view(name.data(), name.size()));
  if (!tensor)
    return checkpointError("expected a tensor '" + name.str() + "' in " + checkpoint->dir() + ", got none");
  Array<float> numbers(tensor->shape());
  convertToFloat(tensor->dtype(), tensor->data().data(), numbers.data.size(), numbers.data.data());
  return numbers;
}

Numbers WeightReader::file(ir::FileSourceAttr source, const Place &place) const {
  std::string name = nameAt(source.getTensor().getValue(), place.index);
  if (dummy)
    return drawn(source, name, place);
  if (!source.getScale())
    return stored(name);
  if (!place.scheme || place.scheme.getBlock().size() < 2)
    return unsupportedError(name + ": expected a weight with a block scheme, since the tensor has scales");
  if (!checkpoint)
    return stored(name); // its error
  auto at = [&](mlir::StringAttr part) { return part ? nameAt(part.getValue(), place.index) : std::string(); };
  Shape shape = place.shape;
  if (shape.empty()) { // under a slice or a transpose
    const hf::CheckpointTensor *tensor = checkpoint->find(name);
    if (source.getPacking() != ir::Packing::Plain || !tensor || tensor->shape().size() != 2)
      return unsupportedError(name + ": expected a plain matrix of codes, or a recipe that takes the whole of it");
    shape = tensor->shape();
  }
  if (shape.size() != 2)
    return wrongShape(name, {-1, -1}, shape);
  return readQuantised(*checkpoint, {name, at(source.getScale()), at(source.getZero()), at(source.getIndex())},
                       source.getPacking(), place.scheme, shape[0], shape[1]);
}

/// Numbers at a gain that keeps states alive through many layers: a matrix has deviation 1/sqrt(columns), a
/// vector (a norm's gamma, a bias) lies around 1. Encoded ones are quantised by the reference.
Numbers WeightReader::drawn(ir::FileSourceAttr source, const std::string &name, const Place &place) const {
  if (place.shape.empty())
    return unsupportedError(name + ": expected a checkpoint, since the tensor's shape is not known here");
  Array<float> numbers(place.shape);
  Dummy dummy(name);
  bool vector = numbers.rank() == 1;
  float gain = vector ? 0.1f : 1 / std::sqrt(float(numbers.cols()));
  for (int64_t i = 0; i < numbers.size(); ++i)
    numbers.data[i] = gain * dummy.normal(i) + (vector ? 1.0f : 0.0f);
  if (!source.getScale() || !place.scheme)
    return numbers;
  Result<QuantScheme> scheme = schemeOf(place.scheme);
  if (!scheme)
    return scheme.error();
  Result<Quantized<float>> q = quantize(numbers, *scheme);
  return q ? dequantize(*q) : Numbers(q.error());
}

//===-- Arrangements ------------------------------------------------------===//

/// Extents before, at and after a dim.
struct Cut {
  int64_t outer = 1, size = 0, inner = 1;
  Cut(const Shape &shape, int64_t dim) : size(shape[dim]) {
    for (int64_t i = 0; i < int64_t(shape.size()); ++i)
      (i < dim ? outer : inner) *= i == dim ? 1 : shape[i];
  }
};

Numbers WeightReader::stack(ir::StackSourceAttr source, const Place &place) const {
  Array<float> all;
  Place inner = place;
  if (!inner.shape.empty())
    inner.shape.erase(inner.shape.begin());
  for (int64_t i = source.getBegin(); i < source.getEnd(); ++i) {
    inner.index = i;
    Numbers one = evaluate(source.getSource(), inner);
    if (!one)
      return one;
    if (!all.present()) {
      all.shape = one->shape;
      all.shape.insert(all.shape.begin(), source.getEnd() - source.getBegin());
    } else if (Shape want(all.shape.begin() + 1, all.shape.end()); one->shape != want) {
      return wrongShape("entry " + std::to_string(i) + " of a stack", want, one->shape);
    }
    all.data.insert(all.data.end(), one->data.begin(), one->data.end());
  }
  return all;
}

Numbers WeightReader::concat(ir::ConcatSourceAttr source, const Place &place) const {
  int64_t dim = source.getDim();
  std::vector<Array<float>> parts;
  Shape shape;
  for (mlir::Attribute s : source.getSources()) {
    Numbers part = evaluate(s, {place.index, place.scheme, {}, place.exact});
    if (!part)
      return part;
    if (dim >= part->rank())
      return usageError("concat: expected a dimension below " + std::to_string(part->rank()) + ", got " +
                        std::to_string(dim));
    Shape want = parts.empty() ? part->shape : parts[0].shape;
    want[dim] = part->dim(dim);
    if (part->shape != want)
      return wrongShape("part of a concat", want, part->shape);
    int64_t total = parts.empty() ? 0 : shape[dim];
    shape = want;
    shape[dim] = total + part->dim(dim);
    parts.push_back(std::move(*part));
  }
  Array<float> all(shape);
  Cut whole(shape, dim);
  int64_t from = 0;
  for (const Array<float> &part : parts) {
    Cut cut(part.shape, dim);
    for (int64_t o = 0; o < cut.outer; ++o)
      std::copy_n(part.data.data() + o * cut.size * cut.inner, cut.size * cut.inner,
                  all.data.data() + (o * whole.size + from) * whole.inner);
    from += cut.size;
  }
  return all;
}

Numbers WeightReader::slice(ir::SliceSourceAttr source, const Place &place) const {
  Numbers whole = evaluate(source.getSource(), {place.index, place.scheme, {}, place.exact});
  if (!whole)
    return whole;
  int64_t dim = source.getDim(), from = source.getOffset(), size = source.getSize();
  if (dim < 0 || dim >= whole->rank() || from < 0 || size < 0 || from + size > whole->dim(dim))
    return usageError("slice: expected entries " + std::to_string(from) + " to " + std::to_string(from + size) +
                      " inside dimension " + std::to_string(dim) + " of " + toString(whole->shape));
  Cut cut(whole->shape, dim);
  Shape shape = whole->shape;
  shape[dim] = size;
  Array<float> part(shape);
  for (int64_t o = 0; o < cut.outer; ++o)
    std::copy_n(whole->data.data() + (o * cut.size + from) * cut.inner, size * cut.inner,
                part.data.data() + o * size * cut.inner);
  return part;
}

Numbers WeightReader::transpose(ir::TransposeSourceAttr source, const Place &place) const {
  Place inner = place;
  auto flip = [](auto &dims) {
    if (dims.size() >= 2)
      std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  };
  flip(inner.shape);
  if (place.scheme)
    if (auto flipped = place.scheme.transpose(); llvm::succeeded(flipped))
      inner.scheme = llvm::cast<ir::BlockedAttr>(*flipped);
  Numbers x = evaluate(source.getSource(), inner);
  if (!x)
    return x;
  if (x->rank() < 2)
    return usageError("transpose: expected two dimensions or more, got shape " + toString(x->shape));
  Array<float> y(x->shape);
  flip(y.shape);
  int64_t rows = x->dim(-2), cols = x->dim(-1);
  for (int64_t m = 0; m < x->size() / (rows * cols); ++m)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        y.data[(m * cols + c) * rows + r] = x->data[(m * rows + r) * cols + c];
  return y;
}

Numbers WeightReader::reshape(ir::ReshapeSourceAttr source, const Place &place) const {
  Numbers x = evaluate(source.getSource(), {place.index, place.scheme, {}, place.exact});
  if (!x)
    return x;
  Shape shape(source.getShape().begin(), source.getShape().end());
  if (numElements(shape) != x->size())
    return usageError("reshape: expected " + std::to_string(x->size()) + " elements, got shape " + toString(shape));
  x->shape = std::move(shape);
  return x;
}

} // namespace dsv3::interpret
