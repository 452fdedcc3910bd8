// Block quantisation: one scale, and perhaps one zero point, per block of the trailing two dimensions; and the
// products of quantised operands, integer by integer.
#pragma once

#include "runtime/reference/Rounding.h"

namespace dsv3::reference {

enum class QuantStorage {
  F8E4M3, ///< largest 448
  F8E5M2, ///< largest finite 57344
  I8,     ///< symmetric: -127 .. 127, a stored -128 is read
  I4,     ///< symmetric: scale = absmax / 7; a stored -8 is read, and written only with zero points
};

/// A scheme in the sense of the dialect's `blocked` attribute. DeepSeek-V3's
/// weights are {F8E4M3, 128, 128}, its activations {F8E4M3, 1, 128}; int8 per
/// token or per output channel is {I8, 1, 0}.
struct QuantScheme {
  QuantStorage storage = QuantStorage::F8E4M3;
  int64_t blockRows = 128, blockCols = 128; ///< 0: the whole dimension
  bool powerOfTwo = false; ///< ue8m0: scales are rounded up to a power of two
  Rounding scaleType = Rounding::F32;
  /// Integers only: value = (stored - zero) * scale. Ranges are stretched to hold 0 and map to all 2^b codes, so
  /// that zero points are codes as well.
  bool zeroPoints = false;
  /// The scale of a block without zero points: instead of the one for absmax, the best of those for absmax * (50 - i) / 50 with
  /// i = 0 .. 30, by the sum over the block, row by row, of squared errors in double; of equals the first.
  bool searched = false;
};

/// x ~ (data - zero) * scale. `data` holds the stored numbers (not their bytes) in x's
/// shape [..., N, K]; `scale` is [..., ceil(N/bn), ceil(K/bk)], edge blocks
/// being partial. Leading dimensions have block 1. A vector [K] is one row and
/// its scale has shape [ceil(K/bk)]. `zero` has the shape of `scale`, and is absent without zero points.
template <typename T> struct Quantized {
  Array<T> data, scale;
  QuantScheme scheme;
  Array<T> zero = {};
};

/// scale = absmax / largest, rounded to `scaleType` (then up to a power of two
/// if asked); data = x / scale, rounded to nearest even and clamped. A block of
/// zeros gets scale 1. With zero points, scale = (max - min) / (2^b - 1) over the
/// block's values and 0. Errors: no array, a negative block, NaN or infinity
/// (they have no scale), zero points of floats.
template <typename T> Result<Quantized<T>> quantize(const Array<T> &x, const QuantScheme &scheme);

/// (data - zero) * scale, one product in T. Errors: the grid of scales or zero points does not fit data.
template <typename T> Result<Array<T>> dequantize(const Quantized<T> &x);

inline bool isFloat(QuantStorage storage) { return storage == QuantStorage::F8E4M3 || storage == QuantStorage::F8E5M2; }

/// The largest magnitude a storage type is scaled to: 448, 57344, 127 or 7.
double largest(QuantStorage storage);

/// The integer part of a product of integers, to the bit: what a kernel holds in int32 before it multiplies by
/// scales. x [T, K] (any grid of rows 1) and w [N, K]; K is cut where either changes its scale, into G pieces:
/// sums[t, n, g] = sum over k of piece g of (x[t, k] - zx) (w[n, k] - zw). Shape [T, N, G]. Errors: operands that
/// are not integers, K that differs, a sum outside int32 (an int8 product needs K > 131,072 for that).
template <typename T> Result<Array<int32_t>> integerProducts(const Quantized<T> &x, const Quantized<T> &w);

/// y[t, n] = sum over pieces, ascending, of (sum of stored products) * (sx * sw), each step rounded to T: x w^T of
/// quantised operands as a kernel computes it. The inner sums are integerProducts() for integers; where an operand
/// is FP8 they are in T, k ascending. W8A8, W4A8 and FP8 x FP8 differ in nothing else. -> [T, N]
template <typename T> Result<Array<T>> quantizedLinear(const Quantized<T> &x, const Quantized<T> &w);

} // namespace dsv3::reference
