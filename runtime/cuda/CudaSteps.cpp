// Steps on their way through a GPU: what goes to it, what comes back, and how a tool looks into one.
#include "runtime/cuda/CudaDevice.h"

#include "runtime/core/Json.h"
#include "runtime/engine/ModuleCheck.h"

#include <algorithm>
#include <cstring>

namespace dsv3 {

using cuda::Driver;

//===-- Steps -------------------------------------------------------------===//

Status CudaDevice::copyResults(const std::vector<HostCopy> &copies) {
  Slot &slot = slots[filling];
  uint64_t bytes = 0, at = 0;
  for (const HostCopy &c : copies)
    bytes += c.bytes;
  if (Status s = growResults(slot, bytes); !s)
    return s;
  for (const HostCopy &c : copies) {
    uint8_t *to = slot.results.data() + at;
    bool few = cuda::StepKernels::suits(to, address(c.ref), c.bytes);
    if (Status s = few ? kernels.fetch(to, address(c.ref), c.bytes) : gpu->download(to, address(c.ref), c.bytes); !s)
      return s;
    at += c.bytes;
  }
  slot.copies = copies;
  return {};
}

Status CudaDevice::sendStep(dsv3_step_host &step, bool takes) {
  const Slot &slot = slots[filling];
  step.scalars[DSV3_SCALAR_KV_LAYER_STRIDE] = int64_t(kvBytes / desc.kv_layers);
  std::memcpy(slot.step.data(), step.scalars, sizeof step.scalars);
  if (Status s = gpu->enter(); !s)
    return s;
  cuda::StepKernels::Taken taken;
  if (takes) {
    const uint64_t ids = kScalarBytes + findField(desc, DSV3_FIELD_IDS)->offset;
    const uint64_t end = ids + uint64_t(step.scalars[DSV3_SCALAR_TOKENS]) * sizeof(int32_t);
    taken = {ids / kPiece, (end + kPiece - 1) / kPiece, sampled};
  }
  return kernels.bring(base[DSV3_POOL_STEP] - kScalarBytes, slot.step.data(), slot.step.bytes(), taken);
}

void CudaDevice::noteChoices(uint32_t program, const dsv3_step_host &step) {
  const dsv3_output_desc *out = findOutput(desc.programs[program], "sampled");
  chosen.assign(out ? size_t(step.scalars[DSV3_SCALAR_SEQS]) : 0, false);
  if (!out)
    return;
  sampled = address(out->ref);
  auto *how = reinterpret_cast<const dsv3_sampling *>(stepBuffer() + findField(desc, DSV3_FIELD_SAMPLING)->offset);
  for (size_t i = 0; i < chosen.size(); ++i)
    chosen[i] = how[i].flags & DSV3_SAMPLE_ROW;
}

Error CudaDevice::inProgram(uint32_t program, const Error &error) const {
  return Error{error.code, "program " + printable(desc.programs[program].name) + ": " + error.message};
}

Status CudaDevice::enqueue(uint32_t program, dsv3_step_host &step, const std::vector<HostCopy> &copies, const TapSink *sink) {
  const Driver &cu = gpu->driver();
  const uint64_t ids = findField(desc, DSV3_FIELD_IDS)->offset;
  const int64_t tokens = step.scalars[DSV3_SCALAR_TOKENS];
  Result<bool> takes = takesTokens(reinterpret_cast<const int32_t *>(stepBuffer() + ids), tokens, chosen);
  if (!takes)
    return inProgram(program, takes.error());
  Slot &slot = slots[filling];
  slot.program = program;
  taps = sink;
  fetched = nullptr;
  Status s = sendStep(step, *takes);
  if (s)
    s = taps ? play(program, step) : cu.check(cu.cuGraphLaunch(graphs[program], gpu->stream()), "cuGraphLaunch");
  if (s)
    s = copyResults(copies);
  if (s)
    s = cu.check(cu.cuEventRecord(slot.done, gpu->stream()), "cuEventRecord");
  if (!s)
    return inProgram(program, s.error());
  noteChoices(program, step);
  filling = (filling + 1) % kSlots;
  ++flying;
  return {};
}

Status CudaDevice::launch(uint32_t program, dsv3_step_host step, const std::vector<HostCopy> &copies) {
  if (flying == kSlots)
    return internalError("expected fewer than " + std::to_string(kSlots) + " steps in flight, got " + std::to_string(flying));
  return enqueue(program, step, copies, nullptr);
}

Status CudaDevice::wait() {
  const Driver &cu = gpu->driver();
  if (!flying)
    return internalError("expected a step in flight, got none");
  const Slot &slot = slots[(filling + kSlots - flying) % kSlots];
  --flying;
  fetched = &slot;
  Status s = gpu->enter();
  if (s)
    s = cu.check(cu.cuEventSynchronize(slot.done), "cuEventSynchronize");
  return s ? Status() : inProgram(slot.program, s.error());
}

Status CudaDevice::run(uint32_t program, dsv3_step_host step, const std::vector<HostCopy> &copies, const TapSink &sink) {
  if (flying)
    return internalError("expected no step in flight, got " + std::to_string(flying));
  const int slot = filling;
  Status s = enqueue(program, step, copies, sink ? &sink : nullptr);
  if (s)
    s = wait();
  filling = slot; // free again
  return s;
}

Result<const void *> CudaDevice::fetch(const dsv3_ref &ref, uint64_t bytes) {
  uint64_t at = 0;
  static const std::vector<HostCopy> none;
  for (const HostCopy &c : fetched ? fetched->copies : none) {
    if (c.ref.pool == ref.pool && ref.offset >= c.ref.offset && ref.offset - c.ref.offset <= c.bytes &&
        bytes <= c.bytes - (ref.offset - c.ref.offset))
      return static_cast<const void *>(fetched->results.data() + at + (ref.offset - c.ref.offset));
    at += c.bytes;
  }
  return internalError("result at " + std::to_string(ref.offset) + " of pool " + std::to_string(ref.pool) + ": expected one that the run was asked to copy");
}

/// Rows of a vocabulary take a tenth of a millisecond each: a few threads keep a batch of them below a step.
void CudaDevice::share(int64_t tiles, ThreadPool::Body body, void *context) {
  constexpr int kMostThreads = 8;
  if (tiles > 1 && !hostThreads)
    hostThreads = std::make_unique<ThreadPool>(std::min(kMostThreads, ThreadPool::defaultThreads()), 0);
  if (tiles > 1)
    hostThreads->run(tiles, body, context);
  else if (tiles == 1)
    body(context, 0, 1, nullptr);
}

//===-- For tools ---------------------------------------------------------===//

Status CudaDevice::read(const dsv3_ref &from, uint64_t bytes, void *to) {
  Status s = gpu->enter(); // a hook may read from a thread of its own
  if (s)
    s = gpu->download(to, address(from), bytes);
  return s ? gpu->wait() : s;
}

Status CudaDevice::runByLaunch(uint32_t program, dsv3_step_host step, const LaunchHook &given) {
  LaunchHook waiting = [&](uint32_t launch, bool done) {
    Status s = gpu->wait();
    return s ? given(launch, done) : s;
  };
  taps = nullptr;
  hook = &waiting;
  Status s = sendStep(step, false);
  if (s)
    s = play(program, step);
  hook = nullptr;
  return s ? gpu->wait() : s;
}

namespace {
/// Events that are destroyed with the list.
class Events {
public:
  explicit Events(const Driver &cu) : cu(cu) {}
  ~Events() {
    for (void *event : all)
      cu.cuEventDestroy(event);
  }
  Status record(size_t i, void *stream) {
    while (all.size() <= i) {
      all.push_back(nullptr);
      if (Status s = cu.check(cu.cuEventCreate(&all.back(), 0), "cuEventCreate"); !s)
        return s;
    }
    return cu.check(cu.cuEventRecord(all[i], stream), "cuEventRecord");
  }
  Result<double> us(size_t from, size_t to) const {
    float ms = 0;
    Status s = cu.check(cu.cuEventElapsedTime(&ms, all[from], all[to]), "cuEventElapsedTime");
    return s ? Result<double>(double(ms) * 1e3) : s.error();
  }

private:
  const Driver &cu;
  std::vector<void *> all;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + long(values.size() / 2), values.end());
  return values[values.size() / 2];
}
} // namespace

Result<StepTimes> CudaDevice::time(uint32_t program, dsv3_step_host step, int runs) {
  const Driver &cu = gpu->driver();
  Events events(cu);
  if (Status s = sendStep(step, false); !s)
    return s.error();
  std::vector<double> totals;
  std::vector<std::vector<double>> each;
  for (int run = 0; run < runs + 2; ++run) { // the first two warm caches and clocks
    Status s = events.record(0, gpu->stream());
    if (s)
      s = cu.check(cu.cuGraphLaunch(graphs[program], gpu->stream()), "cuGraphLaunch");
    if (s)
      s = events.record(1, gpu->stream());
    if (s)
      s = gpu->wait();
    if (!s)
      return s.error();
    Result<double> us = events.us(0, 1);
    if (!us)
      return us.error();
    if (run >= 2)
      totals.push_back(*us);
  }
  LaunchHook recording = [&](uint32_t launch, bool done) { return events.record(2 + 2 * launch + done, gpu->stream()); };
  for (int run = 0; run < runs + 2; ++run) {
    hook = &recording;
    Status s = play(program, step);
    hook = nullptr;
    if (s)
      s = gpu->wait();
    if (!s)
      return s.error();
    each.resize(launched);
    for (uint32_t l = 0; l < launched && run >= 2; ++l) {
      Result<double> us = events.us(2 + 2 * l, 3 + 2 * l);
      if (!us)
        return us.error();
      each[l].push_back(*us);
    }
  }
  StepTimes times;
  times.total = median(std::move(totals));
  for (std::vector<double> &one : each)
    times.launches.push_back(median(std::move(one)));
  return times;
}

std::string CudaDevice::describe() const {
  return artifact.target().name + " on " + gpu->name() + " (driver of " + gpu->driver().versionText() + ")";
}

} // namespace dsv3
