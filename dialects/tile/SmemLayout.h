// Where the elements of a shared memory buffer lie: pure integers, no MLIR.
#pragma once

#include "dialects/tile/Fragment.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dsv3::tile {

enum class SmemKind { Auto, Linear, Pad, Sw32, Sw64, Sw128, Swizzle, Frag };

/// Evaluates a layout for one buffer. The same numbers serve addresses, TMA boxes, wgmma descriptors and
/// the bank conflict analysis. Coordinates are outermost first.
class SmemLayout {
public:
  /// `a`: bytes of `Pad`, or B of `Swizzle<B, M, S>`, or the FragKind of `Frag`. The arguments must have passed `whyIllegal`.
  SmemLayout(SmemKind kind, std::vector<int64_t> shape, unsigned elementBits, int64_t a = 0, int64_t b = 0, int64_t c = 0);

  /// What is wrong with a layout for a buffer ("expected ..., got ..."), or an empty string.
  static std::string whyIllegal(SmemKind kind, const std::vector<int64_t> &shape, unsigned elementBits, int64_t a, int64_t b, int64_t c);

  /// Bit of the element's first bit; a multiple of elementBits.
  int64_t bit(const std::vector<int64_t> &coord) const;
  int64_t byte(const std::vector<int64_t> &coord) const { return bit(coord) / 8; }
  /// Bytes from the first to behind the last element, padding of the last row included.
  int64_t bytes() const;
  /// Alignment that the layout itself needs of the buffer's start: exchanged address bits are those of the address.
  int64_t alignment() const;

  SmemKind kind() const { return kindOf; }
  const std::vector<int64_t> &shape() const { return dims; }
  /// Width in bytes of an atom's row: 32, 64, 128; 0 for other layouts.
  int64_t atomBytes() const { return atomBytes(kindOf); }
  static int64_t atomBytes(SmemKind kind);
  /// Bytes between rows (steps of dim -2): of an atom for sw*, of the row and its padding else.
  int64_t pitch() const;
  /// Bytes between atoms that lie side by side; 0 unless sw*.
  int64_t atomStride() const;
  /// Exchanged bits: byte ^= ((byte >> (m + s)) & (2^b - 1)) << m; b = 0 for none.
  struct Xor {
    int64_t b = 0, m = 0, s = 0;
    int64_t apply(int64_t byte) const { return byte ^ (((byte >> (m + s)) & ((int64_t(1) << b) - 1)) << m); }
  };
  Xor exchange() const;

private:
  int64_t linearBit(const std::vector<int64_t> &coord) const; ///< before the exchange
  int64_t rows() const; ///< product of all dims but the last

  SmemKind kindOf;
  std::vector<int64_t> dims;
  unsigned bits;
  int64_t a, b, c;
};

} // namespace dsv3::tile
