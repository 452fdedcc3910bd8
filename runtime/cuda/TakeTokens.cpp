#include "runtime/cuda/TakeTokens.h"

#include "runtime/core/Abi.h"

#include <cstddef>

namespace dsv3::cuda {

namespace {

constexpr unsigned kThreads = 128;

// Offsets in the text below.
static_assert(DSV3_SCALAR_TOKENS == 0 && offsetof(dsv3_sampled, id) == 0 && sizeof(dsv3_sampled) == 32);

// A thread an id. Numbers of tokens fit in the low half of their scalar; `not` of an id below zero is -1 minus it.
constexpr const char *kText = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry take_tokens (.param .u64 scalars, .param .u64 ids, .param .u64 sampled)
{
  .reg .pred p;
  .reg .b32 block, width, i, count, id, row;
  .reg .b64 from, at;
  mov.u32 block, %ctaid.x;
  mov.u32 width, %ntid.x;
  mov.u32 i, %tid.x;
  mad.lo.u32 i, block, width, i;
  ld.param.u64 from, [scalars];
  cvta.to.global.u64 from, from;
  ld.global.b32 count, [from];
  setp.ge.u32 p, i, count;
  @p ret;
  ld.param.u64 at, [ids];
  cvta.to.global.u64 at, at;
  mad.wide.u32 at, i, 4, at;
  ld.global.b32 id, [at];
  setp.ge.s32 p, id, 0;
  @p ret;
  not.b32 row, id;
  ld.param.u64 from, [sampled];
  cvta.to.global.u64 from, from;
  mad.wide.u32 from, row, 32, from;
  ld.global.b32 id, [from];
  st.global.b32 [at], id;
  ret;
}
)";

} // namespace

Result<TakeTokens> TakeTokens::load(const Gpu &gpu) {
  const Driver &cu = gpu.driver();
  TakeTokens take;
  take.gpu = &gpu;
  char log[1024] = "";
  int options[] = {kErrorLog, kErrorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(uintptr_t(sizeof log - 1))};
  if (Status s = cu.check(cu.cuModuleLoadDataEx(&take.module, kText, 2, options, values), "take_tokens: cuModuleLoadDataEx"); !s)
    return s.error();
  if (Status s = cu.check(cu.cuModuleGetFunction(&take.function, take.module, "take_tokens"), "take_tokens: cuModuleGetFunction"); !s)
    return s.error();
  return take;
}

TakeTokens &TakeTokens::operator=(TakeTokens &&other) noexcept {
  std::swap(gpu, other.gpu);
  std::swap(module, other.module);
  std::swap(function, other.function);
  return *this;
}

TakeTokens::~TakeTokens() {
  if (module)
    gpu->driver().cuModuleUnload(module);
}

Status TakeTokens::launch(int64_t tokens, DevicePtr scalars, DevicePtr ids, DevicePtr sampled) const {
  void *arguments[] = {&scalars, &ids, &sampled};
  LaunchConfig config{{unsigned((tokens + kThreads - 1) / kThreads), 1, 1}, {kThreads, 1, 1}, 0, gpu->stream(), nullptr, 0};
  return gpu->driver().check(gpu->driver().cuLaunchKernelEx(&config, function, arguments, nullptr), "take_tokens: cuLaunchKernelEx");
}

} // namespace dsv3::cuda
