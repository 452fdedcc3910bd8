// Rounding to nearest: codes and scales of a matrix from its numbers alone.
//
// One block of numbers shares a scale, value = code * scale. Without clipping the largest magnitude of a block becomes the
// largest code: scale = absmax / 448 (E4M3), / 127 (int8), / 7 (int4), rounded to the type that scales are stored in before it
// is used, up to a power of two if asked. Codes are x / scale, rounded to nearest even and clamped to +-448, +-127 or +-7. A block
// of zeros, or of numbers too small for any scale, gets scale 1 and codes 0. These are the rules of runtime/reference/Quantize.h,
// written a second time: tests hold the two together bit by bit.
//
// `Clip::Mse` tries smaller scales as well: few large numbers are cut off so that the many small ones are rounded finer.
//
// No MLIR here: compile-model's packing, its quantiser and the algorithms that need data all call this.
#pragma once

#include "runtime/core/DType.h"
#include "runtime/core/Result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dsv3::quantize {

enum class Code { F8E4M3, I8, I4 };

/// How a matrix [N, K] is to be stored.
struct Scheme {
  Code code = Code::I8;
  int64_t blockRows = 1, blockCols = 0; ///< numbers that share a scale; 0: the whole dim
  DType scaleType = DType::F32;         ///< F32, BF16 or F16
  bool powerOfTwo = false;              ///< scales are rounded up to powers of two (ue8m0)

  bool operator==(const Scheme &o) const {
    return code == o.code && blockRows == o.blockRows && blockCols == o.blockCols && scaleType == o.scaleType && powerOfTwo == o.powerOfTwo;
  }
  bool operator!=(const Scheme &o) const { return !(*this == o); }
  int bits() const { return code == Code::I4 ? 4 : 8; }
  /// "int4 in groups of 128", "int8 per channel", "fp8 in blocks of 128x128".
  std::string text() const;
};

/// How the scale of a block is chosen.
enum class Clip {
  Absmax, ///< the largest magnitude is the largest code
  Mse,    ///< of absmax times 1, 0.98, 0.96, .. 0.4: the one with the least sum of squared errors, the largest of equals
};

/// Largest magnitude of a code: 448, 127, 7.
float largest(Code code);

/// The scale of a block that holds the `n` finite numbers of `x` (in any order: errors are summed in float64, ascending).
float findScale(const float *x, size_t n, const Scheme &scheme, Clip clip);

/// BadCheckpoint when a scale is too large for the type that it is stored in; `row` is the first that it scales.
Status checkScale(float scale, const Scheme &scheme, int64_t row);

/// The code of each of `n` finite numbers under `scale` > 0: a byte each, E4M3 or signed.
void encode(const float *x, size_t n, float scale, Code code, uint8_t *out);
/// code * scale, one product in float32.
float decode(uint8_t code, float scale, Code kind);

/// A matrix in a scheme. `scales` is [ceil(N / blockRows), ceil(K / blockCols)], edge blocks being partial.
struct Quantized {
  std::vector<uint8_t> codes; ///< [N, K], a byte each, int4 too
  std::vector<float> scales;
};

/// Quantises `rows` x `cols` numbers. BadCheckpoint, with row and column, when a number is not finite, or a scale none that
/// can be stored. Where blocks have one row
/// each, a matrix may be handed over in pieces of rows.
Result<Quantized> quantize(const float *x, int64_t rows, int64_t cols, const Scheme &scheme, Clip clip);

} // namespace dsv3::quantize
