// One product op, bound and emitted as the product does it, run by the tile simulator on real numbers.
#pragma once

#include "codegen/emit/Cubin.h"
#include "codegen/targets/DeviceEmitter.h"
#include "dialects/tile/TileDialect.h"
#include "passes/tile/Simulator.h"
#include "test/passes/tile/Mutants.h"

#include "mlir/IR/BuiltinOps.h"

#include <gtest/gtest.h>

namespace dsv3::codegen::test {

using Bytes = std::vector<uint8_t>;

/// A matrix of numbers as they are stored.
struct Numbers {
  std::vector<float> values; ///< what the stored bits mean (without scales)
  Bytes bytes;
};
Numbers randomBf16(int64_t count, unsigned seed);
/// E4M3 codes but NaN.
Numbers randomE4m3(int64_t count, unsigned seed);
/// All codes, -128 too.
Numbers randomI8(int64_t count, unsigned seed);

class LaunchKernel {
public:
  /// `body` holds one launch over arguments `args` of a program with `attributes`. Null, with a test failure, when it
  /// cannot be bound or emitted. `force` replaces numbers of the schedule, `emitter` names the one that shall take the op even if
  /// another is faster.
  static std::unique_ptr<LaunchKernel> compile(const std::string &args, const std::string &body, const std::string &attributes,
                                               llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> force = {}, llvm::StringRef emitter = {});
  /// Why no emitter of the target takes the op; empty if one does.
  static std::string whyIllegal(const std::string &args, const std::string &body, const std::string &attributes);

  mlir::Operation *op() const { return launchOp; }
  tile::KernelOp kernel() const;
  DeviceLaunch launch() const { return emitter->launch(launchOp); }
  DeviceCost cost() const { return emitter->cost(launchOp); }
  std::string schedule() const;
  /// Integer of the schedule.
  int64_t param(llvm::StringRef name) const;
  mlir::RankedTensorType operandType(unsigned i) const { return llvm::cast<mlir::RankedTensorType>(launchOp->getOperand(i).getType()); }
  /// The bytes of part `part` of a packed weight. `element(index)` of the logical shape gives the number's bytes.
  Bytes pack(unsigned operand, unsigned part, llvm::function_ref<const uint8_t *(llvm::ArrayRef<int64_t>)> element) const;

  /// Runs it: references in the order of the launch, the step's scalars. Findings are test failures.
  void run(llvm::ArrayRef<Bytes *> refs, std::vector<int64_t> scalars, uint64_t seed = 1, int64_t ctas = 0) const;
  /// What the simulator finds in the kernel after a mutation, each finding a line; for those of the first of some seeds.
  std::string findings(llvm::ArrayRef<Bytes *> refs, std::vector<int64_t> scalars, const tile::Mutant &mutant, int64_t ctas = 0) const;
  /// Lowers it as the product does and compiles it; with ptxas if it is found.
  Result<DeviceCode> assemble() const;

private:
  Result<tile::SimReport> simulate(tile::KernelOp kernel, llvm::ArrayRef<Bytes *> refs, std::vector<int64_t> scalars, uint64_t seed, int64_t ctas) const;
  static std::unique_ptr<LaunchKernel> parse(const std::string &args, const std::string &body, const std::string &attributes);

  mlir::OwningOpRef<mlir::ModuleOp> source, emitted;
  mlir::Operation *launchOp = nullptr;
  const DeviceEmitter *emitter = nullptr;
};

/// That `kernel` (not null) goes through ptxas: no spill, no serialised wgmma (emitDevice refuses them), and the shared memory and the
/// threads that its launch asks for.
void expectAssembles(const LaunchKernel *kernel);

} // namespace dsv3::codegen::test
