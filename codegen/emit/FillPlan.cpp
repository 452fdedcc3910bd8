#include "codegen/emit/FillPlan.h"

#include "dialects/kernel/Layout.h"

#include <numeric>

using namespace mlir;

namespace dsv3 {

namespace {
using Shape = std::vector<int64_t>;

/// A box of a weight's indices whose elements lie at a row and a column that are sums over the indices.
struct Piece {
  struct Dim {
    int64_t lo = 0, hi = 0, rowStride = 0, colStride = 0;
  };
  std::vector<Dim> dims;
  int64_t row = 0, col = 0;
  int64_t memberDim = -1, memberFirst = 0;
  std::string tensor, scale; // `{}`: of a member
  Shape stored;              // of the tensor, or of member memberFirst
  DType type = DType::BF16;
  int64_t blockRows = 1, blockCols = 1;
  bool powersOfTwo = false;
  std::optional<DType> rounded; // what the innermost weight rounds to
};

struct Pieces {
  Shape shape;
  std::vector<Piece> all;
};

std::string withIndex(StringRef name, int64_t index) {
  auto [head, tail] = name.split("{}");
  return head.size() == name.size() ? name.str() : (head + Twine(index) + tail).str();
}

/// Moves the origin of `dim` so that what was at `by` is at 0.
void shift(Piece &piece, size_t dim, int64_t by) {
  Piece::Dim &d = piece.dims[dim];
  d.lo -= by;
  d.hi -= by;
  piece.row += d.rowStride * by;
  piece.col += d.colStride * by;
  if (piece.memberDim == int64_t(dim))
    piece.memberFirst += by;
}

std::optional<DType> floatType(Type type) {
  if (type.isF32())
    return DType::F32;
  return type.isBF16() ? std::optional(DType::BF16) : std::nullopt;
}

/// Turns a recipe into pieces: the counterpart of WeightData's readers.
class Planner {
public:
  Planner(ModuleOp module, const hf::Checkpoint &checkpoint) : module(module), checkpoint(checkpoint) {}

  Result<Pieces> weight(StringRef symbol) {
    auto op = module.lookupSymbol<ir::WeightOp>(symbol);
    if (!op)
      return internalError("expected a weight @" + symbol.str() + ", got none");
    ir::BlockedAttr outer = scheme;
    scheme = dyn_cast_or_null<ir::BlockedAttr>(op.getTensorType().getEncoding());
    Result<Pieces> pieces = build(op.getSource(), std::nullopt);
    scheme = outer;
    std::optional<DType> elem = floatType(op.getTensorType().getElementType());
    if (!elem)
      return internalError("weight @" + symbol.str() + ": expected elements of f32 or bf16");
    if (pieces)
      for (Piece &p : pieces->all)
        if (!p.rounded)
          p.rounded = elem;
    return pieces;
  }

private:
  Result<Pieces> build(Attribute source, std::optional<int64_t> index) {
    if (auto s = dyn_cast<ir::FileSourceAttr>(source))
      return file(s, index);
    if (auto s = dyn_cast<ir::StackSourceAttr>(source))
      return stack(s);
    if (auto s = dyn_cast<ir::ConcatSourceAttr>(source))
      return concat(s, index);
    if (auto s = dyn_cast<ir::RefSourceAttr>(source))
      return weight(s.getWeight().getValue());
    if (auto s = dyn_cast<ir::SliceSourceAttr>(source)) {
      Result<Pieces> from = build(s.getSource(), index);
      return from ? slice(std::move(*from), size_t(s.getDim()), s.getOffset(), s.getSize()) : from;
    }
    if (auto s = dyn_cast<ir::TransposeSourceAttr>(source)) {
      Result<Pieces> from = build(s.getSource(), index);
      return from ? transpose(std::move(*from)) : from;
    }
    if (auto s = dyn_cast<ir::ReshapeSourceAttr>(source)) {
      Result<Pieces> from = build(s.getSource(), index);
      return from ? reshape(std::move(*from), s.getShape().vec()) : from;
    }
    return internalError("expected a recipe over checkpoint tensors");
  }

  Result<Pieces> file(ir::FileSourceAttr source, std::optional<int64_t> index) {
    Piece p;
    p.tensor = source.getTensor().str();
    std::string first = withIndex(p.tensor, index.value_or(0));
    const hf::CheckpointTensor *tensor = checkpoint.find(first);
    if (!tensor || tensor->shape().empty() || tensor->shape().size() > 2)
      return internalError(first + ": expected a drawn tensor of rank 1 or 2");
    p.stored = tensor->shape();
    p.type = tensor->dtype();
    for (int64_t size : p.stored)
      p.dims.push_back({0, size, 0, 0});
    p.dims.back().colStride = 1;
    if (p.dims.size() == 2)
      p.dims[0].rowStride = 1;
    if (source.getScale()) {
      p.scale = source.getScale().getValue().str();
      if (!scheme || scheme.getBlock().size() < 2)
        return internalError(first + ": expected a type that says the size of scale blocks");
      ArrayRef<int64_t> block = scheme.getBlock().take_back(2);
      p.blockRows = block[0], p.blockCols = block[1];
      p.powersOfTwo = scheme.getPow2Scale();
    }
    return Pieces{p.stored, {p}};
  }

  Result<Pieces> stack(ir::StackSourceAttr source) {
    Result<Pieces> from = build(source.getSource(), source.getBegin());
    if (!from)
      return from;
    int64_t count = source.getEnd() - source.getBegin();
    from->shape.insert(from->shape.begin(), count);
    for (Piece &p : from->all) {
      if (p.memberDim >= 0)
        return internalError(p.tensor + ": expected one stack of members");
      p.dims.insert(p.dims.begin(), {0, count, 0, 0});
      p.memberDim = 0;
      p.memberFirst = source.getBegin();
    }
    return from;
  }

  Result<Pieces> concat(ir::ConcatSourceAttr source, std::optional<int64_t> index) {
    Pieces out;
    auto dim = size_t(source.getDim());
    for (Attribute one : source.getSources()) {
      Result<Pieces> from = build(one, index);
      if (!from)
        return from;
      int64_t before = out.all.empty() ? 0 : out.shape[dim];
      for (Piece &p : from->all) {
        shift(p, dim, -before);
        out.all.push_back(p);
      }
      int64_t size = from->shape[dim];
      out.shape = from->shape;
      out.shape[dim] = before + size;
    }
    return out;
  }

  static Pieces slice(Pieces from, size_t dim, int64_t offset, int64_t size) {
    Pieces out;
    out.shape = from.shape;
    out.shape[dim] = size;
    for (Piece &p : from.all) {
      p.dims[dim].lo = std::max(p.dims[dim].lo, offset);
      p.dims[dim].hi = std::min(p.dims[dim].hi, offset + size);
      if (p.dims[dim].lo >= p.dims[dim].hi)
        continue;
      shift(p, dim, offset);
      out.all.push_back(p);
    }
    return out;
  }

  static Result<Pieces> transpose(Pieces from) {
    size_t n = from.shape.size();
    std::swap(from.shape[n - 1], from.shape[n - 2]);
    for (Piece &p : from.all) {
      if (p.memberDim >= int64_t(n) - 2)
        return internalError(p.tensor + ": expected members outside of what is transposed");
      std::swap(p.dims[n - 1], p.dims[n - 2]);
    }
    return from;
  }

  /// Other dims before the last. Pieces must be whole in them and step evenly.
  static Result<Pieces> reshape(Pieces from, Shape shape) {
    for (Piece &p : from.all) {
      size_t outer = from.shape.size() - 1;
      for (size_t d = 0; d < outer; ++d) {
        bool even = d + 1 == outer || (p.dims[d].rowStride == p.dims[d + 1].rowStride * from.shape[d + 1] &&
                                       p.dims[d].colStride == p.dims[d + 1].colStride * from.shape[d + 1]);
        if (p.dims[d].lo != 0 || p.dims[d].hi != from.shape[d] || !even || p.memberDim == int64_t(d))
          return internalError(p.tensor + ": expected rows that lie evenly to be reshaped");
      }
      std::vector<Piece::Dim> dims(shape.size());
      dims.back() = p.dims.back();
      int64_t row = outer ? p.dims[outer - 1].rowStride : 0, col = outer ? p.dims[outer - 1].colStride : 0;
      for (size_t d = shape.size() - 1; d-- > 0; row *= shape[d], col *= shape[d])
        dims[d] = {0, shape[d], row, col};
      p.dims = std::move(dims);
    }
    from.shape = std::move(shape);
    return from;
  }

  ModuleOp module;
  const hf::Checkpoint &checkpoint;
  ir::BlockedAttr scheme; // of the weight that names the tensor
};

/// One part of a packed weight, drawn piece by piece.
class PartPlanner {
public:
  PartPlanner(kernel::WeightOp op, const kernel::PackedPart &part, const Shape &shape)
      : op(op), part(part), shape(shape), scale(part.name == "scale") {}

  Result<DummyFill> plan(const Piece &piece) {
    DummyFill f;
    bool fp8 = piece.type == DType::F8E4M3;
    f.kind = scale ? DummyFill::Kind::Scales : !fp8 ? DummyFill::Kind::Plain : isa<Float8E4M3FNType>(part.elem) ? DummyFill::Kind::Codes : DummyFill::Kind::Dequantised;
    std::optional<DType> elem = f.kind == DummyFill::Kind::Codes ? DType::F8E4M3 : floatType(part.elem);
    if (!elem)
      return internalError("weight @" + op.getSymName().str() + ": expected parts of f32, bf16 or f8E4M3FN");
    f.elem = *elem;
    f.stored = fp8 ? *piece.rounded : piece.type;
    f.tensor = piece.tensor, f.scale = piece.scale;
    f.memberDim = piece.memberDim, f.memberFirst = piece.memberFirst;
    f.cols = piece.stored.back();
    f.blockRows = piece.blockRows, f.blockCols = piece.blockCols;
    f.spread = fp8 ? DummyTensor::ofScales(f.cols, piece.powersOfTwo) : DummyTensor::ofData(withIndex(piece.tensor, piece.memberFirst), piece.stored);
    f.row = piece.row, f.col = piece.col;
    for (const Piece::Dim &d : piece.dims)
      f.dims.push_back({d.lo, 1, d.hi - d.lo, d.rowStride, d.colStride});
    f.offset = uint64_t(op.getOffset()) + uint64_t(part.offset);
    if (Status s = addTerms(f); !s)
      return s.error();
    if (scale)
      if (Status s = widenSteps(f); !s)
        return s.error();
    if (f.dims.size() > DummyFill::kMaxDims || f.terms.size() > DummyFill::kMaxTerms)
      return internalError("weight @" + op.getSymName().str() + ": expected at most " + std::to_string(DummyFill::kMaxDims) + " dims and " +
                           std::to_string(DummyFill::kMaxTerms) + " terms to be drawn");
    return f;
  }

private:
  Status addTerms(DummyFill &f) {
    auto packed = cast<kernel::PackedAttr>(op.getTensorType().getEncoding());
    StringRef text = (scale ? packed.getScale() : packed.getLayout()).getMap();
    Layout layout = *Layout::parse(std::string_view(text.data(), text.size())); // verified with the attribute
    size_t outer = shape.size() - layout.rank();
    auto strides = layout.strides(Shape(shape.begin() + long(outer), shape.end()));
    if (!strides)
      return internalError("weight @" + op.getSymName().str() + ": expected a layout without xor to be drawn");
    int64_t entry = part.outerStride / int64_t(byteSize(f.elem));
    for (size_t d = outer; d-- > 0; entry *= shape[d])
      f.terms.push_back({int64_t(d), 1, DummyFill::kMostIndex, entry});
    for (const Layout::Stride &s : *strides)
      f.terms.push_back({int64_t(outer + s.dim), s.div, s.mod ? s.mod : DummyFill::kMostIndex, s.stride});
    return {};
  }

  /// A scale has one place for many elements: one of them is enough. Internal error when they have different scales.
  Status widenSteps(DummyFill &f) {
    for (size_t d = 0; d < f.dims.size(); ++d) {
      int64_t step = 0; // 0: no term looks at this dim
      for (const DummyFill::Term &t : f.terms)
        if (t.dim == int64_t(d))
          step = std::gcd(step, t.div);
      DummyFill::Dim &dim = f.dims[d];
      if (step == 0)
        step = dim.first + dim.count;
      if (step > 1 && !sharesScale(f, d, step))
        return internalError("weight @" + op.getSymName().str() + ": the scale layout joins elements with different scales");
      dim.count = (dim.count + step - 1) / step;
      dim.step = step;
    }
    return {};
  }

  /// Whether `step` neighbours along dim `d`, counted from a multiple of it, always lie in one block.
  static bool sharesScale(const DummyFill &f, size_t d, int64_t step) {
    const DummyFill::Dim &dim = f.dims[d];
    if (dim.rowStride + dim.colStride != 1 || dim.first % step != 0)
      return false;
    bool alongRows = dim.rowStride == 1;
    int64_t block = alongRows ? f.blockRows : f.blockCols, start = alongRows ? f.row : f.col;
    // Groups start at multiples of what all strides and the block are multiples of; the last one may be cut short.
    bool whole = start % block + dim.first + dim.count <= block;
    int64_t grain = whole ? block : step;
    for (const DummyFill::Dim &other : f.dims)
      if (&other != &dim && (alongRows ? other.rowStride : other.colStride) % grain != 0)
        return false;
    return whole || (block % step == 0 && start % step == 0);
  }

  kernel::WeightOp op;
  const kernel::PackedPart &part;
  const Shape &shape;
  bool scale;
};
} // namespace

/// Whether any recipe below names a tensor, and numbers are drawn as they are: what is quantised here has its scales from whole rows.
static bool readsTensors(ModuleOp module, StringRef symbol) {
  auto weight = module.lookupSymbol<ir::WeightOp>(symbol);
  bool found = false;
  if (!weight)
    return false;
  if (isa<ir::QuantizedSourceAttr>(weight.getSource()))
    return false;
  auto source = cast<ir::WeightSource>(weight.getSource());
  source.forEachTensor([&](StringRef) { found = true; });
  source.forEachSymbol([&](StringRef other) { found |= readsTensors(module, other); });
  return found;
}

Result<std::vector<DummyFill>> planFills(ModuleOp module, kernel::WeightOp weight, const hf::Checkpoint &checkpoint) {
  std::vector<DummyFill> fills;
  if (!readsTensors(module, weight.getSource()))
    return fills;
  Result<Pieces> pieces = Planner(module, checkpoint).weight(weight.getSource());
  if (!pieces)
    return pieces.error();
  RankedTensorType type = weight.getTensorType();
  if (pieces->shape != Shape(type.getShape()))
    return internalError("weight @" + weight.getSymName().str() + ": expected a recipe of its shape");
  for (const kernel::PackedPart &part : kernel::getPackedParts(type))
    for (const Piece &piece : pieces->all) {
      Result<DummyFill> fill = PartPlanner(weight, part, pieces->shape).plan(piece);
      if (!fill)
        return fill.error();
      fills.push_back(std::move(*fill));
    }
  return fills;
}

} // namespace dsv3
