// What a user may decide about a compilation. One struct, passed by reference to every stage.
#pragma once

#include "runtime/core/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dsv3 {

/// The type activations are rounded to between ops, and the type of plain weights.
enum class ComputeType { F32, BF16 };

/// `Batch`: a request has the same bits alone and among others, in any chunking. `Run`: the same batch
/// has the same bits.
enum class Determinism { Batch, Run };

struct CompileOptions {
  /// A registered target (codegen/targets/Targets.h), one per run of the stages; empty: what the module says, else x86-64.
  std::string target;
  ComputeType dtype = ComputeType::BF16;
  /// A policy (frontends/quantize/Policy.h): which weights and activations have which scheme. "none": weights stay as the checkpoint
  /// stores them, activations plain.
  std::string quant = "none";
  std::string quantConfig;           ///< a file that says it instead; empty: none
  std::string quantAlgo = "default"; ///< how weights are quantised (frontends/quantize/Algorithm.h)
  /// How the cache stores the latent: "bf16", "fp8_e4m3", "fp8_e5m2", or "auto": what the checkpoint asks, else `dtype`.
  std::string kvCacheDtype = "auto";
  Determinism determinism = Determinism::Batch;
  int64_t maxBatch = 8;        ///< sequences of a step: the largest decode bucket
  int64_t maxModelLen = 4096;  ///< tokens of a sequence, prompt and answer; at most the model's max_position
  int64_t prefillChunk = 512;  ///< token capacity of prefill, score and mtp programs
  std::string taps;            ///< regular expression over tap names (specialize/Taps.h); empty: none
  std::vector<std::string> cpuVariants; ///< code variants to emit; empty: all that the target knows
  std::vector<std::string> skipPasses;  ///< optimisations left out, to measure what they are worth: see skippablePasses()
  int jobs = 0;                ///< threads of the compiler; 0: one per core
  bool observers = false;      ///< calibration: tap what linears read (--dsv3-insert-observers)
};

/// "f32"/"bf16" and "batch"/"run"; usage errors name the flag.
Result<ComputeType> parseComputeType(std::string_view text);
Result<Determinism> parseDeterminism(std::string_view text);
/// Names that `skipPasses` may hold: without them every program still compiles; fusions leave the bits, absorption in decode reorders sums.
const std::vector<std::string> &skippablePasses();
std::string_view name(ComputeType dtype);
std::string_view name(Determinism determinism);

/// Checks ranges, and lowers `maxModelLen` to `maxPosition` and `prefillChunk` to `maxModelLen` rounded up to a
/// multiple of 16 tokens. Usage errors name the flag.
Status resolve(CompileOptions &options, int64_t maxPosition);

/// Sequence capacities of the decode programs: powers of two below `maxBatch`, then `maxBatch`.
std::vector<int64_t> decodeBuckets(int64_t maxBatch);

} // namespace dsv3
