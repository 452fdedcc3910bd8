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
  /// Rows that meet a weight: of the type that key `x` says, bf16 or f32 (maybe a view), or a scheme.
  mlir::Value inputRows(llvm::StringRef name, llvm::ArrayRef<int64_t> shape);
  mlir::Value view(mlir::Value source, int64_t at, llvm::ArrayRef<int64_t> shape);
  /// The scheme that key `key` says, null for a plain type: "fp8" (blocks of 1x128, of weights 128x128), "fp8row" (a scale
  /// per row), "int8" (likewise), "int8x128" (one per row and 128 lanes), "int4", "int4x128".
  ir::BlockedAttr scheme(const char *key, bool weight = false, const char *fallback = "bf16");
  /// A weight of the type that key `key` says: bf16, f32 or a scheme.
  mlir::Value weight(llvm::StringRef name, llvm::ArrayRef<int64_t> shape, const char *key = "w");
  mlir::Value plainWeight(llvm::StringRef name, llvm::ArrayRef<int64_t> shape, mlir::Type elem);
  mlir::Value output(llvm::ArrayRef<int64_t> shape, mlir::Type elem);
  /// Rows of the type that key `out` says: bf16, f32 or a scheme.
  mlir::Value outputRows(llvm::ArrayRef<int64_t> shape);
  /// Rows in the scheme that key `key` says, FP8 if there is no such key.
  mlir::Value outputCodes(llvm::ArrayRef<int64_t> shape, const char *key);
  mlir::Value seq();
  mlir::Value cache();
  mlir::StringAttr site() { return b.getStringAttr(entry.name); }
  mlir::FloatAttr f64(double v) { return b.getF64FloatAttr(v); }

  /// Names a result of the launch: what the bench compares.
  void result(llvm::StringRef name, mlir::Value value) { results.emplace_back(name.str(), value); }
  /// The first failure is what finish() returns.
  void fail(const std::string &message);
  Status finish();

  const bench::ShapeEntry &entry;
  mlir::OpBuilder b;
  mlir::Location loc;
  int64_t T; ///< row capacity

private:
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
