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

/// Shortest decimal that reads back as `v`; always with a point, as MLIR's float literals need.
inline std::string shortest(double v) {
  char buf[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(buf, sizeof buf, "%.*g", digits, v);
    if (std::strtod(buf, nullptr) == v)
      break;
  }
  std::string s = buf;
  size_t e = s.find('e');
  if (s.find('.') == std::string::npos)
    s.insert(e == std::string::npos ? s.size() : e, ".0");
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
