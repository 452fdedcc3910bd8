// Factors per channel that make a linear easier to quantise: y = (x / s) (w s)^T. What is divided by s is folded into the op that
// computed x: the gamma of a norm, or the rows of an up projection; so all linears that read x share one s.
#pragma once

#include "frontends/quantize/Inputs.h"

namespace dsv3::quantize {

/// A linear that reads the value.
struct Reader {
  Matrix w;                          ///< [N, K]
  std::optional<Scheme> weight;      ///< none: stays plain, and costs nothing
  std::optional<Scheme> activation;  ///< none: plain
  const Inputs *x;                   ///< the rows that this linear sees
};

/// s[k] = max|x[k]|^alpha / max|w[k]|^(1 - alpha), maxima over all readers: moves the range of activations into weights. 1 where a channel
/// is 0 in either. (Xiao et al., "SmoothQuant", 2022, equation 4.)
Vector smoothQuantFactors(const std::vector<Reader> &readers, float alpha = 0.5f);

/// s[k] = mean|x[k]|^r, with the r out of 0, 1/20, .. 1 whose quantised outputs are nearest to the plain ones, summed over readers
/// relative to each one's output. r = 0 is no smoothing. (Lin et al., "AWQ: Activation-aware Weight Quantization", 2023, section 3.2.)
Vector awqFactors(const std::vector<Reader> &readers);

/// |x w^T - (x / s) (w s)^T|^2 / |x w^T|^2 of one reader, with w s (and x / s) quantised: round to nearest, scales from the largest
/// number. An empty s is 1.
double smoothedError(const Reader &reader, const Vector &s);

} // namespace dsv3::quantize
