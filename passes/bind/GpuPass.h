// Passes that rewrite kernel ops for targets that run grids (`#target.gpu`), and leave the modules of others as they are.
#pragma once

#include "codegen/targets/Targets.h"

namespace dsv3::bind {

/// `Base`: the class that TableGen makes of the pass; it has an option `target`, empty: the module's.
template <typename Base> struct GpuPass : Base {
  using Base::Base;

  void runOnOperation() final {
    mlir::FailureOr<codegen::TargetChoice> choice = codegen::chooseTarget(this->getOperation(), this->target);
    if (failed(choice))
      return this->signalPassFailure();
    if (!choice->gpu)
      return this->markAllAnalysesPreserved();
    if (failed(rewrite(*choice)))
      this->signalPassFailure();
  }

  /// Failure after a diagnostic.
  virtual mlir::LogicalResult rewrite(const codegen::TargetChoice &choice) = 0;
};

} // namespace dsv3::bind
