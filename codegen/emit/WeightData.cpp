#include "codegen/emit/WeightData.h"

#include "codegen/emit/QuantReaders.h"
#include "codegen/emit/WeightReaders.h"

using namespace mlir;

namespace dsv3 {

namespace {

std::string withIndex(StringRef name, std::optional<int64_t> index) {
  std::string out;
  while (index) {
    auto [head, tail] = name.split("{}");
    out += head;
    if (head.size() == name.size())
      return out;
    out += std::to_string(*index);
    name = tail;
  }
  return name.str();
}

std::optional<DType> floatType(Type type) {
  if (type.isF32())
    return DType::F32;
  if (type.isBF16())
    return DType::BF16;
  return type.isF16() ? std::optional(DType::F16) : std::nullopt;
}

/// Turns recipes into readers.
class Builder {
public:
  Builder(ModuleOp module, const hf::Checkpoint *checkpoint) : module(module), checkpoint(checkpoint) {}

  Result<ReaderPtr> weight(StringRef symbol) {
    auto op = module.lookupSymbol<ir::WeightOp>(symbol);
    if (!op)
      return internalError("expected a weight @" + symbol.str() + ", got none");
    if (++depth > 64)
      return internalError("weight @" + symbol.str() + " is made of itself");
    RankedTensorType type = op.getTensorType();
    std::optional<DType> elem = floatType(type.getElementType());
    if (!elem)
      return internalError("weight @" + symbol.str() + ": expected elements of f32, bf16 or f16");
    scheme = dyn_cast_or_null<ir::BlockedAttr>(type.getEncoding());
    this->type = type;
    arranged = false;
    Result<ReaderPtr> reader = build(op.getSource(), std::nullopt);
    --depth;
    if (!reader)
      return reader;
    bool keep = bool(type.getEncoding());
    if ((*reader)->shape() != std::vector<int64_t>(type.getShape()))
      return checkpointError("weight @" + symbol.str() + ": expected shape " + shapeText(type.getShape().vec()) + ", got " +
                             shapeText((*reader)->shape()) + " from its source");
    if (keep && !(*reader)->encoded())
      return internalError("weight @" + symbol.str() + ": expected an encoded source, got plain values");
    return readRounded(std::move(*reader), *elem, keep);
  }

private:
  Result<ReaderPtr> build(Attribute source, std::optional<int64_t> index) {
    if (auto s = dyn_cast<ir::FileSourceAttr>(source))
      return file(s, index);
    if (auto s = dyn_cast<ir::StackSourceAttr>(source)) {
      std::vector<Attribute> parts(size_t(s.getEnd() - s.getBegin()), s.getSource());
      Result<std::vector<ReaderPtr>> readers = buildAll(parts, s.getBegin());
      return readers ? readStack(std::move(*readers)) : readers.error();
    }
    if (auto s = dyn_cast<ir::RefSourceAttr>(source)) {
      auto outer = std::make_tuple(scheme, type, arranged);
      Result<ReaderPtr> reader = weight(s.getWeight().getValue());
      std::tie(scheme, type, arranged) = outer;
      return reader;
    }
    if (auto s = dyn_cast<ir::QuantizedSourceAttr>(source)) {
      auto outer = std::make_tuple(scheme, type, arranged);
      Result<ReaderPtr> reader = weight(s.getWeight().getValue());
      std::tie(scheme, type, arranged) = outer;
      if (!reader || !scheme)
        return reader ? internalError("@" + s.getWeight().getValue().str() + ": expected a type that says what it is quantised to") : std::move(reader);
      return readRoundedToNearest("@" + s.getWeight().getValue().str(), std::move(*reader), scheme, s.getClip());
    }
    if (auto s = dyn_cast<ir::DummySourceAttr>(source))
      return dummy(s);
    if (auto s = dyn_cast<ir::RopeTableSourceAttr>(source))
      return readRopeTable(cast<ir::RopeAttr>(s.getRope()), s.getPositions());
    bool outer = std::exchange(arranged, true);
    Result<ReaderPtr> reader = arrange(source, index);
    arranged = outer;
    return reader;
  }

  /// Sources whose parts have another shape than the weight.
  Result<ReaderPtr> arrange(Attribute source, std::optional<int64_t> index) {
    if (auto s = dyn_cast<ir::ConcatSourceAttr>(source)) {
      Result<std::vector<ReaderPtr>> readers = buildAll(s.getSources(), index, /*countUp=*/false);
      return readers ? readConcat(std::move(*readers), s.getDim()) : readers.error();
    }
    if (auto s = dyn_cast<ir::SliceSourceAttr>(source)) {
      Result<ReaderPtr> reader = build(s.getSource(), index);
      return reader ? readSlice(std::move(*reader), s.getDim(), s.getOffset(), s.getSize()) : std::move(reader);
    }
    if (auto s = dyn_cast<ir::TransposeSourceAttr>(source))
      return transpose(s, index);
    if (auto s = dyn_cast<ir::ReshapeSourceAttr>(source)) {
      Result<ReaderPtr> reader = build(s.getSource(), index);
      return reader ? readReshape(std::move(*reader), s.getShape().vec()) : std::move(reader);
    }
    return internalError("a weight has a source of an unknown kind");
  }

  Result<ReaderPtr> dummy(ir::DummySourceAttr source) {
    if (scheme && !isa<Float8E4M3FNType>(scheme.getStorage()))
      return internalError(source.getName().str() + ": expected dummy codes of f8E4M3FN");
    return readDummy(type.getShape().vec(), source.getName().getValue(), source.getStd(), bool(scheme));
  }

  Result<std::vector<ReaderPtr>> buildAll(ArrayRef<Attribute> sources, std::optional<int64_t> index, bool countUp = true) {
    std::vector<ReaderPtr> readers;
    for (Attribute s : sources) {
      Result<ReaderPtr> reader = build(s, index);
      if (!reader)
        return reader.error();
      readers.push_back(std::move(*reader));
      if (countUp)
        ++*index;
    }
    return readers;
  }

  Result<ReaderPtr> transpose(ir::TransposeSourceAttr source, std::optional<int64_t> index) {
    ir::BlockedAttr outer = scheme;
    if (scheme) {
      FailureOr<ir::QuantScheme> inner = cast<ir::QuantScheme>(scheme).transpose();
      scheme = failed(inner) ? ir::BlockedAttr() : cast<ir::BlockedAttr>(*inner);
    }
    Result<ReaderPtr> reader = build(source.getSource(), index);
    scheme = outer;
    return reader ? readTranspose(std::move(*reader)) : std::move(reader);
  }

  Result<ReaderPtr> file(ir::FileSourceAttr source, std::optional<int64_t> index) {
    auto at = [&](StringAttr name) { return name ? withIndex(name.getValue(), index) : std::string(); };
    QuantNames names{at(source.getTensor()), at(source.getScale()), at(source.getZero()), at(source.getIndex())};
    if (!source.getScale())
      return readTensor(checkpoint, names.data);
    if (!scheme || scheme.getBlock().size() < 2)
      return internalError(names.data + ": expected a type that says the size of scale blocks");
    if (checkpoint && checkpoint->isDrawn())
      return drawn(names);
    QuantLayout layout{scheme, source.getPacking(), 0, 0};
    if (Status s = findExtent(names.data, layout); !s)
      return s.error();
    return readQuantised(checkpoint, names, layout);
  }

  Result<ReaderPtr> drawn(const QuantNames &names) const {
    ArrayRef<int64_t> block = scheme.getBlock().take_back(2);
    if (!isa<Float8E4M3FNType>(scheme.getStorage()) || ShapedType::isDynamic(block[0]) || ShapedType::isDynamic(block[1]))
      return internalError(names.data + ": expected drawn weights in FP8 blocks of a known size");
    return readDrawn(checkpoint, names.data, names.scale, block[0], block[1], scheme.getPow2Scale());
  }

  /// The matrix that a packed tensor holds: from the tensor, which may lie under a slice or a transpose, but for the
  /// columns of `words`, whose last word may be partly filled.
  Status findExtent(const std::string &name, QuantLayout &layout) const {
    const hf::CheckpointTensor *tensor = checkpoint ? checkpoint->find(name) : nullptr;
    if (!tensor)
      return checkpointError(name + " is missing from the checkpoint");
    if (tensor->shape().size() != 2)
      return checkpointError(name + ": expected a matrix, got shape " + shapeText(tensor->shape()));
    int64_t rows = tensor->shape()[0], cols = tensor->shape()[1];
    int64_t perWord = 32 / layout.scheme.getStorage().getIntOrFloatBitWidth();
    switch (layout.packing) {
    case ir::Packing::Plain:
      break;
    case ir::Packing::Words:
      if (arranged)
        return internalError(name + ": expected packed codes to be a whole weight, of which others take parts");
      cols = type.getShape().back();
      break;
    case ir::Packing::Gptq:
    case ir::Packing::GptqV2:
      std::tie(rows, cols) = std::make_pair(cols, rows * perWord);
      break;
    case ir::Packing::Awq:
      std::tie(rows, cols) = std::make_pair(cols * perWord, rows);
      break;
    case ir::Packing::HighFirst:
      cols *= 2;
      break;
    }
    layout.rows = rows, layout.cols = cols;
    return {};
  }

  ModuleOp module;
  const hf::Checkpoint *checkpoint;
  ir::BlockedAttr scheme; // of the weight whose recipe is being read, transposed as its source is
  RankedTensorType type;
  bool arranged = false; // inside a source whose parts have another shape than `type`
  int depth = 0;
};

/// One scale, and zero point, per block of the last two dims (blocks of leading dims are 1).
Status loadScales(const WeightReader &reader, ir::BlockedAttr scheme, int64_t firstRow, int64_t rows, WeightValues &out) {
  ArrayRef<int64_t> block = scheme.getBlock();
  int64_t matrixRows = out.shape.size() < 2 ? 1 : out.shape[out.shape.size() - 2];
  int64_t blockRows = block.size() < 2 ? 1 : ShapedType::isDynamic(block[block.size() - 2]) ? matrixRows : block[block.size() - 2];
  int64_t blockCols = ShapedType::isDynamic(block.back()) ? reader.cols() : block.back();
  std::vector<float> row(size_t(reader.cols()));
  std::vector<int8_t> zeros(size_t(reader.cols()));
  for (int64_t r = 0; r < rows; ++r) {
    if (r % matrixRows % blockRows)
      continue;
    if (Status s = reader.scales(firstRow + r, 0, reader.cols(), row.data()); !s)
      return s;
    if (Status s = reader.hasZeros() ? reader.zeros(firstRow + r, 0, reader.cols(), zeros.data()) : Status(); !s)
      return s;
    for (int64_t c = 0; c < reader.cols(); c += blockCols) {
      out.scales.push_back(row[size_t(c)]);
      if (reader.hasZeros())
        out.zeros.push_back(zeros[size_t(c)]);
    }
  }
  return {};
}
} // namespace

WeightData::WeightData(ModuleOp module, const hf::Checkpoint *checkpoint) : module(module), checkpoint(checkpoint) {}

Result<std::unique_ptr<WeightReader>> WeightData::open(StringRef symbol) const { return Builder(module, checkpoint).weight(symbol); }

Result<WeightValues> WeightData::load(StringRef symbol, std::optional<int64_t> lead) const {
  Result<ReaderPtr> opened = open(symbol);
  if (!opened)
    return opened.error();
  const WeightReader &reader = **opened;
  WeightValues out;
  out.shape = reader.shape();
  int64_t first = 0, rows = reader.rows();
  if (lead) {
    if (out.shape.size() < 2 || *lead < 0 || *lead >= out.shape[0])
      return internalError("weight @" + symbol.str() + ": expected an entry of the leading dim, got " + std::to_string(*lead));
    rows /= out.shape[0];
    first = *lead * rows;
    out.shape.erase(out.shape.begin());
  }
  size_t cols = size_t(reader.cols());
  if (reader.encoded())
    out.codes.resize(size_t(rows) * cols);
  else
    out.values.resize(size_t(rows) * cols);
  for (int64_t r = 0; r < rows; ++r) {
    Status s = reader.encoded() ? reader.codes(first + r, 0, reader.cols(), out.codes.data() + size_t(r) * cols)
                                : reader.values(first + r, 0, reader.cols(), out.values.data() + size_t(r) * cols);
    if (!s)
      return s.error();
  }
  if (reader.encoded()) {
    auto type = ModuleOp(module).lookupSymbol<ir::WeightOp>(symbol).getTensorType();
    if (cast<ir::BlockedAttr>(type.getEncoding()).getIndexed())
      return internalError("weight @" + symbol.str() + ": expected groups in order to load codes");
    if (Status s = loadScales(reader, cast<ir::BlockedAttr>(type.getEncoding()), first, rows, out); !s)
      return s.error();
  }
  return out;
}

} // namespace dsv3
