#include "tools/dsv3-bench/slice/Steps.h"

#include "runtime/core/Json.h"
#include "runtime/engine/ModuleCheck.h"
#include "runtime/engine/StepBuffer.h"
#include "tools/dsv3-bench/Random.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace dsv3::bench {

static int64_t pagesOf(int64_t tokens) { return (tokens + reference::kPageTokens - 1) / reference::kPageTokens; }

int64_t StepSpec::pages() const {
  int64_t n = 0;
  for (const Part &p : parts)
    n += pagesOf(p.past + p.count);
  return n;
}

int64_t StepSpec::longest() const {
  int64_t n = 0;
  for (const Part &p : parts)
    n = std::max(n, p.past + p.count);
  return n;
}

Result<StepSpec> parseStep(const std::string &text) {
  Error wrong = usageError("--step: expected prefill:PAST+COUNT[/...], decode:SEQUENCESxTOKENS or decode:SEQUENCES@TOKENS, got '" + printable(text) + "'");
  StepSpec spec;
  spec.text = text;
  size_t colon = text.find(':');
  std::string phase = text.substr(0, colon), rest = colon == text.npos ? "" : text.substr(colon + 1);
  long long a = 0, b = 0;
  int used = 0;
  if (phase == "decode") {
    char how = 0;
    if (std::sscanf(rest.c_str(), "%lld%c%lld%n", &a, &how, &b, &used) != 3 || size_t(used) != rest.size() || a < 1 || b < 1 || (how != 'x' && how != '@'))
      return wrong;
    spec.phase = DSV3_PHASE_DECODE;
    for (int64_t s = 0; s < a; ++s) { // the longest and the shortest first, the others anywhere between
      int64_t context = how == 'x' || s == 0 ? b : s == 1 ? 1 : 1 + int64_t(mix(9, uint64_t(s)) % uint64_t(b));
      spec.parts.push_back({context - 1, 1});
    }
    return spec;
  }
  if (phase != "prefill")
    return wrong;
  spec.phase = DSV3_PHASE_PREFILL;
  for (size_t at = 0; at < rest.size(); at += size_t(used) + 1) {
    used = 0;
    if (std::sscanf(rest.c_str() + at, "%lld+%lld%n", &a, &b, &used) != 2 || a < 0 || b < 1 || (at + size_t(used) < rest.size() && rest[at + size_t(used)] != '/'))
      return wrong;
    spec.parts.push_back({a, b});
  }
  return spec.parts.empty() ? Result<StepSpec>(wrong) : spec;
}

Result<PlannedStep> PlannedStep::make(const StepSpec &spec, Device &device, int64_t vocab) {
  const dsv3_module_desc &module = device.module();
  if (spec.pages() > device.kvPages())
    return doesNotFitError(spec.text + ": expected at most " + std::to_string(device.kvPages()) + " kv pages, got " + std::to_string(spec.pages()));
  if (spec.longest() > int64_t(module.max_pages) * reference::kPageTokens)
    return unsupportedError(spec.text + ": expected at most " + std::to_string(module.max_pages * reference::kPageTokens) + " tokens of a sequence, got " +
                            std::to_string(spec.longest()));
  std::vector<int32_t> order(static_cast<size_t>(device.kvPages()));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[mix(77, i) % i]);
  PlannedStep step;
  step.all.resize(spec.parts.size());
  auto next = order.begin();
  for (size_t s = 0; s < spec.parts.size(); ++s) {
    const StepSpec::Part &part = spec.parts[s];
    Sequence &seq = step.all[s];
    seq.tokens.resize(size_t(part.past + part.count));
    for (size_t i = 0; i < seq.tokens.size(); ++i)
      seq.tokens[i] = int32_t(mix(s, i) % uint64_t(vocab));
    seq.cached = part.past;
    seq.pages.assign(next, next + pagesOf(part.past + part.count));
    next += pagesOf(part.past + part.count);
    step.items.push_back({&seq, part.past, part.count});
    step.meta.addSequence(part.past, part.count, seq.pages);
  }
  int64_t best = -1;
  for (uint32_t p = 0; p < module.n_programs; ++p)
    if (module.programs[p].phase == spec.phase && fitsStep(module.programs[p], step.items) && (best < 0 || module.programs[p].seqs < module.programs[best].seqs))
      best = p;
  if (best < 0)
    return unsupportedError(spec.text + ": no program of the artifact holds this step");
  step.index = uint32_t(best);
  step.fill(device);
  return step;
}

void PlannedStep::fill(Device &device) { scalars = StepBuffer(device.module(), device.stepBuffer()).fill(device.module().programs[index], items); }

void PlannedStep::fillServing(Device &device, bool takes) {
  fill(device);
  StepBuffer buffer(device.module(), device.stepBuffer());
  auto *ids = reinterpret_cast<int32_t *>(device.stepBuffer() + findField(device.module(), DSV3_FIELD_IDS)->offset);
  for (size_t s = 0; s < items.size(); ++s) {
    dsv3_sampling greatest{};
    greatest.flags = DSV3_SAMPLE_ROW;
    greatest.scale = 1.44269504f; // log2(e): temperature 1
    buffer.setSampling(int64_t(s), greatest);
    if (takes)
      ids[s] = -1 - int32_t(s);
  }
}

} // namespace dsv3::bench
