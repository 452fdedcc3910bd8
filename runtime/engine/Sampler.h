// Chooses the next token from float32 logits.
#pragma once

#include "runtime/core/Result.h"
#include "runtime/core/TokenChoice.h"

#include <cstdint>
#include <vector>

namespace dsv3 {

struct SamplingParams {
  double temperature = 0; ///< 0: greedy
  int64_t topK = 0;       ///< 0: all
  double topP = 1;        ///< 1: all
  double minP = 0;        ///< 0: all
  double repetitionPenalty = 1;
  uint64_t seed = 0;
  uint64_t stream = 0; ///< tells requests with one seed apart

  /// Usage error naming the parameter and its range.
  Status validate() const;
};

struct SampledToken {
  int32_t id;
  double logprob; ///< natural log of its probability under the unmodified logits
};

/// Whether a device can choose the next token for these parameters. This is the one place that decides: what a device
/// does not do (penalties, which need the history) is chosen here, from a row of logits that is copied for it.
bool canChooseOnDevice(const SamplingParams &params);

/// What a choice needs to know of the parameters and of the position that is drawn (the length of prompt and output). The
/// generator is read here: one Philox number by (seed, stream, position), so a draw does not depend on the batch.
dsv3_sampling samplingOf(const SamplingParams &params, int64_t position);

/// A chosen token; BadCheckpoint when a logit was not finite. `position` is that of the last token.
Result<SampledToken> tokenOf(const dsv3_sampled &chosen, int64_t position);

/// Order of the steps, as in vLLM's V1 sampler (vllm/v1/sample/sampler.py): repetition penalty over prompt and output, then
/// what runtime/core/TokenChoice.h says: the same token as a device chooses. Keeps buffers: one object per thread.
class Sampler {
public:
  explicit Sampler(int64_t vocabSize) : vocab(vocabSize) {}

  /// `history` is prompt and output so far; its length is the position that is
  /// drawn. BadCheckpoint when a logit is not finite; its position is that of
  /// the last token.
  Result<SampledToken> sample(const float *logits, const SamplingParams &params,
                              const std::vector<int32_t> &history);

private:
  void penalise(double penalty, const std::vector<int32_t> &history);

  int64_t vocab;
  std::vector<float> adjusted;
  std::vector<bool> seen;
  TokenChooser chooser;
};

/// BadCheckpoint for the first logit that is not finite: "logit 5 at position 6
/// is not finite: the weights overflow". Only weights can do that, the input
/// cannot.
Status checkFinite(const float *logits, int64_t count, int64_t position);

/// log softmax(logits)[id], summed in double.
double logProbability(const float *logits, int64_t count, int32_t id);

/// The index of the greatest logit; the lower one of equals.
int32_t argmax(const float *logits, int64_t count);

} // namespace dsv3
