// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel
// Random Numbers: As Easy as 1, 2, 3" (SC 2011). No state: a draw is a function of its key
// and counter, so a request draws the same numbers in any batch and on any device.
#pragma once

#include <array>
#include <cstdint>

namespace dsv3 {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

/// Ten rounds over `counter` under `key`.
inline PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t(0xD2511F53u) * counter[0];
    uint64_t p1 = uint64_t(0xCD9E8D57u) * counter[2];
    counter = {uint32_t(p1 >> 32) ^ counter[1] ^ key[0], uint32_t(p1),
               uint32_t(p0 >> 32) ^ counter[3] ^ key[1], uint32_t(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// 53 random bits for the token at `position` of a request's `stream`.
inline uint64_t philoxBits(uint64_t seed, uint64_t stream, uint32_t position) {
  PhiloxCounter r = philox4x32({position, 0, uint32_t(stream), uint32_t(stream >> 32)},
                               {uint32_t(seed), uint32_t(seed >> 32)});
  return (uint64_t(r[0]) << 32 | r[1]) >> 11;
}

/// The same as a number in [0, 1).
inline double philoxUniform(uint64_t seed, uint64_t stream, uint32_t position) {
  return double(philoxBits(seed, stream, position)) * 0x1p-53;
}

} // namespace dsv3
