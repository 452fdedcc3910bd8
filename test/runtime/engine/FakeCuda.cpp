// The part of the CUDA driver's interface that runtime/cuda uses, over host memory. Kernels are those of the fake
// model. Streams run at once, except while they are captured. It refuses what the real driver refuses: work in a
// capture that cannot be captured, more shared memory than was asked for, images of another version.
//
// $FAKE_CUDA says what to pretend, words with commas between, read by cuInit:
//   no_device        there is no GPU
//   capability=8.0   of the only GPU (9.0 without)
//   driver=12040     the version; under 12.8 machine code and PTX 8.7 are refused
//   no_cubin         machine code is refused, PTX is not
//   memory=BYTES     of the device (1 GiB without)
//   bad_launch       running a graph ends with an illegal access
//   nan_some         logit 5 of rows that the fake model says overflow is none
// $FAKE_CUDA_LOG names a file that gets a line per call that moves, runs, waits or allocates.
#include "FakeKernels.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

using Code = int;
constexpr Code kOk = 0, kInvalid = 1, kNoMemory = 2, kNoDevice = 100, kNoBinary = 209, kOldPtx = 222, kNotFound = 500, kIllegal = 700, kInCapture = 900;

struct Config {
  bool noDevice = false, noCubin = false, badLaunch = false;
  int major = 9, minor = 0, version = 13000;
  size_t memory = size_t(1) << 30;
} config;
size_t used = 0;
std::map<void *, size_t> blocks;

void log(const std::string &line) {
  const char *path = std::getenv("FAKE_CUDA_LOG");
  if (!path)
    return;
  if (std::FILE *file = std::fopen(path, "a")) {
    std::fprintf(file, "%s\n", line.c_str());
    std::fclose(file);
  }
}

struct Module {
  std::string text;
};
struct Function {
  const fake::Kernel *kernel;
  int shared = 48 * 1024;
};
/// Words of the arguments: scalars' address, buffers, numbers.
struct Call {
  const fake::Kernel *kernel;
  std::vector<uint64_t> words;

  void run() const {
    if (kernel->raw)
      return kernel->raw(words.data());
    const int64_t *step = reinterpret_cast<const int64_t *>(words[0]);
    std::vector<const void *> bufs;
    for (unsigned i = 0; i < kernel->bufs; ++i)
      bufs.push_back(reinterpret_cast<const void *>(words[1 + i]));
    std::vector<int64_t> scalars(step, step + DSV3_SCALAR_COUNT);
    for (unsigned i = 0; i < kernel->consts; ++i)
      scalars.push_back(int64_t(words[1 + kernel->bufs + i]));
    int count = kernel->tiles >= 0 ? kernel->tiles : scalars[DSV3_SCALAR_COUNT] ? DSV3_SCALAR_TOKENS : DSV3_SCALAR_SEQS;
    alignas(64) static char scratch[4096];
    kernel->fn(bufs.data(), scalars.data(), 0, step[count], scratch);
  }
};
/// What is put on a stream runs as late as it may: when somebody waits. Host memory that is touched too early shows.
struct Stream {
  bool capturing = false, failed = false;
  std::vector<Call> captured;
  std::deque<std::function<void()>> pending;
  uint64_t begun = 0; ///< pieces of work put there since the start

  void add(std::function<void()> work) {
    pending.push_back(std::move(work));
    ++begun;
  }
  Code wait(uint64_t until) {
    for (; begun - pending.size() < until; pending.pop_front())
      pending.front()();
    return capturing ? kInCapture : failed ? kIllegal : kOk;
  }
};
std::set<Stream *> streams;
void waitForAll() {
  for (Stream *s : streams)
    s->wait(s->begun);
}
struct Event {
  Stream *stream = nullptr;
  uint64_t until = 0;
};

constexpr uint64_t kMapMagic = 0x70616d726f736e74;

struct LaunchConfig {
  unsigned grid[3], block[3], smem;
  void *stream;
  void *attributes;
  unsigned count;
};

} // namespace

#define API extern "C" __attribute__((visibility("default"))) Code

API cuInit(unsigned) {
  config = Config();
  fake::nanSome = false;
  std::string text = std::getenv("FAKE_CUDA") ? std::getenv("FAKE_CUDA") : "";
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    std::string word = text.substr(begin, end - begin), value = word.substr(std::min(word.find('=') + 1, word.size()));
    begin = end + 1;
    config.noDevice |= word == "no_device";
    config.noCubin |= word == "no_cubin";
    config.badLaunch |= word == "bad_launch";
    fake::nanSome |= word == "nan_some";
    if (word.rfind("capability=", 0) == 0)
      std::sscanf(value.c_str(), "%d.%d", &config.major, &config.minor);
    if (word.rfind("driver=", 0) == 0)
      config.version = std::atoi(value.c_str());
    if (word.rfind("memory=", 0) == 0)
      config.memory = size_t(std::atoll(value.c_str()));
  }
  return config.noDevice ? kNoDevice : kOk;
}
API cuDriverGetVersion(int *version) { return *version = config.version, kOk; }
API cuGetErrorString(Code code, const char **text) {
  *text = code == kNoMemory ? "out of memory" : code == kNoBinary ? "no kernel image is available for execution on the device"
        : code == kOldPtx ? "the provided PTX was compiled with an unsupported toolchain." : code == kIllegal ? "an illegal memory access was encountered"
        : code == kInCapture ? "operation not permitted when stream is capturing" : code == kNotFound ? "named symbol not found" : "invalid argument";
  return kOk;
}
API cuDeviceGetCount(int *count) { return *count = 1, kOk; }
API cuDeviceGet(int *device, int ordinal) { return *device = ordinal, ordinal == 0 ? kOk : kInvalid; }
API cuDeviceGetName(char *name, int bytes, int) { return std::snprintf(name, size_t(bytes), "Fake GPU"), kOk; }
API cuDeviceGetAttribute(int *value, int attribute, int) {
  *value = attribute == 75 ? config.major : attribute == 76 ? config.minor : attribute == 97 ? 232448 : 132;
  return kOk;
}
API cuDevicePrimaryCtxRetain(void **context, int) { return *context = &config, kOk; }
API cuDevicePrimaryCtxRelease_v2(int) { return kOk; }
API cuCtxSetCurrent(void *context) { return context == &config ? kOk : kInvalid; }

API cuMemGetInfo_v2(size_t *free, size_t *total) { return *total = config.memory, *free = config.memory - std::min(config.memory, used), kOk; }
API cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  log("alloc " + std::to_string(bytes));
  if (used + bytes > config.memory)
    return kNoMemory;
  void *block = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(block, 0xee, bytes); // device memory comes as it is
  used += blocks[block] = bytes;
  *address = reinterpret_cast<uint64_t>(block);
  return kOk;
}
API cuMemFree_v2(uint64_t address) {
  void *block = reinterpret_cast<void *>(address);
  auto known = blocks.find(block);
  if (known == blocks.end())
    return kInvalid;
  waitForAll();
  used -= known->second;
  blocks.erase(known);
  std::free(block);
  return kOk;
}
API cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  log("pin " + std::to_string(bytes));
  return *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096), kOk;
}
API cuMemFreeHost(void *memory) { return std::free(memory), kOk; }
API cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *stream) {
  static_cast<Stream *>(stream)->add([=] { std::memset(reinterpret_cast<void *>(to), value, bytes); });
  return kOk;
}
/// On the stream, which must not be capturing: memory that both sides see.
Code copy(void *to, const void *from, size_t bytes, void *stream) {
  if (static_cast<Stream *>(stream)->capturing)
    return kInCapture;
  return static_cast<Stream *>(stream)->add([=] { std::memcpy(to, from, bytes); }), kOk;
}
API cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  return copy(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes, stream);
}
API cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
  log("to device " + std::to_string(bytes));
  return copy(reinterpret_cast<void *>(to), from, bytes, stream);
}
API cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
  log("to host " + std::to_string(bytes));
  return copy(to, reinterpret_cast<const void *>(from), bytes, stream);
}

API cuStreamCreate(void **stream, unsigned) {
  auto *made = new Stream;
  streams.insert(made);
  return *stream = made, kOk;
}
API cuStreamDestroy_v2(void *stream) {
  auto *s = static_cast<Stream *>(stream);
  s->wait(s->begun);
  streams.erase(s);
  return delete s, kOk;
}
API cuStreamSynchronize(void *stream) {
  log("wait");
  auto *s = static_cast<Stream *>(stream);
  return s->wait(s->begun);
}
API cuEventCreate(void **event, unsigned) { return *event = new Event, kOk; }
API cuEventDestroy_v2(void *event) { return delete static_cast<Event *>(event), kOk; }
API cuEventRecord(void *event, void *stream) {
  auto *s = static_cast<Stream *>(stream);
  return *static_cast<Event *>(event) = {s, s->begun}, kOk;
}
API cuEventSynchronize(void *event) {
  log("wait");
  auto *e = static_cast<Event *>(event);
  return e->stream ? e->stream->wait(e->until) : kOk;
}
API cuEventElapsedTime(float *ms, void *, void *) { return *ms = 0.5f, kOk; }

API cuModuleLoadDataEx(void **module, const void *image, unsigned, int *, void **values) {
  std::string text(static_cast<const char *>(image)); // both kinds are text here
  bool ptx = text.rfind(".version", 0) == 0;
  log(std::string("load ") + (ptx ? "ptx" : "cubin"));
  std::snprintf(static_cast<char *>(values[0]), 64, "the log of the driver\nmore");
  if (config.version < 12080 || (!ptx && config.noCubin))
    return ptx ? kOldPtx : kNoBinary;
  return *module = new Module{text}, kOk;
}
API cuModuleUnload(void *module) { return delete static_cast<Module *>(module), kOk; }
API cuModuleGetFunction(void **function, void *module, const char *name) {
  for (const fake::Kernel &k : fake::kKernels)
    if (k.name == std::string(name) && static_cast<Module *>(module)->text.find(" " + std::string(name) + " ") != std::string::npos)
      return *function = new Function{&k}, kOk;
  if (fake::kFillKernel.name == std::string(name))
    return *function = new Function{&fake::kFillKernel}, kOk;
  if (fake::kStepKernel.name == std::string(name))
    return *function = new Function{&fake::kStepKernel}, kOk;
  return kNotFound;
}
API cuFuncSetAttribute(void *function, int attribute, int value) {
  if (attribute != 8 || value > 232448)
    return kInvalid;
  return static_cast<Function *>(function)->shared = value, kOk;
}
API cuTensorMapEncodeTiled(void *image, int type, unsigned rank, void *address, const uint64_t *dims, const uint64_t *strides, const unsigned *box,
                           const unsigned *steps, int, int, int, int) {
  if (reinterpret_cast<uintptr_t>(image) % 64 || reinterpret_cast<uintptr_t>(address) % 16 || rank < 1 || rank > 5 || type < 0)
    return kInvalid;
  for (unsigned i = 0; i < rank; ++i)
    if (!dims[i] || !box[i] || box[i] > 256 || steps[i] != 1 || (i && strides[i - 1] % 16))
      return kInvalid;
  log("map " + std::to_string(dims[0]) + " x " + std::to_string(rank > 1 ? dims[1] : 1));
  uint64_t words[2] = {reinterpret_cast<uint64_t>(address), kMapMagic};
  return std::memcpy(image, words, sizeof words), kOk;
}
API cuLaunchKernelEx(const LaunchConfig *launch, void *function, void **params, void **) {
  const Function &f = *static_cast<Function *>(function);
  Stream &stream = *static_cast<Stream *>(launch->stream);
  if (!launch->grid[0] || !launch->block[0] || int(launch->smem) > f.shared)
    return kInvalid;
  Call call{f.kernel, {}};
  for (unsigned i = 0; i < 1 + f.kernel->bufs + f.kernel->consts; ++i) {
    const uint64_t *words = static_cast<const uint64_t *>(params[i]);
    if (i == 1 && f.kernel->kvMap && words[1] != kMapMagic)
      return kInvalid;
    call.words.push_back(words[0]);
  }
  log(std::string(stream.capturing ? "capture " : "launch ") + f.kernel->name + (f.kernel->raw ? " " + std::to_string(16 * call.words[2]) : ""));
  if (stream.capturing)
    stream.captured.push_back(call);
  else
    stream.add([call] { call.run(); });
  return kOk;
}

API cuStreamBeginCapture_v2(void *stream, int) { return static_cast<Stream *>(stream)->capturing = true, kOk; }
API cuStreamEndCapture(void *stream, void **graph) {
  Stream &s = *static_cast<Stream *>(stream);
  s.capturing = false;
  return *graph = new std::vector<Call>(std::move(s.captured)), s.captured.clear(), kOk;
}
API cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long) {
  return *executable = new std::vector<Call>(*static_cast<std::vector<Call> *>(graph)), kOk;
}
API cuGraphDestroy(void *graph) { return delete static_cast<std::vector<Call> *>(graph), kOk; }
API cuGraphExecDestroy(void *graph) { return delete static_cast<std::vector<Call> *>(graph), kOk; }
API cuGraphLaunch(void *graph, void *stream) {
  log("graph");
  auto *s = static_cast<Stream *>(stream);
  s->add([s, graph] {
    s->failed |= config.badLaunch;
    for (const Call &call : *static_cast<std::vector<Call> *>(graph))
      if (!s->failed)
        call.run();
  });
  return kOk;
}
