#include "tools/dsv3-bench/Device.h"

#include "runtime/core/MappedFile.h"

#include <algorithm>

namespace dsv3::bench {

/// Returns the driver's error from the enclosing function. Work is ordered on the GPU's one stream.
#define TRY(function, ...)                                                                                                          \
  if (Status s_ = gpu->driver().check(gpu->driver().function(__VA_ARGS__), #function); !s_)                                          \
  return s_.error()

Result<std::unique_ptr<Device>> Device::open() {
  constexpr int64_t kSharedMemory = 232448; // of a block of an H100 or H200
  Manifest::Device target{};
  target.arch = "sm_90a";
  target.smem = kSharedMemory;
  Result<std::unique_ptr<cuda::Gpu>> opened = cuda::Gpu::open(target);
  if (!opened)
    return opened.error();
  std::unique_ptr<Device> device(new Device);
  device->gpu = std::move(*opened);
  const std::unique_ptr<cuda::Gpu> &gpu = device->gpu;
  TRY(cuEventCreate, &device->start, 0);
  TRY(cuEventCreate, &device->stop, 0);
  return device;
}

//===-- Memory ------------------------------------------------------------===//

Result<Memory> Device::allocate(int64_t bytes) const {
  Result<cuda::DeviceMemory> got = gpu->allocate(uint64_t(bytes + Memory::kGuard), "a buffer of the case", false);
  if (!got)
    return got.error();
  Memory m;
  m.memory = std::move(*got);
  m.size = bytes;
  return m;
}

Status Device::upload(const Memory &to, int64_t offset, const void *from, int64_t bytes) const {
  return gpu->upload(to.address() + uint64_t(offset), from, uint64_t(bytes));
}

Status Device::download(void *to, const Memory &from, int64_t offset, int64_t bytes) const {
  if (Status s = gpu->download(to, from.address() + uint64_t(offset), uint64_t(bytes)); !s)
    return s;
  return gpu->wait();
}

Status Device::copy(const Memory &to, int64_t toOffset, const Memory &from, int64_t fromOffset, int64_t bytes) const {
  TRY(cuMemcpyDtoDAsync, to.address() + uint64_t(toOffset), from.address() + uint64_t(fromOffset), size_t(bytes), gpu->stream());
  return {};
}

Status Device::fill(const Memory &to, int64_t offset, uint8_t value, int64_t bytes) const {
  if (bytes > 0)
    TRY(cuMemsetD8Async, to.address() + uint64_t(offset), value, size_t(bytes), gpu->stream());
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

//===-- Kernels -----------------------------------------------------------===//

Result<void *> Device::loadModule(const std::string &cubin) const {
  Result<MappedFile> file = MappedFile::open(cubin);
  if (!file)
    return file.error();
  std::string image(file->bytes()); // ends with a zero, as the driver wants of text
  char log[1024] = "";
  int options[] = {cuda::kErrorLog, cuda::kErrorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(uintptr_t(sizeof log - 1))}, *module = nullptr;
  if (Status s = gpu->driver().check(gpu->driver().cuModuleLoadDataEx(&module, image.c_str(), 2, options, values), "cuModuleLoadDataEx"); !s)
    return internalError(cubin + ": " + s.error().message + " " + printable(log, 300));
  return module;
}

Status Device::unloadModule(void *module) const {
  TRY(cuModuleUnload, module);
  return {};
}

Result<void *> Device::function(void *module, const std::string &symbol, int64_t smem, int64_t cluster) const {
  constexpr int64_t kWithoutAsking = 48 * 1024, kPortableCluster = 8;
  constexpr int kLargeClusters = 14; // of cuFuncSetAttribute
  void *function = nullptr;
  TRY(cuModuleGetFunction, &function, module, symbol.c_str());
  if (smem > kWithoutAsking)
    TRY(cuFuncSetAttribute, function, cuda::kMaxDynamicShared, int(smem));
  if (cluster > kPortableCluster)
    TRY(cuFuncSetAttribute, function, kLargeClusters, 1);
  return function;
}

Result<cuda::TensorMapImage> Device::encode(const TensorMap &map, uint64_t address, int64_t bytes) const {
  static constexpr std::pair<DType, int> types[] = {{DType::U8, 0}, {DType::I32, 3}, {DType::F32, 7}, {DType::BF16, 9}};
  constexpr int noInterleave = 0, promoteTo256Bytes = 3, fillZeros = 0;
  const auto *type = std::find_if(std::begin(types), std::end(types), [&](auto &entry) { return entry.first == map.elem; });
  if (type == std::end(types))
    return internalError("expected a tensor map of U8, I32, F32 or BF16");
  std::vector<uint64_t> dims(map.dims.begin(), map.dims.end()), strides(map.strides.begin(), map.strides.end());
  std::vector<unsigned> box(map.box.begin(), map.box.end()), steps(map.dims.size(), 1);
  if (dims.back() == 0) { // whole rows or matrices, which may be shorter than the distance between them
    uint64_t extent = byteSize(map.elem) * (dims.size() > 1 ? dims[0] : 1), step = strides.empty() ? byteSize(map.elem) : strides.back();
    for (size_t i = 1; i + 1 < dims.size(); ++i)
      extent += (dims[i] - 1) * strides[i - 1];
    dims.back() = (uint64_t(bytes) - extent) / step + 1;
  }
  int swizzle = map.swizzle == 128 ? 3 : map.swizzle == 64 ? 2 : map.swizzle == 32 ? 1 : 0;
  cuda::TensorMapImage out{};
  TRY(cuTensorMapEncodeTiled, &out, type->second, unsigned(dims.size()), reinterpret_cast<void *>(address), dims.data(), strides.data(), box.data(),
      steps.data(), noInterleave, swizzle, promoteTo256Bytes, fillZeros);
  return out;
}

Status Device::launch(const BoundLaunch &bound) const {
  const Launch &l = *bound.launch;
  cuda::LaunchAttribute cluster{cuda::kClusterDimension, 0, {unsigned(l.cluster), 1, 1}};
  cuda::LaunchConfig config{{unsigned(l.grid[0]), unsigned(l.grid[1]), unsigned(l.grid[2])}, {unsigned(l.threads), 1, 1}, unsigned(l.smem), gpu->stream(),
                            &cluster, l.cluster > 1 ? 1u : 0u};
  Status s = gpu->driver().check(gpu->driver().cuLaunchKernelEx(&config, bound.function, const_cast<void **>(bound.arguments.data()), nullptr), "cuLaunchKernelEx");
  return s ? s : Status(internalError(l.kernel + ": " + s.error().message));
}

//===-- Graphs ------------------------------------------------------------===//

Status Device::beginCapture() const {
  constexpr int kGlobal = 0;
  TRY(cuStreamBeginCapture, gpu->stream(), kGlobal);
  return {};
}

Result<void *> Device::endCapture() const {
  void *graph = nullptr, *executable = nullptr;
  TRY(cuStreamEndCapture, gpu->stream(), &graph);
  TRY(cuGraphInstantiate, &executable, graph, 0);
  TRY(cuGraphDestroy, graph);
  return executable;
}

Result<double> Device::replay(void *graph) const {
  float ms = 0;
  TRY(cuEventRecord, start, gpu->stream());
  TRY(cuGraphLaunch, graph, gpu->stream());
  TRY(cuEventRecord, stop, gpu->stream());
  TRY(cuEventSynchronize, stop);
  TRY(cuEventElapsedTime, &ms, start, stop);
  return double(ms) * 1e3;
}

Status Device::destroyGraph(void *graph) const {
  TRY(cuGraphExecDestroy, graph);
  return {};
}

} // namespace dsv3::bench
