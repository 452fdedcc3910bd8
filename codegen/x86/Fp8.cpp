#include "codegen/x86/Fp8.h"

#include <limits>

using namespace mlir;

namespace dsv3::codegen {

static bool isE5M2(Type codes) { return isa<Float8E5M2Type>(codes); }

double largestOf(Type codes) { return isE5M2(codes) ? 57344.0 : 448.0; }

Value toF8(KernelBuilder &k, Type codes, Value v) {
  ImplicitLocOpBuilder &b = k.b;
  const int mantissa = isE5M2(codes) ? 2 : 3, minExponent = isE5M2(codes) ? -14 : -6, drop = 23 - mantissa;
  auto c = [&](int64_t value) { return k.cint(k.vi32, int32_t(uint32_t(value))); };
  auto exponent = [](int e) { return int64_t(e + 127) << 23; }; // bits of 2^e
  auto below = [&](Value a, Value limit) -> Value { return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, a, limit); };
  Value bits = arith::BitcastOp::create(b, k.vi32, v);
  Value magnitude = arith::AndIOp::create(b, bits, c(0x7fffffff));

  // One unit in the last place of 2^(minExponent + drop) is the step of subnormals, so the addition rounds to it.
  Value magic = arith::BitcastOp::create(b, k.vf32, c(exponent(minExponent + drop)));
  Value shifted = k.fadd(arith::BitcastOp::create(b, k.vf32, magnitude).getResult(), magic);
  Value subnormal = k.sub(arith::BitcastOp::create(b, k.vi32, shifted).getResult(), c(exponent(minExponent + drop)));

  Value odd = arith::AndIOp::create(b, arith::ShRUIOp::create(b, magnitude, c(drop)), c(1));
  Value rounded = k.add(k.add(magnitude, c((1 << (drop - 1)) - 1)), odd);
  Value normal = k.sub(arith::ShRUIOp::create(b, rounded, c(drop)).getResult(), c(int64_t(minExponent + 126) << mantissa));

  Value code = arith::SelectOp::create(b, below(magnitude, c(exponent(minExponent))), subnormal, normal);
  Value most = c(isE5M2(codes) ? 0x7b : 0x7e);
  code = arith::SelectOp::create(b, below(code, most), code, most);
  code = arith::SelectOp::create(b, below(c(0x7f800000), magnitude), c(0x7f), code);
  Value sign = arith::AndIOp::create(b, arith::ShRUIOp::create(b, bits, c(24)), c(0x80));
  return arith::TruncIOp::create(b, k.vec(b.getI8Type()), arith::OrIOp::create(b, code, sign).getResult());
}

Value fromF8(KernelBuilder &k, Type codes, Value bytes) {
  ImplicitLocOpBuilder &b = k.b;
  auto toF32 = [&](Value halves) -> Value {
    return arith::ExtFOp::create(b, k.vf32, arith::BitcastOp::create(b, k.vec(b.getF16Type()), halves).getResult());
  };
  Value high = arith::ShLIOp::create(b, arith::ExtUIOp::create(b, k.vi16, bytes), k.cint(k.vi16, 8));
  if (isE5M2(codes)) // the upper half of a binary16
    return toF32(high);
  // E4M3 is binary16 with a shifted exponent: [s][eeee mmm] moved to [s][0][eeee mmm][0...] is value / 256.
  Value moved = arith::AndIOp::create(b, arith::ShRSIOp::create(b, high, k.cint(k.vi16, 1)), k.cint(k.vi16, int16_t(0xbf80)));
  Value value = k.fmul(toF32(moved), k.cf(k.vf32, 256.0));
  Value isNan = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, arith::AndIOp::create(b, high, k.cint(k.vi16, 0x7f00)),
                                      k.cint(k.vi16, 0x7f00));
  return arith::SelectOp::create(b, isNan, k.cf(k.vf32, std::numeric_limits<double>::quiet_NaN()), value);
}

} // namespace dsv3::codegen
