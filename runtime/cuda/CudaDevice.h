// A GPU: pools in device memory, programs as CUDA graphs.
//
// Everything is decided at load: pools are allocated, weights copied, tensor maps encoded, every program captured. A
// step is one kernel that brings [scalars | step buffer] to the device, one graph, a kernel or a copy that brings back the results
// that the host needs (a few bytes a sequence, where the device chooses the tokens), one wait.
//
// Two steps may be in flight, each with host memory of its own for what goes in and what comes out. On the device they
// share all memory: one stream keeps them in order. The kernel that brings a step also puts the tokens of the step before in
// place (StepKernels.h).
#pragma once

#include "runtime/cuda/DeviceCode.h"
#include "runtime/cuda/Gpu.h"
#include "runtime/cuda/StepKernels.h"
#include "runtime/engine/Artifact.h"
#include "runtime/engine/Device.h"
#include "runtime/engine/KvBudget.h"

#include <memory>
#include <unordered_map>
#include <vector>

namespace dsv3 {

class CudaDevice final : public Device {
public:
  struct Options {
    int64_t kvPages = 0; ///< 0: max_batch sequences of max_model_len, or what memory allows
  };

  /// `artifact` was opened for a target with a device and must outlive this. Errors: as Gpu::open and DeviceCode::load;
  /// DoesNotFit when device memory cannot hold the plan and at least one sequence of max_model_len.
  static Result<std::unique_ptr<CudaDevice>> create(const Artifact &artifact, const Options &options);
  ~CudaDevice() override;

  const dsv3_module_desc &module() const override { return desc; }
  int64_t kvPages() const override { return pages; }
  std::string describe() const override;
  uint8_t *stepBuffer() override { return slots[filling].step.data() + kScalarBytes; }
  int stepsAtOnce() const override { return kSlots; }
  Status launch(uint32_t program, dsv3_step_host step, const std::vector<HostCopy> &copies) override;
  Status wait() override;
  Status run(uint32_t program, dsv3_step_host step, const std::vector<HostCopy> &copies, const TapSink &taps) override;
  Result<const void *> fetch(const dsv3_ref &ref, uint64_t bytes) override;
  Status read(const dsv3_ref &from, uint64_t bytes, void *to) override;
  Status draw(const DummyFill &fill, uint32_t pool) override;
  void share(int64_t tiles, ThreadPool::Body body, void *context) override;
  Status runByLaunch(uint32_t program, dsv3_step_host step, const LaunchHook &hook) override;
  Result<StepTimes> time(uint32_t program, dsv3_step_host step, int runs) override;

private:
  /// A launch with its arguments as the driver takes them.
  struct Bound;

  static constexpr int kSlots = 2;
  /// A step on the host's side, pinned.
  struct Slot {
    cuda::PinnedMemory step, results;
    std::vector<HostCopy> copies; ///< what `results` holds, one after the other
    void *done = nullptr;         ///< event
    uint32_t program = 0;
  };

  /// Before the step buffer: its own first cache lines hold the scalars.
  static constexpr uint64_t kScalarBytes = 256;
  static constexpr uint64_t kPiece = 16; ///< what a thread brings
  uint64_t stepBytes() const { return (kScalarBytes + desc.pool_bytes[DSV3_POOL_STEP] + kPiece - 1) / kPiece * kPiece; }

  explicit CudaDevice(const Artifact &artifact);
  Status load(const Options &options);
  KvBudget budget(const Options &options, uint64_t freeBytes) const;
  Status allocate();
  Status allocateSlots();
  Status loadWeights();
  Status drawWeights();
  Status bindLaunches();
  Result<std::unique_ptr<Bound>> bind(const dsv3_grid_launch &launch) const;
  Result<cuda::TensorMapImage> encode(const dsv3_tensor_map &map, const dsv3_ref &ref) const;
  Status captureAll();
  Result<void *> capture(uint32_t program);

  /// Calls a program's function; its grids go to the stream, its taps to `taps`.
  Status play(uint32_t program, const dsv3_step_host &step);
  void launch(const dsv3_grid_launch &launch);
  void tap(uint32_t index, const dsv3_ref &src, int64_t rows);
  /// The step on its way to the device, its program behind it (by launches where `sink` wants taps), its results behind that.
  Status enqueue(uint32_t program, dsv3_step_host &step, const std::vector<HostCopy> &copies, const TapSink *sink);
  Status sendStep(dsv3_step_host &step, bool takes);
  Status checkFields() const;
  void noteChoices(uint32_t program, const dsv3_step_host &step);
  Status copyResults(const std::vector<HostCopy> &copies);
  Status growResults(Slot &slot, uint64_t bytes);
  Error inProgram(uint32_t program, const Error &error) const;

  cuda::DevicePtr address(const dsv3_ref &ref) const { return base[ref.pool] + ref.offset; }

  const Artifact &artifact;
  const dsv3_module_desc &desc;
  std::unique_ptr<cuda::Gpu> gpu;
  int64_t pages = 0;
  uint64_t kvBytes = 0; ///< of the pool
  std::vector<cuda::DeviceMemory> pools;
  cuda::DevicePtr base[DSV3_POOL_COUNT] = {};
  Slot slots[kSlots];
  int filling = 0;              ///< slot of the next step
  int flying = 0;               ///< steps in flight: the slots before `filling`
  const Slot *fetched = nullptr; ///< whose copies fetch() gives
  cuda::DeviceCode code;
  cuda::StepKernels kernels;
  std::unordered_map<const dsv3_grid_launch *, std::unique_ptr<Bound>> launches;
  std::vector<void *> graphs; ///< by program

  // Of the step launched last: its tokens on the device, and which of its sequences have one.
  cuda::DevicePtr sampled = 0;
  std::vector<bool> chosen;

  std::unique_ptr<ThreadPool> hostThreads; ///< made when there is work for them

  // State of the program that is running.
  const TapSink *taps = nullptr;
  const LaunchHook *hook = nullptr;
  uint32_t launched = 0;
  std::vector<uint8_t> tapped;
  Status status;
};

} // namespace dsv3
