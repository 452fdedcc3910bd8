#include "tools/dsv3-bench/Device.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>

namespace dsv3::bench {

// What the CUDA driver's C interface looks like, as far as this tool uses it (CUDA Driver API, version 12 and later).
struct DriverTable {
  struct LaunchAttribute {
    int id;
    int pad;
    unsigned value[16];
  };
  struct LaunchConfig {
    unsigned grid[3], block[3], smem;
    void *stream;
    LaunchAttribute *attributes;
    unsigned count;
  };

  int (*cuInit)(unsigned);
  int (*cuDriverGetVersion)(int *);
  int (*cuDeviceGet)(int *, int);
  int (*cuDeviceGetName)(char *, int, int);
  int (*cuDeviceGetAttribute)(int *, int, int);
  int (*cuDevicePrimaryCtxRetain)(void **, int);
  int (*cuCtxSetCurrent)(void *);
  int (*cuGetErrorString)(int, const char **);
  int (*cuMemAlloc)(uint64_t *, size_t);
  int (*cuMemFree)(uint64_t);
  int (*cuMemcpyHtoD)(uint64_t, const void *, size_t);
  int (*cuMemcpyDtoH)(void *, uint64_t, size_t);
  int (*cuMemcpyDtoD)(uint64_t, uint64_t, size_t);
  int (*cuMemsetD8)(uint64_t, unsigned char, size_t);
  int (*cuModuleLoad)(void **, const char *);
  int (*cuModuleUnload)(void *);
  int (*cuModuleGetFunction)(void **, void *, const char *);
  int (*cuFuncSetAttribute)(void *, int, int);
  int (*cuLaunchKernelEx)(const LaunchConfig *, void *, void **, void **);
  int (*cuTensorMapEncodeTiled)(void *, int, unsigned, void *, const uint64_t *, const uint64_t *, const unsigned *, const unsigned *, int, int, int, int);
  int (*cuStreamCreate)(void **, unsigned);
  int (*cuCtxSynchronize)();
  int (*cuStreamBeginCapture)(void *, int);
  int (*cuStreamEndCapture)(void *, void **);
  int (*cuGraphInstantiate)(void **, void *, unsigned long long);
  int (*cuGraphLaunch)(void *, void *);
  int (*cuGraphExecDestroy)(void *);
  int (*cuGraphDestroy)(void *);
  int (*cuEventCreate)(void **, unsigned);
  int (*cuEventRecord)(void *, void *);
  int (*cuEventSynchronize)(void *);
  int (*cuEventElapsedTime)(float *, void *, void *);

  Status load();
};

Status DriverTable::load() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return unsupportedError("expected an NVIDIA driver (libcuda.so.1), got none: " + std::string(dlerror()));
  const std::pair<const char *, void *> names[] = {
      {"cuInit", &cuInit}, {"cuDriverGetVersion", &cuDriverGetVersion}, {"cuDeviceGet", &cuDeviceGet}, {"cuDeviceGetName", &cuDeviceGetName},
      {"cuDeviceGetAttribute", &cuDeviceGetAttribute}, {"cuDevicePrimaryCtxRetain", &cuDevicePrimaryCtxRetain},
      {"cuCtxSetCurrent", &cuCtxSetCurrent}, {"cuGetErrorString", &cuGetErrorString}, {"cuMemAlloc_v2", &cuMemAlloc},
      {"cuMemFree_v2", &cuMemFree}, {"cuMemcpyHtoD_v2", &cuMemcpyHtoD}, {"cuMemcpyDtoH_v2", &cuMemcpyDtoH},
      {"cuMemcpyDtoD_v2", &cuMemcpyDtoD}, {"cuMemsetD8_v2", &cuMemsetD8}, {"cuModuleLoad", &cuModuleLoad}, {"cuModuleUnload", &cuModuleUnload},
      {"cuModuleGetFunction", &cuModuleGetFunction}, {"cuFuncSetAttribute", &cuFuncSetAttribute}, {"cuLaunchKernelEx", &cuLaunchKernelEx},
      {"cuTensorMapEncodeTiled", &cuTensorMapEncodeTiled}, {"cuStreamCreate", &cuStreamCreate}, {"cuCtxSynchronize", &cuCtxSynchronize},
      {"cuStreamBeginCapture_v2", &cuStreamBeginCapture}, {"cuStreamEndCapture", &cuStreamEndCapture},
      {"cuGraphInstantiateWithFlags", &cuGraphInstantiate}, {"cuGraphLaunch", &cuGraphLaunch}, {"cuGraphExecDestroy", &cuGraphExecDestroy},
      {"cuGraphDestroy", &cuGraphDestroy}, {"cuEventCreate", &cuEventCreate}, {"cuEventRecord", &cuEventRecord},
      {"cuEventSynchronize", &cuEventSynchronize}, {"cuEventElapsedTime", &cuEventElapsedTime}};
  for (auto [name, place] : names) {
    void *symbol = dlsym(library, name);
    if (!symbol)
      return unsupportedError(std::string("expected a driver with ") + name + " (CUDA 12 or later), got an older one");
    std::memcpy(place, &symbol, sizeof symbol);
  }
  return {};
}

//===-- Memory ------------------------------------------------------------===//

Memory &Memory::operator=(Memory &&other) noexcept {
  std::swap(device, other.device);
  std::swap(at, other.at);
  std::swap(size, other.size);
  return *this;
}

Memory::~Memory() {
  if (device)
    device->cu->cuMemFree(at);
}

//===-- Device ------------------------------------------------------------===//

Status Device::call(int code, const char *what) const {
  if (code == 0)
    return {};
  const char *text = nullptr;
  cu->cuGetErrorString(code, &text);
  return internalError(std::string(what) + ": " + (text ? text : "unknown error") + " (" + std::to_string(code) + ")");
}

#define TRY(function, ...)                                                                                                          \
  if (Status s_ = call(cu->function(__VA_ARGS__), #function); !s_)                                                                   \
  return s_.error()

Result<std::unique_ptr<Device>> Device::open() {
  std::unique_ptr<Device> device(new Device);
  device->cu = std::make_unique<DriverTable>();
  if (Status s = device->cu->load(); !s)
    return s.error();
  if (Status s = [&]() -> Status {
        auto &cu = device->cu;
        auto call = [&](int code, const char *what) { return device->call(code, what); };
        int version = 0, index = 0, major = 0, minor = 0;
        char name[256] = "";
        TRY(cuInit, 0);
        TRY(cuDriverGetVersion, &version);
        TRY(cuDeviceGet, &index, 0);
        TRY(cuDeviceGetName, name, sizeof name, index);
        TRY(cuDeviceGetAttribute, &major, 75, index); // compute capability, major and minor
        TRY(cuDeviceGetAttribute, &minor, 76, index);
        device->deviceName = name;
        device->driverVersion = "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
        if (major != 9 || minor != 0)
          return unsupportedError("expected a GPU of compute capability 9.0 (sm_90a kernels run on no other), got " + device->deviceName + " with " +
                                  std::to_string(major) + "." + std::to_string(minor));
        TRY(cuDevicePrimaryCtxRetain, &device->context, index);
        TRY(cuCtxSetCurrent, device->context);
        TRY(cuStreamCreate, &device->stream, 1); // not synchronised with the default stream
        TRY(cuEventCreate, &device->start, 0);
        TRY(cuEventCreate, &device->stop, 0);
        return {};
      }();
      !s)
    return s.error();
  return device;
}

Device::~Device() = default; // the process ends with it

Result<Memory> Device::allocate(int64_t bytes) const {
  Memory m;
  TRY(cuMemAlloc, &m.at, size_t(bytes + Memory::kGuard));
  m.device = this;
  m.size = bytes;
  return m;
}

Status Device::upload(const Memory &to, int64_t offset, const void *from, int64_t bytes) const {
  TRY(cuMemcpyHtoD, to.at + uint64_t(offset), from, size_t(bytes));
  return {};
}

Status Device::download(void *to, const Memory &from, int64_t offset, int64_t bytes) const {
  TRY(cuMemcpyDtoH, to, from.at + uint64_t(offset), size_t(bytes));
  return {};
}

Status Device::copy(const Memory &to, int64_t toOffset, const Memory &from, int64_t fromOffset, int64_t bytes) const {
  TRY(cuMemcpyDtoD, to.at + uint64_t(toOffset), from.at + uint64_t(fromOffset), size_t(bytes));
  return {};
}

Status Device::fill(const Memory &to, int64_t offset, uint8_t value, int64_t bytes) const {
  if (bytes > 0)
    TRY(cuMemsetD8, to.at + uint64_t(offset), value, size_t(bytes));
  return {};
}

static constexpr uint8_t kGuardByte = 0xa5;

Status Device::setGuard(const Memory &memory) const { return fill(memory, memory.size, kGuardByte, Memory::kGuard); }

Result<bool> Device::guardHolds(const Memory &memory) const {
  std::vector<uint8_t> zone(Memory::kGuard);
  if (Status s = download(zone.data(), memory, memory.size, Memory::kGuard); !s)
    return s.error();
  return std::all_of(zone.begin(), zone.end(), [](uint8_t v) { return v == kGuardByte; });
}

Result<void *> Device::loadModule(const std::string &cubin) const {
  void *module = nullptr;
  if (Status s = call(cu->cuModuleLoad(&module, cubin.c_str()), "cuModuleLoad"); !s)
    return internalError(cubin + ": " + s.error().message);
  return module;
}

Status Device::unloadModule(void *module) const {
  TRY(cuModuleUnload, module);
  return {};
}

Result<void *> Device::function(void *module, const std::string &symbol, int64_t smem, int64_t cluster) const {
  void *function = nullptr;
  TRY(cuModuleGetFunction, &function, module, symbol.c_str());
  if (smem > 48 * 1024)
    TRY(cuFuncSetAttribute, function, 8, int(smem)); // dynamic shared memory
  if (cluster > 8)
    TRY(cuFuncSetAttribute, function, 14, 1); // cluster sizes that not every device has
  return function;
}

Result<BoundLaunch::Map> Device::encode(const TensorMap &map, uint64_t address, int64_t bytes) const {
  static constexpr std::pair<DType, int> types[] = {{DType::U8, 0}, {DType::I32, 3}, {DType::F32, 7}, {DType::BF16, 9}};
  int type = -1;
  for (auto [known, code] : types)
    if (known == map.elem)
      type = code;
  if (type < 0)
    return internalError("expected a tensor map of U8, I32, F32 or BF16");
  std::vector<uint64_t> dims(map.dims.begin(), map.dims.end()), strides(map.strides.begin(), map.strides.end());
  std::vector<unsigned> box(map.box.begin(), map.box.end()), steps(map.dims.size(), 1);
  if (dims.back() == 0)
    dims.back() = strides.empty() ? uint64_t(bytes) / byteSize(map.elem) : uint64_t(bytes) / strides.back();
  int swizzle = map.swizzle == 128 ? 3 : map.swizzle == 64 ? 2 : map.swizzle == 32 ? 1 : 0;
  BoundLaunch::Map out;
  // No interleave, promotion of L2 fetches to 256 bytes, zeros outside the tensor.
  TRY(cuTensorMapEncodeTiled, &out, type, unsigned(dims.size()), reinterpret_cast<void *>(address), dims.data(), strides.data(), box.data(), steps.data(), 0,
      swizzle, 3, 0);
  return out;
}

Status Device::launch(const BoundLaunch &bound) const {
  const Launch &l = *bound.launch;
  DriverTable::LaunchAttribute cluster{4, 0, {unsigned(l.cluster), 1, 1}}; // cluster dimensions
  DriverTable::LaunchConfig config{{unsigned(l.grid[0]), unsigned(l.grid[1]), unsigned(l.grid[2])}, {unsigned(l.threads), 1, 1}, unsigned(l.smem), stream,
                                   &cluster, l.cluster > 1 ? 1u : 0u};
  if (Status s = call(cu->cuLaunchKernelEx(&config, bound.function, const_cast<void **>(bound.arguments.data()), nullptr), "cuLaunchKernelEx"); !s)
    return internalError(l.kernel + ": " + s.error().message);
  return {};
}

Status Device::synchronize() const {
  TRY(cuCtxSynchronize);
  return {};
}

Status Device::beginCapture() const {
  TRY(cuStreamBeginCapture, stream, 0);
  return {};
}

Result<void *> Device::endCapture() const {
  void *graph = nullptr, *executable = nullptr;
  TRY(cuStreamEndCapture, stream, &graph);
  TRY(cuGraphInstantiate, &executable, graph, 0);
  TRY(cuGraphDestroy, graph);
  return executable;
}

Result<double> Device::replay(void *graph) const {
  float ms = 0;
  TRY(cuEventRecord, start, stream);
  TRY(cuGraphLaunch, graph, stream);
  TRY(cuEventRecord, stop, stream);
  TRY(cuEventSynchronize, stop);
  TRY(cuEventElapsedTime, &ms, start, stop);
  return double(ms) * 1e3;
}

Status Device::destroyGraph(void *graph) const {
  TRY(cuGraphExecDestroy, graph);
  return {};
}

} // namespace dsv3::bench
