// The first error that MLIR reports while it is alive, for a Status; remarks and warnings go on to the tool's handler.
#pragma once

#include "mlir/IR/Diagnostics.h"

#include <mutex>
#include <string>

namespace dsv3::codegen {

class FirstError {
public:
  explicit FirstError(mlir::MLIRContext *context) : handler(context, [this](mlir::Diagnostic &d) { return take(d); }) {}

  /// "no message" where a pass failed in silence.
  std::string message() const { return first.empty() ? "no message" : first; }

private:
  mlir::LogicalResult take(mlir::Diagnostic &diagnostic) {
    std::lock_guard<std::mutex> lock(mutex);
    if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Error)
      return mlir::failure();
    if (first.empty())
      first = diagnostic.str();
    return mlir::success();
  }

  std::string first;
  std::mutex mutex; ///< nested pipelines run on several threads
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace dsv3::codegen
