// Compiles one kernel op for the code variants that this machine runs, by the product's path, and calls it. An op that the
// GPU target does with plain threads is one more variant, emulated: both must give what the reference gives.
#pragma once

#include "codegen/x86/KernelBuilder.h"
#include "test/codegen/sm90/simt/Grid.h"
#include "test/codegen/x86/Buffers.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"

#include <functional>

namespace dsv3::codegen::test {

/// One weight: its numbers, and the stored codes and scales they are the product of.
struct Weight {
  Array<double> values; ///< dequantised and rounded to the expressed type
  std::string type;     ///< MLIR: "tensor<88x160xbf16, #dsv3.blocked<f8E4M3FN, 128x128, f32>>"
  std::vector<uint8_t> codes = {}; ///< empty if plain; int4 has a byte each too
  Array<double> scales = {};  ///< per (row, k): shape of `values`; absent if plain
  Array<double> zeros = {};   ///< the same; absent without zero points
};
Weight plainWeight(Shape shape, Elem elem, uint32_t seed);
/// Random codes (no NaN) of `codes` E4M3 values; a block of 0 is the whole dim.
Weight fp8Weight(Shape shape, Elem expressed, int64_t blockN, int64_t blockK, uint32_t seed);
/// Integers of `bits` 8 or 4 under a scale, and perhaps a zero point, per row and `blockK` k (0: all of them): every code occurs.
Weight intWeight(Shape shape, Elem expressed, int bits, int64_t blockK, uint32_t seed, bool zeros = false);
/// data, then scale and zero, each in the layout of the packed type; padding is zero.
std::vector<Buffer> packWeight(const Weight &weight, mlir::RankedTensorType packed);

/// A step: its scalars, and the capacity-independent data of a launch.
struct Step {
  int64_t tokens = 0, seqs = 0, qblocks = 0, kblocks = 0, layerStride = 0;
};

/// How a launch's tiles are cut into calls.
enum class Split { Whole, EachBackwards, Threes };

/// A shared object with one kernel, or an emulated one.
struct Code {
  std::string variant;
  dsv3_cpu_fn fn = nullptr;
  int64_t scratch = 0;
  std::shared_ptr<const Grid> device = nullptr; ///< then `fn` is null
};

/// Variants of this build that the processor supports, by the loader's rules; tiles are emulated where it has none.
std::vector<const CpuVariant *> usableVariants();

/// Capacities that all modules here have.
Capacities capacities();

/// One kernel op and its code. Weights are the operands that the emitter wants packed.
class Kernel {
public:
  /// `args` are function arguments ("%x: tensor<4x8xbf16>, ..."), `body` the text with one launch. Null, with a test failure,
  /// when anything fails. `emulate`: as sm_90a too, if that does the op with plain threads.
  static std::unique_ptr<Kernel> compile(const std::string &args, const std::string &body, bool emulate = true);
  /// The shared object of one kernel op for a variant that need not run here, checked but not loaded: its bytes. Empty, with a
  /// test failure, when anything fails.
  static std::string build(const std::string &args, const std::string &body, const CpuVariant &variant);
  /// A function written by hand, without an op: scratch of `scratchBytes`.
  static std::vector<Code> compile(const std::function<void(KernelBuilder &)> &body, int64_t scratchBytes);

  const std::vector<Code> &codes() const { return variants; }
  mlir::Operation *op() const { return launch; }
  mlir::RankedTensorType operandType(unsigned i) const { return llvm::cast<mlir::RankedTensorType>(launch->getOperand(i).getType()); }
  std::vector<Buffer> pack(unsigned operand, const Weight &weight) const { return packWeight(weight, operandType(operand)); }
  LaunchSignature signature() const { return emitter->signature(launch); }
  int64_t tiles(const Step &step) const;

  /// Runs all tiles. Scratch is poisoned before each call and its guards are checked after. An emulated grid runs its blocks
  /// and threads forwards, or backwards if the tiles are split.
  void run(const Code &code, const std::vector<const Buffer *> &buffers, const Step &step, Split split = Split::Whole) const;

private:
  static std::unique_ptr<Kernel> bind(const std::string &args, const std::string &body);
  bool addEmulated(mlir::Operation *op);
  void runTiles(const Code &code, const std::vector<const void *> &bufs, std::vector<int64_t> scalars, const Step &step, Split split) const;
  mlir::OwningOpRef<mlir::ModuleOp> emitFor(llvm::ArrayRef<const CpuVariant *> variants) const;

  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::Operation *launch = nullptr, *unbound = nullptr;
  const CpuEmitter *emitter = nullptr;
  std::vector<Code> variants;
};

/// Calls `run` for each variant and each way to split.
void forEachRun(const Kernel &kernel, llvm::function_ref<void(const Code &, Split)> run);

/// Rows of `out` against `ref`: a relative error of 1e-5 for f32, `narrow` for bf16: one rounding is at most 2^-8.
void expectClose(const Buffer &out, Elem elem, const Array<double> &ref, const std::string &what, double narrow = 4e-3);
/// The same bytes.
void expectSameBits(const Buffer &a, const Buffer &b, const std::string &what);

/// "tensor<4x8xbf16>"
std::string tensorText(const Shape &shape, Elem elem);

/// Buffers of a launch in order; weights add their parts.
struct Buffers {
  std::vector<const Buffer *> list;
  Buffers &add(const Buffer &b) {
    list.push_back(&b);
    return *this;
  }
  Buffers &add(const std::vector<Buffer> &parts) {
    for (const Buffer &b : parts)
      list.push_back(&b);
    return *this;
  }
};

} // namespace dsv3::codegen::test
