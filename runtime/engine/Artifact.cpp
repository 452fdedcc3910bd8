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

constexpr const char *kTarget = "x86-64";

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

Status checkWeights(const Manifest &manifest, const MappedFile &file, const Manifest::File &entry,
                    bool verify) {
  uint64_t size = file.bytes().size();
  for (const Manifest::Weight &w : manifest.weights)
    if (w.offset > size || w.bytes > size - w.offset)
      return checkpointError("manifest.json: weight " + printable(w.name) + ": expected to end by " +
                             std::to_string(size) + ", got offset " + std::to_string(w.offset) + " and " +
                             std::to_string(w.bytes) + " bytes");
  return verify ? checkHash(file.path(), file.bytes(), entry.hash) : Status();
}

/// dlopen takes a name without a slash for something to search for.
std::string libraryPath(const std::string &path) {
  return path.find('/') == std::string::npos ? "./" + path : path;
}

} // namespace

void Artifact::CloseLibrary::operator()(void *handle) const { dlclose(handle); }

Artifact::Artifact(std::string path, Manifest content, std::string variant, MappedFile weights,
                   Library library, const dsv3_module_desc *desc)
    : path(std::move(path)), content(std::move(content)), variantName(std::move(variant)),
      weightsFile(std::move(weights)), library(std::move(library)), desc(desc) {}

Result<Artifact> Artifact::open(const std::string &folder, const Options &options) {
  struct stat info;
  if (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
    return checkpointError(folder + ": expected an artifact, a folder written by compile-model");
  Result<Manifest> manifest = Manifest::load(folder + "/manifest.json");
  if (!manifest)
    return manifest.error();
  const Manifest::Target *target = manifest->findTarget(kTarget);
  if (!target)
    return unsupportedError(folder + ": the artifact has no code for " + kTarget + ", only for " +
                            printable(manifest->targets[0].name));
  Result<size_t> chosen = chooseVariantOf(*target, options.cpuFeatures);
  if (!chosen)
    return Error{chosen.error().code, folder + ": " + chosen.error().message};
  const Manifest::Variant &variant = target->variants[*chosen];

  Result<MappedFile> weights = mapChecked(folder, target->weights);
  if (!weights)
    return weights.error();
  if (Status s = checkWeights(*manifest, *weights, target->weights, options.verify); !s)
    return s.error();
  // Damaged code must not run, and it is small: its hash is always compared.
  Result<MappedFile> code = mapChecked(folder, variant.file);
  if (!code)
    return code.error();
  if (Status s = checkHash(code->path(), code->bytes(), variant.file.hash); !s)
    return s.error();

  Library library(dlopen(libraryPath(code->path()).c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library)
    return checkpointError("cannot load code: " + printable(dlerror(), 300));
  auto entry = reinterpret_cast<dsv3_module_fn>(dlsym(library.get(), "dsv3_module"));
  const dsv3_module_desc *desc = entry ? entry() : nullptr;
  if (!desc)
    return checkpointError(code->path() + ": expected the function dsv3_module, got none");
  if (Status s = checkModule(*desc, *manifest, kTarget, variant.name); !s)
    return Error{s.error().code, code->path() + ": " + s.error().message};
  std::string name = variant.name;
  return Artifact(folder, std::move(*manifest), std::move(name), std::move(*weights), std::move(library),
                  desc);
}

} // namespace dsv3
