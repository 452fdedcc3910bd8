// The steps that a slice of a model is checked on, and their bytes.
#pragma once

#include "runtime/engine/Device.h"
#include "runtime/engine/Step.h"
#include "runtime/reference/Cache.h"

#include <string>
#include <vector>

namespace dsv3::bench {

/// One step: sequences with `past` cached tokens that continue with `count`.
struct StepSpec {
  struct Part {
    int64_t past = 0, count = 1;
  };
  std::string text;
  uint32_t phase = 0; ///< DSV3_PHASE_PREFILL or _DECODE
  std::vector<Part> parts;

  int64_t pages() const;
  int64_t longest() const; ///< tokens of the longest sequence behind the step
};

/// "prefill:0+4096", "prefill:100+30/0+7": past + new tokens of each sequence. "decode:8x32768": sequences that all have so
/// many tokens behind the step; "decode:8@32768": from 1 to so many, one of them of that length. Usage errors.
Result<StepSpec> parseStep(const std::string &text);

/// A step on a device: pages in an order that no kernel can guess, ids by a counter.
class PlannedStep {
public:
  /// Unsupported error when no program of the phase holds it; DoesNotFit when the cache has too few pages.
  static Result<PlannedStep> make(const StepSpec &spec, Device &device, int64_t vocab);

  uint32_t program() const { return index; }
  const dsv3_step_host &host() const { return scalars; }
  const reference::SeqMeta &sequences() const { return meta; }
  /// Writes the step buffer again: a device has one, or as many as steps that it takes at once.
  void fill(Device &device);
  /// The same, as a decode step that takes its tokens from the step before (if `takes`) and chooses the greatest logits.
  void fillServing(Device &device, bool takes);

private:
  uint32_t index = 0;
  std::vector<Sequence> all;
  std::vector<StepItem> items; ///< into `all`
  dsv3_step_host scalars{};
  reference::SeqMeta meta;
};

} // namespace dsv3::bench
