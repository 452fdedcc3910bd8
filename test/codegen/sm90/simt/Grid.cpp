#include "test/codegen/sm90/simt/Grid.h"

#include "codegen/sm90/simt/SimtEmitter.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Verifier.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace dsv3::codegen::test {

bool Grid::canRun(Operation *op) { return dynamic_cast<const SimtEmitter *>(sm90Registry().lookup(op)); }

std::shared_ptr<const Grid> Grid::create(Operation *op) {
  const KernelEmitter *found = sm90Registry().lookup(op);
  std::string why = canRun(op) ? found->whyIllegal(op) : "no kernel of plain threads";
  if (!why.empty()) {
    ADD_FAILURE() << op->getName().getStringRef().str() << " is not legal on sm_90a: " << why;
    return nullptr;
  }
  op->setAttr("numerics", found->numerics(op));
  op->setAttr("schedule", found->schedule(op));
  OpBuilder b(op->getContext());
  OwningOpRef<ModuleOp> outer = ModuleOp::create(b.getUnknownLoc());
  b.setInsertionPointToEnd(outer->getBody());
  auto device = gpu::GPUModuleOp::create(b, b.getUnknownLoc(), "sm_90a");
  b.setInsertionPointToEnd(device.getBody());
  if (failed(found->asDevice()->emit(op, "k", b)) || failed(verify(*outer))) {
    ADD_FAILURE() << "not emitted for sm_90a: " << kernelKey(op);
    return nullptr;
  }
  auto grid = std::make_shared<Grid>();
  grid->launch = found->asDevice()->launch(op);
  grid->emulator = Emulator::create(device, "k");
  return grid->emulator ? grid : nullptr;
}

void Grid::run(const std::vector<const void *> &references, const std::vector<int64_t> &scalars, bool backwards) const {
  std::vector<int64_t> params{int64_t(scalars.data())};
  for (const DeviceParam &p : launch.params) {
    if (auto *pointer = std::get_if<DeviceParam::Pointer>(&p.value)) {
      ASSERT_LT(pointer->ref, references.size());
      params.push_back(int64_t(references[pointer->ref]) + pointer->offset);
    } else {
      params.push_back(std::get<DeviceParam::Const>(p.value).value);
    }
  }
  emulator->run(launch.grid[0], launch.threads, launch.cluster, params, backwards);
}

} // namespace dsv3::codegen::test
