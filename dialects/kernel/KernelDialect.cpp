#include "dialects/kernel/KernelDialect.h"

#include "mlir/IR/DialectImplementation.h"

#include "dialects/kernel/KernelDialect.cpp.inc"

using namespace mlir;

namespace dsv3::kernel {

namespace {
struct AliasInterface : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attr, raw_ostream &os) const override {
    StringRef name = llvm::TypeSwitch<Attribute, StringRef>(attr)
                         .Case<NumericsAttr>([](auto) { return "num"; })
                         .Case<ScheduleAttr>([](auto) { return "sch"; })
                         .Case<LayoutAttr>([](auto) { return "lay"; })
                         .Case<PackedAttr>([](auto) { return "packed"; })
                         .Default([](Attribute) { return ""; });
    os << name;
    return name.empty() ? AliasResult::NoAlias : AliasResult::OverridableAlias;
  }
};
} // namespace

void KernelDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialects/kernel/KernelOps.cpp.inc"
      >();
  addInterfaces<AliasInterface>();
}

} // namespace dsv3::kernel
