// What is in flight where: ages of tokens and values that may be `none`. Reads tile IR, writes nothing.
#pragma once

#include "dialects/tile/TileDialect.h"

#include "llvm/ADT/DenseMap.h"

namespace dsv3::codegen {

/// Whether an accumulator, slot or token is there.
enum class Presence { None, Maybe, Some };

/// Walks one role in program order. Ages are the least over all paths: waiting for a younger group waits for all older
/// ones too, so the least is always right, and exact where rule T28 holds.
class AsyncAnalysis {
public:
  explicit AsyncAnalysis(mlir::Block &role);

  Presence presence(mlir::Value v) const;
  /// Groups committed since the source of this `await`, when it runs; nothing when the source is none on every path.
  std::optional<int64_t> age(mlir::Operation *await) const;
  /// Whether the token awaited is that of a `put`.
  bool isPut(mlir::Value token) const;

private:
  enum Kind { Mma, Put, Kinds };
  struct State {
    Presence presence = Presence::Some;
    Kind kind = Mma;
    int64_t group = 0; ///< groups of its kind that had been committed just after it
  };
  using Counts = std::array<int64_t, Kinds>;

  void walk(mlir::Block &block);
  void visit(mlir::Operation *op);
  void visitIf(mlir::Operation *op);
  void visitLoop(mlir::Operation *op, mlir::ValueRange inits, mlir::Block &body, mlir::ValueRange args);
  State stateOf(mlir::Value v) const;
  /// Joins states that end paths at which `counts` groups were committed, seen from a point with `now`.
  State join(llvm::ArrayRef<State> states, llvm::ArrayRef<Counts> counts, const Counts &now) const;

  Counts committed{};
  llvm::DenseMap<mlir::Value, State> states;
  llvm::DenseMap<mlir::Operation *, std::optional<int64_t>> ages;
};

} // namespace dsv3::codegen
