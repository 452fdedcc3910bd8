// Block quantisation: one scale per block of the trailing two dimensions.
#pragma once

#include "runtime/reference/Rounding.h"

namespace dsv3::reference {

enum class QuantStorage {
  F8E4M3, ///< largest 448
  I8,     ///< symmetric, -127 .. 127
  I4,     ///< symmetric, scale = absmax / 7; a stored -8 is read, never written
};

/// A scheme in the sense of the dialect's `blocked` attribute. DeepSeek-V3's
/// weights are {F8E4M3, 128, 128}, its activations {F8E4M3, 1, 128}; int8 per
/// token or per output channel is {I8, 1, 0}.
struct QuantScheme {
  QuantStorage storage = QuantStorage::F8E4M3;
  int64_t blockRows = 128, blockCols = 128; ///< 0: the whole dimension
  bool powerOfTwo = false; ///< ue8m0: scales are rounded up to a power of two
  Rounding scaleType = Rounding::F32;
};

/// x ~ data * scale. `data` holds the stored numbers (not their bytes) in x's
/// shape [..., N, K]; `scale` is [..., ceil(N/bn), ceil(K/bk)], edge blocks
/// being partial. Leading dimensions have block 1. A vector [K] is one row and
/// its scale has shape [ceil(K/bk)].
template <typename T> struct Quantized {
  Array<T> data, scale;
  QuantScheme scheme;
};

/// scale = absmax / largest, rounded to `scaleType` (then up to a power of two
/// if asked); data = x / scale, rounded to nearest even and clamped. A block of
/// zeros gets scale 1. Errors: no array, a negative block, NaN or infinity
/// (they have no scale).
template <typename T> Result<Quantized<T>> quantize(const Array<T> &x, const QuantScheme &scheme);

/// data * scale, one product in T. Error: the scale grid does not fit data.
template <typename T> Result<Array<T>> dequantize(const Quantized<T> &x);

/// The largest magnitude a storage type is scaled to: 448, 127 or 7.
double largest(QuantStorage storage);

} // namespace dsv3::reference
