// From logits to one token: penalties, filters and a counter-based generator.
#pragma once

#include "runtime/reference/Array.h"

#include <array>
#include <utility>

namespace dsv3::reference {

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
/// as 1, 2, 3", SC 2011): a bijection of the counter chosen by the key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// The random number of one sampled token, in [0, 1) with 53 bits: a function of
/// (seed, request, position) alone, so that neither batch nor order matters.
/// key = seed (low word first); counter = {position low, position high, request
/// low, request high}; value = (word0 * 2^21 + (word1 >> 11)) * 2^-53.
double sampleUniform(uint64_t seed, uint64_t request, uint64_t position);

struct SamplingParams {
  double temperature = 1; ///< 0: greedy
  int64_t topK = 0;       ///< 0: off
  double topP = 1;        ///< 1: off
  double minP = 0;        ///< 0: off
  double repetitionPenalty = 1;
  double presencePenalty = 0;
  double frequencyPenalty = 0;
  std::vector<std::pair<int32_t, double>> logitBias;
};

/// Largest element, ties to the lower id: logits [V]. A logit of
/// minus infinity is a forbidden token. Error: none finite, NaN, or infinity.
template <typename T> Result<int32_t> greedy(const Array<T> &logits);

/// log softmax over the last dimension, the maximum subtracted first.
template <typename T> Result<Array<T>> logSoftmax(const Array<T> &logits);

/// The probabilities [V] a token is drawn from. Steps, in this order:
///  0. logit bias is added;
///  1. repetition penalty: a logit whose id is in `seen` is divided by it if
///     positive, else multiplied (Keskar et al. 2019, CTRL);
///     then frequency and presence penalty: a logit whose id is n > 0 times in
///     `generated` loses n * frequencyPenalty + presencePenalty;
///  2. logits / temperature;
///  3. min-p: all below minP times the largest probability go;
///  4. top-k: all below the k-th largest go (ties with it stay);
///  5. top-p: over the renormalised rest from the most probable down, ties by
///     lower id, a token stays while the sum before it is below p.
/// This is vLLM's order: min-p, which looks at every token, comes first.
/// The best token always stays. Temperature 0 gives all mass to the greedy one.
/// Errors: parameters out of range, an id in `seen`, `generated` or
/// `logitBias` outside the vocabulary, and
/// those of `greedy`.
template <typename T>
Result<Array<T>> sampleDistribution(const Array<T> &logits, const SamplingParams &params,
                                    const std::vector<int32_t> &seen = {},
                                    const std::vector<int32_t> &generated = {});

/// Inverse of the cumulative distribution over ascending ids at `uniform`.
template <typename T> Result<int32_t> draw(const Array<T> &probabilities, double uniform);

/// sampleDistribution, then draw at sampleUniform(seed, request, position).
template <typename T>
Result<int32_t> sample(const Array<T> &logits, const SamplingParams &params, uint64_t seed,
                       uint64_t request, uint64_t position, const std::vector<int32_t> &seen = {},
                       const std::vector<int32_t> &generated = {});

} // namespace dsv3::reference
