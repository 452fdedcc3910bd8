// A double as an attribute parameter: printed in the fewest digits that read back as the same value.
#pragma once

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/Hashing.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace dsv3::ir {

struct Real {
  double value = 0;
  Real() = default;
  Real(double v) : value(v) {}
  operator double() const { return value; }
  bool operator==(const Real &o) const { return value == o.value; }
  bool operator==(double o) const { return value == o; }
};

/// Shortest decimal that reads back as `v`; always with a point, as MLIR's float literals need: "40.0", "0.072168784",
/// "1.0e-06".
inline std::string shortest(double v) {
  char buf[64];
  int digits = 1;
  for (; digits < 17; ++digits) {
    std::snprintf(buf, sizeof buf, "%.*e", digits - 1, v);
    if (std::strtod(buf, nullptr) == v)
      break;
  }
  std::snprintf(buf, sizeof buf, "%.*e", digits - 1, v);
  std::string s = buf;
  size_t e = s.find('e');
  if (e == std::string::npos) // inf, nan: no literal of MLIR, no value of ours
    return s;
  int exponent = std::atoi(s.c_str() + e + 1);
  if (exponent >= -4 && exponent <= 15) { // what people read without counting digits
    std::snprintf(buf, sizeof buf, "%.*f", digits - 1 > exponent ? digits - 1 - exponent : 1, v);
    return buf;
  }
  if (s.find('.') == std::string::npos)
    s.insert(e, ".0");
  return s;
}

inline llvm::hash_code hash_value(const Real &r) {
  uint64_t bits;
  std::memcpy(&bits, &r.value, sizeof bits);
  return llvm::hash_value(bits);
}

template <typename Stream> Stream &operator<<(Stream &os, const Real &r) {
  os << shortest(r.value);
  return os;
}

} // namespace dsv3::ir

namespace mlir {
template <> struct FieldParser<::dsv3::ir::Real> {
  static FailureOr<::dsv3::ir::Real> parse(AsmParser &parser) {
    double value;
    if (parser.parseFloat(value))
      return failure();
    return ::dsv3::ir::Real(value);
  }
};
} // namespace mlir
