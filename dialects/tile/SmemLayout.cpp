// Row-major, padded, swizzled, and register-order buffers.
#include "dialects/tile/SmemLayout.h"

#include <algorithm>

namespace dsv3::tile {

int64_t SmemLayout::atomBytes(SmemKind kind) {
  return kind == SmemKind::Sw32 ? 32 : kind == SmemKind::Sw64 ? 64 : kind == SmemKind::Sw128 ? 128 : 0;
}

/// Dims that a fragment spans: the last two, or one for row and col.
static size_t fragRank(FragKind kind) { return kind == FragKind::Row || kind == FragKind::Col ? 1 : 2; }

static std::vector<int64_t> fragShape(FragKind kind, const std::vector<int64_t> &shape) {
  return std::vector<int64_t>(shape.end() - std::min(fragRank(kind), shape.size()), shape.end());
}

SmemLayout::SmemLayout(SmemKind kind, std::vector<int64_t> shape, unsigned elementBits, int64_t a, int64_t b, int64_t c)
    : kindOf(kind), dims(std::move(shape)), bits(elementBits), a(a), b(b), c(c) {}

std::string SmemLayout::whyIllegal(SmemKind kind, const std::vector<int64_t> &shape, unsigned elementBits, int64_t a, int64_t b, int64_t c) {
  if (shape.empty() || *std::min_element(shape.begin(), shape.end()) < 1)
    return "expected dims of 1 or more";
  if (shape.back() * elementBits % 8)
    return "expected rows of whole bytes, got " + std::to_string(shape.back() * elementBits) + " bits";
  int64_t row = shape.back() * elementBits / 8;
  if (kind == SmemKind::Pad && (a < 4 || a % 4))
    return "expected a pad of a multiple of 4 bytes, got " + std::to_string(a);
  if (kind == SmemKind::Swizzle && (b < 0 || a < 1 || c < a || a + b + c > 12))
    return "expected swizzle<B, M, S> with 1 <= B <= S and B + M + S <= 12, got <" + std::to_string(a) + ", " + std::to_string(b) + ", " + std::to_string(c) + ">";
  if (int64_t width = atomBytes(kind)) {
    if (shape.size() < 2 || row % width)
      return "expected rows of a multiple of " + std::to_string(width) + " bytes for sw" + std::to_string(width) + ", got " + std::to_string(row);
    // The exchanged bits are those of the address, so every atom must start where the pattern starts.
    if (shape[shape.size() - 2] % 8 && (row != width || shape.size() > 2))
      return "expected a multiple of 8 rows for sw" + std::to_string(width) + ", got " + std::to_string(shape[shape.size() - 2]);
  }
  if (kind == SmemKind::Frag)
    return Fragment::whyIllegal(FragKind(a), fragShape(FragKind(a), shape), elementBits, 1, 128);
  return "";
}

int64_t SmemLayout::rows() const {
  int64_t n = 1;
  for (size_t d = 0; d + 1 < dims.size(); ++d)
    n *= dims[d];
  return n;
}

int64_t SmemLayout::pitch() const {
  int64_t row = dims.back() * bits / 8;
  return atomBytes() ? atomBytes() : kindOf == SmemKind::Pad ? row + a : row;
}

int64_t SmemLayout::atomStride() const { return atomBytes() ? dims[dims.size() - 2] * atomBytes() : 0; }

SmemLayout::Xor SmemLayout::exchange() const {
  switch (kindOf) {
  case SmemKind::Sw32: return {1, 4, 3};
  case SmemKind::Sw64: return {2, 4, 3};
  case SmemKind::Sw128: return {3, 4, 3};
  case SmemKind::Swizzle: return {a, b, c};
  default: return {};
  }
}

int64_t SmemLayout::alignment() const {
  Xor x = exchange();
  return x.b ? std::max<int64_t>(128, int64_t(1) << (x.b + x.m + x.s)) : 128; // 128: what TMA asks for
}

/// Elements in register order: 16-byte words (or less, if a thread holds less) of all threads one after the other.
static int64_t fragBit(FragKind kind, const std::vector<int64_t> &coord, const std::vector<int64_t> &shape, unsigned bits) {
  Fragment f(kind, shape);
  int64_t word = 128;
  while (f.registers() * bits % word)
    word /= 2;
  Fragment::Place p = f.place(coord);
  int64_t at = p.reg * bits;
  return (at / word) * (128 * word) + (32 * p.warp + p.lane) * word + at % word;
}

int64_t SmemLayout::linearBit(const std::vector<int64_t> &coord) const {
  int64_t row = 0;
  for (size_t d = 0; d + 1 < dims.size(); ++d)
    row = row * dims[d] + coord[d];
  int64_t column = coord.back() * bits;
  int64_t width = atomBytes() * 8;
  if (!width)
    return row * pitch() * 8 + column;
  int64_t height = dims[dims.size() - 2], outer = row / height;
  return outer * height * dims.back() * bits + (column / width) * atomStride() * 8 + (row % height) * width + column % width;
}

int64_t SmemLayout::bit(const std::vector<int64_t> &coord) const {
  if (kindOf == SmemKind::Frag) {
    FragKind kind = FragKind(a);
    std::vector<int64_t> inner = fragShape(kind, dims);
    int64_t outer = 0, size = Fragment(kind, inner).registers() * 128 * bits;
    for (size_t d = 0; d + inner.size() < dims.size(); ++d)
      outer = outer * dims[d] + coord[d];
    return outer * size + fragBit(kind, std::vector<int64_t>(coord.end() - inner.size(), coord.end()), inner, bits);
  }
  int64_t linear = linearBit(coord);
  return exchange().apply(linear / 8) * 8 + linear % 8;
}

int64_t SmemLayout::bytes() const {
  if (kindOf == SmemKind::Frag) {
    std::vector<int64_t> inner = fragShape(FragKind(a), dims);
    int64_t n = Fragment(FragKind(a), inner).registers() * 128 * bits / 8;
    for (size_t d = 0; d + inner.size() < dims.size(); ++d)
      n *= dims[d];
    return n;
  }
  int64_t row = dims.back() * bits / 8;
  int64_t n = rows() * (kindOf == SmemKind::Pad ? row + a : row);
  // An exchange may move an element beyond the end of a buffer that is not whole patterns.
  Xor x = exchange();
  int64_t pattern = x.b ? int64_t(1) << (x.m + x.b) : 1;
  return (n + pattern - 1) / pattern * pattern;
}

} // namespace dsv3::tile
