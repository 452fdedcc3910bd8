// The emitters of the sm_90a target. The first legal emitter of an op wins: special cases stand before general ones.
#include "codegen/emit/Cubin.h"
#include "codegen/sm90/EmitterBase.h"
#include "codegen/sm90/gemm/Int4Weights.h"
#include "dialects/tile/TileDialect.h"

#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dsv3::codegen {

const KernelRegistry &sm90Registry() {
  static const KernelRegistry registry = [] {
    KernelRegistry r;
    addAttentionEmitters90(r);
    addSimtEmitters(r);
    addGemmEmitters90(r);
    addInt4Emitters90(r);
    r.checkStored(whyNotStored90);
    return r;
  }();
  return registry;
}

void sm90Dialects(mlir::DialectRegistry &dialects) {
  registerDeviceDialects(dialects);
  dialects.insert<tile::TileDialect, mlir::func::FuncDialect>(); // helpers of kernels are functions
  mlir::func::registerInlinerExtension(dialects);
}

} // namespace dsv3::codegen
