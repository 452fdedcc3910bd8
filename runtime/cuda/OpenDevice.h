// Opens an artifact on the machine at hand: which of its targets, on which device.
#pragma once

#include "runtime/engine/Artifact.h"
#include "runtime/engine/Device.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dsv3 {

struct OpenOptions {
  std::string device = "auto"; ///< "cpu", "cuda", or "auto": the first target of the artifact that this machine can run
  std::string cpuFeatures;     ///< code variant of a CPU; "auto" then means "cpu"
  bool verify = false;         ///< also hash the weights
  int threads = 0;             ///< of a CPU; 0: all cores
  int64_t kvPages = 0;         ///< 0: what max_batch sequences need, or what memory allows
  /// Called once, with the artifact open and before memory is taken and weights are copied: for mistakes of the user that
  /// need no device to be seen. May be empty.
  std::function<Status(const Artifact &)> check;
};

struct OpenedModel {
  std::unique_ptr<Artifact> artifact;
  std::unique_ptr<Device> device; ///< refers to `artifact`
  /// Lines for people: what was chosen where there was a choice and why not the targets before it, then the
  /// device's own warnings.
  std::vector<std::string> notes;
};

/// Errors of Artifact::open and of the devices. With "auto", an artifact that is damaged is refused at once; if no target
/// runs here, the error says of each why.
Result<OpenedModel> openModel(const std::string &folder, const OpenOptions &options);

} // namespace dsv3
