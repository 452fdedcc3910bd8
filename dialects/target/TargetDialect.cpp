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

LogicalResult GpuAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, StringRef arch, int64_t smCount, int64_t smem,
                              ArrayRef<StringAttr> has) {
  static constexpr llvm::StringLiteral known[] = {"tma", "wgmma", "setmaxnreg", "cluster", "fp8"};
  if (arch.empty())
    return emitError() << "expected an architecture, got an empty string";
  if (smCount < 1 || smem < 1)
    return emitError() << "expected sm_count and smem of 1 or more, got " << smCount << " and " << smem;
  for (StringAttr capability : has)
    if (!llvm::is_contained(known, capability.getValue()))
      return emitError() << "expected capabilities out of " << llvm::join(ArrayRef(known), ", ") << ", got '" << capability.getValue() << "'";
  return success();
}

} // namespace dsv3::target
