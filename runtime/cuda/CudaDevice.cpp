#include "runtime/cuda/CudaDevice.h"

#include "runtime/core/Json.h"
#include "runtime/engine/ModuleCheck.h"

#include <algorithm>
#include <cstring>

namespace dsv3 {

using cuda::DevicePtr;
using cuda::Driver;
using cuda::TensorMapImage;

struct CudaDevice::Bound {
  std::vector<uint64_t> words; ///< pointers and numbers
  std::vector<TensorMapImage> maps;
  std::vector<void *> arguments; ///< into the two above
};

//===-- Loading -----------------------------------------------------------===//

CudaDevice::CudaDevice(const Artifact &artifact) : artifact(artifact), desc(artifact.module()) {}

Result<std::unique_ptr<CudaDevice>> CudaDevice::create(const Artifact &artifact, const Options &options) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(artifact));
  if (Status s = device->load(options); !s)
    return s.error();
  return device;
}

KvBudget CudaDevice::budget(const Options &options, uint64_t freeBytes) const {
  // The driver needs memory for code, graphs and its own heaps.
  constexpr uint64_t mostReserved = uint64_t(3) << 29;
  const Manifest::Memory &memory = artifact.target().memory;
  KvBudget b;
  b.pageBytes = memory.kvPage;
  b.pagesPerSequence = memory.kvPagesMin;
  b.sequences = artifact.manifest().config.maxBatch;
  b.requestedPages = options.kvPages;
  b.usableBytes = freeBytes - std::min(freeBytes / 10, mostReserved);
  b.otherBytes = kScalarBytes;
  for (int pool : {DSV3_POOL_WEIGHTS, DSV3_POOL_ARENA, DSV3_POOL_STEP, DSV3_POOL_PERSIST})
    b.otherBytes += desc.pool_bytes[pool];
  b.memory = "GPU memory";
  return b;
}

Status CudaDevice::load(const Options &options) {
  Result<std::unique_ptr<cuda::Gpu>> opened = cuda::Gpu::open(*artifact.target().device);
  if (!opened)
    return opened.error();
  gpu = std::move(*opened);
  Result<uint64_t> free = gpu->freeBytes();
  if (!free)
    return free.error();
  KvBudget b = budget(options, *free);
  Result<int64_t> fit = kvPagesFor(b);
  if (!fit)
    return fit.error();
  pages = *fit;
  if (std::string shortage = kvShortage(b, pages, desc.kv_page_tokens); !shortage.empty())
    notes.push_back(shortage);
  kvBytes = uint64_t(pages) * b.pageBytes;
  if (Status s = checkFields(); !s)
    return s;
  if (Status s = allocate(); !s)
    return s;
  if (Status s = bindLaunches(); !s)
    return s;
  if (Status s = loadWeights(); !s)
    return s;
  return captureAll();
}

Status CudaDevice::checkFields() const {
  for (uint32_t i = 0; i < desc.n_fields; ++i)
    if (desc.fields[i].offset % kPiece)
      return checkpointError("field " + printable(desc.fields[i].name) + " of the step buffer: expected a multiple of " + std::to_string(kPiece) +
                             " bytes as its place, got " + std::to_string(desc.fields[i].offset));
  return {};
}

Status CudaDevice::allocate() {
  const char *const names[] = {"weights", "the kv cache", "the arena", "the step buffer", "results"};
  pools.resize(DSV3_POOL_COUNT);
  for (int i = 0; i < DSV3_POOL_COUNT; ++i) {
    uint64_t bytes = i == DSV3_POOL_KV ? kvBytes : i == DSV3_POOL_STEP ? stepBytes() : desc.pool_bytes[i];
    // Zeros: rows that no kernel has written yet may be multiplied by zero, and then must be numbers.
    // Drawn weights are written element by element, so that padding stays.
    Result<cuda::DeviceMemory> memory = gpu->allocate(bytes, names[i], i != DSV3_POOL_WEIGHTS || artifact.target().drawn);
    if (!memory)
      return memory.error();
    pools[i] = std::move(*memory);
    base[i] = pools[i].address() + (i == DSV3_POOL_STEP ? kScalarBytes : 0);
  }
  return allocateSlots();
}

Status CudaDevice::allocateSlots() {
  // Programs that serve leave a row per sequence; scoring asks for more when it runs.
  uint64_t most = 0;
  for (uint32_t p = 0; p < desc.n_programs; ++p) {
    uint64_t bytes = 0;
    for (const char *name : {"logits", "sampled"})
      if (const dsv3_output_desc *out = findOutput(desc.programs[p], name); out && outputRows(desc.programs[p], name) == desc.programs[p].seqs)
        bytes += desc.programs[p].seqs * out->cols * elemBytes(out->elem);
    most = std::max(most, bytes);
  }
  constexpr unsigned withoutTiming = 2;
  for (Slot &slot : slots) {
    Result<cuda::PinnedMemory> step = gpu->allocatePinned(stepBytes(), "the step buffer");
    if (!step)
      return step.error();
    slot.step = std::move(*step);
    std::memset(slot.step.data(), 0, slot.step.bytes());
    if (Status s = growResults(slot, most); !s)
      return s;
    if (Status s = gpu->driver().check(gpu->driver().cuEventCreate(&slot.done, withoutTiming), "cuEventCreate"); !s)
      return s;
  }
  return {};
}

Status CudaDevice::growResults(Slot &slot, uint64_t bytes) {
  if (bytes <= slot.results.bytes() && slot.results.data())
    return {};
  Result<cuda::PinnedMemory> memory = gpu->allocatePinned(bytes, "results");
  if (!memory)
    return memory.error();
  slot.results = std::move(*memory);
  return {};
}

//===-- Weights -----------------------------------------------------------===//

Status CudaDevice::loadWeights() {
  return artifact.target().drawn ? drawWeights() : gpu->uploadFile(base[DSV3_POOL_WEIGHTS], artifact.weights());
}

Status CudaDevice::drawWeights() {
  for (const Manifest::Weight &w : artifact.target().weights) {
    if (w.storedAt)
      if (Status s = gpu->upload(base[DSV3_POOL_WEIGHTS] + w.offset, artifact.weights().data() + *w.storedAt, w.bytes); !s)
        return s;
    for (const DummyFill &fill : w.draw)
      if (Status s = draw(fill, DSV3_POOL_WEIGHTS); !s)
        return Error{s.error().code, "weight " + printable(w.name) + ": " + s.error().message};
  }
  return gpu->wait();
}

Status CudaDevice::draw(const DummyFill &fill, uint32_t pool) {
  if (!code.fill())
    return unsupportedError("expected an artifact of compile-model --load-format=dummy, which has a kernel that draws");
  constexpr int64_t mostBlocks = 0x7fffffff;
  constexpr unsigned threads = 256; // those the kernel was compiled for
  if (fill.rows() > mostBlocks)
    return internalError("expected at most " + std::to_string(mostBlocks) + " runs to draw, got " + std::to_string(fill.rows()));
  std::vector<int64_t> words = fill.words();
  Result<cuda::DeviceMemory> memory = gpu->allocate(words.size() * sizeof(int64_t), "what a weight is drawn from", false);
  if (!memory)
    return memory.error();
  if (Status s = gpu->upload(memory->address(), words.data(), words.size() * sizeof(int64_t)); !s)
    return s;
  uint64_t scalars = base[DSV3_POOL_STEP] - kScalarBytes, at = memory->address(), to = base[pool];
  void *arguments[] = {&scalars, &at, &to};
  cuda::LaunchConfig config{{unsigned(fill.rows()), 1, 1}, {threads, 1, 1}, 0, gpu->stream(), nullptr, 0};
  const Driver &cu = gpu->driver();
  Status s = cu.check(cu.cuLaunchKernelEx(&config, code.fill(), arguments, nullptr), "cuLaunchKernelEx");
  return s ? gpu->wait() : s; // `words` is read until then
}

//===-- Launches ----------------------------------------------------------===//

namespace {
/// The grids of all programs, in order of first use.
struct Collector {
  std::vector<const dsv3_grid_launch *> all;
};

std::vector<const dsv3_grid_launch *> collectLaunches(const dsv3_module_desc &desc) {
  Collector found;
  dsv3_host_api api{};
  api.abi = DSV3_ABI;
  api.bytes = sizeof api;
  api.range = [](void *, const dsv3_launch *, int64_t) {};
  api.tap = [](void *, uint32_t, dsv3_ref, int64_t) {};
  api.grid = [](void *ctx, const dsv3_grid_launch *l) { static_cast<Collector *>(ctx)->all.push_back(l); };
  dsv3_step_host step{};
  for (uint32_t p = 0; p < desc.n_programs; ++p)
    desc.programs[p].fn(&api, &found, &step);
  return std::move(found.all);
}
} // namespace

Status CudaDevice::bindLaunches() {
  std::vector<const dsv3_grid_launch *> all = collectLaunches(desc);
  std::vector<uint32_t> shared(desc.n_kernels, 0);
  for (const dsv3_grid_launch *l : all)
    shared[l->kernel] = std::max(shared[l->kernel], l->smem);
  Result<cuda::DeviceCode> loaded = cuda::DeviceCode::load(*gpu, artifact, shared, notes);
  if (!loaded)
    return loaded.error();
  code = std::move(*loaded);
  Result<cuda::StepKernels> own = cuda::StepKernels::load(*gpu);
  if (!own)
    return own.error();
  kernels = std::move(*own);
  for (const dsv3_grid_launch *l : all) {
    std::unique_ptr<Bound> &known = launches[l];
    if (known)
      continue;
    if (const char *why = gridFault(desc, *l, kvBytes))
      return internalError("launch " + printable(l->site) + ": " + why);
    Result<std::unique_ptr<Bound>> bound = bind(*l);
    if (!bound)
      return Error{bound.error().code, "launch " + printable(l->site) + ": " + bound.error().message};
    known = std::move(*bound);
  }
  return {};
}

Result<std::unique_ptr<CudaDevice::Bound>> CudaDevice::bind(const dsv3_grid_launch &launch) const {
  auto bound = std::make_unique<Bound>();
  bound->words.reserve(launch.n_params + 1); // arguments point into both lists
  bound->maps.reserve(launch.n_params);
  auto word = [&](uint64_t value) {
    bound->words.push_back(value);
    bound->arguments.push_back(&bound->words.back());
  };
  word(base[DSV3_POOL_STEP] - kScalarBytes);
  for (uint32_t i = 0; i < launch.n_params; ++i) {
    const dsv3_param &param = launch.params[i];
    if (param.kind != DSV3_PARAM_MAP) {
      word(param.kind == DSV3_PARAM_NUMBER ? uint64_t(param.number) : address(param.ref));
      continue;
    }
    Result<TensorMapImage> map = encode(*param.map, param.ref);
    if (!map)
      return Error{map.error().code, "parameter " + std::to_string(i) + ": " + map.error().message};
    bound->maps.push_back(*map);
    bound->arguments.push_back(&bound->maps.back());
  }
  return bound;
}

Result<TensorMapImage> CudaDevice::encode(const dsv3_tensor_map &map, const dsv3_ref &ref) const {
  static constexpr int types[] = {0 /*u8*/, 9 /*bf16*/, 7 /*f32*/, 3 /*i32*/}, bytes[] = {1, 2, 4, 4}; // by DSV3_MAP_*
  constexpr int noInterleave = 0, promoteTo256Bytes = 3, fillZeros = 0;
  uint64_t dims[DSV3_MAP_MAX_RANK];
  unsigned steps[DSV3_MAP_MAX_RANK];
  std::copy(map.dims, map.dims + DSV3_MAP_MAX_RANK, dims);
  std::fill(steps, steps + DSV3_MAP_MAX_RANK, 1u);
  if (uint64_t &last = dims[map.rank - 1]; last == 0) { // whole rows or matrices, which may be shorter than the distance between them
    uint64_t extent = map.dims[0] * bytes[map.elem];
    for (uint32_t i = 1; i + 1 < map.rank; ++i)
      extent += (map.dims[i] - 1) * map.strides[i - 1];
    last = (kvBytes - ref.offset - extent) / map.strides[map.rank - 2] + 1;
  }
  int swizzle = map.swizzle == 128 ? 3 : map.swizzle == 64 ? 2 : map.swizzle == 32 ? 1 : 0;
  TensorMapImage image{};
  Status s = gpu->driver().check(gpu->driver().cuTensorMapEncodeTiled(&image, types[map.elem], map.rank, reinterpret_cast<void *>(address(ref)),
                                                                      dims, map.strides, map.box, steps, noInterleave, swizzle,
                                                                      promoteTo256Bytes, fillZeros),
                                 "cuTensorMapEncodeTiled");
  return s ? Result<TensorMapImage>(image) : s.error();
}

//===-- Programs ----------------------------------------------------------===//

Status CudaDevice::play(uint32_t program, const dsv3_step_host &step) {
  dsv3_host_api api{};
  api.abi = DSV3_ABI;
  api.bytes = sizeof api;
  api.range = [](void *ctx, const dsv3_launch *l, int64_t) {
    static_cast<CudaDevice *>(ctx)->status = internalError("launch " + printable(l->site) + ": expected a grid, got tiles for threads");
  };
  api.tap = [](void *ctx, uint32_t index, dsv3_ref src, int64_t rows) { static_cast<CudaDevice *>(ctx)->tap(index, src, rows); };
  api.grid = [](void *ctx, const dsv3_grid_launch *l) { static_cast<CudaDevice *>(ctx)->launch(*l); };
  status = Status();
  launched = 0;
  desc.programs[program].fn(&api, this, &step);
  return status;
}

void CudaDevice::launch(const dsv3_grid_launch &l) {
  if (!status || (hook && !(status = (*hook)(launched, false))))
    return;
  const Bound &bound = *launches.at(&l);
  cuda::LaunchAttribute cluster{cuda::kClusterDimension, 0, {l.cluster, 1, 1}};
  cuda::LaunchConfig config{{l.grid[0], l.grid[1], l.grid[2]}, {l.block, 1, 1}, l.smem, gpu->stream(), &cluster, l.cluster > 1 ? 1u : 0u};
  const Driver &cu = gpu->driver();
  Status s = cu.check(cu.cuLaunchKernelEx(&config, code.function(l.kernel), const_cast<void **>(bound.arguments.data()), nullptr), "cuLaunchKernelEx");
  if (!s)
    status = Error{s.error().code, "launch " + printable(l.site) + " (" + printable(desc.kernels[l.kernel].symbol) + "): " + s.error().message};
  else if (hook)
    status = (*hook)(launched, true);
  ++launched;
}

void CudaDevice::tap(uint32_t index, const dsv3_ref &src, int64_t rows) {
  if (!status || !taps)
    return;
  tapped.resize(uint64_t(rows) * desc.taps[index].cols * elemBytes(desc.taps[index].elem));
  status = gpu->download(tapped.data(), address(src), tapped.size());
  if (status)
    status = gpu->wait();
  if (status)
    (*taps)(index, tapped.data(), rows);
}

Result<void *> CudaDevice::capture(uint32_t program) {
  constexpr int thisThreadOnly = 1;
  const Driver &cu = gpu->driver();
  void *graph = nullptr, *executable = nullptr;
  if (Status s = cu.check(cu.cuStreamBeginCapture(gpu->stream(), thisThreadOnly), "cuStreamBeginCapture"); !s)
    return s.error();
  Status played = play(program, dsv3_step_host{});
  // Ends the capture in any case, else the stream stays in it.
  Status ended = cu.check(cu.cuStreamEndCapture(gpu->stream(), &graph), "cuStreamEndCapture");
  if (played && ended)
    ended = cu.check(cu.cuGraphInstantiate(&executable, graph, 0), "cuGraphInstantiateWithFlags");
  if (graph)
    cu.cuGraphDestroy(graph);
  if (!played || !ended)
    return played ? ended.error() : played.error();
  return executable;
}

Status CudaDevice::captureAll() {
  for (uint32_t p = 0; p < desc.n_programs; ++p) {
    Result<void *> graph = capture(p);
    if (!graph)
      return Error{graph.error().code, "program " + printable(desc.programs[p].name) + ": " + graph.error().message};
    graphs.push_back(*graph);
  }
  return gpu->wait();
}

CudaDevice::~CudaDevice() {
  // A step may be in flight: nothing that it uses goes before it ends. There is nobody to tell of its errors.
  if (gpu)
    (void)gpu->wait();
  for (void *graph : graphs)
    gpu->driver().cuGraphExecDestroy(graph);
  for (const Slot &slot : slots)
    if (slot.done)
      gpu->driver().cuEventDestroy(slot.done);
}

} // namespace dsv3
