// What the engine needs of a machine that runs programs. The scheduler, the block
// manager and the sampler do not know which machine it is.
#pragma once

#include "runtime/core/Abi.h"
#include "runtime/core/DummyFill.h"
#include "runtime/core/Result.h"

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

  /// Host memory of the step buffer: `pool_bytes[DSV3_POOL_STEP]`, written between runs.
  virtual uint8_t *stepBuffer() = 0;

  /// Runs one program over the step buffer, brings `copies` to host memory and waits for it. The device fills the KV
  /// layer stride. Taps are dropped when `taps` is empty. An Internal error names the operation that failed.
  virtual Status run(uint32_t program, dsv3_step_host step, const std::vector<HostCopy> &copies, const TapSink &taps) = 0;

  /// Where one of the last run's copies lies, valid until the next run: `bytes` from `ref`, inside one copy. Internal error
  /// for anything else: a step waits for its device once.
  virtual Result<const void *> fetch(const dsv3_ref &ref, uint64_t bytes) = 0;

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

} // namespace dsv3
