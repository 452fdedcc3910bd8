#include "test/codegen/targets/TestGpuTarget.h"

#include "codegen/targets/DeviceEmitter.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace dsv3::codegen {

const GpuTarget kTestGpu{"test-gpu", 4, 65536, {"tma", "wgmma", "setmaxnreg", "cluster", "fp8"}};

namespace {
class TestGpuEmitter : public DeviceEmitter {
public:
  TestGpuEmitter(StringRef op) : op(op), emitter(("testgpu" + op.drop_front(op.find('.'))).str()) {}
  StringRef opName() const override { return op; }
  StringRef name() const override { return emitter; }

  kernel::NumericsAttr numerics(Operation *launch) const override {
    Type f32 = Float32Type::get(launch->getContext());
    bool norm = StringRef(op).contains("norm"), softmax = StringRef(op).contains(".attn");
    return kernel::NumericsAttr::get(launch->getContext(), f32, f32, norm ? "lanes16" : "k_ascending", softmax ? 64 : 0);
  }
  kernel::ScheduleAttr schedule(Operation *launch) const override {
    return kernel::ScheduleAttr::get(launch->getContext(), emitter, DictionaryAttr::get(launch->getContext()));
  }
  LaunchSignature signature(Operation *) const override { return {{DSV3_FIELD_CTX_LEN}, {}}; }

  DeviceLaunch launch(Operation *launch) const override {
    DeviceLaunch out;
    out.grid[0] = capacityOf(launch);
    out.smem = 1024;
    unsigned ref = 0;
    for (Value operand : launch->getOperands()) {
      if (std::optional<TensorMap> map = mapOf(launch, operand))
        out.params.push_back({DeviceParam::Map{ref++, *map}});
      else
        for (unsigned i = 0; i < references(operand); ++i)
          out.params.push_back({DeviceParam::Pointer{ref++}});
    }
    out.params.push_back({DeviceParam::Const{7}});
    return out;
  }

  LogicalResult emit(Operation *launch, StringRef symbol, OpBuilder &b) const override {
    MLIRContext *context = launch->getContext();
    SmallVector<Type> types{LLVM::LLVMPointerType::get(context, 1)};
    DeviceLaunch l = this->launch(launch);
    for (const DeviceParam &param : l.params) {
      bool map = std::holds_alternative<DeviceParam::Map>(param.value), number = std::holds_alternative<DeviceParam::Const>(param.value);
      types.push_back(number ? Type(b.getI64Type()) : Type(LLVM::LLVMPointerType::get(context, map ? 0 : 1)));
    }
    auto fn = LLVM::LLVMFuncOp::create(b, launch->getLoc(), symbol, LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types));
    fn->setAttr("nvvm.kernel", b.getUnitAttr());
    OpBuilder body = OpBuilder::atBlockEnd(fn.addEntryBlock(b));
    LLVM::ReturnOp::create(body, launch->getLoc(), ValueRange());
    return success();
  }

private:
  static int64_t capacityOf(Operation *launch) {
    for (Value v : launch->getOperands())
      if (auto type = dyn_cast<RankedTensorType>(v.getType()); type && !v.getDefiningOp<kernel::UseOp>())
        return type.getDimSize(0);
    return 1;
  }

  static unsigned references(Value operand) {
    if (auto type = dyn_cast<RankedTensorType>(operand.getType()); type && operand.getDefiningOp<kernel::UseOp>())
      return unsigned(kernel::getPackedParts(type).size());
    return 1;
  }

  static std::optional<TensorMap> mapOf(Operation *launch, Value operand) {
    if (auto split = dyn_cast<kernel::AttnSplitOp>(launch); split && operand == split.getKv()) {
      int64_t row = split.getKv().getType().getLatent() + split.getKv().getType().getRope();
      return TensorMap{TensorMap::Elem::BF16, {row, 0}, {row * 2}, {64, 64}, 128};
    }
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (!isa<kernel::GemmOp>(launch) || operand != launch->getOperand(0) || operand.getDefiningOp<kernel::ViewOp>() || type.getRank() != 2 ||
        !type.getElementType().isBF16() || type.getDimSize(1) % 8)
      return std::nullopt;
    return TensorMap{TensorMap::Elem::BF16, {type.getDimSize(1), type.getDimSize(0)}, {type.getDimSize(1) * 2}, {64, 64}, 128};
  }

  std::string op, emitter;
};
} // namespace

const KernelRegistry &testGpuRegistry() {
  static const KernelRegistry registry = [] {
    KernelRegistry r;
    for (StringRef op : {"embed", "norm", "add_norm", "gemm", "gated_gemm", "batched_gemm", "add", "swiglu", "concat", "select_rows", "sample", "rope",
                         "kv_append", "kv_expand", "attn_prefill", "attn_plan", "attn_split", "attn_combine", "route", "dispatch", "gather",
                         "grouped_gated_gemm", "grouped_gemm", "combine"})
      r.add(std::make_unique<TestGpuEmitter>(("kernel." + op).str()));
    return r;
  }();
  return registry;
}

void testGpuDialects(DialectRegistry &dialects) { dialects.insert<LLVM::LLVMDialect>(); }

} // namespace dsv3::codegen
