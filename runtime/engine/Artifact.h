// A compiled model on disk, opened: manifest, mapped weights, loaded code.
#pragma once

#include "runtime/core/Abi.h"
#include "runtime/core/MappedFile.h"
#include "runtime/engine/Manifest.h"

#include <memory>
#include <string>

namespace dsv3 {

class Artifact {
public:
  struct Options {
    std::string cpuFeatures; ///< name of the variant to load; empty: the best this CPU runs
    bool verify = false;     ///< also hash the weights, which reads all of them
    std::string target = "x86-64"; ///< of the artifact's targets
  };

  /// Opens `folder` for one target. File sizes, the code's hash, the module's tables and
  /// every address it uses are checked before anything runs. Errors: BadCheckpoint for a
  /// damaged or foreign artifact, Unsupported when it lacks the target or no variant runs on this CPU.
  static Result<Artifact> open(const std::string &folder, const Options &options);

  /// The manifest alone: which targets there are. BadCheckpoint errors.
  static Result<Manifest> readManifest(const std::string &folder);

  const std::string &folder() const { return path; }
  const Manifest &manifest() const { return content; }
  /// What the manifest says of the target that was opened.
  const Manifest::Target &target() const { return content.targets[targetIndex]; }
  const std::string &variant() const { return variantName; }
  const dsv3_module_desc &module() const { return *desc; }

  /// The weights file, read-only, page aligned: the pool as it is, or if `target().drawn` what is copied to where
  /// `Manifest::Weight::storedAt` says.
  std::string_view weights() const { return weightsFile.bytes(); }

  /// Maps a file of the target's code and compares its size and hash. BadCheckpoint errors.
  Result<MappedFile> mapCode(const Manifest::File &file) const;

  /// Path of a file of the checkpoint's tokenizer ("tokenizer.json"); it may be absent.
  std::string tokenizerFile(const std::string &name) const { return path + "/tokenizer/" + name; }

private:
  struct CloseLibrary {
    void operator()(void *handle) const;
  };
  using Library = std::unique_ptr<void, CloseLibrary>;

  Artifact(std::string path, Manifest content, size_t target, std::string variant, MappedFile weights,
           Library library, const dsv3_module_desc *desc);

  std::string path;
  Manifest content;
  size_t targetIndex;
  std::string variantName;
  MappedFile weightsFile;
  Library library;
  const dsv3_module_desc *desc; ///< lives in `library`
};

} // namespace dsv3
