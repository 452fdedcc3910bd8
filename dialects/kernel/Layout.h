// Evaluates layout strings: "(n, k) -> [n/16, k/4, n%16, k%4] pad n:16 k:4".
#pragma once

#include "runtime/core/Result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dsv3 {

/// A map from logical indices to an offset in elements. Terms are ordered outermost first.
/// One class serves packing, addressing and analyses; it depends on nothing but the text.
class Layout {
public:
  /// Errors name the character: "expected ']' at 17 in layout '...'".
  static Result<Layout> parse(std::string_view text);

  unsigned rank() const { return unsigned(dims.size()); }
  const std::vector<std::string> &dimNames() const { return dims; }

  /// `shape` rounded up by the pads.
  std::vector<int64_t> paddedShape(const std::vector<int64_t> &shape) const;
  /// Extent of each term for this (unpadded) shape.
  std::vector<int64_t> termExtents(const std::vector<int64_t> &shape) const;
  /// Elements of the whole padded tensor in memory.
  int64_t elements(const std::vector<int64_t> &shape) const;
  /// Offset in elements of an index below the padded shape.
  int64_t offset(const std::vector<int64_t> &index, const std::vector<int64_t> &shape) const;
  /// The offset as a sum over terms, index[dim] / div % mod * stride with mod 0 for none; nullopt when a term is xor-ed.
  struct Stride {
    unsigned dim = 0;
    int64_t div = 1, mod = 0, stride = 0;
  };
  std::optional<std::vector<Stride>> strides(const std::vector<int64_t> &shape) const;
  /// True when every place below `elements` is hit exactly once by the padded shape.
  bool isBijective(const std::vector<int64_t> &shape) const;

private:
  struct Term {
    unsigned dim = 0;
    int64_t div = 1, mod = 0; ///< mod 0: no modulus
    int64_t xorConst = 0;
    int xorTerm = -1; ///< index in `xors`, or -1
  };
  static int64_t value(const Term &t, const std::vector<int64_t> &index);

  std::vector<std::string> dims;
  std::vector<int64_t> pads;
  std::vector<Term> terms, xors;
};

} // namespace dsv3
