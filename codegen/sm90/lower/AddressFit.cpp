#include "codegen/sm90/lower/AddressFit.h"

namespace dsv3::codegen {

/// Combines the terms of the set bits.
template <typename Combine> static int64_t overBits(const std::array<int64_t, AddressFit::kBits> &terms, int64_t thread, Combine combine) {
  int64_t out = 0;
  for (int i = 0; i < AddressFit::kBits; ++i)
    if (thread >> i & 1)
      out = combine(out, terms[i]);
  return out;
}

static int64_t evaluate(const AddressFit &fit, int64_t reg, int64_t thread) {
  return fit.offset[reg] + overBits(fit.linear, thread, std::plus<int64_t>()) + (fit.mask[reg] ^ overBits(fit.exchanged, thread, std::bit_xor<int64_t>()));
}

std::optional<AddressFit> fitAddress(int64_t registers, const std::function<int64_t(int64_t, int64_t)> &at, tile::SmemLayout::Xor exchange) {
  const int64_t bits = ((int64_t(1) << exchange.b) - 1) << exchange.m;
  AddressFit fit;
  const int64_t origin = at(0, 0);
  for (int i = 0; i < AddressFit::kBits; ++i) {
    const int64_t one = at(0, int64_t(1) << i);
    fit.linear[i] = (one & ~bits) - (origin & ~bits);
    fit.exchanged[i] = (one & bits) ^ (origin & bits);
  }
  for (int64_t reg = 0; reg < registers; ++reg) {
    const int64_t base = at(reg, 0);
    fit.offset.push_back(base & ~bits);
    fit.mask.push_back(base & bits);
    for (int64_t thread = 0; thread < 128; ++thread)
      if (evaluate(fit, reg, thread) != at(reg, thread))
        return std::nullopt;
  }
  return fit;
}

} // namespace dsv3::codegen
