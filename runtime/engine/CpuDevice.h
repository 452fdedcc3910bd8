// The CPU: pools in anonymous memory, weights in the page cache, kernels on a thread pool.
#pragma once

#include "runtime/core/ThreadPool.h"
#include "runtime/engine/Artifact.h"
#include "runtime/engine/Device.h"
#include "runtime/engine/Memory.h"

#include <memory>
#include <vector>

namespace dsv3 {

class CpuDevice final : public Device {
public:
  struct Options {
    int threads = 0;     ///< 0: all cores this process may use
    int64_t kvPages = 0; ///< 0: max_batch sequences of max_model_len, or what memory allows
  };

  /// `artifact` must outlive the device. DoesNotFit when memory cannot hold the plan and
  /// at least one sequence of max_model_len.
  static Result<std::unique_ptr<CpuDevice>> create(const Artifact &artifact, const Options &options);

  const dsv3_module_desc &module() const override { return desc; }
  int64_t kvPages() const override { return pages; }
  uint8_t *stepBuffer() override { return base[DSV3_POOL_STEP]; }
  int stepsAtOnce() const override { return 1; }
  /// Runs the step at once: wait() finds it done. No program here chooses tokens, so none can be taken from the step before.
  Status launch(uint32_t program, dsv3_step_host step, const std::vector<HostCopy> &copies) override;
  Status wait() override;
  Status run(uint32_t program, dsv3_step_host step, const std::vector<HostCopy> &copies, const TapSink &taps) override;
  Result<const void *> fetch(const dsv3_ref &ref, uint64_t) override {
    return static_cast<const void *>(base[ref.pool] + ref.offset);
  }

  Status read(const dsv3_ref &from, uint64_t bytes, void *to) override;
  Status draw(const DummyFill &fill, uint32_t pool) override;
  void share(int64_t tiles, ThreadPool::Body body, void *context) override { pool.run(tiles, body, context); }
  Status runByLaunch(uint32_t program, dsv3_step_host step, const LaunchHook &hook) override;
  Result<StepTimes> time(uint32_t program, dsv3_step_host step, int runs) override;

  std::string describe() const override;

  int threads() const { return pool.size(); }

private:
  struct Launch;

  CpuDevice(const Artifact &artifact, int threads, int64_t pages, std::vector<Memory> pools);
  void drawWeights();
  void range(const dsv3_launch &launch, int64_t tiles);
  void tap(uint32_t index, const dsv3_ref &src, int64_t rows);
  void fail(const char *site, const char *why);

  const Artifact &artifact;
  const dsv3_module_desc &desc;
  int64_t pages;
  uint64_t kvLayerBytes;
  std::vector<Memory> pools;
  uint8_t *base[DSV3_POOL_COUNT] = {};
  ThreadPool pool;

  // State of the program that is running.
  dsv3_step_host step{};
  const TapSink *taps = nullptr;
  const LaunchHook *hook = nullptr;
  uint32_t launched = 0;
  Status status;
  bool inFlight = false; ///< launched and not waited for; `status` is how it ended
  std::vector<const void *> bufs;
  std::vector<int64_t> scalars;
};

} // namespace dsv3
