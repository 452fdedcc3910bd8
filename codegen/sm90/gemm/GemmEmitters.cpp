// Dense, gated, batched and grouped products: which kernel, which tile, which parameters.
#include "codegen/sm90/EmitterBase.h"
#include "codegen/sm90/gemm/ColsKernel.h"
#include "codegen/sm90/gemm/Int4Weights.h"
#include "codegen/sm90/gemm/KvExpandKernel.h"
#include "codegen/sm90/gemm/RowsKernel.h"
#include "codegen/targets/RowClass.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

/// What both families share.
class GemmEmitter : public Sm90Emitter {
public:
  using Sm90Emitter::Sm90Emitter;

  std::string whyIllegal(Operation *op) const override {
    if (std::string why = whyInt4(op); !why.empty())
      return why;
    return GemmProblem(op).whyIllegal();
  }
  kernel::NumericsAttr numerics(Operation *op) const override {
    MLIRContext *ctx = op->getContext();
    GemmProblem p(op);
    Type mul = isInteger(p.shape.operands) ? Type(IntegerType::get(ctx, 8)) : p.rowsScaled() ? Type(Float8E4M3FNType::get(ctx)) : BFloat16Type::get(ctx);
    Type acc = p.shape.operands == Operands::Int8 ? Type(IntegerType::get(ctx, 32)) : Float32Type::get(ctx);
    return kernel::NumericsAttr::get(ctx, acc, mul, p.chain(), 0);
  }
  kernel::PackedAttr weightEncoding(Operation *op, unsigned index, RankedTensorType type) const override {
    GemmProblem p(op);
    return llvm::is_contained(p.weights, index) ? gemmWeightEncoding(type, p.rowsScaled()) : kernel::PackedAttr();
  }
  DeviceCost cost(Operation *op) const override {
    DeviceCost cost = Sm90Emitter::cost(op);
    const GemmProblem p(op);
    const GemmShape &s = p.shape;
    cost.flops = 2.0 * double(s.rows * (p.grouped ? 1 : s.batch) * s.weights) * double(s.n) * double(s.k);
    for (unsigned w : p.weights) // experts without rows touch no weight
      cost.bytes -= tensorBytes(tensorType(op->getOperand(w))) * double(s.batch - s.active()) / double(s.batch);
    return cost;
  }

protected:
  /// Empty unless weights are int4.
  static std::string whyInt4(Operation *op) {
    Int4Problem p(op);
    if (!isInt4(tensorType(op->getOperand(p.weights[0]))))
      return {};
    std::string why = p.whyIllegal();
    return why.empty() ? "int4 weights are expanded in registers by kernels of their own" : why;
  }
  static ColsSchedule colsSchedule(Operation *op) {
    return {param(op, "warpgroups"), param(op, "tokens"), param(op, "bk"), param(op, "stages"), param(op, "split"), 0, param(op, "once")};
  }
  static DictionaryAttr colsConfig(Operation *op, const ColsSchedule &s) {
    return dictionary(op, {{"warpgroups", s.warpgroups}, {"tokens", s.tokens}, {"bk", s.bk}, {"stages", s.stages}, {"split", s.split}, {"once", s.once}});
  }
  /// A tensor map over rows with a 128-byte swizzle; `outer` entries `outerPitch` elements apart, none for 0.
  static TensorMap rowsMap(int64_t k, int64_t rows, int64_t pitch, int64_t boxRows, int64_t outer = 1, int64_t outerPitch = 0, int64_t bytes = 2) {
    TensorMap map{bytes == 1 ? TensorMap::Elem::U8 : TensorMap::Elem::BF16, {k, rows}, {pitch * bytes}, {128 / bytes, boxRows}, 128};
    if (outerPitch) {
      map.dims.push_back(outer);
      map.strides.push_back(outerPitch * bytes);
      map.box.push_back(1);
    }
    return map;
  }
};

/// Tokens as M, for many of them: bf16 weights; FP8 and int8 ones and pairs of them where x is stored so too.
class RowsEmitter : public GemmEmitter {
public:
  using GemmEmitter::GemmEmitter;

  std::string whyIllegal(Operation *op) const override {
    if (std::string why = whyInt4(op); !why.empty())
      return why;
    GemmProblem p(op);
    if (p.weightsScaled() && !p.rowsScaled() && isInt8(tensorType(op->getOperand(1))))
      return p.whyIllegal();
    if (p.weightsScaled() && !p.rowsScaled())
      return "FP8 weights are expanded as wgmma's register operand, which takes weights as M";
    const bool exact = p.shape.operands == Operands::Int8; // whatever is faster
    if ((p.decode || exact) && !takesRows(p.shape))
      return "few tokens take weights as M";
    if (!exact && p.split() > 1)
      return "weights of few rows share K over a cluster, which takes weights as M";
    if (p.weights.size() > 1 && !p.rowsScaled())
      return "pairs of bf16 weights take weights as M";
    if (p.grouped && !exact && (!p.rowsScaled() || p.shape.rows < kRowsOfExpert * p.shape.active()))
      return "few rows of an expert take weights as M";
    if (p.weightsScaled() || p.shape.n >= kNarrow || p.shape.k < kLong)
      return p.whyIllegal();
    // Too few tiles of tokens to fill the GPU. The sums are the same either way, bit for bit.
    if (estimate(p.shape, chooseCols(p.shape, 1, kMostTokens)) < estimate(p.shape, chooseRows(p.shape)))
      return "narrow tiles of tokens fill the GPU better, which takes weights as M";
    return p.whyIllegal();
  }

  DeviceLaunch launch(Operation *op) const override {
    GemmProblem p(op);
    RowsSpec spec = specOf(op);
    const RowsSchedule &s = spec.schedule;
    int64_t rowTiles = p.grouped ? spec.rowTiles : int64_t(llvm::divideCeil(p.shape.rows, s.bm()));
    DeviceLaunch launch;
    launch.grid[0] = std::min(rowTiles * int64_t(llvm::divideCeil(p.shape.n, spec.columns())), GpuModel().sms);
    launch.threads = 128 * (s.warpgroups + 1);
    launch.smem = sharedBytes(spec);
    RefMap at = refs(op);
    auto map = [&](unsigned ref, TensorMap map, int64_t offset) { launch.params.push_back({DeviceParam::Map{ref, std::move(map), offset}}); };
    auto pointer = [&](unsigned ref, int64_t offset) { launch.params.push_back({DeviceParam::Pointer{ref, offset}}); };
    if (spec.gathers)
      pointer(at.of(0), 0);
    else
      map(at.of(0), rowsMap(p.shape.k, p.shape.rows, p.x.pitch, s.bm(), 1, 0, p.shape.xBytes()), p.x.offset * p.shape.xBytes());
    if (p.rowsScaled())
      pointer(at.of(0), p.scalesOfRows());
    for (unsigned w : p.weights) {
      map(at.of(w), rowsMap(p.shape.k, p.shape.n, p.shape.k, spec.boxRows(), spec.experts, p.grouped ? p.shape.n * p.shape.k : 0, p.shape.xBytes()), 0);
      if (p.rowsScaled())
        pointer(at.of(w) + 1, 0);
    }
    launch.params.push_back(address(op, p.outOperand()));
    if (p.shape.outGroup)
      pointer(at.of(p.outOperand()), p.scalesOfOut());
    if (p.grouped)
      pointer(at.of(p.offsetsOperand()), 0);
    if (spec.gathers)
      pointer(at.of(p.tokenOfOperand()), 0);
    return launch;
  }

  LogicalResult emit(Operation *op, StringRef symbol, OpBuilder &builder) const override {
    TileBuilder k(builder, op->getLoc());
    buildRowsKernel(k, symbol, specOf(op));
    return success();
  }

protected:
  DictionaryAttr config(Operation *op) const override {
    GemmProblem p(op);
    RowsSchedule s = chooseRows(p.shape);
    NamedAttrList config(dictionary(op, {{"warpgroups", s.warpgroups}, {"bn", s.bn}, {"bk", s.bk}, {"stages", s.stages}, {"group", s.group}, {"narrow", s.narrow}, {"staged", s.staged}, {"ahead", s.ahead}, {"parts", s.parts}, {"later", s.later}}));
    if (p.grouped)
      config.set("row_tiles", Builder(op->getContext()).getI64IntegerAttr(mostRowTiles(p.shape, s.bm())));
    return config.getDictionary(op->getContext());
  }

private:
  static constexpr int64_t kNarrow = 1024; ///< rows of weights from which wide tiles fill the GPU
  static constexpr int64_t kLong = 2048;   ///< K from which it matters that they do not
  /// Rows that an expert must have on average for a tile of 128 to be worth its while.
  static constexpr int64_t kRowsOfExpert = 64;

  static RowsSpec specOf(Operation *op) {
    GemmProblem p(op);
    RowsSpec spec;
    spec.schedule = {param(op, "warpgroups"), param(op, "bn"), param(op, "bk"), param(op, "stages"), param(op, "group"), param(op, "narrow"), param(op, "staged"), param(op, "ahead"), param(op, "parts"), param(op, "later")};
    spec.n = p.shape.n, spec.k = p.shape.k;
    spec.weights = p.shape.weights, spec.operands = p.shape.operands;
    if (p.grouped)
      spec.experts = p.shape.batch, spec.rowTiles = param(op, "row_tiles"), spec.gathers = p.gathers();
    else
      spec.rowScalar = rowScalar(op->getOperand(0)), spec.rowFactor = rowFactor(op->getOperand(0));
    spec.outElem = p.outElem, spec.codes = p.shape.outGroup, spec.via = p.via, spec.outPitch = p.y.pitch;
    return spec;
  }
};

/// Weights as M: few tokens, pairs of weights, heads, experts, and expanded FP8 weights for any number of tokens.
class ColsEmitter : public GemmEmitter {
public:
  using GemmEmitter::GemmEmitter;

  std::string whyIllegal(Operation *op) const override {
    return GemmProblem(op).whyIllegal();
  }

  DeviceLaunch launch(Operation *op) const override {
    GemmProblem p(op);
    ColsSchedule s = colsSchedule(op);
    int64_t rowTiles = p.grouped ? param(op, "row_tiles") : p.shape.batch * int64_t(llvm::divideCeil(p.shape.rows, s.tokens));
    int64_t items = rowTiles * int64_t(llvm::divideCeil(p.shape.n, s.bm()));
    DeviceLaunch launch;
    launch.grid[0] = std::min(items, GpuModel().clusters(s.split)) * s.split;
    launch.threads = 128 * (s.warpgroups + 1);
    launch.smem = sharedBytes(specOf(op));
    launch.cluster = s.split;
    RefMap at = refs(op);
    auto map = [&](unsigned ref, TensorMap map, int64_t offset) { launch.params.push_back({DeviceParam::Map{ref, std::move(map), offset}}); };
    auto pointer = [&](unsigned ref, int64_t offset = 0) { launch.params.push_back({DeviceParam::Pointer{ref, offset}}); };
    int64_t stack = p.shape.batch > 1 ? p.shape.batch : 0, heads = p.grouped ? 0 : stack, xBytes = p.shape.xBytes();
    if (p.gathers())
      pointer(at.of(0));
    else
      map(at.of(0), rowsMap(p.shape.k, p.shape.rows, p.x.pitch, s.tokens, heads, heads ? p.x.headPitch : 0, xBytes), p.x.offset * xBytes);
    if (p.rowsScaled())
      pointer(at.of(0), p.scalesOfRows());
    for (unsigned w : p.weights) {
      if (p.shape.operands == Operands::ExpandedFp8)
        pointer(at.of(w));
      else
        map(at.of(w), rowsMap(p.shape.k, p.shape.n, p.shape.k, s.bm(), stack, stack ? p.shape.n * p.shape.k : 0, xBytes), 0);
      if (p.weightsScaled())
        pointer(at.of(w) + 1);
    }
    launch.params.push_back(address(op, p.outOperand()));
    if (p.shape.outGroup)
      pointer(at.of(p.outOperand()), p.scalesOfOut());
    if (p.grouped)
      pointer(at.of(p.offsetsOperand()));
    if (p.gathers())
      pointer(at.of(p.tokenOfOperand()));
    return launch;
  }

  LogicalResult emit(Operation *op, StringRef symbol, OpBuilder &builder) const override {
    GemmProblem p(op);
    ColsSpec spec = specOf(op);
    TileBuilder k(builder, op->getLoc());
    if (p.grouped) {
      buildColsKernel(k, symbol, spec, groupedColsSource(k, spec, p.shape.batch));
      return success();
    }
    int64_t factor = p.batched ? 1 : rowFactor(op->getOperand(0));
    buildColsKernel(k, symbol, spec, denseColsSource(spec, p.shape.batch, rowScalar(op->getOperand(0)), factor));
    return success();
  }

protected:
  DictionaryAttr config(Operation *op) const override {
    GemmProblem p(op);
    ColsSchedule s = chooseCols(p.shape, p.split(), kMostTokens);
    NamedAttrList config(colsConfig(op, s));
    if (p.grouped)
      config.set("row_tiles", Builder(op->getContext()).getI64IntegerAttr(mostRowTiles(p.shape, s.tokens)));
    return config.getDictionary(op->getContext());
  }

private:
  static ColsSpec specOf(Operation *op) {
    GemmProblem p(op);
    ColsSpec spec;
    spec.schedule = colsSchedule(op);
    spec.n = p.shape.n, spec.k = p.shape.k, spec.weights = p.shape.weights;
    spec.operands = p.shape.operands;
    spec.stacked = p.shape.batch > 1, spec.xHeads = spec.stacked && !p.grouped, spec.gathers = p.gathers();
    spec.rowTiles = p.grouped ? param(op, "row_tiles") : 0;
    spec.outElem = p.outElem, spec.via = p.via, spec.outPitch = p.y.pitch, spec.codesOut = p.shape.outGroup;
    spec.pieces = ColsSchedule::inPieces(spec.operands, spec.weights, spec.schedule.columns());
    return spec;
  }
};

/// kernel.kv_expand with keys by row.
class KvExpandEmitter : public GemmEmitter {
public:
  KvExpandEmitter() : GemmEmitter("kernel.kv_expand", "sm90.kv_expand") {}

  std::string whyIllegal(Operation *op) const override {
    auto expand = cast<kernel::KvExpandOp>(op);
    ir::KvType kv = cast<ir::KvType>(expand.getKv().getType());
    if (!expand.getKeyRows())
      return "keys are transposed, and this kernel writes a row per key";
    if (kv.getScheme() && !expand.getRows())
      return "the cache's latent stands as codes, expected the rows of kv_rows";
    if (kv.getPage() != KvExpandSpec::kPage || !kv.getElem().isBF16())
      return "the cache has pages of " + std::to_string(kv.getPage()) + " rows, or is not bf16: expected 64 rows of bf16";
    if (kv.getLatent() % 64 || kv.getRope() % 8)
      return "the latent has " + std::to_string(kv.getLatent()) + " lanes and the rotary key " + std::to_string(kv.getRope()) +
             ": expected multiples of 64 and 8";
    if (!tensorType(expand.getKeys()).getElementType().isBF16() || !tensorType(expand.getValues()).getElementType().isBF16())
      return "keys or values are not bf16";
    if (isInt8(tensorType(expand.getWK())))
      return "weights are i8 and the cache is not quantised to i8";
    return whyNotWeights(op, {1, 2});
  }
  kernel::NumericsAttr numerics(Operation *op) const override {
    MLIRContext *ctx = op->getContext();
    return kernel::NumericsAttr::get(ctx, Float32Type::get(ctx), BFloat16Type::get(ctx), specOf(op).blockScaled ? "k_blocks128" : "k_ascending", 0);
  }
  kernel::PackedAttr weightEncoding(Operation *, unsigned index, RankedTensorType type) const override {
    return index == 1 || index == 2 ? gemmWeightEncoding(type) : kernel::PackedAttr();
  }
  LaunchSignature signature(Operation *op) const override {
    LaunchSignature s;
    s.stepFields = {DSV3_FIELD_KBLOCK, DSV3_FIELD_BLOCK_TABLE, DSV3_FIELD_CTX_LEN};
    return s;
  }
  DeviceCost cost(Operation *op) const override {
    DeviceCost cost = Sm90Emitter::cost(op);
    GemmShape p = kvExpandShape(specOf(op), keyBlocks(op));
    cost.bytes += double(keyBlocks(op) * KvExpandSpec::kPage * (specOf(op).latent + specOf(op).rope) * 2); // of the cache
    cost.flops = 2.0 * double(p.rows * p.batch) * double(p.n) * double(p.k);
    return cost;
  }

  DeviceLaunch launch(Operation *op) const override {
    KvExpandSpec e = specOf(op);
    e.schedule = colsSchedule(op);
    const ColsSchedule &s = e.schedule;
    int64_t tiles = int64_t(llvm::divideCeil(e.nope, s.bm()) + llvm::divideCeil(e.values, s.bm()));
    int64_t items = e.heads * tiles * int64_t(llvm::divideCeil(keyBlocks(op) * KvExpandSpec::kPage, s.tokens));
    DeviceLaunch launch;
    launch.grid[0] = std::min(items, GpuModel().sms);
    launch.threads = 128 * (s.warpgroups + 1);
    launch.smem = sharedBytes(e);
    RefMap at = refs(op);
    unsigned cached = at.of(e.gathered ? 4 : 0), outs = op->getNumOperands() - 2;
    int64_t rows = e.gathered ? keyBlocks(op) * KvExpandSpec::kPage : 0;
    launch.params = {{DeviceParam::Map{cached, rowsMap(e.latent + e.rope, rows, e.latent + e.rope, KvExpandSpec::kPage), 0}},
                     {DeviceParam::Pointer{cached, 0}}};
    for (auto [w, n] : {std::pair<unsigned, int64_t>{1, e.nope}, {2, e.values}}) {
      if (e.blockScaled) {
        launch.params.push_back({DeviceParam::Pointer{at.of(w), 0}});
        launch.params.push_back({DeviceParam::Pointer{at.of(w) + 1, 0}});
      } else {
        launch.params.push_back({DeviceParam::Map{at.of(w), rowsMap(e.latent, n, e.latent, s.bm(), e.heads, n * e.latent), 0}});
      }
    }
    for (unsigned field = 0; field < 3; ++field)
      launch.params.push_back({DeviceParam::Pointer{at.of(3) + field, 0}});
    launch.params.push_back(address(op, outs));
    launch.params.push_back(address(op, outs + 1));
    launch.params.push_back({DeviceParam::Const{int64_t(cast<kernel::KvExpandOp>(op).getLayer())}});
    return launch;
  }

  LogicalResult emit(Operation *op, StringRef symbol, OpBuilder &builder) const override {
    FailureOr<Capacities> caps = Capacities::fromModule(op);
    if (failed(caps))
      return failure();
    KvExpandSpec e = specOf(op);
    e.schedule = colsSchedule(op);
    e.pages = caps->pages;
    TileBuilder k(builder, op->getLoc());
    buildKvExpandKernel(k, symbol, e);
    return success();
  }

protected:
  /// Two pages a tile: four, where wgmma's N ends, spill beside the two paths of keys and values.
  DictionaryAttr config(Operation *op) const override {
    KvExpandSpec e = specOf(op);
    ColsSchedule s;
    s.warpgroups = std::max(e.nope, e.values) > 64 ? 2 : 1;
    s.tokens = KvExpandSpec::kPage * std::min<int64_t>(2, keyBlocks(op));
    s.bk = e.blockScaled ? 128 : 64;
    e.schedule = s;
    int64_t one = stageBytes(kvExpandShape(e, 1), s);
    s.stages = std::min<int64_t>(8, (GpuModel().sharedBytes - s.stagingBytes()) / (one + 16));
    return colsConfig(op, s);
  }

private:
  static int64_t keyBlocks(Operation *op) { return tensorType(op->getResult(0)).getDimSize(0); }
  static KvExpandSpec specOf(Operation *op) {
    auto expand = cast<kernel::KvExpandOp>(op);
    ir::KvType kv = cast<ir::KvType>(expand.getKv().getType());
    RankedTensorType wk = tensorType(expand.getWK());
    KvExpandSpec e;
    e.heads = wk.getDimSize(0), e.nope = wk.getDimSize(1), e.values = tensorType(expand.getWV()).getDimSize(1);
    e.latent = kv.getLatent(), e.rope = kv.getRope();
    e.gathered = bool(expand.getRows());
    e.blockScaled = isScaled(wk);
    e.outElem = tensorType(expand.getKeys()).getElementType();
    return e;
  }
};

} // namespace

void addGemmEmitters90(KernelRegistry &r) {
  r.add(std::make_unique<RowsEmitter>("kernel.gemm", "sm90.gemm"));
  r.add(std::make_unique<RowsEmitter>("kernel.gated_gemm", "sm90.gated_gemm"));
  r.add(std::make_unique<RowsEmitter>("kernel.grouped_gemm", "sm90.grouped_gemm_rows"));
  r.add(std::make_unique<RowsEmitter>("kernel.grouped_gated_gemm", "sm90.grouped_gated_gemm_rows"));
  r.add(std::make_unique<ColsEmitter>("kernel.gemm", "sm90.gemm_wm"));
  r.add(std::make_unique<ColsEmitter>("kernel.gated_gemm", "sm90.gated_gemm_wm"));
  r.add(std::make_unique<ColsEmitter>("kernel.batched_gemm", "sm90.batched_gemm_wm"));
  r.add(std::make_unique<ColsEmitter>("kernel.grouped_gemm", "sm90.grouped_gemm"));
  r.add(std::make_unique<ColsEmitter>("kernel.grouped_gated_gemm", "sm90.grouped_gated_gemm"));
  r.add(std::make_unique<KvExpandEmitter>());
}

} // namespace dsv3::codegen
