#include "codegen/targets/BodyBuilder.h"

using namespace mlir;

namespace dsv3::codegen {

int64_t elemBytes(Type type) { return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8); }

BodyBuilder::BodyBuilder(Location loc, unsigned indexBits) : b(loc, loc.getContext()) {
  i1 = b.getI1Type(), i8 = b.getIntegerType(8), i16 = b.getIntegerType(16), i32 = b.getI32Type(), i64 = b.getI64Type();
  f32 = b.getF32Type(), bf16 = b.getBF16Type(), index = b.getIntegerType(indexBits);
}

Value BodyBuilder::cint(Type type, int64_t v) {
  if (auto vt = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(b, DenseElementsAttr::get(vt, b.getIntegerAttr(vt.getElementType(), v)));
  return arith::ConstantOp::create(b, b.getIntegerAttr(type, v));
}

Value BodyBuilder::cf(Type type, double v) {
  if (auto vt = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(b, DenseElementsAttr::get(vt, b.getFloatAttr(vt.getElementType(), v)));
  return arith::ConstantOp::create(b, b.getFloatAttr(type, v));
}

//===-- Integers ----------------------------------------------------------===//

Value BodyBuilder::add(Value a, Value c) { return arith::AddIOp::create(b, a, c); }
Value BodyBuilder::add(Value a, int64_t c) { return c ? add(a, cint(a.getType(), c)) : a; }
Value BodyBuilder::sub(Value a, Value c) { return arith::SubIOp::create(b, a, c); }
Value BodyBuilder::mul(Value a, Value c) { return arith::MulIOp::create(b, a, c); }
Value BodyBuilder::mul(Value a, int64_t c) { return c == 1 ? a : mul(a, cint(a.getType(), c)); }
Value BodyBuilder::div(Value a, int64_t c) { return c == 1 ? a : arith::DivUIOp::create(b, a, cint(a.getType(), c)).getResult(); }
Value BodyBuilder::rem(Value a, int64_t c) { return arith::RemUIOp::create(b, a, cint(a.getType(), c)); }
Value BodyBuilder::minI(Value a, Value c) { return arith::MinSIOp::create(b, a, c); }
Value BodyBuilder::maxI(Value a, Value c) { return arith::MaxSIOp::create(b, a, c); }
Value BodyBuilder::lt(Value a, Value c) { return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, a, c); }
Value BodyBuilder::eq(Value a, Value c) { return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, a, c); }
Value BodyBuilder::ge(Value a, Value c) { return arith::CmpIOp::create(b, arith::CmpIPredicate::sge, a, c); }
Value BodyBuilder::toI64(Value v) { return arith::ExtSIOp::create(b, i64, v); }
Value BodyBuilder::select(Value condition, Value a, Value c) { return arith::SelectOp::create(b, condition, a, c); }

//===-- Memory ------------------------------------------------------------===//

Value BodyBuilder::at(Value base, Value bytes) {
  return LLVM::GEPOp::create(b, base.getType(), i8, base, ArrayRef<LLVM::GEPArg>{bytes});
}

Value BodyBuilder::at(Value base, int64_t bytes) { return bytes ? at(base, cint(i64, bytes)) : base; }

static unsigned naturalAlign(Type type) {
  Type elem = getElementTypeOrSelf(type);
  return isa<LLVM::LLVMPointerType>(elem) ? 8 : unsigned(elemBytes(elem));
}

Value BodyBuilder::load(Type type, Value address, unsigned align) {
  return LLVM::LoadOp::create(b, type, address, align ? align : naturalAlign(type));
}
void BodyBuilder::store(Value value, Value address, unsigned align) {
  LLVM::StoreOp::create(b, value, address, align ? align : naturalAlign(value.getType()));
}

//===-- Floats ------------------------------------------------------------===//

Value BodyBuilder::fadd(Value a, Value c) { return arith::AddFOp::create(b, a, c); }
Value BodyBuilder::fsub(Value a, Value c) { return arith::SubFOp::create(b, a, c); }
Value BodyBuilder::fmul(Value a, Value c) { return arith::MulFOp::create(b, a, c); }
Value BodyBuilder::fdiv(Value a, Value c) { return arith::DivFOp::create(b, a, c); }
Value BodyBuilder::fma(Value a, Value c, Value acc) { return LLVM::FMAOp::create(b, a, c, acc); }
Value BodyBuilder::fmax(Value a, Value c) {
  // A compare and a select is exactly vmaxps; the IEEE maximum would cost NaN handling.
  Value gt = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, a, c);
  return arith::SelectOp::create(b, gt, a, c);
}
Value BodyBuilder::fsqrt(Value a) { return LLVM::SqrtOp::create(b, a); }

Value BodyBuilder::exp(Value x) {
  // Cody and Waite: x = n ln 2 + r with |r| <= ln 2 / 2, the product n ln 2 in two parts, then 1 + r + r^2 q(r) with q
  // of degree 4 fitted to e^r by reweighted least squares (error 3.1e-9; Taylor's would be 1.2e-7), and 2^n through
  // the exponent bits.
  Type type = x.getType(), itype = i32;
  if (auto vt = dyn_cast<VectorType>(type))
    itype = vec(i32, vt.getNumElements());
  Value lo = cf(type, -87.0), hi = cf(type, 88.0);
  Value under = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, lo);
  Value clamped = arith::SelectOp::create(b, under, lo, x);
  Value over = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, clamped, hi);
  clamped = arith::SelectOp::create(b, over, hi, clamped);
  // Adding 1.5 * 2^23 rounds to the nearest integer, ties to even, and leaves n in the low bits.
  Value magic = cf(type, 12582912.0);
  Value shifted = fma(clamped, cf(type, 1.44269504088896341), magic);
  Value n = fsub(shifted, magic);
  Value r = fma(n, cf(type, -0.693145751953125), clamped);
  r = fma(n, cf(type, -1.428606765330187e-06), r);
  Value p = cf(type, 0x1.6a2434p-10);
  for (double c : {0x1.1239e2p-7, 0x1.5558f2p-5, 0x1.555492p-3, 0x1.fffffcp-2, 1.0, 1.0})
    p = fma(p, r, cf(type, c));
  Value bits = arith::BitcastOp::create(b, itype, shifted);
  Value exponent = arith::ShLIOp::create(b, bits, cint(itype, 23)); // the magic's own low bits are zero
  Value scaled = arith::BitcastOp::create(b, type, add(arith::BitcastOp::create(b, itype, p), exponent));
  return arith::SelectOp::create(b, under, cf(type, 0.0), scaled);
}

Value BodyBuilder::sigmoid(Value x) {
  Type type = x.getType();
  Value e = exp(fsub(cf(type, 0.0), x));
  return fdiv(cf(type, 1.0), fadd(cf(type, 1.0), e));
}
Value BodyBuilder::silu(Value x) {
  Type type = x.getType();
  Value e = exp(fsub(cf(type, 0.0), x));
  return fdiv(x, fadd(cf(type, 1.0), e));
}

//===-- Control flow ------------------------------------------------------===//

void BodyBuilder::loop(Value lb, Value ub, int64_t step, llvm::function_ref<void(Value)> body) {
  loop(lb, ub, step, {}, [&](Value iv, ValueRange) {
    body(iv);
    return SmallVector<Value>();
  });
}
void BodyBuilder::loop(int64_t lb, int64_t ub, int64_t step, llvm::function_ref<void(Value)> body) {
  if (lb + step >= ub) { // at most one turn: no loop
    if (lb < ub)
      body(idx(lb));
    return;
  }
  loop(idx(lb), idx(ub), step, body);
}

SmallVector<Value> BodyBuilder::loop(Value lb, Value ub, int64_t step, ValueRange init,
                                       llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto op = scf::ForOp::create(b, lb, ub, cint(lb.getType(), step), init);
  OpBuilder::InsertionGuard guard(b);
  Block *block = op.getBody();
  if (init.empty()) // without carried values the builder has already added the terminator
    b.setInsertionPoint(block->getTerminator());
  else
    b.setInsertionPointToEnd(block);
  SmallVector<Value> next = body(op.getInductionVar(), op.getRegionIterArgs());
  if (!init.empty())
    scf::YieldOp::create(b, next);
  return SmallVector<Value>(op.getResults());
}

void BodyBuilder::when(Value condition, llvm::function_ref<void()> body) {
  auto op = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(op.thenBlock()->getTerminator());
  body();
}
void BodyBuilder::when(Value condition, llvm::function_ref<void()> body, llvm::function_ref<void()> otherwise) {
  auto op = scf::IfOp::create(b, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(op.thenBlock()->getTerminator());
  body();
  b.setInsertionPoint(op.elseBlock()->getTerminator());
  otherwise();
}

SmallVector<Value> BodyBuilder::pick(mlir::TypeRange types, Value condition, llvm::function_ref<SmallVector<Value>()> body,
                                     llvm::function_ref<SmallVector<Value>()> otherwise) {
  auto op = scf::IfOp::create(b, types, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(op.thenBlock());
  scf::YieldOp::create(b, body());
  b.setInsertionPointToEnd(op.elseBlock());
  scf::YieldOp::create(b, otherwise());
  return SmallVector<Value>(op.getResults());
}

} // namespace dsv3::codegen
