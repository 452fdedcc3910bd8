// Dense, gated and batched products: which kernel, which tile, which parameters.
#include "codegen/sm90/EmitterBase.h"
#include "codegen/sm90/gemm/ColsKernel.h"
#include "codegen/sm90/gemm/GemmProblem.h"
#include "codegen/sm90/gemm/RowsKernel.h"
#include "codegen/targets/RowClass.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

/// What both families share.
class GemmEmitter : public Sm90Emitter {
public:
  using Sm90Emitter::Sm90Emitter;

  std::string whyIllegal(Operation *op) const override { return GemmProblem(op).whyIllegal(); }
  kernel::NumericsAttr numerics(Operation *op) const override {
    MLIRContext *ctx = op->getContext();
    return kernel::NumericsAttr::get(ctx, Float32Type::get(ctx), BFloat16Type::get(ctx), GemmProblem(op).chain(), 0);
  }
  kernel::PackedAttr weightEncoding(Operation *op, unsigned index, RankedTensorType type) const override {
    return llvm::is_contained(GemmProblem(op).weights, index) ? gemmWeightEncoding(type) : kernel::PackedAttr();
  }
  DeviceCost cost(Operation *op) const override {
    DeviceCost cost = Sm90Emitter::cost(op);
    const GemmShape &p = GemmProblem(op).shape;
    cost.flops = 2.0 * double(p.rows * p.batch * p.weights) * double(p.n) * double(p.k);
    return cost;
  }

protected:
  /// A tensor map over rows of bf16 with a 128-byte swizzle; `outer` entries `outerPitch` elements apart, 1 for none.
  static TensorMap rowsMap(int64_t k, int64_t rows, int64_t pitch, int64_t boxRows, int64_t outer = 1, int64_t outerPitch = 0) {
    TensorMap map{TensorMap::Elem::BF16, {k, rows}, {pitch * 2}, {64, boxRows}, 128};
    if (outer > 1 || outerPitch) {
      map.dims.push_back(outer);
      map.strides.push_back(outerPitch * 2);
      map.box.push_back(1);
    }
    return map;
  }
};

/// Tokens as M: bf16 weights, many tokens.
class RowsEmitter : public GemmEmitter {
public:
  RowsEmitter() : GemmEmitter("kernel.gemm", "sm90.gemm") {}

  std::string whyIllegal(Operation *op) const override {
    GemmProblem p(op);
    if (p.blockScaled)
      return "FP8 weights are expanded as wgmma's register operand, which takes weights as M";
    if (p.decode)
      return "few tokens take weights as M";
    return p.whyIllegal();
  }

  DeviceLaunch launch(Operation *op) const override {
    GemmProblem p(op);
    RowsSchedule s = scheduleOf(op);
    int64_t tiles = int64_t(llvm::divideCeil(p.shape.rows, s.bm()) * llvm::divideCeil(p.shape.n, s.bn));
    DeviceLaunch launch;
    launch.grid[0] = std::min(tiles, GpuModel().sms);
    launch.threads = 128 * (s.warpgroups + 1);
    RefMap at = refs(op);
    launch.params.push_back({DeviceParam::Map{at.of(0), rowsMap(p.shape.k, p.shape.rows, p.x.pitch, s.bm()), p.x.offset * 2}});
    launch.params.push_back({DeviceParam::Map{at.of(1), rowsMap(p.shape.k, p.shape.n, p.shape.k, s.bn), 0}});
    launch.params.push_back(address(op, p.outOperand()));
    return launch;
  }

  LogicalResult emit(Operation *op, StringRef symbol, OpBuilder &builder) const override {
    GemmProblem p(op);
    RowsSpec spec;
    spec.schedule = scheduleOf(op);
    spec.n = p.shape.n, spec.k = p.shape.k;
    spec.outElem = p.outElem, spec.outPitch = p.y.pitch;
    spec.rowScalar = rowScalar(op->getOperand(0)), spec.rowFactor = rowFactor(op->getOperand(0));
    TileBuilder k(builder, op->getLoc());
    buildRowsKernel(k, symbol, spec);
    return success();
  }

protected:
  DictionaryAttr config(Operation *op) const override {
    RowsSchedule s = chooseRows(GemmProblem(op).shape);
    return dictionary(op, {{"warpgroups", s.warpgroups}, {"bn", s.bn}, {"bk", s.bk}, {"stages", s.stages}, {"group", s.group}});
  }

private:
  static RowsSchedule scheduleOf(Operation *op) {
    return {param(op, "warpgroups"), param(op, "bn"), param(op, "bk"), param(op, "stages"), param(op, "group")};
  }
};

/// Weights as M: few tokens, pairs of weights, heads, and FP8 weights for any number of tokens.
class ColsEmitter : public GemmEmitter {
public:
  using GemmEmitter::GemmEmitter;

  DeviceLaunch launch(Operation *op) const override {
    GemmProblem p(op);
    ColsSchedule s = scheduleOf(op);
    int64_t items = p.shape.batch * int64_t(llvm::divideCeil(p.shape.n, s.bm()) * llvm::divideCeil(p.shape.rows, s.tokens));
    DeviceLaunch launch;
    launch.grid[0] = std::min(items, GpuModel().sms / s.split) * s.split;
    launch.threads = 128 * (s.warpgroups + 1);
    launch.cluster = s.split;
    RefMap at = refs(op);
    auto map = [&](unsigned ref, TensorMap map, int64_t offset) { launch.params.push_back({DeviceParam::Map{ref, std::move(map), offset}}); };
    bool heads = p.shape.batch > 1;
    map(at.of(0), rowsMap(p.shape.k, p.shape.rows, p.x.pitch, s.tokens, heads ? p.shape.batch : 1, heads ? p.x.headPitch : 0), p.x.offset * 2);
    for (unsigned w : p.weights) {
      if (p.blockScaled) {
        launch.params.push_back({DeviceParam::Pointer{at.of(w), 0}});
        launch.params.push_back({DeviceParam::Pointer{at.of(w) + 1, 0}});
      } else {
        map(at.of(w), rowsMap(p.shape.k, p.shape.n, p.shape.k, s.bm(), heads ? p.shape.batch : 1, heads ? p.shape.n * p.shape.k : 0), 0);
      }
    }
    launch.params.push_back(address(op, p.outOperand()));
    return launch;
  }

  LogicalResult emit(Operation *op, StringRef symbol, OpBuilder &builder) const override {
    GemmProblem p(op);
    ColsSpec spec;
    spec.schedule = scheduleOf(op);
    spec.n = p.shape.n, spec.k = p.shape.k, spec.weights = p.shape.weights;
    spec.blockScaled = p.blockScaled;
    spec.stacked = spec.xHeads = p.shape.batch > 1;
    spec.outElem = p.outElem, spec.via = p.via, spec.outPitch = p.y.pitch;
    TileBuilder k(builder, op->getLoc());
    int64_t factor = p.batched ? 1 : rowFactor(op->getOperand(0));
    buildColsKernel(k, symbol, spec, denseColsSource(k, spec, p.shape.batch, rowScalar(op->getOperand(0)), factor));
    return success();
  }

protected:
  DictionaryAttr config(Operation *op) const override {
    constexpr int64_t kMostTokens = 256; // wgmma's N
    GemmProblem p(op);
    ColsSchedule s = chooseCols(p.shape, p.split(), kMostTokens);
    return dictionary(op, {{"warpgroups", s.warpgroups}, {"tokens", s.tokens}, {"bk", s.bk}, {"stages", s.stages}, {"split", s.split}});
  }

private:
  static ColsSchedule scheduleOf(Operation *op) {
    return {param(op, "warpgroups"), param(op, "tokens"), param(op, "bk"), param(op, "stages"), param(op, "split")};
  }
};

} // namespace

void addGemmEmitters90(KernelRegistry &r) {
  r.add(std::make_unique<RowsEmitter>());
  r.add(std::make_unique<ColsEmitter>("kernel.gemm", "sm90.gemm_wm"));
  r.add(std::make_unique<ColsEmitter>("kernel.gated_gemm", "sm90.gated_gemm_wm"));
  r.add(std::make_unique<ColsEmitter>("kernel.batched_gemm", "sm90.batched_gemm_wm"));
}

} // namespace dsv3::codegen
