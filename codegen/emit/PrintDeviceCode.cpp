#include "codegen/emit/Cubin.h"
#include "codegen/emit/DevicePasses.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace dsv3::codegen {
#define GEN_PASS_DEF_PRINTDEVICECODEPASS
#include "codegen/emit/DevicePasses.h.inc"

namespace {

void writeFile(const std::string &path, const std::string &bytes) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (!error)
    os << bytes;
}

struct PrintDeviceCodePass : impl::PrintDeviceCodePassBase<PrintDeviceCodePass> {
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override { registerDeviceDialects(registry); }

  void runOnOperation() override {
    SmallVector<Operation *> modules;
    getOperation()->walk([&](gpu::GPUModuleOp module) { modules.push_back(module); });
    if (modules.empty())
      modules.push_back(getOperation());
    for (Operation *module : modules) {
      Result<DeviceCode> code = emitDevice(module, {});
      if (!code) {
        module->emitError(code.error().message);
        return signalPassFailure();
      }
      for (const DeviceKernel &kernel : code->kernels)
        print(kernel);
    }
  }

  void print(const DeviceKernel &kernel) {
    llvm::outs() << kernel.symbol << ": threads " << kernel.threads << ", shared " << kernel.dynamicShared;
    if (const auto &r = kernel.resources)
      llvm::outs() << ", registers " << r->registers << ", spills " << r->spillStores << " + " << r->spillLoads << ", stack " << r->stack;
    llvm::outs() << "\n";
    if (ptx)
      llvm::outs() << kernel.ptx;
    if (folder.empty())
      return;
    writeFile(folder + "/" + kernel.symbol + ".ptx", kernel.ptx);
    writeFile(folder + "/" + kernel.symbol + ".cubin", kernel.cubin);
  }
};
} // namespace
} // namespace dsv3::codegen
