// --dsv3-add-sampling
#include "passes/Passes.h"
#include "passes/bind/GpuPass.h"
#include "passes/bind/Lowering.h"
#include "runtime/core/Abi.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_ADDSAMPLINGPASS
#include "passes/Passes.h.inc"

namespace {
struct AddSamplingPass : bind::GpuPass<impl::AddSamplingPassBase<AddSamplingPass>> {
  using GpuPass::GpuPass;

  LogicalResult rewrite(const codegen::TargetChoice &) override {
    for (auto program : getOperation().getOps<ir::ProgramOp>())
      if (StringRef phase = program.getPhase().value_or(""); phase == "prefill" || phase == "decode")
        if (failed(addTo(program)))
          return failure();
    return success();
  }

private:
  static LogicalResult addTo(ir::ProgramOp program) {
    Operation *end = program.getBody().front().getTerminator();
    Value logits, seq;
    for (OpOperand &result : end->getOpOperands())
      if (program.getResultName(result.getOperandNumber()) == "logits")
        logits = result.get();
    for (BlockArgument arg : program.getBody().getArguments())
      if (isa<ir::SeqType>(arg.getType()))
        seq = arg;
    if (!logits)
      return success();
    if (!seq)
      return program.emitOpError("expected an argument of type !dsv3.seq, got none");
    OpBuilder b(end);
    auto type = RankedTensorType::get({bind::tensorType(logits).getDimSize(0), DSV3_SAMPLED_WORDS}, b.getI32Type());
    Value out = kernel::EmptyOp::create(b, end->getLoc(), type);
    Value sampled = kernel::SampleOp::create(b, end->getLoc(), type, logits, seq, out, bind::unbound, bind::unscheduled, b.getStringAttr("sample"));
    addResult(program, end, sampled, "sampled");
    return success();
  }

  static void addResult(ir::ProgramOp program, Operation *end, Value value, StringRef name) {
    Builder b(program.getContext());
    SmallVector<Attribute> attrs(program.getResAttrsAttr().getValue());
    attrs.push_back(b.getDictionaryAttr(b.getNamedAttr("dsv3.name", b.getStringAttr(name))));
    SmallVector<Type> types(program.getResultTypes());
    types.push_back(value.getType());
    end->insertOperands(end->getNumOperands(), value);
    program.setFunctionType(b.getFunctionType(program.getArgumentTypes(), types));
    program.setResAttrsAttr(b.getArrayAttr(attrs));
  }
};
} // namespace
} // namespace dsv3
