// Rotary position embedding (Su et al. 2021) with YaRN (Peng et al. 2023), as
// DeepSeek-V3's release and HuggingFace transformers define it.
#pragma once

#include "runtime/reference/Array.h"

namespace dsv3::reference {

/// What `config.json` says about positions. `factor` 1 is plain RoPE.
struct RopeParams {
  int64_t dims = 64; ///< lanes that turn; even
  double theta = 10000;
  bool interleaved = true; ///< pairs are (2i, 2i+1), else (i, i + dims/2)
  bool yarn = false;
  double factor = 1;
  double original = 4096; ///< positions before the context was extended
  double betaFast = 32, betaSlow = 1;
  double mscale = 1, mscaleAllDim = 0;
};

/// Angle of pair i at a position p: float32 invFreq[i] times p in float64; its
/// cosine and sine are rounded to float32, then times attentionFactor in
/// float32. (Multiplying in float32, as transformers does, is off by 1e-3 at
/// position 163,839.)
struct RopeTable {
  std::vector<float> invFreq; ///< [dims / 2], radians per position
  float attentionFactor = 1;

  struct CosSin {
    float cos, sin;
  };
  CosSin at(int64_t position, int64_t pair) const;
};

/// 0.1 * mscale * ln(factor) + 1, and 1 when factor <= 1 (YaRN, eq. 22 and the
/// release's `yarn_get_mscale`).
double yarnMscale(double factor, double mscale);

/// Errors: odd or non-positive dims, theta <= 1, YaRN's factor < 1 or a
/// non-positive `original`.
Result<RopeTable> ropeTable(const RopeParams &params);

/// headDim^-0.5 * m^2, m = yarnMscale(factor, mscaleAllDim) under YaRN, else 1.
double softmaxScale(int64_t headDim, const RopeParams &params);

/// Rotates lanes at .. at+dims-1 of every head by its token's angle; the others
/// pass. x [T, ..., D], positions [T] -> same shape; a position of -1 is a
/// padded row and passes unturned. A rotated pair (a, b) -> (a cos - b sin,
/// a sin + b cos) is stored where it lay, so a cache row has the checkpoint's
/// lane order. (transformers de-interleaves first: that permutes q and k alike
/// and leaves every score the same, but its states are permuted.)
template <typename T>
Result<Array<T>> rope(const Array<T> &x, const Ids &positions, const RopeTable &table, int64_t at,
                      bool interleaved);

} // namespace dsv3::reference
