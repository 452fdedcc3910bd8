// kernel.attn_split and kernel.attn_prefill on sm_90a.
#include "codegen/sm90/EmitterBase.h"
#include "codegen/sm90/attention/MlaDecode.h"
#include "codegen/sm90/attention/MlaDecodeCodes.h"
#include "codegen/sm90/attention/MlaPrefill.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

/// "q is f32, expected bf16", for the first of these operands that is not bf16.
std::string notBf16(Operation *op, ArrayRef<std::pair<unsigned, StringRef>> operands) {
  for (auto [i, name] : operands) {
    Type elem = cast<RankedTensorType>(op->getOperand(i).getType()).getElementType();
    if (!elem.isBF16())
      return llvm::formatv("{0} is {1}, expected bf16", name, elem).str();
  }
  return {};
}

kernel::NumericsAttr attentionNumerics(Operation *op, int64_t keyBlock) {
  Builder b(op->getContext());
  return kernel::NumericsAttr::get(op->getContext(), b.getF32Type(), b.getBF16Type(), "k_ascending", keyBlock);
}

/// A plain tensor of rank 3 or a view of it, [T, H, lanes]: boxes of `rows` rows and 64 lanes of one token.
TensorMap headMap(Value value, int64_t rows) {
  auto type = cast<RankedTensorType>(value.getType());
  int64_t pitch = kernel::getRowAccess(value).stride * 2;
  TensorMap map;
  map.dims = {type.getDimSize(2), type.getDimSize(1), type.getDimSize(0)};
  map.strides = {pitch, pitch * type.getDimSize(1)};
  map.box = {64, rows, 1};
  map.swizzle = 128;
  return map;
}

/// Rows of `lanes` elements, contiguous: boxes of 64 rows and 64 lanes. `rows` 0: as many as the pool holds.
TensorMap rowMap(int64_t rows, int64_t lanes) {
  TensorMap map;
  map.dims = {lanes, rows};
  map.strides = {lanes * 2};
  map.box = {64, 64};
  map.swizzle = 128;
  return map;
}

/// Reference of an operand, a view's offset included, under a tensor map.
DeviceParam mapped(const RefMap &refs, Operation *op, unsigned operand, TensorMap map) {
  Value value = op->getOperand(operand);
  int64_t offset = isa<RankedTensorType>(value.getType()) ? kernel::getRowAccess(value).offset * 2 : 0;
  return {DeviceParam::Map{refs.of(operand), std::move(map), offset}};
}

/// kernel.attn_split: MlaDecode.h.
class AttnSplitEmitter : public Sm90Emitter {
public:
  AttnSplitEmitter() : Sm90Emitter("kernel.attn_split", "sm90.mla_decode") {}

  std::string whyIllegal(Operation *op) const override {
    ir::KvType kv = cast<kernel::AttnSplitOp>(op).getKv().getType();
    if (kv.getLatent() != MlaDecodeShape::kLatent || kv.getRope() != MlaDecodeShape::kRope || kv.getPage() != MlaDecodeShape::kPage)
      return llvm::formatv("cached rows of {0} + {1} lanes in pages of {2}, expected 512 + 64 in pages of 64", kv.getLatent(), kv.getRope(),
                           kv.getPage())
          .str();
    if (kv.getScheme())
      return "the cache's latent stands as codes, expected plain rows";
    if (!kv.getElem().isBF16())
      return llvm::formatv("the cache is {0}, expected bf16", kv.getElem()).str();
    return notBf16(op, {{0, "q_latent"}, {1, "q_rope"}, {6, "out"}});
  }
  kernel::NumericsAttr numerics(Operation *op) const override { return attentionNumerics(op, MlaDecodeShape::kPage); }
  LaunchSignature signature(Operation *op) const override {
    return {{DSV3_FIELD_BLOCK_TABLE}, {int64_t(cast<kernel::AttnSplitOp>(op).getLayer())}};
  }

  DeviceLaunch launch(Operation *op) const override {
    RefMap r = refs(op);
    auto split = cast<kernel::AttnSplitOp>(op);
    int64_t partitions = tensorType(split.getParts()).getDimSize(0) - 1;
    MlaDecodeShape s = shape(op);
    DeviceLaunch launch;
    launch.grid = {partitions * s.headTiles(), 1, 1};
    launch.threads = 384;
    launch.smem = s.smemBytes();
    launch.params = {mapped(r, op, 0, headMap(split.getQLatent(), MlaDecodeShape::kHeads)),
                     mapped(r, op, 1, headMap(split.getQRope(), MlaDecodeShape::kHeads)),
                     mapped(r, op, 2, rowMap(0, MlaDecodeShape::kRow)),
                     {DeviceParam::Pointer{r.of(3)}},
                     address(op, 4),
                     address(op, 5),
                     address(op, 6),
                     address(op, 7),
                     address(op, 8),
                     {DeviceParam::Const{int64_t(split.getLayer())}}};
    return launch;
  }

  /// Of sequences as long as the model allows: 2 S H n (576 + 512) operations, n cached rows, queries and results.
  DeviceCost cost(Operation *op) const override {
    auto split = cast<kernel::AttnSplitOp>(op);
    FailureOr<Capacities> caps = Capacities::fromModule(op);
    int64_t rows = tensorType(split.getQLatent()).getDimSize(0), heads = tensorType(split.getQLatent()).getDimSize(1);
    double keys = double(rows) * (succeeded(caps) ? caps->maxModelLen : 0), lanes = MlaDecodeShape::kRow + MlaDecodeShape::kLatent;
    return {keys * MlaDecodeShape::kRow * 2 + double(rows) * heads * lanes * 2, 2 * keys * heads * lanes};
  }

  LogicalResult emit(Operation *op, StringRef symbol, OpBuilder &builder) const override {
    if (failed(Capacities::fromModule(op)))
      return failure();
    TileBuilder t(builder, op->getLoc());
    buildMlaDecode(t, symbol, shape(op));
    return success();
  }

protected:
  /// Few heads leave time between products, and a page freed in quarters keeps more copies in flight.
  DictionaryAttr config(Operation *op) const override {
    return dictionary(op, {{"chunks", tensorType(op->getOperand(0)).getDimSize(1) <= 32 ? 2 : 1}});
  }

private:
  static MlaDecodeShape shape(Operation *op) {
    auto split = cast<kernel::AttnSplitOp>(op);
    FailureOr<Capacities> caps = Capacities::fromModule(op);
    MlaDecodeShape shape;
    shape.heads = tensorType(split.getQLatent()).getDimSize(1);
    shape.pages = succeeded(caps) ? caps->pages : 1;
    shape.chunks = param(op, "chunks");
    shape.scale = split.getScale().convertToDouble();
    return shape;
  }
};

/// kernel.attn_split over a cache of codes: MlaDecodeCodes.h.
class AttnSplitCodesEmitter : public Sm90Emitter {
public:
  AttnSplitCodesEmitter() : Sm90Emitter("kernel.attn_split", "sm90.mla_decode_codes") {}

  std::string whyIllegal(Operation *op) const override {
    ir::KvType kv = cast<kernel::AttnSplitOp>(op).getKv().getType();
    if (kv.getLatent() != Shape::kLatent || kv.getRope() != Shape::kRope || kv.getPage() != Shape::kPage || !kv.getElem().isBF16())
      return llvm::formatv("cached rows of {0} + {1} lanes of {2} in pages of {3}, expected 512 + 64 of bf16 in pages of 64", kv.getLatent(),
                           kv.getRope(), kv.getElem(), kv.getPage())
          .str();
    auto query = dyn_cast_or_null<ir::BlockedAttr>(tensorType(op->getOperand(0)).getEncoding());
    if (!kv.getScheme() || !query || !isa<Float8E4M3FNType>(query.getStorage()) ||
        query.getBlock() != ArrayRef<int64_t>({1, ShapedType::kDynamic}) || !query.getScale().isF32())
      return "expected a cache of codes and a query of f8E4M3FN with a f32 scale per head";
    return notBf16(op, {{0, "q_latent"}, {1, "q_rope"}, {6, "out"}});
  }
  kernel::NumericsAttr numerics(Operation *op) const override {
    Builder b(op->getContext());
    return kernel::NumericsAttr::get(op->getContext(), b.getF32Type(), shape(op).codes, "k_ascending", Shape::kPage);
  }
  LaunchSignature signature(Operation *op) const override {
    return {{DSV3_FIELD_BLOCK_TABLE}, {int64_t(cast<kernel::AttnSplitOp>(op).getLayer())}};
  }

  DeviceLaunch launch(Operation *op) const override {
    RefMap r = refs(op);
    auto split = cast<kernel::AttnSplitOp>(op);
    Shape s = shape(op);
    DeviceLaunch launch;
    launch.grid = {(tensorType(split.getParts()).getDimSize(0) - 1) * s.headTiles(), 1, 1};
    launch.threads = Shape::kThreads;
    launch.smem = s.smemBytes();
    RankedTensorType q = tensorType(split.getQLatent());
    launch.params = {{DeviceParam::Map{r.of(0), boxes(TensorMap::Elem::U8, {Shape::kLatent, s.heads, q.getDimSize(0)}, Shape::kLatent, s.heads * Shape::kLatent)}},
                     mapped(r, op, 1, headMap(split.getQRope(), Shape::kHeads)),
                     {DeviceParam::Pointer{r.of(0), kernel::getValueParts(q)[1].offset}},
                     {DeviceParam::Map{r.of(2), boxes(TensorMap::Elem::U8, {Shape::kLatent, Shape::kPage, 0}, Shape::kLatent, Shape::kPageBytes)}},
                     {DeviceParam::Map{r.of(2), boxes(TensorMap::Elem::BF16, {Shape::kRope, Shape::kPage, 0}, 2 * Shape::kRope, Shape::kPageBytes), Shape::kRopeAt}},
                     {DeviceParam::Pointer{r.of(2)}},
                     {DeviceParam::Pointer{r.of(3)}}};
    for (unsigned i = 4; i <= 8; ++i)
      launch.params.push_back(address(op, i));
    launch.params.push_back({DeviceParam::Const{int64_t(split.getLayer())}});
    return launch;
  }

  /// As of plain rows, of which the cached ones are fewer bytes.
  DeviceCost cost(Operation *op) const override {
    auto split = cast<kernel::AttnSplitOp>(op);
    FailureOr<Capacities> caps = Capacities::fromModule(op);
    double rows = double(tensorType(split.getQLatent()).getDimSize(0)), heads = double(shape(op).heads);
    double keys = rows * double(succeeded(caps) ? caps->maxModelLen : 0), lanes = 2 * Shape::kLatent + Shape::kRope;
    return {keys * double(Shape::kPageBytes / Shape::kPage) + rows * heads * (3 * Shape::kLatent + 2 * Shape::kRope), 2 * keys * heads * lanes};
  }

  LogicalResult emit(Operation *op, StringRef symbol, OpBuilder &builder) const override {
    if (failed(Capacities::fromModule(op)))
      return failure();
    TileBuilder t(builder, op->getLoc());
    buildMlaDecodeCodes(t, symbol, shape(op));
    return success();
  }

private:
  using Shape = MlaDecodeCodesShape;

  /// Matrices of 64 rows, `outer` bytes apart: boxes of 64 rows and 128 bytes.
  static TensorMap boxes(TensorMap::Elem elem, ArrayRef<int64_t> dims, int64_t pitch, int64_t outer) {
    TensorMap map;
    map.elem = elem;
    map.dims.assign(dims.begin(), dims.end());
    map.strides = {pitch, outer};
    map.box = {elem == TensorMap::Elem::U8 ? 128 : 64, 64, 1};
    map.swizzle = 128;
    return map;
  }

  static Shape shape(Operation *op) {
    auto split = cast<kernel::AttnSplitOp>(op);
    FailureOr<Capacities> caps = Capacities::fromModule(op);
    Shape shape;
    shape.heads = tensorType(split.getQLatent()).getDimSize(1);
    shape.pages = succeeded(caps) ? caps->pages : 1;
    shape.scale = split.getScale().convertToDouble();
    shape.codes = split.getKv().getType().getCodes();
    return shape;
  }
};

/// kernel.attn_prefill: MlaPrefill.h.
class AttnPrefillEmitter : public Sm90Emitter {
public:
  AttnPrefillEmitter() : Sm90Emitter("kernel.attn_prefill", "sm90.mla_prefill") {}

  std::string whyIllegal(Operation *op) const override {
    auto attn = cast<kernel::AttnPrefillOp>(op);
    RankedTensorType keys = tensorType(attn.getKeys());
    int64_t lanes = tensorType(attn.getQ()).getDimSize(2), values = lastDim(attn.getValues());
    if (!attn.getKeyRows())
      return "keys stand a row per lane, expected a row per key in blocks of 64";
    if (keys.getDimSize(2) != MlaPrefillShape::kBlock)
      return llvm::formatv("blocks of {0} keys, expected 64", keys.getDimSize(2)).str();
    if (lanes % 64 || lanes > 192)
      return llvm::formatv("nope + rope is {0}, expected 64, 128 or 192", lanes).str();
    if (values % 64 || values > 128)
      return llvm::formatv("v is {0}, expected 64 or 128", values).str();
    if (attn.getQ().getDefiningOp<kernel::ViewOp>() || attn.getOut().getDefiningOp<kernel::ViewOp>())
      return "q or out is a view, expected whole rows";
    return notBf16(op, {{0, "q"}, {1, "keys"}, {2, "values"}, {4, "out"}});
  }
  /// Two blocks of keys are one step of the softmax.
  kernel::NumericsAttr numerics(Operation *op) const override { return attentionNumerics(op, MlaPrefillShape::kKeys); }
  LaunchSignature signature(Operation *) const override {
    return {{DSV3_FIELD_Q_START, DSV3_FIELD_CTX_LEN, DSV3_FIELD_KBLOCK_START}, {}};
  }

  DeviceLaunch launch(Operation *op) const override {
    RefMap r = refs(op);
    auto attn = cast<kernel::AttnPrefillOp>(op);
    RankedTensorType q = tensorType(attn.getQ()), keys = tensorType(attn.getKeys()), values = tensorType(attn.getValues());
    int64_t tokens = q.getDimSize(0), heads = q.getDimSize(1), keyRows = keys.getDimSize(0) * heads * MlaPrefillShape::kBlock;
    MlaPrefillShape s = shape(op);
    DeviceLaunch launch;
    launch.grid = {heads * MlaPrefillShape::tiles(tokens, s.seqs), 1, 1};
    launch.threads = 384;
    launch.smem = s.smemBytes();
    launch.params = {mapped(r, op, 0, rowMap(tokens, heads * q.getDimSize(2))),
                     mapped(r, op, 1, rowMap(keyRows, keys.getDimSize(3))),
                     mapped(r, op, 2, rowMap(keyRows, values.getDimSize(3))),
                     {DeviceParam::Pointer{r.of(3)}},
                     {DeviceParam::Pointer{r.of(3) + 1}},
                     {DeviceParam::Pointer{r.of(3) + 2}},
                     address(op, 4)};
    return launch;
  }

  /// One prompt of T tokens: H T^2 (lanes + values) operations, the causal half.
  DeviceCost cost(Operation *op) const override {
    DeviceCost cost = Sm90Emitter::cost(op);
    RankedTensorType q = tensorType(op->getOperand(0));
    double tokens = q.getDimSize(0), lanes = q.getDimSize(2) + lastDim(op->getOperand(2));
    cost.flops = double(q.getDimSize(1)) * tokens * tokens * lanes;
    return cost;
  }

  LogicalResult emit(Operation *op, StringRef symbol, OpBuilder &builder) const override {
    if (failed(Capacities::fromModule(op)))
      return failure();
    TileBuilder t(builder, op->getLoc());
    buildMlaPrefill(t, symbol, shape(op));
    return success();
  }

private:
  static MlaPrefillShape shape(Operation *op) {
    auto attn = cast<kernel::AttnPrefillOp>(op);
    FailureOr<Capacities> caps = Capacities::fromModule(op);
    MlaPrefillShape shape;
    shape.heads = tensorType(attn.getQ()).getDimSize(1);
    shape.lanes = lastDim(attn.getQ());
    shape.values = lastDim(attn.getValues());
    shape.seqs = succeeded(caps) ? caps->seqs : 1;
    shape.scale = attn.getScale().convertToDouble();
    return shape;
  }
};

} // namespace

void addAttentionEmitters90(KernelRegistry &r) {
  r.add(std::make_unique<AttnSplitEmitter>());
  r.add(std::make_unique<AttnSplitCodesEmitter>());
  r.add(std::make_unique<AttnPrefillEmitter>());
}

} // namespace dsv3::codegen
