// A device that computes no model but remembers: every slot of its cache holds a number made of the token, the position and
// the program that wrote it, and what a row says depends on the numbers of all positions before it. A page that was shared
// or overwritten by mistake, a wrong slot or the wrong program therefore changes tokens. Time is virtual.
//
// As a CPU it runs a step inside launch(). As a GPU it takes two steps, chooses tokens, and runs a step as late as it may: when
// it is waited for. Memory that the host changes too early shows.
#pragma once

#include "runtime/core/TokenChoice.h"
#include "runtime/engine/Device.h"

#include <functional>
#include <vector>

namespace dsv3::sim {

constexpr int64_t kVocab = 32, kPageTokens = 4, kMaxLen = 40, kMaxPages = (kMaxLen + kPageTokens - 1) / kPageTokens;
constexpr uint32_t kSeqs = 20, kTokens = 48;

uint64_t mix(uint64_t hash, uint64_t value);
/// What a slot holds, after all slots before it are folded into `before`: as keys of a layer, it depends on them.
uint64_t slotValue(uint64_t before, int32_t id, int64_t position, uint32_t phase);
/// What a position says once all slots up to it are folded. One in `overflows` positions has a logit that is not finite; 0: none.
void logitsOf(uint64_t folded, uint64_t overflows, float *row);

class SimDevice final : public Device {
public:
  SimDevice(int64_t pages, bool overlaps, uint64_t overflows);

  const dsv3_module_desc &module() const override { return desc; }
  int64_t kvPages() const override { return pages; }
  std::string describe() const override { return "simulated"; }
  uint8_t *stepBuffer() override { return flights[filling].step.data(); }
  int stepsAtOnce() const override { return overlaps ? 2 : 1; }
  Status launch(uint32_t program, dsv3_step_host step, const std::vector<HostCopy> &copies) override;
  Status wait() override;
  Status run(uint32_t program, dsv3_step_host step, const std::vector<HostCopy> &copies, const TapSink &taps) override;
  Result<const void *> fetch(const dsv3_ref &ref, uint64_t bytes) override;
  Status read(const dsv3_ref &, uint64_t, void *) override { return unsupportedError("simulated"); }
  Status draw(const DummyFill &, uint32_t) override { return unsupportedError("simulated"); }
  Status runByLaunch(uint32_t, dsv3_step_host, const LaunchHook &) override { return unsupportedError("simulated"); }
  Result<StepTimes> time(uint32_t, dsv3_step_host, int) override { return unsupportedError("simulated"); }

  double clock = 0;              ///< seconds
  double fixedCost = 0.001, rowCost = 0.005;
  std::function<bool()> faults;  ///< whether this step fails, after it has left rubbish in its slots
  std::string wrong;             ///< the first step that makes no sense; empty: none
  /// Steps that ran so far, by phase, and the rows of the last.
  struct Steps {
    uint64_t prefill = 0, decode = 0, score = 0;
    int64_t lastRows = 0;
  } ran;

  /// Seconds of a step.
  double cost(int64_t rows) const { return fixedCost + rowCost * double(rows); }

private:
  /// A step from its launch on.
  struct Flight {
    std::vector<uint8_t> step, results;
    uint32_t program = 0;
    dsv3_step_host host{};
    std::vector<HostCopy> copies;
    double launched = 0;
  };

  template <typename T> const T *field(uint32_t kind) const { return reinterpret_cast<const T *>(running->step.data() + fields[kind].offset); }
  void addField(uint32_t kind, uint32_t elem, uint64_t count);
  void addProgram(const char *name, uint32_t phase, uint32_t tokens, uint32_t seqs);
  Status execute(Flight &flight);
  void takeTokens(Flight &flight);
  int64_t slotOf(int64_t seq, int64_t position) const;
  void checkRows(int64_t count, bool rubbish);
  void computeRows(uint32_t phase, int64_t seqs);
  void choose(int64_t seqs);

  int64_t pages;
  bool overlaps;
  uint64_t overflows;
  dsv3_module_desc desc{};
  std::vector<dsv3_program_desc> programs;
  std::vector<dsv3_field_desc> fields;
  dsv3_output_desc outputs[2] = {};
  Flight flights[2];
  int filling = 0, flying = 0;
  const Flight *running = nullptr, *fetched = nullptr;
  std::vector<bool> chosen; ///< rows of the step launched last whose token the device chooses
  TokenChooser chooser;
  Status failed;
  double freeAt = 0; ///< end of the last step
  std::vector<uint8_t> persist; ///< logits, then what was chosen
  std::vector<uint64_t> slots;
};

} // namespace dsv3::sim
