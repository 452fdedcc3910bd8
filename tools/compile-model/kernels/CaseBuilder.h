// What the ops of a case are built with.
#pragma once

#include "tools/compile-model/kernels/CaseOps.h"

#include <functional>

namespace dsv3 {

/// Builds one program. The first missing or wrong key is kept in `status`, and sizes read after it are 1, so that a builder
/// function reads as a list of operands.
class CaseBuilder {
public:
  CaseBuilder(mlir::ModuleOp module, const bench::ShapeEntry &entry, const std::string &symbol);

  //===-- Keys of the entry -----------------------------------------------===//
  int64_t size(const char *key);
  int64_t sizeOr(const char *key, int64_t fallback);
  double numberOr(const char *key, double fallback);
  bool flagOr(const char *key, bool fallback);
  /// "bf16" or "f32".
  mlir::Type elem(const char *key, const char *fallback = "bf16");

  //===-- Values ----------------------------------------------------------===//
  mlir::RankedTensorType tensor(llvm::ArrayRef<int64_t> shape, mlir::Type elem) { return mlir::RankedTensorType::get(shape, elem); }
  mlir::Value input(llvm::StringRef name, llvm::ArrayRef<int64_t> shape, mlir::Type elem);
  /// Lanes [at, at + last dim of shape) of rows of `cols` lanes, when `colsKey` is in the entry: `cols` and `atKey` are read from it.
  mlir::Value inputView(llvm::StringRef name, llvm::ArrayRef<int64_t> shape, mlir::Type elem, const char *colsKey = "cols",
                        const char *atKey = "at");
  /// Rows that meet a weight: of the type that key `x` says, bf16, f32 (maybe a view) or fp8 (a scale per 128 lanes).
  mlir::Value inputRows(llvm::StringRef name, llvm::ArrayRef<int64_t> shape);
  mlir::Value view(mlir::Value source, int64_t at, llvm::ArrayRef<int64_t> shape);
  /// `#dsv3.blocked<f8E4M3FN, ROWSx128, f32>`: of weights 128 rows, of activations 1.
  ir::BlockedAttr fp8Blocks(int64_t rows);
  /// A weight of the type that key `key` says: bf16, f32 or fp8 (128 x 128 blocks).
  mlir::Value weight(llvm::StringRef name, llvm::ArrayRef<int64_t> shape, const char *key = "w");
  mlir::Value plainWeight(llvm::StringRef name, llvm::ArrayRef<int64_t> shape, mlir::Type elem);
  mlir::Value output(llvm::ArrayRef<int64_t> shape, mlir::Type elem);
  /// Rows of the type that key `out` says: bf16, f32 or fp8.
  mlir::Value outputRows(llvm::ArrayRef<int64_t> shape);
  mlir::Value outputCodes(llvm::ArrayRef<int64_t> shape);
  mlir::Value seq();
  mlir::Value cache();
  mlir::StringAttr site() { return b.getStringAttr(entry.name); }
  mlir::FloatAttr f64(double v) { return b.getF64FloatAttr(v); }

  /// Names a result of the launch: what the bench compares.
  void result(llvm::StringRef name, mlir::Value value) { results.emplace_back(name.str(), value); }
  Status finish();

  const bench::ShapeEntry &entry;
  mlir::OpBuilder b;
  mlir::Location loc;
  int64_t T; ///< row capacity

private:
  void fail(const std::string &message);
  /// Whether key `key` says fp8.
  bool isFp8(const char *key);

  mlir::ModuleOp module;
  std::string symbol;
  ir::ProgramOp program;
  mlir::Block *body;
  mlir::SmallVector<std::string> argNames;
  std::vector<std::pair<std::string, mlir::Value>> results;
  Status status;
};

/// The builder function of an op ("gemm"), or null.
using CaseFn = void (*)(CaseBuilder &);
CaseFn findCase(llvm::StringRef op);
/// Known ops in order, for messages.
std::string caseNames();

} // namespace dsv3
