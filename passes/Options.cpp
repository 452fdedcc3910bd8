#include "passes/Options.h"

#include "frontends/quantize/Algorithm.h"
#include "frontends/quantize/Policy.h"

#include <algorithm>

namespace dsv3 {

namespace {
constexpr int64_t chunkMultiple = 16; // rows a linear's tile has at most: a smaller remainder only wastes
constexpr int64_t mostSequences = 1024, mostTokens = int64_t(1) << 20;

Status expectRange(const char *flag, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    return usageError("expected " + std::string(flag) + " between " + std::to_string(least) + " and " + std::to_string(most) +
                      ", got " + std::to_string(value));
  return {};
}
} // namespace

Result<ComputeType> parseComputeType(std::string_view text) {
  if (text == "f32" || text == "float32")
    return ComputeType::F32;
  if (text == "bf16" || text == "bfloat16")
    return ComputeType::BF16;
  return usageError("expected --dtype f32 or bf16, got '" + std::string(text) + "'");
}

Result<Determinism> parseDeterminism(std::string_view text) {
  if (text == "batch")
    return Determinism::Batch;
  if (text == "run")
    return Determinism::Run;
  return usageError("expected --determinism batch or run, got '" + std::string(text) + "'");
}

const std::vector<std::string> &skippablePasses() {
  static const std::vector<std::string> names{"absorb-mla", "fuse-norm", "fuse-gated", "fuse-linears", "fuse-moe", "fuse-quantize"};
  return names;
}

std::string_view name(ComputeType dtype) { return dtype == ComputeType::F32 ? "f32" : "bf16"; }
std::string_view name(Determinism determinism) { return determinism == Determinism::Batch ? "batch" : "run"; }

Status resolve(CompileOptions &o, int64_t maxPosition) {
  if (Result<quantize::Policy> policy = quantize::Policy::builtIn(o.quant); !policy)
    return policy.error();
  if (Result<quantize::Algorithm> algorithm = quantize::parseAlgorithm(o.quantAlgo); !algorithm)
    return algorithm.error();
  else if (quantize::isCalibrated(*algorithm))
    return usageError("--quant-algo=" + o.quantAlgo + " looks at data: quantise a checkpoint with it first (compile-model quantize)");
  for (Status s : {expectRange("--max-batch", o.maxBatch, 1, mostSequences),
                   expectRange("--max-model-len", o.maxModelLen, 1, mostTokens),
                   expectRange("--prefill-chunk", o.prefillChunk, 1, mostTokens), expectRange("--jobs", o.jobs, 0, 1024)})
    if (!s)
      return s;
  for (const std::string &pass : o.skipPasses)
    if (std::find(skippablePasses().begin(), skippablePasses().end(), pass) == skippablePasses().end()) {
      std::string known;
      for (const std::string &name : skippablePasses())
        known += (known.empty() ? "" : ", ") + name;
      return usageError("expected --skip-pass to name one of " + known + ", got '" + pass + "'");
    }
  o.maxModelLen = std::min(o.maxModelLen, maxPosition);
  int64_t roundedLen = (o.maxModelLen + chunkMultiple - 1) / chunkMultiple * chunkMultiple;
  o.prefillChunk = std::min(o.prefillChunk, roundedLen);
  return {};
}

std::vector<int64_t> decodeBuckets(int64_t maxBatch) {
  std::vector<int64_t> buckets;
  for (int64_t b = 1; b < maxBatch; b *= 2)
    buckets.push_back(b);
  buckets.push_back(maxBatch);
  return buckets;
}

} // namespace dsv3
