// Rows of drawn numbers at the speed of vectors: the same bits as runtime/core/Dummy.h gives one by one.
#pragma once

#include "runtime/core/Dummy.h"

namespace dsv3 {

/// Normal numbers of indices [first, first + n).
void drawNormals(const Dummy &stream, uint64_t first, int64_t n, float *out);

/// The numbers that E4M3 codes of these indices stand for, without a scale.
void drawCodeValues(const Dummy &stream, uint64_t first, int64_t n, float *out);

} // namespace dsv3
