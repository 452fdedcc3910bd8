// manifest.json of an artifact as plain data (docs/artifact.md describes every key).
#pragma once

#include "runtime/core/DummyFill.h"
#include "runtime/core/Result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dsv3 {

/// `format` of the manifests this runtime reads.
constexpr int64_t kArtifactFormat = 2;

struct Manifest {
  struct Model {
    int64_t vocabSize, hiddenSize, layers, mtpLayers, maxPositions;
    std::optional<int32_t> bosId;
    std::vector<int32_t> eosIds;
  };
  struct Config {
    std::string dtype, quant, determinism;
    int64_t maxBatch, maxModelLen, prefillChunk;
  };
  struct File {
    std::string path; ///< relative to the artifact, stays inside it
    std::string hash; ///< 128-bit XXH3, hex
    uint64_t bytes;
  };
  struct Variant {
    std::string name;
    File file;
  };
  struct Memory {
    uint64_t weights, arena, persist, step, kvPage;
    int64_t kvPagesMin;
  };
  /// One packed weight: bytes of the weights file, unless the target's weights are drawn.
  struct Weight {
    std::string name;
    uint64_t offset, bytes;       ///< in the weights pool
    std::vector<DummyFill> draw;  ///< what draws it at load
    std::optional<uint64_t> storedAt; ///< of drawn weights, one that is stored all the same: where in the file
  };
  /// A kernel of a device: machine code, if it was assembled, and PTX for the driver to compile.
  struct Kernel {
    std::string symbol;
    std::optional<File> cubin;
    File ptx;
  };
  /// What a target that runs grids on a device has in the place of variants.
  struct Device {
    std::string arch;     ///< "sm_90a"
    int64_t smCount, smem; ///< built for so many multiprocessors; bytes of shared memory that a block may need
    bool verified;        ///< an assembler has seen every kernel: registers and spills are known
    File host;
    std::vector<Kernel> kernels;
  };
  struct Kv {
    int64_t layers, pageTokens, rowElems;
    uint32_t elem; ///< DSV3_ELEM_*
    int64_t latent = 0; ///< the first so many numbers of a row stand as codes of 8 bits, with one f32 scale; 0: none
    uint32_t codes = 0; ///< of kCodeNames
    /// Bytes of a page in one layer.
    uint64_t pageBytes() const;
  };
  /// A named row-major matrix: an output of a program, or a tap.
  struct Matrix {
    std::string name;
    uint32_t elem; ///< DSV3_ELEM_*
    uint64_t cols;
  };
  struct Program {
    std::string name;
    uint32_t phase; ///< DSV3_PHASE_*
    int64_t tokens, seqs, qblocks, kblocks;
    std::vector<Matrix> outputs;
  };
  struct Target {
    std::string name;
    std::vector<Variant> variants;  ///< of a CPU
    std::optional<Device> device;   ///< of a device: then there are no variants
    File weightsFile;
    bool drawn = false; ///< weights are made at load (`--load-format=dummy`), the file holds the few that are not
    std::vector<Weight> weights;
    Memory memory;
    std::vector<Program> programs;
  };

  std::string compilerName, compilerVersion;
  Model model;
  Config config;
  std::vector<Target> targets; ///< in the order of preference
  Kv kv;
  std::vector<Matrix> taps;

  /// Reads and validates `path`. A missing or wrong key is a BadCheckpoint error naming
  /// it; another `format` or `abi` is refused with both numbers.
  static Result<Manifest> load(const std::string &path);

  /// The target called `name`, or nullptr.
  const Target *findTarget(const std::string &name) const;
  /// "x86-64, sm_90a"
  std::string targetNames() const;
};

/// Bytes of one DSV3_ELEM_* element, 0 for an unknown code; its name ("f32").
uint32_t elemBytes(uint32_t elem);
const char *elemName(uint32_t elem);
/// "prefill", "decode", "score", "mtp", or "?".
const char *phaseName(uint32_t phase);

} // namespace dsv3
