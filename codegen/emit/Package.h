// The artifact's manifest and tokenizer files (docs/artifact.md).
#pragma once

#include "codegen/emit/DeviceTarget.h"
#include "codegen/emit/Object.h"
#include "codegen/emit/PackWeights.h"
#include "runtime/core/Json.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dsv3 {

/// What the manifest says about the model and the options; strings as on the command line.
struct ArtifactInfo {
  int64_t vocabSize = 0, hiddenSize = 0, layers = 0, mtpLayers = 0, maxPosition = 0;
  std::optional<int64_t> bos;
  std::vector<int64_t> eos;
  std::string dtype, quant, determinism, taps;
  int64_t maxBatch = 0, maxModelLen = 0, prefillChunk = 0;
};

inline constexpr const char *kCompilerName = "compile-model";
inline constexpr const char *kCompilerVersion = "0.1.0";

/// Places inside an artifact.
std::string codeFolder(llvm::StringRef target);  ///< "code/x86-64"
std::string weightsPath(llvm::StringRef target); ///< "weights/x86-64/rank-0.bin"

/// By name of a weight: the scheme of the rows that its launches multiply it with, where they are codes. Of a module with launches,
/// after stage tile.
std::map<std::string, std::string> activationSchemes(mlir::ModuleOp module);

/// What was written for one target: variants of a CPU, or the code of a device.
struct TargetFiles {
  std::string name;
  PackedFile weights;
  std::vector<codegen::SharedObject> variants;
  std::optional<codegen::DeviceFiles> device;
  std::map<std::string, std::string> activations; ///< activationSchemes()
};

/// A target's entry in the manifest, from its scheduled module whose files lie in `folder`.
Result<OrderedJson> targetEntry(mlir::ModuleOp module, rt::ModuleOp host, const TargetFiles &files, const ArtifactInfo &info,
                                const std::string &folder);

/// What a target's module says about the model, the same for every target: cache, taps, checkpoint tensors without a use.
OrderedJson commonEntry(mlir::ModuleOp module, rt::ModuleOp host);

/// The manifest. No times and no absolute paths: equal input gives equal bytes.
OrderedJson makeManifest(const ArtifactInfo &info, const OrderedJson &targets, const OrderedJson &common);

/// Writes a small file. DoesNotFit when it cannot be written.
Status writeText(const std::string &path, std::string_view content);

/// Writes manifest.json into `folder`.
Status writeManifest(const OrderedJson &manifest, const std::string &folder);

/// Copies the tokenizer files that the checkpoint has to `folder`/tokenizer. DoesNotFit when a copy cannot be
/// written, BadCheckpoint when a file cannot be read.
Status copyTokenizer(const std::string &checkpointFolder, const std::string &folder);

/// Checkpoint tensors that weight `symbol` reads, directly or through other weights, in order and without repeats.
std::vector<std::string> weightSources(mlir::ModuleOp module, llvm::StringRef symbol);

} // namespace dsv3
