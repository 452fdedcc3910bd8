#include "runtime/core/DummyRow.h"

#include <algorithm>

namespace dsv3 {

namespace {
constexpr int kLanes = 16;

// One body for several instruction sets, chosen at load. Each lane is Philox4x32-10 (Philox.h) in 64-bit words, whose products
// of 32-bit halves are one instruction.
#define DSV3_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))

DSV3_CLONES void normals(uint64_t key, uint64_t first, float *out) {
  constexpr uint64_t low = 0xffffffffu;
  uint64_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    uint64_t index = first + uint64_t(i);
    c0[i] = index & low, c1[i] = index >> 32, c2[i] = 0, c3[i] = 0;
  }
  uint64_t k0 = key & low, k1 = key >> 32;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kLanes; ++i) {
      uint64_t p0 = uint64_t(0xD2511F53u) * uint64_t(uint32_t(c0[i])), p1 = uint64_t(0xCD9E8D57u) * uint64_t(uint32_t(c2[i]));
      c0[i] = (p1 >> 32) ^ c1[i] ^ k0;
      c2[i] = (p0 >> 32) ^ c3[i] ^ k1;
      c1[i] = p1 & low;
      c3[i] = p0 & low;
    }
    k0 = (k0 + 0x9E3779B9u) & low;
    k1 = (k1 + 0xBB67AE85u) & low;
  }
  for (int i = 0; i < kLanes; ++i)
    out[i] = float((double(int64_t(c0[i] + c1[i] + c2[i] + c3[i])) * 0x1p-32 - 2.0) * 1.7320508075688772);
}

/// Rounds normal numbers times the spread of codes to E4M3; none of them reaches the largest.
DSV3_CLONES void roundCodes(float *x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    float v = DummyTensor::kCodeSpread * x[i];
    uint32_t bits = floatBits(v), sign = bits & 0x80000000u, size = bits & 0x7fffffffu;
    uint32_t normal = (size + 0x7ffffu + ((size >> 20) & 1)) & ~0xfffffu;
    float step = (floatFromBits(size) + 0x1p14f) - 0x1p14f; // below 2^-6: multiples of 2^-9
    uint32_t rounded = size < 0x3c800000u ? floatBits(step) : normal;
    x[i] = floatFromBits(rounded | sign);
  }
}
} // namespace

void drawNormals(const Dummy &stream, uint64_t first, int64_t n, float *out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    normals(stream.key(), first + uint64_t(i), out + i);
  float rest[kLanes];
  if (i < n) {
    normals(stream.key(), first + uint64_t(i), rest);
    std::copy(rest, rest + (n - i), out + i);
  }
}

void drawCodeValues(const Dummy &stream, uint64_t first, int64_t n, float *out) {
  drawNormals(stream, first, n, out);
  roundCodes(out, n);
}

} // namespace dsv3
