// The way of a gpu.module of sm_90a kernels from tile to functions of one thread.
#include "codegen/sm90/lower/TilePasses.h"
#include "codegen/targets/DeviceEmitter.h"
#include "passes/tile/TileAnalysis.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace dsv3::codegen {

void sm90Lowering(OpPassManager &pm) {
  pm.addPass(createInlinerPass());
  pm.addPass(createTileChooseLayoutsPass());
  pm.addPass(createTileAnalyzeConflictsPass()); // for the report
  addTileLowering(pm);
}

} // namespace dsv3::codegen
