// --dsv3-verify-stage: the stage table's verifiers as a pass.
#include "passes/Passes.h"
#include "passes/Pipeline.h"

namespace dsv3 {
#define GEN_PASS_DEF_VERIFYSTAGEPASS
#include "passes/Passes.h.inc"

namespace {
struct VerifyStagePass : impl::VerifyStagePassBase<VerifyStagePass> {
  using VerifyStagePassBase::VerifyStagePassBase;

  void runOnOperation() override {
    const Stage *found = findStage(stage.getValue());
    if (!found) {
      getOperation().emitError() << "expected the name of a stage, got '" << stage.getValue() << "'";
      return signalPassFailure();
    }
    if (mlir::failed(found->verify(getOperation(), CompileOptions())))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
} // namespace dsv3
