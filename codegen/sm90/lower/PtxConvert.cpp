// Conversions between number formats, a few instructions each.
#include "codegen/sm90/lower/Ptx.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace dsv3::codegen {

Value Ptx::packBf16(Value low, Value high) { return ptx("cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f", b.getI32Type(), {high, low}, false, false)[0]; }
std::array<Value, 2> Ptx::unpackBf16(Value word) {
  return {bitcast(shl(word, 16), b.getF32Type()), bitcast(bitAnd(word, int64_t(0xffff0000)), b.getF32Type())};
}
Value Ptx::packF16(Value low, Value high) { return ptx("cvt.rn.f16x2.f32 $0, $1, $2;", "=r,f,f", b.getI32Type(), {high, low}, false, false)[0]; }
std::array<Value, 2> Ptx::unpackF16(Value word) {
  Regs r = ptx("{ .reg .b16 l, h; mov.b32 {l, h}, $2; cvt.f32.f16 $0, l; cvt.f32.f16 $1, h; }", "=f,=f,r", SmallVector<Type>(2, b.getF32Type()), word, false, false);
  return {r[0], r[1]};
}
Value Ptx::packE4m3(ArrayRef<Value> four) {
  return ptx("{ .reg .b16 l, h; cvt.rn.satfinite.e4m3x2.f32 l, $2, $1; cvt.rn.satfinite.e4m3x2.f32 h, $4, $3; mov.b32 $0, {l, h}; }", "=r,f,f,f,f",
             b.getI32Type(), four, false, false)[0];
}

std::array<Value, 2> Ptx::expandE4m3(Value word) {
  // Code s.eeee.mmm in the bits of a bf16, s at 15 and eeee.mmm at 10..4, is the value times 2^-120: zeros and denormals
  // too, as both formats have them at the bottom of the exponent. The product with 2^120 is exact. All ones (NaN)
  // carries into bit 11 when 0x10 is added; 15 times that bit completes the exponent of a bf16 NaN.
  const char *half = "{ .reg .b32 x, y, t; prmt.b32 x, $1, 0, %s; shr.u32 y, x, 4; and.b32 y, y, 0x07f007f0; add.u32 t, y, 0x00100010; "
                     "and.b32 t, t, 0x08000800; mad.lo.u32 y, t, 15, y; lop3.b32 y, y, x, 0x80008000, 0xf8; "
                     "mul.rn.bf16x2 $0, y, $2; }";
  Value scale = i32(0x7b807b80); // 2^120 twice
  std::array<Value, 2> out;
  for (int i = 0; i < 2; ++i) {
    std::string text = half;
    text.replace(text.find("%s"), 2, i == 0 ? "0x1404" : "0x3424"); // bytes (0, 1) or (2, 3) to the high byte of each half
    out[i] = ptx(text, "=r,r,r", b.getI32Type(), {word, scale}, false, false)[0];
  }
  return out;
}

std::array<Value, 2> Ptx::expandE5m2(Value word) {
  // E5M2 is the upper half of a binary16.
  const char *half = "{ .reg .b32 x; .reg .b16 l, h; .reg .f32 a, c; prmt.b32 x, $1, 0, %s; mov.b32 {l, h}, x; cvt.f32.f16 a, l; cvt.f32.f16 c, h; "
                     "cvt.rn.bf16x2.f32 $0, c, a; }";
  std::array<Value, 2> out;
  for (int i = 0; i < 2; ++i) {
    std::string text = half;
    text.replace(text.find("%s"), 2, i == 0 ? "0x1404" : "0x3424");
    out[i] = ptx(text, "=r,r", b.getI32Type(), {word}, false, false)[0];
  }
  return out;
}

std::array<Value, 2> Ptx::expandE4m3ToF16(Value word) {
  Regs r = ptx("{ .reg .b16 l, h; mov.b32 {l, h}, $2; cvt.rn.f16x2.e4m3x2 $0, l; cvt.rn.f16x2.e4m3x2 $1, h; }", "=&r,=r,r", SmallVector<Type>(2, b.getI32Type()),
               word, false, false);
  return {r[0], r[1]};
}
std::array<Value, 2> Ptx::expandE5m2ToF16(Value word) { return {permute(word, i32(0), 0x1404), permute(word, i32(0), 0x3424)}; }

std::array<Value, 4> Ptx::unpackE4m3(Value word) {
  Regs r = ptx("{ .reg .b16 l, h, a, b; .reg .b32 x; mov.b32 {l, h}, $4; cvt.rn.f16x2.e4m3x2 x, l; mov.b32 {a, b}, x; cvt.f32.f16 $0, a; "
               "cvt.f32.f16 $1, b; cvt.rn.f16x2.e4m3x2 x, h; mov.b32 {a, b}, x; cvt.f32.f16 $2, a; cvt.f32.f16 $3, b; }",
               "=&f,=&f,=&f,=&f,r", SmallVector<Type>(4, b.getF32Type()), word, false, false);
  return {r[0], r[1], r[2], r[3]};
}

std::array<Value, 2> Ptx::expandI4(Value word) { return {bitAnd(shl(word, 4), int64_t(0xf0f0f0f0)), bitAnd(word, int64_t(0xf0f0f0f0))}; }

Value Ptx::kept(uint32_t number) {
  // A mask of one bit without its lowest bit is nothing, and what differs between lanes has no place in a uniform register.
  const std::string text =
      llvm::formatv("{{ .reg .b32 x, y; mov.u32 x, %lanemask_eq; sub.u32 y, x, 1; and.b32 x, x, y; or.b32 $0, x, {0:x8}; }", number);
  return ptx(text, "=r", b.getI32Type(), {}, /*effects=*/true, /*memory=*/false)[0];
}

std::array<Value, 2> Ptx::expandI4ToE4m3(Value word, const std::array<Value, 2> &tables) {
  // prmt looks four codes up at once: its selectors are nibbles, of which three bits choose one of eight bytes. The fourth asks for
  // that byte's sign eight times instead, which is nothing for bytes below 128. So codes from 0 on are looked up as they are, others
  // with that bit turned, in halves of their E4M3 (which is even), and each finds nothing where the other
  // finds something. Nine instructions for eight codes.
  const std::string half = llvm::formatv("{{ .reg .b32 p, n; prmt.b32 p, $3, {0:x8}, $1; prmt.b32 n, $4, {1:x8}, $2; mad.lo.u32 $0, n, 2, p; }",
                                         uint32_t(kE4m3FromZero >> 32), uint32_t(kHalfE4m3BelowZero >> 32));
  Value turned = arith::XOrIOp::create(b, loc, word, i32(0x88888888));
  std::array<Value, 2> out;
  for (int i = 0; i < 2; ++i)
    out[i] = ptx(half, "=r,r,r,r,r", b.getI32Type(), {shr(word, 16 * i), shr(turned, 16 * i), tables[0], tables[1]}, false, false)[0];
  return out;
}

std::array<Value, 4> Ptx::expandI4ToBf16(Value word, const std::array<Value, 2> &bias) {
  // 128 has the last seven bits of a bf16 free, worth 1 each: a nibble with its sign bit turned, which is the value plus 8, makes
  // 136 plus the value there.
  std::array<Value, 4> out;
  for (int i = 0; i < 4; ++i)
    out[i] = ptx("{ .reg .b32 x; lop3.b32 x, $1, 0x000f000f, 0x43084308, 0x6a; sub.rn.bf16x2 $0, x, $2; }", "=r,r,r", b.getI32Type(),
                 {shr(word, 4 * i), bias[i % 2]}, false, false)[0];
  return out;
}

Value Ptx::permute(Value x, Value y, Value selector) {
  return ptx("prmt.b32 $0, $1, $2, $3;", "=r,r,r,r", b.getI32Type(), {x, y, selector}, false, false)[0];
}

Value Ptx::approx(llvm::StringRef name, Value x) { return intrinsic(name, b.getF32Type(), x); }

} // namespace dsv3::codegen
