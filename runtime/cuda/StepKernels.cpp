#include "runtime/cuda/StepKernels.h"

#include "runtime/core/Abi.h"

#include <cstddef>
#include <string>

namespace dsv3::cuda {

namespace {

constexpr unsigned kThreads = 128;
constexpr uint64_t kPiece = 16, kMostBytes = 64 << 10;

static_assert(offsetof(dsv3_sampled, id) == 0 && sizeof(dsv3_sampled) == 32, "as the text below has it");

// A thread a piece of 16 bytes. `not` of a word below zero is -1 minus it.
constexpr const char *kHead = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry step_copy (.param .u64 to, .param .u64 from, .param .u64 pieces, .param .u64 first, .param .u64 last, .param .u64 sampled)
{
  .reg .pred p;
  .reg .b32 block, width, lane, w0, w1, w2, w3, row;
  .reg .b64 i, at, bound, chosen;
  mov.u32 block, %ctaid.x;
  mov.u32 width, %ntid.x;
  mov.u32 lane, %tid.x;
  mad.lo.u32 lane, block, width, lane;
  cvt.u64.u32 i, lane;
  ld.param.u64 bound, [pieces];
  setp.ge.u64 p, i, bound;
  @p ret;
  ld.param.u64 at, [from];
  mad.lo.u64 at, i, 16, at;
  ld.v4.b32 {w0, w1, w2, w3}, [at];
  ld.param.u64 bound, [first];
  setp.lt.u64 p, i, bound;
  @p bra PLAIN;
  ld.param.u64 bound, [last];
  setp.ge.u64 p, i, bound;
  @p bra PLAIN;
  ld.param.u64 chosen, [sampled];
)";
constexpr const char *kWord = R"(  setp.lt.s32 p, WORD, 0;
  not.b32 row, WORD;
  mad.wide.u32 at, row, 32, chosen;
  @p ld.b32 WORD, [at];
)";
constexpr const char *kTail = R"(PLAIN:
  ld.param.u64 at, [to];
  mad.lo.u64 at, i, 16, at;
  st.v4.b32 [at], {w0, w1, w2, w3};
  ret;
}
)";

std::string text() {
  std::string out = kHead;
  for (const char *word : {"w0", "w1", "w2", "w3"}) {
    std::string lines = kWord;
    for (size_t at; (at = lines.find("WORD")) != lines.npos;)
      lines.replace(at, 4, word);
    out += lines;
  }
  return out + kTail;
}

} // namespace

Result<StepKernels> StepKernels::load(const Gpu &gpu) {
  const Driver &cu = gpu.driver();
  StepKernels kernels;
  kernels.gpu = &gpu;
  char log[1024] = "";
  int options[] = {kErrorLog, kErrorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(uintptr_t(sizeof log - 1))};
  if (Status s = cu.check(cu.cuModuleLoadDataEx(&kernels.module, text().c_str(), 2, options, values), "step_copy: cuModuleLoadDataEx"); !s)
    return s.error();
  if (Status s = cu.check(cu.cuModuleGetFunction(&kernels.function, kernels.module, "step_copy"), "step_copy: cuModuleGetFunction"); !s)
    return s.error();
  return kernels;
}

StepKernels &StepKernels::operator=(StepKernels &&other) noexcept {
  std::swap(gpu, other.gpu);
  std::swap(module, other.module);
  std::swap(function, other.function);
  return *this;
}

StepKernels::~StepKernels() {
  if (module)
    gpu->driver().cuModuleUnload(module);
}

bool StepKernels::suits(const void *to, DevicePtr from, uint64_t bytes) {
  return bytes > 0 && bytes <= kMostBytes && (reinterpret_cast<uintptr_t>(to) | from | bytes) % kPiece == 0;
}

Status StepKernels::bring(DevicePtr to, const void *from, uint64_t bytes, const Taken &taken) const {
  return launch(to, reinterpret_cast<uintptr_t>(from), bytes, taken);
}

Status StepKernels::fetch(void *to, DevicePtr from, uint64_t bytes) const { return launch(reinterpret_cast<uintptr_t>(to), from, bytes, {}); }

Status StepKernels::launch(uint64_t to, uint64_t from, uint64_t bytes, Taken taken) const {
  uint64_t pieces = bytes / kPiece;
  void *arguments[] = {&to, &from, &pieces, &taken.first, &taken.last, &taken.sampled};
  LaunchConfig config{{unsigned((pieces + kThreads - 1) / kThreads), 1, 1}, {kThreads, 1, 1}, 0, gpu->stream(), nullptr, 0};
  return gpu->driver().check(gpu->driver().cuLaunchKernelEx(&config, function, arguments, nullptr), "step_copy: cuLaunchKernelEx");
}

} // namespace dsv3::cuda
