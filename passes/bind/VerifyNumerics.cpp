// --dsv3-verify-numerics
#include "passes/Passes.h"
#include "passes/bind/VerifyBind.h"

#include <map>

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_VERIFYNUMERICSPASS
#include "passes/Passes.h.inc"

namespace {
/// A launch and the program it stands in.
struct Launch {
  kernel::KernelOp op;
  ir::ProgramOp program;

  std::string describe() { return op->getName().getStringRef().str() + " \"" + op.getSiteName().str() + "\""; }
};

/// Rows written by a prefill and by a score program meet in one cache, so their kernels must agree.
StringRef family(StringRef phase) { return phase == "score" ? "prefill" : phase; }

SmallVector<Launch> launchesOf(ir::ProgramOp program) {
  SmallVector<Launch> launches;
  program.walk([&](kernel::KernelOp op) { launches.push_back({op, program}); });
  return launches;
}

/// Each program of a phase must hold what the first holds, else two buckets in different forms are never compared.
LogicalResult verifySameLaunches(ir::ProgramOp first, ir::ProgramOp second) {
  SmallVector<Launch> a = launchesOf(first), b = launchesOf(second);
  for (auto [x, y] : llvm::zip(a, b))
    if (x.op->getName() != y.op->getName() || x.op.getSiteName() != y.op.getSiteName())
      return y.op->emitOpError() << "expected @" << second.getSymName() << " to launch what @" << first.getSymName()
                                 << " of the same phase does, got " << y.describe() << " where that has " << x.describe();
  if (a.size() != b.size())
    return second.emitOpError() << "expected " << a.size() << " launches as in @" << first.getSymName() << " of the same phase, got "
                                << b.size();
  return success();
}

LogicalResult verifyEqual(const Launch &first, Launch second) {
  auto x = first.op, y = second.op;
  if (x->getAttr("split") != y->getAttr("split"))
    return y->emitOpError() << "expected the split of @" << const_cast<ir::ProgramOp &>(first.program).getSymName() << " in @"
                            << second.program.getSymName() << " at \"" << y.getSiteName() << "\": " << x->getAttr("split") << ", got "
                            << y->getAttr("split");
  if (const_cast<kernel::KernelOp &>(x).getKernelNumerics() == y.getKernelNumerics())
    return success();
  return y->emitOpError() << "expected the numerics of @" << const_cast<ir::ProgramOp &>(first.program).getSymName() << " in @"
                          << second.program.getSymName() << " at \"" << y.getSiteName() << "\": "
                          << const_cast<kernel::KernelOp &>(x).getKernelNumerics() << ", got " << y.getKernelNumerics();
}
} // namespace

LogicalResult verifyNumerics(ModuleOp module) {
  std::map<std::string, ir::ProgramOp> firstOfPhase;
  std::map<std::string, Launch> firstOfSite;
  for (auto program : module.getOps<ir::ProgramOp>()) {
    StringRef phase = program.getPhase().value_or("");
    auto [entry, isNew] = firstOfPhase.try_emplace(phase.str(), program);
    if (!isNew && failed(verifySameLaunches(entry->second, program)))
      return failure();
    for (Launch &launch : launchesOf(program)) {
      std::string key = (family(phase) + " " + launch.op->getName().getStringRef() + " " + launch.op.getSiteName()).str();
      auto [other, isFirst] = firstOfSite.try_emplace(key, launch);
      if (!isFirst && failed(verifyEqual(other->second, launch)))
        return failure();
    }
  }
  return success();
}

namespace {
struct VerifyNumericsPass : impl::VerifyNumericsPassBase<VerifyNumericsPass> {
  void runOnOperation() override {
    if (failed(verifyNumerics(getOperation())))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
} // namespace dsv3
