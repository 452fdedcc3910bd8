#include "runtime/reference/Dummy.h"
#include "runtime/reference/Sampling.h"

namespace dsv3::reference {

Dummy::Dummy(std::string_view name) : key(0xcbf29ce484222325u) {
  for (unsigned char c : name)
    key = (key ^ c) * 0x100000001b3u;
}

static std::array<uint32_t, 4> block(uint64_t key, uint64_t index) {
  return philox4x32({uint32_t(index), uint32_t(index >> 32), 0, 0},
                    {uint32_t(key), uint32_t(key >> 32)});
}

float Dummy::normal(uint64_t index) const {
  uint64_t sum = 0; // of four uniforms: mean 2, variance 1/3
  for (uint32_t w : block(key, index))
    sum += w;
  return float((double(sum) * 0x1p-32 - 2.0) * 1.7320508075688772);
}

uint32_t Dummy::word(uint64_t index) const { return block(key, index)[0]; }

} // namespace dsv3::reference
