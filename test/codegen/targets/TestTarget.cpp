#include "test/codegen/targets/TestTarget.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {
class TestEmitter : public CpuEmitter {
public:
  TestEmitter(StringRef op) : op(op), emitter(("test" + op.drop_front(op.find('.'))).str()) {}
  StringRef opName() const override { return op; }
  StringRef name() const override { return emitter; }

  std::string whyIllegal(Operation *launch) const override {
    if (!isProduct())
      return {};
    int64_t k = cast<RankedTensorType>(launch->getOperand(1).getType()).getShape().back();
    return k % 8 ? "K = " + std::to_string(k) + " is not a multiple of 8" : "";
  }

  kernel::NumericsAttr numerics(Operation *launch) const override {
    Type f32 = Float32Type::get(launch->getContext());
    bool norm = StringRef(op).contains("norm"), softmax = StringRef(op).contains(".attn");
    return kernel::NumericsAttr::get(launch->getContext(), f32, f32, norm ? "lanes16" : "k_ascending", softmax ? 64 : 0);
  }
  kernel::ScheduleAttr schedule(Operation *launch) const override {
    return kernel::ScheduleAttr::get(launch->getContext(), emitter, DictionaryAttr::get(launch->getContext()));
  }

  kernel::PackedAttr weightEncoding(Operation *launch, unsigned, RankedTensorType type) const override {
    if (!isProduct())
      return {};
    MLIRContext *ctx = launch->getContext();
    auto layout = [&](StringRef map) { return kernel::LayoutAttr::get(ctx, map); };
    bool blocked = bool(type.getEncoding());
    return kernel::PackedAttr::get(ctx, type.getEncoding(), layout("(n, k) -> [n/16, k, n%16] pad n:16"),
                                   blocked ? layout("(n, k) -> [n/128, k/128]") : kernel::LayoutAttr());
  }

  TileCount tiles(Operation *) const override { return {}; }
  LogicalResult emit(Operation *launch, Operation *, const CpuVariant &) const override {
    return launch->emitError() << "target test emits no code";
  }

private:
  bool isProduct() const { return StringRef(op).ends_with("gemm") || StringRef(op).ends_with("kv_expand"); }

  std::string op, emitter;
};
} // namespace

const KernelRegistry &testRegistry() {
  static const KernelRegistry registry = [] {
    KernelRegistry r;
    for (StringRef op : {"embed", "norm", "add_norm", "gemm", "gated_gemm", "batched_gemm", "add", "concat", "select_rows", "rope",
                         "kv_append", "kv_expand", "attn_prefill", "attn_decode", "route", "dispatch", "grouped_gated_gemm", "grouped_gemm",
                         "combine"})
      r.add(std::make_unique<TestEmitter>(("kernel." + op).str()));
    return r;
  }();
  return registry;
}

} // namespace dsv3::codegen
