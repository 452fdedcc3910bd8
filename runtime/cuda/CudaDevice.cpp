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
  if (Status s = allocate(); !s)
    return s;
  if (Status s = gpu->uploadFile(base[DSV3_POOL_WEIGHTS], artifact.weights()); !s)
    return s;
  if (Status s = bindLaunches(); !s)
    return s;
  return captureAll();
}

Status CudaDevice::allocate() {
  const char *const names[] = {"weights", "the kv cache", "the arena", "the step buffer", "results"};
  pools.resize(DSV3_POOL_COUNT);
  for (int i = 0; i < DSV3_POOL_COUNT; ++i) {
    uint64_t bytes = i == DSV3_POOL_KV ? kvBytes : desc.pool_bytes[i] + (i == DSV3_POOL_STEP ? kScalarBytes : 0);
    // Zeros: rows that no kernel has written yet may be multiplied by zero, and then must be numbers.
    Result<cuda::DeviceMemory> memory = gpu->allocate(bytes, names[i], i != DSV3_POOL_WEIGHTS);
    if (!memory)
      return memory.error();
    pools[i] = std::move(*memory);
    base[i] = pools[i].address() + (i == DSV3_POOL_STEP ? kScalarBytes : 0);
  }
  Result<cuda::PinnedMemory> mirror = gpu->allocatePinned(kScalarBytes + desc.pool_bytes[DSV3_POOL_STEP], "the step buffer");
  if (!mirror)
    return mirror.error();
  stepMirror = std::move(*mirror);
  std::memset(stepMirror.data(), 0, stepMirror.bytes());
  // Programs that serve leave a row per sequence; scoring asks for more when it runs.
  uint64_t most = 0;
  for (uint32_t p = 0; p < desc.n_programs; ++p)
    if (const dsv3_output_desc *logits = findOutput(desc.programs[p], "logits");
        logits && outputRows(desc.programs[p], "logits") == desc.programs[p].seqs)
      most = std::max(most, desc.programs[p].seqs * logits->cols * elemBytes(logits->elem));
  return growResults(most);
}

Status CudaDevice::growResults(uint64_t bytes) {
  if (bytes <= results.bytes() && results.data())
    return {};
  Result<cuda::PinnedMemory> memory = gpu->allocatePinned(bytes, "results");
  if (!memory)
    return memory.error();
  results = std::move(*memory);
  return {};
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
  static constexpr int types[] = {0 /*u8*/, 9 /*bf16*/, 7 /*f32*/, 3 /*i32*/}; // by DSV3_MAP_*
  constexpr int noInterleave = 0, promoteTo256Bytes = 3, fillZeros = 0;
  uint64_t dims[DSV3_MAP_MAX_RANK];
  unsigned steps[DSV3_MAP_MAX_RANK];
  std::copy(map.dims, map.dims + DSV3_MAP_MAX_RANK, dims);
  std::fill(steps, steps + DSV3_MAP_MAX_RANK, 1u);
  if (uint64_t &last = dims[map.rank - 1]; last == 0)
    last = (kvBytes - ref.offset) / map.strides[map.rank - 2];
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
  desc.programs[program].fn(&api, this, &step);
  return status;
}

void CudaDevice::launch(const dsv3_grid_launch &l) {
  if (!status)
    return;
  const Bound &bound = *launches.at(&l);
  cuda::LaunchAttribute cluster{cuda::kClusterDimension, 0, {l.cluster, 1, 1}};
  cuda::LaunchConfig config{{l.grid[0], l.grid[1], l.grid[2]}, {l.block, 1, 1}, l.smem, gpu->stream(), &cluster, l.cluster > 1 ? 1u : 0u};
  const Driver &cu = gpu->driver();
  Status s = cu.check(cu.cuLaunchKernelEx(&config, code.function(l.kernel), const_cast<void **>(bound.arguments.data()), nullptr), "cuLaunchKernelEx");
  if (!s)
    status = Error{s.error().code, "launch " + printable(l.site) + " (" + printable(desc.kernels[l.kernel].symbol) + "): " + s.error().message};
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

Status CudaDevice::copyResults(uint32_t program, const dsv3_step_host &step) {
  const dsv3_program_desc &p = desc.programs[program];
  const dsv3_output_desc *logits = findOutput(p, "logits");
  bool perSequence = outputRows(p, "logits") == p.seqs;
  uint64_t rows = uint64_t(step.scalars[perSequence ? DSV3_SCALAR_SEQS : DSV3_SCALAR_TOKENS]);
  uint64_t bytes = rows * logits->cols * elemBytes(logits->elem);
  if (Status s = growResults(bytes); !s)
    return s;
  fetched = logits->ref;
  fetchedBytes = bytes;
  return gpu->download(results.data(), address(logits->ref), bytes);
}

Status CudaDevice::run(uint32_t program, dsv3_step_host step, const TapSink &sink) {
  const Driver &cu = gpu->driver();
  fetchedBytes = 0;
  step.scalars[DSV3_SCALAR_KV_LAYER_STRIDE] = int64_t(kvBytes / desc.kv_layers);
  std::memcpy(stepMirror.data(), step.scalars, sizeof step.scalars);
  taps = sink ? &sink : nullptr;
  Status s = gpu->enter();
  if (s)
    s = gpu->upload(base[DSV3_POOL_STEP] - kScalarBytes, stepMirror.data(), stepMirror.bytes());
  if (s)
    s = taps ? play(program, step) : cu.check(cu.cuGraphLaunch(graphs[program], gpu->stream()), "cuGraphLaunch");
  if (s)
    s = copyResults(program, step);
  if (s)
    s = gpu->wait();
  if (!s)
    return Error{s.error().code, "program " + printable(desc.programs[program].name) + ": " + s.error().message};
  return {};
}

Result<const void *> CudaDevice::fetch(const dsv3_ref &ref, uint64_t bytes) {
  if (ref.pool != fetched.pool || ref.offset != fetched.offset || bytes > fetchedBytes) {
    fetchedBytes = 0;
    Status s = growResults(bytes);
    if (s)
      s = gpu->download(results.data(), address(ref), bytes);
    if (s)
      s = gpu->wait();
    if (!s)
      return s.error();
    fetched = ref;
    fetchedBytes = bytes;
  }
  return static_cast<const void *>(results.data());
}

std::string CudaDevice::describe() const {
  return artifact.target().name + " on " + gpu->name() + " (driver of " + gpu->driver().versionText() + ")";
}

CudaDevice::~CudaDevice() {
  for (void *graph : graphs)
    gpu->driver().cuGraphExecDestroy(graph);
}

} // namespace dsv3
