// Products with int4 weights: W4A8 over int8 and E4M3 rows, W4A16 over plain ones.
#include "codegen/sm90/EmitterBase.h"
#include "codegen/sm90/gemm/Int4Kernel.h"
#include "codegen/sm90/gemm/Int4Schedule.h"
#include "codegen/sm90/gemm/Int4Weights.h"
#include "codegen/targets/RowClass.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {
class Int4Emitter : public Sm90Emitter {
public:
  using Sm90Emitter::Sm90Emitter;

  std::string whyIllegal(Operation *op) const override { return Int4Problem(op).whyIllegal(); }
  kernel::NumericsAttr numerics(Operation *op) const override {
    MLIRContext *ctx = op->getContext();
    Int4Problem p(op);
    Type f32 = Float32Type::get(ctx), i32 = IntegerType::get(ctx, 32);
    Type rows = p.wide ? Type(BFloat16Type::get(ctx)) : p.e4m3 ? Type(Float8E4M3FNType::get(ctx)) : IntegerType::get(ctx, 8);
    bool integers = !p.wide && !p.promoted();
    return kernel::NumericsAttr::get(ctx, integers ? i32 : f32, rows, p.chain(), 0);
  }
  kernel::PackedAttr weightEncoding(Operation *op, unsigned index, RankedTensorType type) const override {
    Int4Problem p(op);
    return llvm::is_contained(p.weights, index) ? int4Encoding(type, p) : kernel::PackedAttr();
  }
  DeviceCost cost(Operation *op) const override {
    DeviceCost cost = Sm90Emitter::cost(op);
    const Int4Problem p(op);
    const GemmShape &s = p.shape;
    cost.flops = 2.0 * double(s.rows * s.weights) * double(s.n) * double(s.k);
    for (unsigned w : p.weights) // experts without rows touch no weight
      cost.bytes -= tensorBytes(tensorType(op->getOperand(w))) * double(s.batch - s.active()) / double(s.batch);
    return cost;
  }

  DeviceLaunch launch(Operation *op) const override {
    Int4Problem p(op);
    Int4Spec spec = specOf(op);
    const ColsSchedule &s = spec.schedule;
    int64_t rowTiles = p.grouped ? spec.rowTiles : int64_t(llvm::divideCeil(p.shape.rows, s.tokens));
    DeviceLaunch launch;
    launch.grid[0] = std::min(rowTiles * int64_t(llvm::divideCeil(p.shape.n, s.bm())), GpuModel().clusters(s.split)) * s.split;
    launch.threads = 128 * (s.warpgroups + 1);
    launch.smem = sharedBytes(spec);
    launch.cluster = s.split;
    RefMap at = refs(op);
    auto pointer = [&](unsigned ref, int64_t offset = 0) { launch.params.push_back({DeviceParam::Pointer{ref, offset}}); };
    int64_t bytes = p.wide ? 2 : 1;
    TensorMap rows{p.wide ? TensorMap::Elem::BF16 : TensorMap::Elem::U8, {p.shape.k, p.shape.rows}, {p.x.pitch * bytes}, {128 / bytes, s.tokens}, 128};
    launch.params.push_back(spec.gathers ? DeviceParam{DeviceParam::Pointer{at.of(0), 0}} : DeviceParam{DeviceParam::Map{at.of(0), std::move(rows), p.x.offset * bytes}});
    if (!p.wide) {
      int64_t scales = kernel::getValueParts(tensorType(op->getOperand(0)))[1].offset, perRow = spec.kBlocks();
      TensorMap map{TensorMap::Elem::F32, {perRow, p.shape.rows}, {perRow * 4}, {4, s.tokens}, 0};
      launch.params.push_back(spec.scalesInStage() ? DeviceParam{DeviceParam::Map{at.of(0), std::move(map), scales}} : DeviceParam{DeviceParam::Pointer{at.of(0), scales}});
    }
    for (unsigned w : p.weights)
      for (unsigned part = 0; part < (p.zeros ? 3 : 2); ++part)
        pointer(at.of(w) + part);
    launch.params.push_back(address(op, p.outOperand()));
    if (p.codesOut)
      pointer(at.of(p.outOperand()), kernel::getValueParts(tensorType(op->getOperand(p.outOperand())))[1].offset);
    if (p.grouped)
      pointer(at.of(p.offsetsOperand()));
    if (spec.gathers)
      pointer(at.of(p.tokenOfOperand()));
    return launch;
  }

  LogicalResult emit(Operation *op, StringRef symbol, OpBuilder &builder) const override {
    Int4Problem p(op);
    Int4Spec spec = specOf(op);
    TileBuilder k(builder, op->getLoc());
    if (p.grouped)
      buildInt4Kernel(k, symbol, spec, groupedColsSource(k, spec, p.shape.batch));
    else
      buildInt4Kernel(k, symbol, spec, denseColsSource(spec, 1, rowScalar(op->getOperand(0)), rowFactor(op->getOperand(0))));
    return success();
  }

protected:
  DictionaryAttr config(Operation *op) const override {
    Int4Problem p(op);
    ColsSchedule s = chooseInt4(p.scheduleShape());
    NamedAttrList config(dictionary(op, {{"warpgroups", s.warpgroups}, {"tokens", s.tokens}, {"bk", s.bk}, {"stages", s.stages}, {"split", s.split}, {"apart", s.apart}, {"beside", s.beside}, {"turns", s.turns}}));
    if (p.grouped)
      config.set("row_tiles", Builder(op->getContext()).getI64IntegerAttr(mostRowTiles(p.shape, s.tokens)));
    return config.getDictionary(op->getContext());
  }

private:
  static Int4Spec specOf(Operation *op) {
    Int4Problem p(op);
    Int4Spec spec;
    spec.schedule = {param(op, "warpgroups"), param(op, "tokens"), param(op, "bk"), param(op, "stages"), param(op, "split"), param(op, "apart")};
    spec.schedule.beside = param(op, "beside"), spec.schedule.turns = param(op, "turns");
    spec.n = p.shape.n, spec.k = p.shape.k, spec.weights = p.shape.weights;
    spec.stacked = p.shape.batch > 1, spec.gathers = p.gathers();
    spec.rowTiles = p.grouped ? param(op, "row_tiles") : 0;
    spec.outElem = p.outElem, spec.via = p.via, spec.outPitch = p.y.pitch;
    spec.wide = p.wide, spec.e4m3 = p.e4m3, spec.wGrouped = p.wGrouped, spec.xGrouped = p.xGrouped, spec.zeros = p.zeros, spec.codesOut = p.codesOut, spec.e4m3Out = p.e4m3Out;
    spec.parts = std::max(p.scheduleShape().parts, spec.schedule.split);
    spec.pieces = spec.exact() && spec.weights * spec.schedule.columns() >= 256; // 4 bytes would spill
    return spec;
  }
};
} // namespace

void addInt4Emitters90(KernelRegistry &r) {
  r.add(std::make_unique<Int4Emitter>("kernel.gemm", "sm90.gemm_int4"));
  r.add(std::make_unique<Int4Emitter>("kernel.gated_gemm", "sm90.gated_gemm_int4"));
  r.add(std::make_unique<Int4Emitter>("kernel.grouped_gemm", "sm90.grouped_gemm_int4"));
  r.add(std::make_unique<Int4Emitter>("kernel.grouped_gated_gemm", "sm90.grouped_gated_gemm_int4"));
}

std::string whyNotStored90(RankedTensorType weight) { return isInt4(weight) ? whyNotInt4(weight) : whyNotStored(weight); }

} // namespace dsv3::codegen
