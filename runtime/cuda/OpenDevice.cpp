#include "runtime/cuda/OpenDevice.h"

#include "runtime/core/Json.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/engine/CpuDevice.h"

#include <utility>

namespace dsv3 {

namespace {

template <typename T> Result<std::unique_ptr<Device>> asDevice(Result<std::unique_ptr<T>> made) {
  if (!made)
    return made.error();
  return std::unique_ptr<Device>(std::move(*made));
}

Result<OpenedModel> openTarget(const std::string &folder, const std::string &target, OpenOptions &options) {
  Artifact::Options how;
  how.cpuFeatures = options.cpuFeatures;
  how.verify = options.verify;
  how.target = target;
  Result<Artifact> artifact = Artifact::open(folder, how);
  if (!artifact)
    return artifact.error();
  if (auto check = std::exchange(options.check, nullptr))
    if (Status s = check(*artifact); !s)
      return s.error();
  OpenedModel model;
  model.artifact = std::make_unique<Artifact>(std::move(*artifact));
  CudaDevice::Options onGpu{options.kvPages};
  CpuDevice::Options onCpu{options.threads, options.kvPages};
  Result<std::unique_ptr<Device>> device = model.artifact->target().device ? asDevice(CudaDevice::create(*model.artifact, onGpu))
                                                                           : asDevice(CpuDevice::create(*model.artifact, onCpu));
  if (!device)
    return device.error();
  model.device = std::move(*device);
  model.notes = model.device->warnings();
  return model;
}

/// Targets of the artifact that `device` names, in its order.
Result<std::vector<std::string>> candidates(const std::string &folder, const OpenOptions &options) {
  Result<Manifest> manifest = Artifact::readManifest(folder);
  if (!manifest)
    return manifest.error();
  std::string device = options.device == "auto" && !options.cpuFeatures.empty() ? "cpu" : options.device;
  if (device == "cuda" && !options.cpuFeatures.empty())
    return usageError("--cpu-features: expected --device cpu with it, got cuda");
  std::vector<std::string> names;
  for (const Manifest::Target &t : manifest->targets)
    if (device == "auto" || bool(t.device) == (device == "cuda"))
      names.push_back(t.name);
  if (names.empty())
    return unsupportedError(folder + ": the artifact has no code for " + device + ", only for " + printable(manifest->targetNames()));
  return names;
}

} // namespace

Result<OpenedModel> openModel(const std::string &folder, const OpenOptions &given) {
  OpenOptions options = given;
  Result<std::vector<std::string>> names = candidates(folder, options);
  if (!names)
    return names.error();
  std::string refused;
  Error last;
  for (const std::string &name : *names) {
    Result<OpenedModel> model = openTarget(folder, name, options);
    if (model) {
      if (names->size() > 1)
        model->notes.insert(model->notes.begin(), "running " + model->device->describe() + (refused.empty() ? "" : "; not " + refused));
      return model;
    }
    last = model.error();
    if (last.code != ExitCode::Unsupported && last.code != ExitCode::DoesNotFit)
      return last;
    refused += (refused.empty() ? "" : "; ") + name + ": " + last.message;
  }
  if (names->size() == 1)
    return last;
  return Error{last.code, folder + ": no target of the artifact runs on this machine: " + refused};
}

} // namespace dsv3
