#include "codegen/sm90/simt/DummyFill.h"

#include "codegen/sm90/simt/SimtBuilder.h"
#include "runtime/core/DummyFill.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

/// Writes the kernel's body: as DummyFill::run, a block per run of the last dim. Fields are read where they are used: they are
/// the same for every thread, and a load that hits costs less than a register.
class FillBody {
public:
  explicit FillBody(SimtBuilder &k) : k(k), b(k.b), f64(Float64Type::get(b.getContext())), words(k.param(0)) {}

  void write() {
    Value rest = k.block();
    constexpr int64_t inner = int64_t(DummyFill::kMaxDims) - 1;
    for (int64_t d = inner; d-- > 0;) {
      Value count = dim(d, 2), before = k.divide(rest, count);
      index[d] = k.add(dim(d, 0), k.mul(dim(d, 1), k.sub(rest, k.mul(before, count))));
      rest = before;
    }
    Value row = field(kFillRow), col = field(kFillCol);
    for (int64_t d = 0; d < inner; ++d) {
      row = k.add(row, k.mul(dim(d, 3), index[d]));
      col = k.add(col, k.mul(dim(d, 4), index[d]));
    }
    Value place = terms(k.cint(k.i32, 0), field(kFillOuterTerms), k.cint(k.i64, 0));
    Value member = chosen(field(kFillMemberDim), k.cint(k.i32, 0));
    key = number(k.add(member, kFillKeys));
    scaleKey = number(k.add(member, field(kFillScaleKeys)));
    k.loop(k.thread(), dim(inner, 2), kDummyFillThreads, [&](Value j) {
      index[inner] = k.add(dim(inner, 0), k.mul(dim(inner, 1), j));
      Value outer = field(kFillOuterTerms);
      Value at = terms(outer, k.add(outer, field(kFillInnerTerms)), place);
      element(k.add(row, k.mul(dim(inner, 3), index[inner])), k.add(col, k.mul(dim(inner, 4), index[inner])), at);
    });
  }

private:
  //===-- Fields ----------------------------------------------------------===//

  Value field(int64_t word) { return k.loadScalar(k.i32, k.at(words, word * 8), /*readOnly=*/true); } // the low half
  Value wide(Type type, int64_t word) { return k.loadScalar(type, k.at(words, word * 8), /*readOnly=*/true); }
  Value number(Value word) { return k.loadScalar(k.i64, k.element(words, word, 8), /*readOnly=*/true); }
  Value dim(int64_t d, int64_t part) { return field(kFillDims + 5 * d + part); }

  /// The index of a dim that a field names; `none` for a dim that there is not.
  Value chosen(Value d, Value none) {
    for (int64_t i = 0; i < int64_t(DummyFill::kMaxDims); ++i)
      if (index[i])
        none = k.select(k.eq(d, k.cint(k.i32, i)), index[i], none);
    return none;
  }

  /// sum + index[dim] / div % mod * stride over terms [from, to).
  Value terms(Value from, Value to, Value sum) {
    return k.loop(from, to, 1, sum, [&](Value t, ValueRange sums) -> SmallVector<Value> {
      Value at = k.element(words, k.mul(t, 4), 8);
      auto part = [&](int64_t i) { return k.loadScalar(k.i32, k.at(at, (kFillTerms + i) * 8), /*readOnly=*/true); };
      Value v = k.divide(chosen(part(0), k.cint(k.i32, 0)), part(1)), mod = part(2);
      v = k.sub(v, k.mul(k.divide(v, mod), mod));
      Value stride = k.loadScalar(k.i64, k.at(at, (kFillTerms + 3) * 8), /*readOnly=*/true);
      return {k.add(sums[0], k.mul(k.toI64(v), stride))};
    })[0];
  }

  //===-- Drawing ---------------------------------------------------------===//

  /// Philox4x32-10 of (i, 0) under a key.
  std::array<Value, 4> philox(Value key, Value i) {
    std::array<Value, 4> c = {k.toI32(i), k.toI32(k.shr(i, 32)), k.cint(k.i32, 0), k.cint(k.i32, 0)};
    Value k0 = k.toI32(key), k1 = k.toI32(k.shr(key, 32));
    for (int round = 0; round < 10; ++round) {
      auto product = [&](Value v, uint32_t by) { return k.mul(arith::ExtUIOp::create(b, k.i64, v), int64_t(by)); };
      Value p0 = product(c[0], 0xD2511F53u), p1 = product(c[2], 0xCD9E8D57u);
      c = {k.bitXor(k.bitXor(k.toI32(k.shr(p1, 32)), c[1]), k0), k.toI32(p1), k.bitXor(k.bitXor(k.toI32(k.shr(p0, 32)), c[3]), k1), k.toI32(p0)};
      k0 = k.add(k0, k.cint(k.i32, int32_t(0x9E3779B9u)));
      k1 = k.add(k1, k.cint(k.i32, int32_t(0xBB67AE85u)));
    }
    return c;
  }

  Value c64(double v) { return arith::ConstantOp::create(b, b.getF64FloatAttr(v)); }
  Value mul64(Value a, Value c) { return arith::MulFOp::create(b, a, c); }
  Value add64(Value a, Value c) { return arith::AddFOp::create(b, a, c); }
  Value toF32(Value v) { return arith::TruncFOp::create(b, k.f32, v); }

  Value normal(Value i) {
    Value sum = k.cint(k.i64, 0);
    for (Value word : philox(key, i))
      sum = k.add(sum, arith::ExtUIOp::create(b, k.i64, word));
    Value x = mul64(arith::SIToFPOp::create(b, f64, sum), c64(0x1p-32));
    return toF32(mul64(add64(x, c64(-2.0)), c64(1.7320508075688772)));
  }

  Value scale(Value row, Value col) {
    Value block = k.add(k.mul(k.divide(row, field(kFillBlockRows)), field(kFillGridCols)), k.divide(col, field(kFillBlockCols)));
    Value word = philox(scaleKey, k.toI64(block))[0];
    Value top = k.eq(k.shr(word, 31), k.cint(k.i32, 1)), power = k.select(top, c64(1.0), c64(0.5));
    Value even = add64(mul64(arith::UIToFPOp::create(b, f64, word), c64(0x1p-33)), c64(0.75));
    Value factor = k.select(k.eq(field(kFillPowers), k.cint(k.i32, 1)), power, even);
    return toF32(mul64(wide(f64, kFillScaleBase), factor));
  }

  /// The number of an E4M3 code: its bits as those of a float, whose exponent is 120 too small.
  Value decode(Value code) {
    Value wide = arith::ExtUIOp::create(b, k.i32, code), sign = k.shl(k.bitAnd(wide, k.cint(k.i32, 0x80)), 24);
    Value size = k.fmul(k.bitcast(k.f32, k.shl(k.bitAnd(wide, k.cint(k.i32, 0x7f)), 20)), k.cf(k.f32, 0x1p120));
    return k.bitcast(k.f32, k.bitOr(k.bitcast(k.i32, size), sign));
  }

  //===-- Elements --------------------------------------------------------===//

  Value address(Value at, int64_t bytes) {
    return k.at(k.param(1), k.add(wide(k.i64, kFillOffset), k.mul(at, bytes)));
  }

  /// Rounds to what is stored, then to what is written.
  void store(Value v, Value at) {
    Value rounded = k.roundTo(k.bf16, v)[0];
    v = k.select(k.eq(field(kFillStored), k.cint(k.i32, 1)), rounded, v);
    k.when(
        k.eq(field(kFillElem), k.cint(k.i32, 0)), [&] { k.store(v, address(at, 4)); }, [&] { k.storeF32(k.bf16, v, address(at, 2)); });
  }

  void element(Value row, Value col, Value at) {
    auto isKind = [&](DummyFill::Kind kind) { return k.eq(field(kFillKind), k.cint(k.i32, int64_t(kind))); };
    k.when(
        isKind(DummyFill::Kind::Scales), [&] { k.store(scale(row, col), address(at, 4)); },
        [&] {
          Value n = normal(k.add(k.mul(k.toI64(row), wide(k.i64, kFillCols)), k.toI64(col)));
          k.when(
              isKind(DummyFill::Kind::Plain), [&] { store(k.fadd(wide(k.f32, kFillMean), k.fmul(wide(k.f32, kFillDeviation), n)), at); },
              [&] {
                Value code = k.toE4M3(k.fmul(n, k.cf(k.f32, DummyTensor::kCodeSpread)));
                k.when(
                    isKind(DummyFill::Kind::Codes), [&] { k.store(code, address(at, 1)); },
                    [&] { store(k.fmul(decode(code), scale(row, col)), at); });
              });
        });
  }

  SimtBuilder &k;
  ImplicitLocOpBuilder &b;
  Type f64;
  Value words, key, scaleKey;
  std::array<Value, DummyFill::kMaxDims> index;
};
} // namespace

void addDummyFill(Operation *gpuModule) {
  OpBuilder builder = OpBuilder::atBlockEnd(&gpuModule->getRegion(0).front());
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext(), 1);
  SimtBuilder k(builder, gpuModule->getLoc(), kDummyFill, {pointer, pointer}, kDummyFillThreads);
  FillBody(k).write();
  k.finish();
}

} // namespace dsv3::codegen
