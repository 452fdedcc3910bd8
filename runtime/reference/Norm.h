// RMSNorm and SwiGLU.
#pragma once

#include "runtime/reference/Rounding.h"

namespace dsv3::reference {

template <typename T> struct NormResult {
  Array<T> sum; ///< x + residual, as the norm read it; absent without a residual
  Array<T> y;
};

/// RMSNorm over the last dimension (Zhang and Sennrich 2019; computed in the
/// order of DeepSeek-V3's release): y = x * rsqrt(mean(x^2) + eps) * gamma.
/// x [..., D], gamma [D] -> y [..., D]. With a residual [..., D] the norm reads
/// x + residual rounded to `sumType`: exactly what an `add` with that result
/// type followed by a plain norm gives, so fusing the two changes no bit.
template <typename T>
Result<NormResult<T>> rmsNorm(const Array<T> &x, const Array<T> &residual, const Array<T> &gamma,
                              double eps, Rounding sumType = Rounding::Exact);

/// The form without a residual.
template <typename T>
Result<Array<T>> rmsNorm(const Array<T> &x, const Array<T> &gamma, double eps);

/// y = silu(gate) * up, silu(v) = v / (1 + e^-v) (Shazeer 2020): shapes equal.
template <typename T> Result<Array<T>> swiglu(const Array<T> &gate, const Array<T> &up);

/// The same from one array [..., 2F] that holds gate, then up -> [..., F].
template <typename T> Result<Array<T>> swiglu(const Array<T> &gateUp);

} // namespace dsv3::reference
