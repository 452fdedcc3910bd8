// The stages of a compilation: one table drives compile-model, --stop-after, --dump-after and dsv3-opt.
#pragma once

#include "passes/Options.h"
#include "runtime/core/Result.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <functional>
#include <string>
#include <vector>

namespace dsv3 {

/// One stage. Each assumes what the one before guarantees; its verifier states what it guarantees itself.
struct Stage {
  llvm::StringRef name;
  /// Appends the stage's passes to a pass manager on builtin.module.
  void (*build)(mlir::OpPassManager &pm, const CompileOptions &options);
  /// Emits a diagnostic and fails when the module is not what the stage promises.
  mlir::LogicalResult (*verify)(mlir::ModuleOp module, const CompileOptions &options);
};

/// All stages, in order. The table is in Pipeline.cpp: a new stage is one row there.
llvm::ArrayRef<Stage> stages();

/// The stage of this name, or null.
const Stage *findStage(llvm::StringRef name);

struct PipelineRequest {
  std::string stopAfter;                                             ///< last stage to run; empty: all
  std::vector<std::string> dumpAfter;                                ///< stages whose result is written, "all" for each
  std::string dumpDir = ".";                                         ///< receives STAGE.mlir
  std::function<Status(const Stage &, mlir::ModuleOp)> afterStage;   ///< called after each verified stage
};

/// Runs the stages on an imported module for `options.target` (empty: x86-64). The first diagnostic becomes the error's message, its site in front.
/// Usage error: an unknown stage name or target, a taps expression that matches nothing. Internal error: anything else, since
/// input was checked before import ended.
Status runPipeline(mlir::ModuleOp module, const CompileOptions &options, const PipelineRequest &request = {});

/// For dsv3-opt: every pass as `--dsv3-NAME`, every stage with its verifier as `--dsv3-stage-NAME`.
void registerAllPasses();

} // namespace dsv3
