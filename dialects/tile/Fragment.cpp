// The fragments of wgmma and of elementwise kernels.
#include "dialects/tile/Fragment.h"

namespace dsv3::tile {

const char *fragName(FragKind kind) {
  switch (kind) {
  case FragKind::Acc: return "acc";
  case FragKind::OpA: return "opA";
  case FragKind::OpA4: return "opA4";
  case FragKind::OpA4T: return "opA4t";
  case FragKind::Acc4: return "acc4";
  case FragKind::Row: return "row";
  case FragKind::Col: return "col";
  case FragKind::Quad: return "quad";
  case FragKind::Line: return "line";
  case FragKind::Lin: return "lin";
  }
  return "";
}

static int64_t product(const std::vector<int64_t> &dims) {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  return n;
}

Fragment::Fragment(FragKind kind, std::vector<int64_t> shape, int64_t vec, int64_t threads)
    : kindOf(kind), dims(std::move(shape)), vec(vec), threads(threads) {}

static std::string expected(std::string what, int64_t got) { return "expected " + what + ", got " + std::to_string(got); }

std::string Fragment::whyIllegal(FragKind kind, const std::vector<int64_t> &shape, unsigned elementBits, int64_t vec, int64_t threads) {
  std::string name = fragName(kind);
  if (kind == FragKind::Lin) {
    if (vec < 1 || threads < 32 || threads % 32)
      return "expected lin of vectors of 1 or more over a multiple of 32 threads, got lin<" + std::to_string(vec) + ", " + std::to_string(threads) + ">";
    if (product(shape) % (vec * threads))
      return expected("a multiple of " + std::to_string(vec * threads) + " elements for lin", product(shape));
    return "";
  }
  size_t rank = kind == FragKind::Row || kind == FragKind::Col || kind == FragKind::Line ? 1 : 2;
  if (shape.size() != rank)
    return expected("rank " + std::to_string(rank) + " for " + name, int64_t(shape.size()));
  if (kind == FragKind::Line)
    return shape[0] == 8 || (shape[0] > 0 && shape[0] % 16 == 0) ? "" : expected("8 rows or a multiple of 16 for line", shape[0]);
  if (kind != FragKind::Col && shape[0] != 64)
    return expected("64 rows for " + name, shape[0]);
  if (kind == FragKind::Quad && shape[1] != 4)
    return expected("4 columns for quad", shape[1]);
  const bool four = isPacked4(kind);
  int64_t step = kind == FragKind::Acc || kind == FragKind::Col ? 8 : kind == FragKind::Acc4 ? 16 : kind == FragKind::OpA || four ? 32 : 1;
  if (kind != FragKind::Row && (shape.back() < 1 || shape.back() % step))
    return expected("a multiple of " + std::to_string(step) + " columns for " + name, shape.back());
  // Masks (i1) have the places of the values that they mask.
  unsigned bits = kind == FragKind::OpA ? 8 : four ? 4 : 0;
  if (bits && elementBits != bits && elementBits != 1)
    return expected(std::to_string(bits) + "-bit elements for " + name, elementBits);
  return "";
}

int64_t Fragment::registers() const {
  switch (kindOf) {
  case FragKind::Acc:
  case FragKind::OpA:
  case FragKind::OpA4:
  case FragKind::OpA4T:
  case FragKind::Acc4: return dims[1] / 2;
  case FragKind::Row:
  case FragKind::Quad: return 2;
  case FragKind::Col: return dims[0] / 4;
  case FragKind::Line: return (dims[0] + 15) / 16;
  case FragKind::Lin: return product(dims) / threads;
  }
  return 0;
}

int64_t Fragment::copies() const { return kindOf == FragKind::Row ? 4 : kindOf == FragKind::Col ? 32 : kindOf == FragKind::Line ? (dims[0] == 8 ? 16 : 8) : 1; }

std::vector<int64_t> Fragment::coord(int64_t reg, int64_t lane, int64_t warp) const {
  int64_t row = 16 * warp + lane / 4, quad = lane % 4;
  switch (kindOf) {
  case FragKind::Acc: // 4j + 2h + i
    return {row + 8 * (reg / 2 % 2), 8 * (reg / 4) + 2 * quad + reg % 2};
  case FragKind::OpA: // 16b + 4(h + 2c) + i
    return {row + 8 * (reg / 4 % 2), 32 * (reg / 16) + 16 * (reg / 8 % 2) + 4 * quad + reg % 4};
  case FragKind::OpA4: // 8(2b + c) + 2i + p
    return {row + 8 * (reg % 2), 32 * (reg / 16) + 16 * (reg / 8 % 2) + 4 * quad + reg / 2 % 4};
  case FragKind::OpA4T: // 8(2b + c) + 4p + i
    return {row + 8 * (reg / 4 % 2), 32 * (reg / 16) + 16 * (reg / 8 % 2) + 4 * quad + reg % 4};
  case FragKind::Acc4: // 8b + 4i + 2c + h
    return {row + 8 * (reg % 2), 16 * (reg / 8) + 8 * (reg / 2 % 2) + 2 * quad + reg / 4 % 2};
  case FragKind::Row: return {row + 8 * reg};
  case FragKind::Quad: return {row + 8 * reg, quad};
  case FragKind::Col: // 2j + i
    return {8 * (reg / 2) + 2 * quad + reg % 2};
  case FragKind::Line: // eight lanes a row
    return {(16 * reg + 4 * warp + lane / 8) % dims[0]};
  case FragKind::Lin: break;
  }
  int64_t at = ((reg / vec) * threads + 32 * warp + lane) * vec + reg % vec;
  std::vector<int64_t> coord(dims.size());
  for (size_t d = dims.size(); d-- > 0; at /= dims[d])
    coord[d] = at % dims[d];
  return coord;
}

Fragment::Place Fragment::place(const std::vector<int64_t> &coord) const {
  int64_t row = coord.front(), col = coord.back(), lane = row % 8 * 4, warp = row / 16, h = row / 8 % 2;
  switch (kindOf) {
  case FragKind::Acc: return {4 * (col / 8) + 2 * h + col % 2, lane + col % 8 / 2, warp};
  case FragKind::OpA: return {16 * (col / 32) + 4 * (h + 2 * (col / 16 % 2)) + col % 4, lane + col % 16 / 4, warp};
  case FragKind::OpA4: return {8 * (col / 16) + 2 * (col % 4) + h, lane + col % 16 / 4, warp};
  case FragKind::OpA4T: return {8 * (col / 16) + 4 * h + col % 4, lane + col % 16 / 4, warp};
  case FragKind::Acc4: return {8 * (col / 16) + 4 * (col % 2) + 2 * (col / 8 % 2) + h, lane + col % 8 / 2, warp};
  case FragKind::Row: return {h, lane, warp};
  case FragKind::Quad: return {h, lane + col, warp};
  case FragKind::Col: return {2 * (col / 8) + col % 2, col % 8 / 2, 0};
  case FragKind::Line: return {row / 16, row % 4 * 8, row % 16 / 4};
  case FragKind::Lin: break;
  }
  int64_t at = 0;
  for (size_t d = 0; d < dims.size(); ++d)
    at = at * dims[d] + coord[d];
  int64_t thread = at / vec % threads;
  return {at / (vec * threads) * vec + at % vec, thread % 32, thread / 32};
}

} // namespace dsv3::tile
