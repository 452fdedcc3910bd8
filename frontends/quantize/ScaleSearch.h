// The scale of one group of integer codes, where some of its numbers matter more than others.
#pragma once

#include "frontends/quantize/Matrix.h"

namespace dsv3::quantize {

/// x / scale to the nearest code; int4 uses -8 too, int8 stays at -127, whose negative exists.
int integerCode(float x, float scale, Code code);

/// The scale with the least sum of importance[k] (w[k] - stored value)^2 among absmax / 7 (127) and smaller ones down to 0.4 of it;
/// `importance` null: all 1. 1 for a group of zeros. (Clipping by mean squared error: Choukroun et al., "Low-bit
/// Quantization of Neural Networks for Efficient Inference", 2019. By importance: Lin et al., AWQ, 2023, section 4.)
float bestScale(const float *w, const float *importance, int64_t n, const Scheme &scheme);

/// Rounds to nearest with bestScale() of each row and group; `importance` [K] may be empty. `scheme` has integer codes and blocks of one row.
QuantizedMatrix roundByImportance(const Matrix &w, const Vector &importance, const Scheme &scheme);

} // namespace dsv3::quantize
