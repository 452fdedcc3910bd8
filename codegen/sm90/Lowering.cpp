// The way of a gpu.module of sm_90a kernels from tile to functions of one thread.
#include "codegen/sm90/lower/TilePasses.h"
#include "codegen/targets/DeviceEmitter.h"
#include "passes/tile/TilePasses.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace dsv3::codegen {

/// Merging blocks would undo what kernels keep apart on purpose.
static void addCleanup(OpPassManager &pm) {
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  pm.addPass(createCanonicalizerPass(config));
  pm.addPass(createCSEPass());
}

void sm90Lowering(OpPassManager &pm) {
  pm.addPass(createInlinerPass());
  pm.addPass(createSymbolDCEPass());
  addCleanup(pm);
  pm.addPass(createTilePeelPass());
  addCleanup(pm);
  pm.addPass(createTileAllocatePass());
  pm.addPass(createTileToNvvmPass());
}

} // namespace dsv3::codegen
