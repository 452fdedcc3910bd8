// GPTQ: rounds column after column and lets the columns to come make up for what was lost.
//
// Frantar, Ashkboos, Hoefler, Alistarh: "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", 2022
// (https://arxiv.org/abs/2210.17323): algorithm 1, lazy batches of columns, the Cholesky form of the inverse Hessian.
#pragma once

#include "frontends/quantize/Inputs.h"

namespace dsv3::quantize {

struct GptqOptions {
  /// Added to the Hessian's diagonal, as a part of its mean. The paper has 0.01; on the example model 0.1 is better by 0.1% of
  /// perplexity on other text than the calibration's.
  float damping = 0.1f;
  /// Columns of large activations first (act_order). Scales are then those of the weight as it was ("static groups"), and the stored
  /// order of columns does not change.
  bool activationOrder = true;
  int64_t block = 128; ///< columns between two updates of the rest
};

/// Minimises |X (W - W')^T| over codes, greedily. Scales are searched with each column's activations as importance; in the columns' own
/// order a group's scale is that of its columns after all updates before it. A channel that calibration never saw (a Hessian row of
/// 0) is rounded to nearest. `scheme` has integer codes and blocks of one row; `x` has rows.
QuantizedMatrix gptq(const Matrix &w, const Scheme &scheme, const Inputs &x, const GptqOptions &options = {});

} // namespace dsv3::quantize
