// dsv3-opt: mlir-opt with the project's dialects and passes beside all upstream ones.
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

#include "codegen/emit/DevicePasses.h"
#include "codegen/sm90/lower/TilePasses.h"
#include "codegen/targets/DeviceEmitter.h"
#include "codegen/targets/Targets.h"
#include "dialects/dsv3/Dsv3Dialect.h"
#include "dialects/kernel/KernelDialect.h"
#include "dialects/rt/RtDialect.h"
#include "dialects/tile/TileDialect.h"
#include "passes/Pipeline.h"
#include "passes/tile/TilePasses.h"
#include "test/codegen/targets/TestGpuTarget.h"
#include "test/codegen/targets/TestTarget.h"

int main(int argc, char **argv) {
  mlir::registerAllPasses();
  dsv3::registerAllPasses();
  dsv3::registerDsv3TilePasses();
  dsv3::codegen::registerTileLoweringPasses();
  dsv3::codegen::registerDevicePasses();
  dsv3::codegen::registerTarget(dsv3::codegen::kDefaultTarget, dsv3::codegen::x86Registry);
  dsv3::codegen::registerTarget(dsv3::codegen::kSm90a, dsv3::codegen::sm90Registry, dsv3::codegen::sm90Dialects, dsv3::codegen::sm90Lowering);
  dsv3::codegen::registerTarget("test", dsv3::codegen::testRegistry);
  dsv3::codegen::registerTarget(dsv3::codegen::kTestGpu, dsv3::codegen::testGpuRegistry, dsv3::codegen::testGpuDialects);
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<dsv3::ir::Dsv3Dialect, dsv3::kernel::KernelDialect, dsv3::rt::RtDialect, dsv3::target::TargetDialect,
                  dsv3::tile::TileDialect>();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "DeepSeek-V3 optimizer driver\n", registry));
}
