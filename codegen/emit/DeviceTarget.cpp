#include "codegen/emit/DeviceTarget.h"

#include "codegen/emit/FirstError.h"
#include "codegen/emit/Object.h"
#include "codegen/targets/Targets.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

Status writeBytes(const std::string &path, const std::string &bytes) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (!error) {
    os << bytes;
    os.close();
    error = os.error();
    os.clear_error();
  }
  return error ? Status(doesNotFitError("cannot write '" + path + "': " + error.message())) : Status();
}

Status writeKernel(const DeviceKernel &kernel, const std::string &folder) {
  if (Status s = writeBytes(folder + "/" + kernel.symbol + ".ptx", kernel.ptx); !s)
    return s;
  return kernel.cubin.empty() ? Status() : writeBytes(folder + "/" + kernel.symbol + ".cubin", kernel.cubin);
}

Status writeHost(rt::ModuleOp host, const std::string &folder) {
  Result<std::string> object = compileHost(host);
  if (!object)
    return object.error();
  std::string path = folder + "/host.so";
  if (Status s = linkShared(*object, path); !s)
    return s;
  return checkShared(path);
}

/// "a pointer", "a tensor map", "a number": what a kernel's argument takes and what a launch passes.
const char *kindOf(LLVM::LLVMFuncOp fn, unsigned index) {
  Type type = fn.getArgumentTypes()[index];
  auto pointer = dyn_cast<LLVM::LLVMPointerType>(type);
  if (!pointer)
    return type.isInteger(64) ? "a number" : "something else";
  return pointer.getAddressSpace() == 1 ? "a pointer" : "a tensor map";
}
const char *kindOf(Attribute param) {
  return isa<rt::PtrAttr>(param) ? "a pointer" : isa<rt::TensorMapAttr>(param) ? "a tensor map" : "a number";
}

std::string mismatch(rt::LaunchGridOp launch, LLVM::LLVMFuncOp fn) {
  auto expected = [](auto a, auto b) { return "expected " + std::string(a) + ", got " + b; };
  size_t takes = fn.getArgumentTypes().size(), passes = launch.getParams().size() + 1;
  if (takes != passes)
    return expected(std::to_string(takes) + " parameters", std::to_string(passes));
  if (llvm::StringRef(kindOf(fn, 0)) != "a pointer")
    return "expected the address of the scalars as its first parameter, got " + std::string(kindOf(fn, 0));
  for (auto [i, param] : llvm::enumerate(launch.getParams()))
    if (llvm::StringRef(kindOf(fn, unsigned(i) + 1)) != kindOf(param))
      return "parameter " + std::to_string(i + 1) + ": " + expected(kindOf(fn, unsigned(i) + 1), kindOf(param));
  auto fixed = [&](const char *name) {
    auto array = fn->getAttrOfType<DenseI32ArrayAttr>(name);
    return array && !array.empty() ? int64_t(array[0]) : 0;
  };
  if (int64_t threads = fixed("nvvm.reqntid"); threads && threads != int64_t(launch.getBlock()))
    return expected(std::to_string(threads) + " threads", std::to_string(launch.getBlock()));
  if (int64_t cluster = fixed("nvvm.cluster_dim"); cluster && cluster != int64_t(launch.getCluster()))
    return expected("clusters of " + std::to_string(cluster), std::to_string(launch.getCluster()));
  auto smem = fn->getAttrOfType<IntegerAttr>("dsv3.smem");
  if (smem && smem.getInt() > int64_t(launch.getSmem()))
    return expected(std::to_string(smem.getInt()) + " bytes of shared memory or more", std::to_string(launch.getSmem()));
  return "";
}
} // namespace

Status checkLaunches(rt::ModuleOp host, Operation *kernels) {
  std::string wrong;
  host.walk([&](rt::LaunchGridOp launch) {
    auto fn = dyn_cast_or_null<LLVM::LLVMFuncOp>(SymbolTable::lookupSymbolIn(kernels, launch.getKernelAttr().getAttr()));
    std::string why = fn ? mismatch(launch, fn) : "expected a function of its own";
    if (why.empty())
      return WalkResult::advance();
    wrong = "kernel " + launch.getKernel().str() + ", launched at \"" + launch.getSite().str() + "\": " + why;
    return WalkResult::interrupt();
  });
  return wrong.empty() ? Status() : internalError(wrong);
}

Status lowerDeviceKernels(ModuleOp module) {
  FailureOr<TargetChoice> choice = chooseTarget(module, "");
  if (failed(choice) || !choice->gpu)
    return internalError("expected a module of a device target");
  if (!choice->lower)
    return {};
  PassManager pm(module.getContext());
  choice->lower(pm.nest<gpu::GPUModuleOp>());
  FirstError error(module.getContext());
  if (failed(pm.run(module)))
    return internalError("kernels of " + choice->name + " do not lower: " + error.message());
  return {};
}

Result<DeviceFiles> emitDeviceTarget(ModuleOp module, rt::ModuleOp host, const std::string &folder, int jobs) {
  FailureOr<TargetChoice> choice = chooseTarget(module, "");
  auto modules = module.getBody()->getOps<gpu::GPUModuleOp>();
  if (failed(choice) || !choice->gpu || modules.empty())
    return internalError("the stages left no device kernels");
  gpu::GPUModuleOp kernels = *modules.begin();
  if (Status s = lowerDeviceKernels(module); !s)
    return s.error();
  if (Status s = checkLaunches(host, kernels); !s)
    return s.error();
  DeviceOptions options;
  options.jobs = jobs;
  Result<DeviceCode> code = emitDevice(kernels, options);
  if (!code)
    return code.error();
  if (std::error_code error = llvm::sys::fs::create_directories(folder + "/kernels"))
    return doesNotFitError("cannot make '" + folder + "/kernels': " + error.message());
  DeviceFiles files;
  files.gpu = choice->gpu;
  files.assembler = code->assembler;
  files.report = reportOf(*code);
  for (const DeviceKernel &kernel : code->kernels) {
    if (Status s = writeKernel(kernel, folder + "/kernels"); !s)
      return s.error();
    files.kernels.push_back({kernel.symbol, !kernel.cubin.empty()});
  }
  if (Status s = writeHost(host, folder); !s)
    return s.error();
  return files;
}

} // namespace dsv3::codegen
