// One linear through one algorithm.
#pragma once

#include "frontends/quantize/Algorithm.h"
#include "frontends/quantize/Inputs.h"

namespace dsv3::quantize {

/// Rows that calibration needs to have seen: with fewer, what looks like structure is chance.
inline constexpr int64_t kFewestTokens = 64;

struct Outcome {
  QuantizedMatrix matrix;
  Algorithm used = Algorithm::Default; ///< the fallback where there were too few rows, the choice of `Auto`
  double weightError = 0;              ///< |w - w'| / |w|
  double error = 0;                    ///< of the output on the rows (outputError); 0 without rows
};

/// Quantises `w` [N, K] to `scheme`, for activations in `activation` (none: plain). `x`: the rows that calibration saw, null when
/// there was none. `Auto` tries the default algorithm, AWQ's clipping (Algorithm::Awq, without factors) and GPTQ on 7 of 8 rows, and
/// takes the one whose output is nearest on the eighth. An algorithm that looks at data becomes the default one with fewer than kFewestTokens rows, and for
/// codes that it does not know (FP8, blocks of rows). Errors: numbers of `w` that are not finite.
Result<Outcome> quantizeLinear(const Matrix &w, const Scheme &scheme, const std::optional<Scheme> &activation, const Inputs *x, Algorithm algorithm);

} // namespace dsv3::quantize
