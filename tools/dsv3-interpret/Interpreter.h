// Runs programs of dsv3 and kernel IR on the reference.
#pragma once

#include "Values.h"
#include "Weights.h"

#include "dialects/dsv3/Dsv3Dialect.h"

#include <functional>

namespace dsv3::interpret {

/// Called for each tap, in program order.
template <typename T> using TapHook = std::function<void(llvm::StringRef name, mlir::Type type, const Held<T> &value)>;

/// Walks one program at a time. "A rounding is a type": every op's result is rounded to its result element
/// type, and a few ops round inner values to types they name; arithmetic is T. Weights are read once and kept.
template <typename T> class Interpreter {
public:
  Interpreter(mlir::ModuleOp module, const WeightReader &reader) : module(module), reader(reader) {}

  /// The program's results. Errors: what the reference says, prefixed by the site; an op that has no meaning
  /// here is Unsupported and named.
  Result<std::vector<Held<T>>> run(ir::ProgramOp program, const std::vector<Held<T>> &arguments,
                                   const TapHook<T> &tap = {});

private:
  void use(Frame<T> &frame, llvm::StringRef weight, mlir::Value result);

  mlir::ModuleOp module;
  const WeightReader &reader;
  llvm::StringMap<Held<T>> weights;
};

/// Evaluate one op of a dialect; false when the op is not one of its computing ops.
template <typename T> bool evalDsv3(mlir::Operation &op, Frame<T> &frame);
template <typename T> bool evalKernel(mlir::Operation &op, Frame<T> &frame);

/// rounded(silu(x w_gate^T) * (x w_up^T)) with both products rounded to `via`; shared by gated ops.
template <typename T>
Array<T> gated(Frame<T> &frame, Result<Array<T>> gate, Result<Array<T>> up, mlir::Type via);

} // namespace dsv3::interpret
