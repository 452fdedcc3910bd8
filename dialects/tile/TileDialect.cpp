#include "dialects/tile/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Transforms/InliningUtils.h"

#include "dialects/tile/TileDialect.cpp.inc"
#include "dialects/tile/TileEnums.cpp.inc"

using namespace mlir;

namespace dsv3::tile {

namespace {
/// #acc, #opA, ... for fragments; a ring's name, or #ring.
struct AliasInterface : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attr, raw_ostream &os) const override {
    if (auto frag = dyn_cast<FragAttr>(attr)) {
      os << fragName(frag.getKind());
      return AliasResult::OverridableAlias;
    }
    if (auto ring = dyn_cast<RingAttr>(attr)) {
      os << (ring.getName().empty() ? "ring" : ring.getName());
      return AliasResult::OverridableAlias;
    }
    return AliasResult::NoAlias;
  }
};

/// Helper functions of kernels always go into their callers: a fragment cannot be passed by a call.
struct InlinerInterface : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;

  bool isLegalToInline(Operation *call, Operation *callable, bool) const final { return true; }
  bool isLegalToInline(Region *, Region *, bool, IRMapping &) const final { return true; }
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final { return true; }
};
} // namespace

void TileDialect::initialize() {
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "dialects/tile/TileOps.cpp.inc"
      >();
  addInterfaces<AliasInterface, InlinerInterface>();
}

} // namespace dsv3::tile
