#include "runtime/cuda/Gpu.h"

#include "runtime/core/Json.h"
#include "runtime/engine/Memory.h"

#include <algorithm>
#include <cstring>

namespace dsv3::cuda {

//===-- Memory ------------------------------------------------------------===//

DeviceMemory &DeviceMemory::operator=(DeviceMemory &&other) noexcept {
  std::swap(gpu, other.gpu);
  std::swap(at, other.at);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (gpu && at)
    gpu->driver().cuMemFree(at);
}

PinnedMemory &PinnedMemory::operator=(PinnedMemory &&other) noexcept {
  std::swap(gpu, other.gpu);
  std::swap(start, other.start);
  std::swap(size, other.size);
  return *this;
}

PinnedMemory::~PinnedMemory() {
  if (gpu && start)
    gpu->driver().cuMemFreeHost(start);
}

Result<DeviceMemory> Gpu::allocate(uint64_t bytes, const char *what, bool zero) const {
  DeviceMemory m;
  bytes = std::max<uint64_t>(bytes, 16); // an empty pool has an address too
  if (Code code = cu->cuMemAlloc(&m.at, bytes))
    return doesNotFitError("GPU memory: cannot get " + sizeText(bytes) + " for " + what + ": " + cu->text(code));
  m.gpu = this;
  if (zero)
    if (Status s = cu->check(cu->cuMemsetD8Async(m.at, 0, bytes, work), "cuMemsetD8Async"); !s)
      return s.error();
  return m;
}

Result<PinnedMemory> Gpu::allocatePinned(uint64_t bytes, const char *what) const {
  PinnedMemory m;
  void *start = nullptr;
  if (Code code = cu->cuMemHostAlloc(&start, std::max<uint64_t>(bytes, 64), 0))
    return doesNotFitError("pinned memory: cannot get " + sizeText(bytes) + " for " + what + ": " + cu->text(code));
  m.gpu = this;
  m.start = static_cast<uint8_t *>(start);
  m.size = bytes;
  return m;
}

Result<uint64_t> Gpu::freeBytes() const {
  size_t free = 0, total = 0;
  if (Status s = cu->check(cu->cuMemGetInfo(&free, &total), "cuMemGetInfo"); !s)
    return s.error();
  return uint64_t(free);
}

Status Gpu::upload(DevicePtr to, const void *from, uint64_t bytes) const {
  return cu->check(cu->cuMemcpyHtoDAsync(to, from, bytes, work), "cuMemcpyHtoDAsync");
}

Status Gpu::download(void *to, DevicePtr from, uint64_t bytes) const {
  return cu->check(cu->cuMemcpyDtoHAsync(to, from, bytes, work), "cuMemcpyDtoHAsync");
}

namespace {
/// A pinned buffer and the event that says its copy has left.
struct Piece {
  PinnedMemory memory;
  void *sent = nullptr;
  bool inFlight = false;
};
} // namespace

Status Gpu::uploadFile(DevicePtr to, std::string_view from) const {
  constexpr uint64_t pieceBytes = uint64_t(32) << 20;
  uint64_t size = std::min<uint64_t>(pieceBytes, from.size());
  Piece pieces[2];
  Status status;
  for (Piece &p : pieces) {
    Result<PinnedMemory> memory = allocatePinned(size, "the weights on their way");
    if (!memory)
      return memory.error();
    p.memory = std::move(*memory);
    if (status)
      status = cu->check(cu->cuEventCreate(&p.sent, 2), "cuEventCreate"); // no timing
  }
  for (uint64_t at = 0, i = 0; status && at < from.size(); at += size, ++i) {
    Piece &p = pieces[i % 2];
    uint64_t bytes = std::min<uint64_t>(size, from.size() - at);
    if (p.inFlight)
      status = cu->check(cu->cuEventSynchronize(p.sent), "cuEventSynchronize");
    if (status)
      std::memcpy(p.memory.data(), from.data() + at, bytes);
    if (status)
      status = upload(to + at, p.memory.data(), bytes);
    if (status)
      status = cu->check(cu->cuEventRecord(p.sent, work), "cuEventRecord");
    p.inFlight = true;
  }
  if (status)
    status = wait();
  for (Piece &p : pieces)
    if (p.sent)
      cu->cuEventDestroy(p.sent);
  return status;
}

//===-- The device --------------------------------------------------------===//

namespace {
/// "sm_90a" -> 9.0
std::pair<int, int> capabilityOf(const std::string &arch) {
  int number = 0;
  for (char c : arch)
    if (c >= '0' && c <= '9')
      number = number * 10 + (c - '0');
  return {number / 10, number % 10};
}

std::string dotted(std::pair<int, int> version) { return std::to_string(version.first) + "." + std::to_string(version.second); }
} // namespace

Status Gpu::choose(const Manifest::Device &target) {
  int count = 0;
  if (Status s = cu->check(cu->cuDeviceGetCount(&count), "cuDeviceGetCount"); !s)
    return s;
  std::pair<int, int> wanted = capabilityOf(target.arch);
  std::string seen;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    char text[256] = "";
    int major = 0, minor = 0, shared = 0;
    for (Code code : {cu->cuDeviceGet(&device, ordinal), cu->cuDeviceGetName(text, sizeof text - 1, device),
                      cu->cuDeviceGetAttribute(&major, kComputeMajor, device), cu->cuDeviceGetAttribute(&minor, kComputeMinor, device),
                      cu->cuDeviceGetAttribute(&shared, kMostSharedMemory, device)})
      if (Status s = cu->check(code, "reading a GPU's attributes"); !s)
        return s;
    deviceName = printable(text);
    if (std::pair(major, minor) == wanted && shared >= target.smem)
      return {};
    seen += (seen.empty() ? "" : ", ") + deviceName + " of " + dotted({major, minor}) +
            (std::pair(major, minor) == wanted ? " with " + std::to_string(shared) + " bytes of shared memory" : "");
  }
  return unsupportedError("expected a GPU of compute capability " + dotted(wanted) + " (" + target.arch + " code runs on no other) with " +
                          std::to_string(target.smem) + " bytes of shared memory a block, got " + seen +
                          ": compile the model for x86-64 to run it on this machine's CPU");
}

Status Gpu::start() {
  if (Status s = cu->check(cu->cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain"); !s)
    return s;
  if (Status s = enter(); !s)
    return s;
  return cu->check(cu->cuStreamCreate(&work, 1), "cuStreamCreate"); // not synchronised with the default stream
}

Result<std::unique_ptr<Gpu>> Gpu::open(const Manifest::Device &target) {
  Result<std::unique_ptr<Driver>> driver = Driver::load();
  if (!driver)
    return Error{driver.error().code, driver.error().message + ": " + target.arch + " code needs a GPU, compile the model for x86-64 to run it on a CPU"};
  std::unique_ptr<Gpu> gpu(new Gpu);
  gpu->cu = std::move(*driver);
  if (Status s = gpu->choose(target); !s)
    return s.error();
  if (Status s = gpu->start(); !s)
    return s.error();
  return gpu;
}

Gpu::~Gpu() {
  if (work)
    cu->cuStreamDestroy(work);
  if (context)
    cu->cuDevicePrimaryCtxRelease(device);
}

} // namespace dsv3::cuda
