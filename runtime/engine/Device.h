// What the engine needs of a machine that runs programs. The scheduler, the block
// manager and the sampler do not know which machine it is.
#pragma once

#include "runtime/core/Abi.h"
#include "runtime/core/DummyFill.h"
#include "runtime/core/Result.h"
#include "runtime/core/ThreadPool.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dsv3 {

/// Receives the rows of a tapped state while a program runs: tap index, row-major data
/// (valid during the call only), number of rows.
using TapSink = std::function<void(uint32_t tap, const void *data, int64_t rows)>;

/// Called before and after each launch of a program, with its number in the program; an error ends the run.
using LaunchHook = std::function<Status(uint32_t launch, bool done)>;

/// Microseconds of a step.
struct StepTimes {
  double total = 0;             ///< from its first launch to the end of its last
  std::vector<double> launches; ///< each launch on its own
};

/// A part of a program's results that the host needs after a run.
struct HostCopy {
  dsv3_ref ref;
  uint64_t bytes;
};

class Device {
public:
  virtual ~Device() = default;

  virtual const dsv3_module_desc &module() const = 0;

  /// Pages of the KV pool.
  virtual int64_t kvPages() const = 0;

  /// "x86-64 avx512, 8 threads", "sm_90a on NVIDIA H200": for people.
  virtual std::string describe() const = 0;

  /// What a user should know about this machine although it works, a line each: memory for fewer pages than
  /// were planned, code that the driver had to compile.
  const std::vector<std::string> &warnings() const { return notes; }

  /// Host memory of the next step's buffer: `pool_bytes[DSV3_POOL_STEP]`, written while fewer than stepsAtOnce() steps are in
  /// flight. launch() gives it to the device, and after it this is another one; run() gives it back.
  virtual uint8_t *stepBuffer() = 0;

  /// Steps that may be launched and not yet waited for: 2 where the host prepares one while the device runs another, else 1.
  virtual int stepsAtOnce() const = 0;

  /// Starts one program over the step buffer; `copies` come to host memory behind it. Steps run in the order of their
  /// launches. The device fills the KV layer stride.
  ///
  /// An id of -1 - r in DSV3_FIELD_IDS stands for the token that the step launched before this one chose for its sequence r
  /// (row r of its output `sampled`): the device puts it there, so that the host need not have seen it. A token that is a fault
  /// (dsv3_sampled::fault) counts as 0.
  ///
  /// Internal error, and nothing is launched: stepsAtOnce() steps are in flight, or an id stands for a token that was not chosen.
  virtual Status launch(uint32_t program, dsv3_step_host step, const std::vector<HostCopy> &copies) = 0;

  /// Waits for the oldest step in flight; fetch() then speaks of its copies. An Internal error names the program that failed, or
  /// says that nothing is in flight. After an error no more steps can be launched.
  virtual Status wait() = 0;

  /// launch() and wait() in one. `taps` gets the tapped states, which are dropped when it is empty. Internal error when a step is in
  /// flight; another names the operation that failed.
  virtual Status run(uint32_t program, dsv3_step_host step, const std::vector<HostCopy> &copies, const TapSink &taps) = 0;

  /// Where one of the copies lies of the step last waited for, valid until the next launch: `bytes` from `ref`, inside one copy.
  /// Internal error for anything else: a step waits for its device once.
  virtual Result<const void *> fetch(const dsv3_ref &ref, uint64_t bytes) = 0;

  /// Work of the host on the threads that this machine has for it: covers [0, tiles) once, by this thread alone or by several. No
  /// step is launched meanwhile.
  virtual void share(int64_t tiles, ThreadPool::Body body, void *context) { body(context, 0, tiles, nullptr); }

  //===-- For tools that look into a step -----------------------------------===//

  /// Copies bytes of a pool; only between runs, or from a LaunchHook.
  virtual Status read(const dsv3_ref &from, uint64_t bytes, void *to) = 0;
  /// Draws numbers into a pool. Unsupported error on a device whose artifact stores its weights: it has no kernel for that.
  virtual Status draw(const DummyFill &fill, uint32_t pool) = 0;
  /// Runs a program launch by launch; a launch is over before the hook hears of its end.
  virtual Status runByLaunch(uint32_t program, dsv3_step_host step, const LaunchHook &hook) = 0;
  /// Medians over `runs` of the same step. Unsupported error where nothing can be timed.
  virtual Result<StepTimes> time(uint32_t program, dsv3_step_host step, int runs) = 0;

protected:
  std::vector<std::string> notes;
};

/// Whether any of the ids stands for a token of the step before (Device::launch), whose sequences `chosen` says which have one.
/// Internal error: an id for a token that was not chosen.
Result<bool> takesTokens(const int32_t *ids, int64_t tokens, const std::vector<bool> &chosen);

} // namespace dsv3
