// What the engine needs of a machine that runs programs. The scheduler, the block
// manager and the sampler do not know which machine it is.
#pragma once

#include "runtime/core/Abi.h"
#include "runtime/core/Result.h"

#include <cstdint>
#include <functional>

namespace dsv3 {

/// Receives the rows of a tapped state while a program runs: tap index, row-major data
/// (valid during the call only), number of rows.
using TapSink = std::function<void(uint32_t tap, const void *data, int64_t rows)>;

class Device {
public:
  virtual ~Device() = default;

  virtual const dsv3_module_desc &module() const = 0;

  /// Pages of the KV pool.
  virtual int64_t kvPages() const = 0;

  /// Host memory of the step buffer: `pool_bytes[DSV3_POOL_STEP]`, written between runs.
  virtual uint8_t *stepBuffer() = 0;

  /// Runs one program over the step buffer and waits for it. The device fills the KV
  /// layer stride. Taps are dropped when `taps` is empty. An Internal error names the
  /// operation that failed.
  virtual Status run(uint32_t program, dsv3_step_host step, const TapSink &taps) = 0;

  /// `bytes` of a result in host memory, valid until the next run.
  virtual const void *fetch(const dsv3_ref &ref, uint64_t bytes) = 0;
};

} // namespace dsv3
