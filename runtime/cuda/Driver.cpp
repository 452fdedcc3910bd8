#include "runtime/cuda/Driver.h"

#include "runtime/core/Json.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace dsv3::cuda {

namespace {
constexpr const char *kDriver = "libcuda.so.1";

struct Symbol {
  const char *name;
  void *place;
};
} // namespace

Status Driver::bind(void *library, const std::string &path) {
  // The driver exports newer forms of some functions with a suffix; the plain name is the form of CUDA 3 or 9.
  const Symbol symbols[] = {{"cuInit", &cuInit},
                            {"cuDriverGetVersion", &cuDriverGetVersion},
                            {"cuGetErrorString", &cuGetErrorString},
                            {"cuDeviceGetCount", &cuDeviceGetCount},
                            {"cuDeviceGet", &cuDeviceGet},
                            {"cuDeviceGetName", &cuDeviceGetName},
                            {"cuDeviceGetAttribute", &cuDeviceGetAttribute},
                            {"cuDevicePrimaryCtxRetain", &cuDevicePrimaryCtxRetain},
                            {"cuDevicePrimaryCtxRelease_v2", &cuDevicePrimaryCtxRelease},
                            {"cuCtxSetCurrent", &cuCtxSetCurrent},
                            {"cuMemGetInfo_v2", &cuMemGetInfo},
                            {"cuMemAlloc_v2", &cuMemAlloc},
                            {"cuMemFree_v2", &cuMemFree},
                            {"cuMemHostAlloc", &cuMemHostAlloc},
                            {"cuMemFreeHost", &cuMemFreeHost},
                            {"cuMemsetD8Async", &cuMemsetD8Async},
                            {"cuMemcpyHtoDAsync_v2", &cuMemcpyHtoDAsync},
                            {"cuMemcpyDtoHAsync_v2", &cuMemcpyDtoHAsync},
                            {"cuMemcpyDtoDAsync_v2", &cuMemcpyDtoDAsync},
                            {"cuStreamCreate", &cuStreamCreate},
                            {"cuStreamDestroy_v2", &cuStreamDestroy},
                            {"cuStreamSynchronize", &cuStreamSynchronize},
                            {"cuEventCreate", &cuEventCreate},
                            {"cuEventDestroy_v2", &cuEventDestroy},
                            {"cuEventRecord", &cuEventRecord},
                            {"cuEventSynchronize", &cuEventSynchronize},
                            {"cuEventElapsedTime", &cuEventElapsedTime},
                            {"cuModuleLoadDataEx", &cuModuleLoadDataEx},
                            {"cuModuleUnload", &cuModuleUnload},
                            {"cuModuleGetFunction", &cuModuleGetFunction},
                            {"cuFuncSetAttribute", &cuFuncSetAttribute},
                            {"cuLaunchKernelEx", &cuLaunchKernelEx},
                            {"cuTensorMapEncodeTiled", &cuTensorMapEncodeTiled},
                            {"cuStreamBeginCapture_v2", &cuStreamBeginCapture},
                            {"cuStreamEndCapture", &cuStreamEndCapture},
                            {"cuGraphInstantiateWithFlags", &cuGraphInstantiate},
                            {"cuGraphDestroy", &cuGraphDestroy},
                            {"cuGraphExecDestroy", &cuGraphExecDestroy},
                            {"cuGraphLaunch", &cuGraphLaunch}};
  for (const Symbol &s : symbols) {
    void *found = dlsym(library, s.name);
    if (!found)
      return unsupportedError(path + ": expected a driver of CUDA 12 or later, got one without " + s.name);
    std::memcpy(s.place, &found, sizeof found);
  }
  return {};
}

Result<std::unique_ptr<Driver>> Driver::load() {
  const char *given = std::getenv("DSV3_CUDA_DRIVER");
  std::string path = given && *given ? given : kDriver;
  // Never closed: the driver keeps threads of its own.
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return unsupportedError("expected an NVIDIA driver (" + path + "), got none: " + printable(dlerror(), 300));
  std::unique_ptr<Driver> driver(new Driver);
  if (Status s = driver->bind(library, path); !s)
    return s.error();
  Code code = driver->cuInit(0);
  int count = 0;
  if (code == 0)
    code = driver->cuDriverGetVersion(&driver->versionNumber);
  if (code == 0)
    code = driver->cuDeviceGetCount(&count);
  if (code == kNoDevice || (code == 0 && count == 0))
    return unsupportedError("expected a GPU, got a driver that finds none");
  if (code != 0)
    return unsupportedError("expected a working NVIDIA driver, got " + driver->text(code));
  return driver;
}

std::string Driver::versionText() const {
  return "CUDA " + std::to_string(versionNumber / 1000) + "." + std::to_string(versionNumber % 1000 / 10);
}

std::string Driver::text(Code code) const {
  const char *words = nullptr;
  if (cuGetErrorString(code, &words) != 0 || !words)
    words = "unknown error";
  return printable(words) + " (" + std::to_string(code) + ")";
}

Status Driver::check(Code code, const char *what) const {
  if (code == 0)
    return {};
  std::string message = std::string(what) + ": " + text(code);
  return code == kOutOfMemory ? doesNotFitError("GPU memory: " + message) : internalError(message);
}

} // namespace dsv3::cuda
