#include "runtime/engine/Artifact.h"

#include "runtime/core/Hash.h"
#include "runtime/core/Json.h"
#include "runtime/engine/CpuFeatures.h"
#include "runtime/engine/ModuleCheck.h"

#include <cstdlib>
#include <dlfcn.h>
#include <sys/stat.h>

namespace dsv3 {

namespace {

Status checkSize(const std::string &path, uint64_t actual, uint64_t expected) {
  if (actual == expected)
    return {};
  return checkpointError(path + ": expected " + std::to_string(expected) + " bytes, got " +
                         std::to_string(actual) + (actual < expected ? ": the file is cut short" : ""));
}

Status checkHash(const std::string &path, std::string_view bytes, const std::string &expected) {
  std::string actual = hashHex(bytes);
  if (actual == expected)
    return {};
  return checkpointError(path + ": expected hash " + printable(expected) + ", got " + actual +
                         ": the file is damaged");
}

/// Maps a file of the manifest and compares its size.
Result<MappedFile> mapChecked(const std::string &folder, const Manifest::File &file) {
  Result<MappedFile> mapped = MappedFile::open(folder + "/" + file.path);
  if (!mapped)
    return mapped;
  if (Status s = checkSize(mapped->path(), mapped->bytes().size(), file.bytes); !s)
    return s.error();
  return mapped;
}

Result<size_t> chooseVariantOf(const Manifest::Target &target, const std::string &forced) {
  std::vector<std::string> offered;
  for (const Manifest::Variant &v : target.variants)
    offered.push_back(v.name);
  return chooseVariant(offered, cpuFeatures(), forced);
}

/// A file of code: damaged code must not run, and it is small, so its hash is always compared.
Result<MappedFile> mapHashed(const std::string &folder, const Manifest::File &entry) {
  Result<MappedFile> file = mapChecked(folder, entry);
  if (!file)
    return file;
  if (Status s = checkHash(file->path(), file->bytes(), entry.hash); !s)
    return s.error();
  return file;
}

/// Every weight is drawn inside its place, or stored.
Status checkDrawn(const Manifest::Target &target, uint64_t fileBytes) {
  for (const Manifest::Weight &w : target.weights) {
    uint64_t end = w.offset + w.bytes;
    bool inside = end >= w.offset && end <= target.memory.weights && (w.storedAt ? *w.storedAt <= fileBytes && w.bytes <= fileBytes - *w.storedAt : !w.draw.empty());
    for (const DummyFill &fill : w.draw)
      inside = inside && fill.offset >= w.offset && fill.end() <= end && fill.elements() <= w.bytes; // more would only write one place again
    if (!inside)
      return checkpointError("manifest.json: weight " + printable(w.name) + ": expected to be drawn inside its " + std::to_string(w.bytes) +
                             " bytes of the weights, or stored inside the file's " + std::to_string(fileBytes));
  }
  return {};
}

Status checkWeights(const Manifest::Target &target, const MappedFile &file, bool verify) {
  uint64_t size = file.bytes().size();
  if (target.drawn)
    if (Status s = checkDrawn(target, size); !s)
      return s;
  for (const Manifest::Weight &w : target.weights)
    if (!target.drawn && (w.offset > size || w.bytes > size - w.offset))
      return checkpointError("manifest.json: weight " + printable(w.name) + ": expected to end by " +
                             std::to_string(size) + ", got offset " + std::to_string(w.offset) + " and " +
                             std::to_string(w.bytes) + " bytes");
  return verify ? checkHash(file.path(), file.bytes(), target.weightsFile.hash) : Status();
}

/// dlopen takes a name without a slash for something to search for.
std::string libraryPath(const std::string &path) {
  return path.find('/') == std::string::npos ? "./" + path : path;
}

} // namespace

void Artifact::CloseLibrary::operator()(void *handle) const { dlclose(handle); }

Artifact::Artifact(std::string path, Manifest content, size_t target, std::string variant, MappedFile weights,
                   Library library, const dsv3_module_desc *desc)
    : path(std::move(path)), content(std::move(content)), targetIndex(target), variantName(std::move(variant)),
      weightsFile(std::move(weights)), library(std::move(library)), desc(desc) {}

Result<MappedFile> Artifact::mapCode(const Manifest::File &file) const { return mapHashed(path, file); }

/// The shared object of a target: a CPU's best variant, or a device's host program.
static Result<Manifest::Variant> chooseCode(const Manifest::Target &target, const std::string &cpuFeatures) {
  if (target.device)
    return Manifest::Variant{kHostVariant, target.device->host};
  Result<size_t> chosen = chooseVariantOf(target, cpuFeatures);
  if (!chosen)
    return chosen.error();
  return target.variants[*chosen];
}

Result<Manifest> Artifact::readManifest(const std::string &folder) {
  struct stat info;
  if (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
    return checkpointError(folder + ": expected an artifact, a folder written by compile-model");
  return Manifest::load(folder + "/manifest.json");
}

Result<Artifact> Artifact::open(const std::string &folder, const Options &options) {
  Result<Manifest> manifest = readManifest(folder);
  if (!manifest)
    return manifest.error();
  const Manifest::Target *target = manifest->findTarget(options.target);
  if (!target)
    return unsupportedError(folder + ": the artifact has no code for " + options.target + ", only for " +
                            printable(manifest->targetNames()));
  Result<Manifest::Variant> variant = chooseCode(*target, options.cpuFeatures);
  if (!variant)
    return Error{variant.error().code, folder + ": " + variant.error().message};

  Result<MappedFile> weights = mapChecked(folder, target->weightsFile);
  if (!weights)
    return weights.error();
  if (Status s = checkWeights(*target, *weights, options.verify); !s)
    return s.error();
  Result<MappedFile> code = mapHashed(folder, variant->file);
  if (!code)
    return code.error();

  Library library(dlopen(libraryPath(code->path()).c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library)
    return checkpointError("cannot load code: " + printable(dlerror(), 300));
  auto entry = reinterpret_cast<dsv3_module_fn>(dlsym(library.get(), "dsv3_module"));
  const dsv3_module_desc *desc = entry ? entry() : nullptr;
  if (!desc)
    return checkpointError(code->path() + ": expected the function dsv3_module, got none");
  if (Status s = checkModule(*desc, *manifest, *target, variant->name); !s)
    return Error{s.error().code, code->path() + ": " + s.error().message};
  size_t index = size_t(target - manifest->targets.data());
  return Artifact(folder, std::move(*manifest), index, std::move(variant->name), std::move(*weights),
                  std::move(library), desc);
}

} // namespace dsv3
