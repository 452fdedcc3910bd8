#include "dialects/target/TargetDialect.h"

#include "mlir/IR/DialectImplementation.h"

#include "dialects/target/TargetDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/target/TargetAttrs.cpp.inc"

using namespace mlir;

namespace dsv3::target {

void TargetDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/target/TargetAttrs.cpp.inc"
      >();
}

LogicalResult CpuAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, StringRef arch,
                              ArrayRef<StringAttr> variants) {
  if (arch.empty())
    return emitError() << "expected an architecture, got an empty string";
  if (variants.empty())
    return emitError() << "expected at least one code variant for '" << arch << "'";
  return success();
}

} // namespace dsv3::target
