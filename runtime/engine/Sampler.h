// Chooses the next token from float32 logits.
#pragma once

#include "runtime/core/Result.h"
#include "runtime/core/TokenChoice.h"
#include "runtime/engine/TokenConstraint.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace dsv3 {

struct SamplingParams {
  double temperature = 0; ///< 0: greedy
  int64_t topK = 0;       ///< 0: all
  double topP = 1;        ///< 1: all
  double minP = 0;        ///< 0: all
  double repetitionPenalty = 1;
  double presencePenalty = 0;  ///< taken from the logits of tokens that were generated
  double frequencyPenalty = 0; ///< the same, times how often they were
  std::vector<std::pair<int32_t, float>> logitBias; ///< added to the logits of these ids; an id given twice gets both
  uint64_t seed = 0;
  uint64_t stream = 0; ///< tells requests with one seed apart

  /// Usage error naming the parameter as the command line does and its range: "presence-penalty: expected a number from -2
  /// to 2, got 3" (with '_' for '-' it is the name of the HTTP API). `vocab` bounds the ids of `logitBias`.
  Status validate(int64_t vocab = std::numeric_limits<int32_t>::max()) const;
};

/// A token and the natural log of its probability under the unmodified logits.
struct TokenLogprob {
  int32_t id;
  double logprob;
};

struct SampledToken {
  int32_t id;
  double logprob; ///< natural log of its probability under the unmodified logits
  std::vector<TokenLogprob> top; ///< the most probable tokens, descending, equal ones by ascending id
};

/// What surrounds a choice, beside the parameters a user gave.
struct SamplingContext {
  int64_t promptTokens = 0;              ///< the first ids of the history; those behind them were generated
  int32_t topLogprobs = -1;              ///< how many entries `SampledToken::top` gets; none up to 0
  TokenConstraint *constraint = nullptr; ///< masks the logits and is told the choice
  const std::vector<int32_t> *forbidden = nullptr; ///< ids that are not chosen as long as there are others; may be null
};

/// Whether a device can choose the next token for these parameters. This is the one place that decides: what a device
/// does not do (penalties, which need the history; biases; constraints; ids that are forbidden; lists of probabilities) is done
/// here, from a row of logits that is copied for it.
bool canChooseOnDevice(const SamplingParams &params, const SamplingContext &context = {});

/// What a choice needs to know of the parameters and of the position that is drawn (the length of prompt and output). The
/// generator is read here: one Philox number by (seed, stream, position), so a draw does not depend on the batch.
dsv3_sampling samplingOf(const SamplingParams &params, int64_t position);

/// A chosen token; BadCheckpoint when a logit was not finite. `position` is that of the last token.
Result<SampledToken> tokenOf(const dsv3_sampled &chosen, int64_t position);

/// Order of the steps, as in vLLM's V1 sampler (vllm/v1/sample/sampler.py, with its default logprobs mode raw_logprobs):
/// logit bias; repetition penalty over prompt and output; frequency and presence penalty over the output; the constraint's
/// mask; ids that are forbidden; then what runtime/core/TokenChoice.h says: the same token as a device chooses. Probabilities that are reported are
/// those before all of it. Keeps buffers: one object per thread.
class Sampler {
public:
  explicit Sampler(int64_t vocabSize) : vocab(vocabSize) {}

  /// `history` is prompt and output so far, ids of the vocabulary; its length is the position that is drawn. BadCheckpoint
  /// when a logit is not finite; its position is that of the last token. Usage error for a biased id outside the vocabulary.
  Result<SampledToken> sample(const float *logits, const SamplingParams &params, const std::vector<int32_t> &history,
                              const SamplingContext &context = {});

private:
  Status adjust(const SamplingParams &params, const std::vector<int32_t> &history, int64_t promptTokens);
  void forbid(const std::vector<int32_t> &ids);

  int64_t vocab;
  std::vector<float> adjusted;
  std::vector<int64_t> generated; ///< how often each id was; all zero between calls
  std::vector<bool> seen;
  TokenChooser chooser;
};

/// The `count` most probable tokens of a row of finite logits, descending, equal ones by ascending id.
std::vector<TokenLogprob> topLogprobs(const float *logits, int64_t vocab, int64_t count);

/// BadCheckpoint for the first logit that is not finite: "logit 5 at position 6
/// is not finite: the weights overflow". Only weights can do that, the input
/// cannot.
Status checkFinite(const float *logits, int64_t count, int64_t position);

/// log softmax(logits)[id], summed in double.
double logProbability(const float *logits, int64_t count, int32_t id);

/// The index of the greatest logit; the lower one of equals.
int32_t argmax(const float *logits, int64_t count);

} // namespace dsv3
