// How a token is chosen from a row of logits: arithmetic that gives the same token wherever it runs.
//
// Weights of tokens are integers, so a sum of them is exact and has no order: a thread, a block of GPU threads and a cluster
// agree without a word about how they share a row. What is rounded is rounded once per token, by the same operations on
// every machine (tokenWeight here, codegen/sm90/simt/SampleEmitter.cpp on a GPU).
//
//   below   = top - logit                      float32; 0 for the greatest
//   weight  = 2^40 2^-(below * scale)          an integer, see tokenWeight; scale = log2(e) / temperature
//   1. min-p:  tokens with weight < min_weight go.
//   2. top-k:  of the rest, tokens whose `below` is greater than the k-th smallest go. Ties with it stay.
//   3. top-p:  of the rest, by ascending `below`, equal ones by ascending id, a token stays while the weight before it is
//              less than p times the weight of the rest. The first always stays.
//   4. draw:   the first token in order of ids up to which the kept weights sum to more than random * their sum.
//
// This is vLLM's order (vllm/v1/sample/sampler.py), and runtime/reference/Sampling.h in integers: a token's probability
// differs from the exact one by less than 2e-7 of it and 2^-40 of the greatest.
#pragma once

#include "runtime/core/Abi.h"

#include <cstdint>
#include <vector>

namespace dsv3 {

constexpr int kWeightBits = 40; ///< the greatest token weighs 2^kWeightBits
/// Sums of weights stay below 2^63 for vocabularies up to this.
constexpr int64_t kMostTokens = int64_t(1) << 22;
/// log2(e), the scale of temperature 1.
constexpr float kScaleOfOne = 1.44269504f;

/// 2^40 2^-(below * scale), cut to an integer: relative error of the power below 1.7e-7, 0 from 2^-41 on. `below` is not
/// negative and may be infinite; `scale` is finite and positive.
uint64_t tokenWeight(float below, float scale);

/// The element of the step buffer for these parameters: temperature 0 is greedy, topK 0 and topP 1 and minP 0 keep all.
/// `random` has 53 bits. The caller adds DSV3_SAMPLE_ROW where a device shall choose.
dsv3_sampling samplingOf(double temperature, int64_t topK, double topP, double minP, uint64_t random);

/// log softmax of the chosen token under the unmodified logits.
double logProbability(const dsv3_sampled &chosen);

/// 1 + the first logit that is not finite; 0: all are.
int32_t firstNotFinite(const float *logits, int64_t count);

/// The index of the greatest logit, the lowest of equals. No logit is NaN.
int64_t firstGreatest(const float *logits, int64_t count);

/// Chooses on the host. Keeps buffers: one object per thread.
class TokenChooser {
public:
  /// With `fault` set when a logit is not finite.
  dsv3_sampled choose(const float *logits, int64_t count, const dsv3_sampling &how);

  /// The id alone, from logits that were looked at: finite, or minus infinity for a token that may not be chosen. At least
  /// one is finite.
  int32_t pick(const float *logits, int64_t count, const dsv3_sampling &how);

private:
  struct Token {
    float below;
    int32_t id;
    uint64_t weight;
  };

  void keepTopK(int64_t k);
  void keepTopP(uint64_t p, float scale);
  int32_t draw(const float *logits, int64_t count, float top, const dsv3_sampling &how);

  std::vector<uint64_t> weights;
  std::vector<Token> kept, edge;
};

/// `top`, `logit` and `mass` of a token that was chosen by other logits (penalised ones).
dsv3_sampled describeToken(const float *logits, int64_t count, int32_t id);

} // namespace dsv3
