// Attention kernels built by the emitters' own code and run on the host, against a plain softmax in double.
#pragma once

#include "codegen/sm90/attention/MlaDecode.h"
#include "codegen/sm90/attention/MlaPrefill.h"
#include "passes/tile/Simulator.h"
#include "runtime/core/DType.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <gtest/gtest.h>

#include <functional>

namespace dsv3::codegen {

constexpr double kScale = 0.1352337788608801;

/// A module with one kernel.
class KernelModule {
public:
  explicit KernelModule(const std::function<void(TileBuilder &)> &build);
  tile::KernelOp kernel();
  bool valid();
  /// Bytes of shared memory that `--dsv3-tile-allocate` gives it; -1 if the pass fails.
  int64_t allocate();

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// Runs the kernel: "" or what is wrong with it, "C4 message; ...".
std::string findings(tile::KernelOp kernel, llvm::MutableArrayRef<tile::SimArgument> args, int64_t ctas, uint64_t seed);

/// bf16 numbers, row-major.
struct Bf16 {
  std::vector<int64_t> shape;
  std::vector<uint16_t> data;

  Bf16(std::vector<int64_t> shape, unsigned seed, float amplitude = 1);
  tile::SimArgument argument() { return tile::SimArgument::memory(data.data(), shape); }
  /// The same memory with other dims.
  tile::SimArgument argument(std::vector<int64_t> as) { return tile::SimArgument::memory(data.data(), std::move(as)); }
  uint16_t *row(std::initializer_list<int64_t> index);
  const uint16_t *row(std::initializer_list<int64_t> index) const { return const_cast<Bf16 *>(this)->row(index); }
  void fill(uint16_t bits) { std::fill(data.begin(), data.end(), bits); }
};
constexpr uint16_t kNan = 0x7fff;

/// One row of attention: scores of `q` against keys 0..n, softmax, sum of values. `key(i)` and `value(i)` point at lanes.
struct Attended {
  std::vector<double> out;
  double logSum = 0; ///< log2 of the sum of 2^(score scale log2(e))
};
Attended attend(const std::vector<double> &q, int64_t n, int64_t values, const std::function<const uint16_t *(int64_t)> &key,
                const std::function<const uint16_t *(int64_t)> &value);
std::vector<double> widened(const uint16_t *row, int64_t n);
/// |x - want| / |want|.
double relativeError(const std::vector<double> &x, const std::vector<double> &want);

} // namespace dsv3::codegen
