#include "runtime/cuda/DeviceCode.h"

#include "runtime/core/Json.h"

#include <algorithm>

namespace dsv3::cuda {

namespace {

/// A load of one image: the module, or the driver's code and the first line of its log.
struct Loaded {
  Code code = 0;
  void *module = nullptr;
  std::string log;
};

Loaded loadData(const Driver &cu, const void *image) {
  Loaded out;
  char log[4096] = "";
  int options[] = {kErrorLog, kErrorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(uintptr_t(sizeof log - 1))};
  out.code = cu.cuModuleLoadDataEx(&out.module, image, 2, options, values);
  out.log = log;
  out.log = printable(out.log.substr(0, out.log.find('\n')), 300);
  return out;
}

/// The toolkit whose drivers first took a version of PTX: "12.8" for 8.7; empty when we do not know.
std::string cudaForPtx(const std::string &version) {
  static const std::pair<const char *, const char *> table[] = {{"8.0", "12.0"}, {"8.1", "12.1"}, {"8.2", "12.2"}, {"8.3", "12.3"},
                                                                {"8.4", "12.4"}, {"8.5", "12.5"}, {"8.6", "12.7"}, {"8.7", "12.8"},
                                                                {"8.8", "12.9"}, {"9.0", "13.0"}};
  for (auto [ptx, cuda] : table)
    if (version == ptx)
      return cuda;
  return "";
}

std::string ptxVersion(const std::string &text) {
  size_t at = text.find(".version ");
  if (at == text.npos)
    return "?";
  at += 9;
  return printable(text.substr(at, text.find_first_of(" \t\r\n", at) - at), 10);
}

Error refusedPtx(const Driver &cu, const std::string &symbol, const std::string &text, const Loaded &loaded) {
  if (loaded.code == kUnsupportedPtx) {
    std::string needs = cudaForPtx(ptxVersion(text));
    return unsupportedError("kernel " + printable(symbol) + ": expected a driver that takes PTX " + ptxVersion(text) +
                            (needs.empty() ? "" : " (CUDA " + needs + " or later)") + ", got one of " + cu.versionText());
  }
  return internalError("kernel " + printable(symbol) + ": the driver does not compile it: " + cu.text(loaded.code) +
                       (loaded.log.empty() ? "" : ": " + loaded.log));
}

const Manifest::Kernel *findKernel(const Manifest::Device &device, const std::string &symbol) {
  for (const Manifest::Kernel &k : device.kernels)
    if (k.symbol == symbol)
      return &k;
  return nullptr;
}

} // namespace

DeviceCode &DeviceCode::operator=(DeviceCode &&other) noexcept {
  std::swap(gpu, other.gpu);
  modules.swap(other.modules);
  functions.swap(other.functions);
  std::swap(fillFunction, other.fillFunction);
  std::swap(compiled, other.compiled);
  refusal.swap(other.refusal);
  return *this;
}

DeviceCode::~DeviceCode() {
  for (void *module : modules)
    gpu->driver().cuModuleUnload(module);
}

Result<void *> DeviceCode::loadImage(const std::string &symbol, const Manifest::Kernel &kernel, const Artifact &artifact) {
  const Driver &cu = gpu->driver();
  if (kernel.cubin) {
    Result<MappedFile> file = artifact.mapCode(*kernel.cubin);
    if (!file)
      return file.error();
    Loaded loaded = loadData(cu, file->bytes().data());
    if (loaded.code == 0)
      return loaded.module;
    if (loaded.code == kOutOfMemory)
      return cu.check(loaded.code, "cuModuleLoadDataEx").error();
    if (refusal.empty())
      refusal = cu.text(loaded.code);
  }
  Result<MappedFile> file = artifact.mapCode(kernel.ptx);
  if (!file)
    return file.error();
  std::string text(file->bytes()); // ends in a zero, which the driver looks for
  Loaded loaded = loadData(cu, text.c_str());
  if (loaded.code != 0)
    return refusedPtx(cu, symbol, text, loaded);
  ++compiled;
  return loaded.module;
}

Result<void *> DeviceCode::loadKernel(const Artifact &artifact, const Manifest::Kernel &kernel, uint32_t sharedBytes) {
  const Driver &cu = gpu->driver();
  Result<void *> module = loadImage(kernel.symbol, kernel, artifact);
  if (!module)
    return module.error();
  modules.push_back(*module);
  void *function = nullptr;
  if (Code code = cu.cuModuleGetFunction(&function, *module, kernel.symbol.c_str()))
    return checkpointError("kernel " + printable(kernel.symbol) + ": expected an entry of that name in its code: " + cu.text(code));
  constexpr uint32_t withoutAsking = 48 * 1024;
  if (sharedBytes > withoutAsking)
    if (Status s = cu.check(cu.cuFuncSetAttribute(function, kMaxDynamicShared, int(sharedBytes)), "cuFuncSetAttribute"); !s)
      return Error{s.error().code, "kernel " + printable(kernel.symbol) + ": " + s.error().message};
  return function;
}

Result<DeviceCode> DeviceCode::load(const Gpu &gpu, const Artifact &artifact, const std::vector<uint32_t> &sharedBytes,
                                    std::vector<std::string> &notes) {
  DeviceCode code;
  code.gpu = &gpu;
  const dsv3_module_desc &desc = artifact.module();
  for (uint32_t i = 0; i < desc.n_kernels; ++i) {
    const Manifest::Kernel *kernel = findKernel(*artifact.target().device, desc.kernels[i].symbol);
    if (!kernel)
      return checkpointError("kernel " + printable(desc.kernels[i].symbol) + ": expected code for it in the manifest, got none");
    Result<void *> function = code.loadKernel(artifact, *kernel, sharedBytes[i]);
    if (!function)
      return function.error();
    code.functions.push_back(*function);
  }
  if (const Manifest::Kernel *fill = findKernel(*artifact.target().device, "dummy_fill")) {
    Result<void *> function = code.loadKernel(artifact, *fill, 0);
    if (!function)
      return function.error();
    code.fillFunction = *function;
  }
  if (code.compiled)
    notes.push_back("the driver compiled " + std::to_string(code.compiled) + " of " + std::to_string(code.modules.size()) + " kernels from PTX" +
                    (code.refusal.empty() ? ": the artifact has no machine code for them" : ": it does not take the machine code: " + code.refusal));
  return code;
}

} // namespace dsv3::cuda
