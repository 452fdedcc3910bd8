#include "runtime/engine/CpuDevice.h"

#include "runtime/engine/KvBudget.h"
#include "runtime/engine/ModuleCheck.h"

#include <algorithm>
#include <string>

namespace dsv3 {

namespace {

uint64_t largestScratch(const dsv3_module_desc &desc) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < desc.n_kernels; ++i)
    bytes = std::max(bytes, desc.kernels[i].scratch_bytes);
  return bytes;
}

uint64_t layerBytes(const dsv3_module_desc &desc, int64_t pages) {
  return uint64_t(pages) * desc.kv_page_bytes;
}

KvBudget budgetOf(const Artifact &artifact, const CpuDevice::Options &options) {
  const dsv3_module_desc &desc = artifact.module();
  const Manifest::Memory &memory = artifact.target().memory;
  KvBudget budget;
  budget.pageBytes = memory.kvPage;
  budget.pagesPerSequence = memory.kvPagesMin;
  budget.sequences = artifact.manifest().config.maxBatch;
  budget.requestedPages = options.kvPages;
  budget.usableBytes = availableMemory() / 10 * 9;
  budget.otherBytes = desc.pool_bytes[DSV3_POOL_WEIGHTS] + desc.pool_bytes[DSV3_POOL_ARENA] +
                      desc.pool_bytes[DSV3_POOL_PERSIST] + desc.pool_bytes[DSV3_POOL_STEP];
  return budget;
}

} // namespace

Result<std::unique_ptr<CpuDevice>> CpuDevice::create(const Artifact &artifact, const Options &options) {
  KvBudget budget = budgetOf(artifact, options);
  Result<int64_t> pages = kvPagesFor(budget);
  if (!pages)
    return pages.error();
  const dsv3_module_desc &desc = artifact.module();
  const char *const names[] = {"weights", "the kv cache", "the arena", "the step buffer", "results"};
  std::vector<Memory> pools(DSV3_POOL_COUNT);
  for (int i = 0; i < DSV3_POOL_COUNT; ++i) {
    if (i == DSV3_POOL_WEIGHTS && !artifact.target().drawn)
      continue; // used where they are mapped
    uint64_t bytes = i == DSV3_POOL_KV ? layerBytes(desc, *pages) * desc.kv_layers : desc.pool_bytes[i];
    Result<Memory> memory = Memory::allocate(bytes, names[i]);
    if (!memory)
      return memory.error();
    pools[i] = std::move(*memory);
  }
  int threads = options.threads > 0 ? options.threads : ThreadPool::defaultThreads();
  std::unique_ptr<CpuDevice> device(new CpuDevice(artifact, threads, *pages, std::move(pools)));
  if (std::string shortage = kvShortage(budget, *pages, desc.kv_page_tokens); !shortage.empty())
    device->notes.push_back(shortage);
  return device;
}

std::string CpuDevice::describe() const {
  return artifact.target().name + " " + artifact.variant() + ", " + std::to_string(threads()) + " threads";
}

CpuDevice::CpuDevice(const Artifact &artifact, int threads, int64_t pages, std::vector<Memory> memories)
    : artifact(artifact), desc(artifact.module()), pages(pages), kvLayerBytes(layerBytes(desc, pages)),
      pools(std::move(memories)), pool(threads, largestScratch(desc)) {
  for (int i = 0; i < DSV3_POOL_COUNT; ++i)
    base[i] = pools[i].data();
  // Programs read weights only; the mapping itself is read-only.
  if (artifact.target().drawn)
    drawWeights();
  else
    base[DSV3_POOL_WEIGHTS] = reinterpret_cast<uint8_t *>(const_cast<char *>(artifact.weights().data()));
}

void CpuDevice::drawWeights() {
  for (const Manifest::Weight &w : artifact.target().weights) {
    if (w.storedAt)
      std::copy_n(artifact.weights().data() + *w.storedAt, w.bytes, base[DSV3_POOL_WEIGHTS] + w.offset);
    for (const DummyFill &fill : w.draw)
      (void)draw(fill, DSV3_POOL_WEIGHTS); // cannot fail here
  }
}

Status CpuDevice::draw(const DummyFill &fill, uint32_t into) {
  struct Job {
    const DummyFill *fill;
    uint8_t *pool;
  } job{&fill, base[into]};
  auto body = [](void *context, int64_t begin, int64_t end, void *) {
    const Job &job = *static_cast<Job *>(context);
    job.fill->run(begin, end, job.pool);
  };
  pool.run(fill.rows(), body, &job);
  return {};
}

Status CpuDevice::read(const dsv3_ref &from, uint64_t bytes, void *to) {
  std::copy_n(base[from.pool] + from.offset, bytes, static_cast<uint8_t *>(to));
  return {};
}

Status CpuDevice::runByLaunch(uint32_t program, dsv3_step_host stepOfProgram, const LaunchHook &given) {
  hook = &given;
  launched = 0;
  Status s = run(program, stepOfProgram, {}, {});
  hook = nullptr;
  return s;
}

Result<StepTimes> CpuDevice::time(uint32_t, dsv3_step_host, int) { return unsupportedError("expected a GPU to time launches on, got " + describe()); }

Status CpuDevice::launch(uint32_t program, dsv3_step_host stepOfProgram, const std::vector<HostCopy> &copies) {
  if (inFlight)
    return internalError("expected no step in flight, got one");
  auto *ids = reinterpret_cast<const int32_t *>(stepBuffer() + findField(desc, DSV3_FIELD_IDS)->offset);
  if (Result<bool> taken = takesTokens(ids, stepOfProgram.scalars[DSV3_SCALAR_TOKENS], {}); !taken)
    return taken.error();
  (void)run(program, stepOfProgram, copies, {}); // wait() tells
  inFlight = true;
  return {};
}

Status CpuDevice::wait() {
  if (!inFlight)
    return internalError("expected a step in flight, got none");
  inFlight = false;
  return status;
}

Status CpuDevice::run(uint32_t program, dsv3_step_host stepOfProgram, const std::vector<HostCopy> &, const TapSink &sink) {
  if (inFlight)
    return internalError("expected no step in flight, got one");
  dsv3_host_api api{};
  api.abi = DSV3_ABI;
  api.bytes = sizeof(dsv3_host_api);
  api.range = [](void *ctx, const dsv3_launch *l, int64_t tiles) {
    static_cast<CpuDevice *>(ctx)->range(*l, tiles);
  };
  api.tap = [](void *ctx, uint32_t index, dsv3_ref src, int64_t rows) {
    static_cast<CpuDevice *>(ctx)->tap(index, src, rows);
  };
  api.grid = [](void *ctx, const dsv3_grid_launch *l) {
    static_cast<CpuDevice *>(ctx)->fail(l->site, "expected tiles for threads, got a grid");
  };
  step = stepOfProgram;
  step.scalars[DSV3_SCALAR_KV_LAYER_STRIDE] = static_cast<int64_t>(kvLayerBytes);
  scalars.assign(step.scalars, step.scalars + DSV3_SCALAR_COUNT);
  taps = sink ? &sink : nullptr;
  status = Status();
  desc.programs[program].fn(&api, this, &step);
  return status;
}

struct CpuDevice::Launch {
  dsv3_cpu_fn fn;
  const void *const *bufs;
  const int64_t *scalars;

  static void tiles(void *self, int64_t begin, int64_t end, void *scratch) {
    const Launch &l = *static_cast<const Launch *>(self);
    l.fn(l.bufs, l.scalars, begin, end, scratch);
  }
};

void CpuDevice::range(const dsv3_launch &launch, int64_t tiles) {
  if (!status)
    return;
  if (const char *why = launchFault(desc, launch, kvLayerBytes * desc.kv_layers))
    return fail(launch.site, why);
  if (hook && !(status = (*hook)(launched, false)))
    return;
  bufs.clear();
  for (uint32_t i = 0; i < launch.n_refs; ++i)
    bufs.push_back(base[launch.refs[i].pool] + launch.refs[i].offset);
  scalars.resize(DSV3_SCALAR_COUNT);
  scalars.insert(scalars.end(), launch.consts, launch.consts + launch.n_consts);
  Launch job{desc.kernels[launch.kernel].fn, bufs.data(), scalars.data()};
  pool.run(tiles, Launch::tiles, &job);
  if (hook)
    status = (*hook)(launched, true);
  ++launched;
}

void CpuDevice::tap(uint32_t index, const dsv3_ref &src, int64_t rows) {
  if (status && taps)
    (*taps)(index, base[src.pool] + src.offset, rows);
}

void CpuDevice::fail(const char *site, const char *why) {
  status = internalError("launch " + std::string(site ? site : "(no name)") + ": " + why);
}

} // namespace dsv3
