#include "codegen/x86/KernelBuilder.h"

using namespace mlir;

namespace dsv3::codegen {

int64_t elemBytes(Type type) { return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8); }

KernelBuilder::KernelBuilder(LLVM::LLVMFuncOp fn, const CpuVariant &variant)
    : variant(variant), b(fn.getLoc(), fn.getContext()) {
  Block *entry = fn.addEntryBlock(b);
  b.setInsertionPointToEnd(entry);
  MLIRContext *ctx = fn.getContext();
  i8 = b.getIntegerType(8), i16 = b.getIntegerType(16), i32 = b.getI32Type(), i64 = b.getI64Type();
  f32 = b.getF32Type(), bf16 = b.getBF16Type(), ptr = LLVM::LLVMPointerType::get(ctx);
  vf32 = vec(f32), vi32 = vec(i32), vi16 = vec(i16);
  bufs = entry->getArgument(0), scalars = entry->getArgument(1);
  begin = entry->getArgument(2), end = entry->getArgument(3), scratch = entry->getArgument(4);
}

void KernelBuilder::finish() { LLVM::ReturnOp::create(b, ValueRange{}); }

Value KernelBuilder::buf(unsigned i) { return load(ptr, at(bufs, int64_t(i) * 8), 8); }
Value KernelBuilder::scalar(unsigned i) { return load(i64, at(scalars, int64_t(i) * 8), 8); }

//===-- Constants ---------------------------------------------------------===//

Value KernelBuilder::idx(int64_t v) { return cint(i64, v); }

Value KernelBuilder::cint(Type type, int64_t v) {
  if (auto vt = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(b, DenseElementsAttr::get(vt, b.getIntegerAttr(vt.getElementType(), v)));
  return arith::ConstantOp::create(b, b.getIntegerAttr(type, v));
}

Value KernelBuilder::cf(Type type, double v) {
  if (auto vt = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(b, DenseElementsAttr::get(vt, b.getFloatAttr(vt.getElementType(), v)));
  return arith::ConstantOp::create(b, b.getFloatAttr(type, v));
}

Value KernelBuilder::splat(Value scalar, int64_t lanes) {
  return vector::BroadcastOp::create(b, vec(scalar.getType(), lanes), scalar);
}

//===-- Integers ----------------------------------------------------------===//

Value KernelBuilder::add(Value a, Value c) { return arith::AddIOp::create(b, a, c); }
Value KernelBuilder::add(Value a, int64_t c) { return c ? add(a, cint(a.getType(), c)) : a; }
Value KernelBuilder::sub(Value a, Value c) { return arith::SubIOp::create(b, a, c); }
Value KernelBuilder::mul(Value a, Value c) { return arith::MulIOp::create(b, a, c); }
Value KernelBuilder::mul(Value a, int64_t c) { return c == 1 ? a : mul(a, cint(a.getType(), c)); }
Value KernelBuilder::div(Value a, int64_t c) { return c == 1 ? a : arith::DivUIOp::create(b, a, cint(a.getType(), c)).getResult(); }
Value KernelBuilder::rem(Value a, int64_t c) { return arith::RemUIOp::create(b, a, cint(a.getType(), c)); }
Value KernelBuilder::minI(Value a, Value c) { return arith::MinSIOp::create(b, a, c); }
Value KernelBuilder::maxI(Value a, Value c) { return arith::MaxSIOp::create(b, a, c); }
Value KernelBuilder::lt(Value a, Value c) { return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, a, c); }
Value KernelBuilder::eq(Value a, Value c) { return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, a, c); }
Value KernelBuilder::ge(Value a, Value c) { return arith::CmpIOp::create(b, arith::CmpIPredicate::sge, a, c); }
Value KernelBuilder::toI64(Value v) { return arith::ExtSIOp::create(b, i64, v); }

//===-- Memory ------------------------------------------------------------===//

Value KernelBuilder::at(Value base, Value bytes) { return LLVM::GEPOp::create(b, ptr, i8, base, ArrayRef<LLVM::GEPArg>{bytes}); }

Value KernelBuilder::at(Value base, int64_t bytes) { return bytes ? at(base, idx(bytes)) : base; }

static unsigned naturalAlign(Type type) {
  Type elem = getElementTypeOrSelf(type);
  return isa<LLVM::LLVMPointerType>(elem) ? 8 : unsigned(elemBytes(elem));
}

Value KernelBuilder::load(Type type, Value address, unsigned align) {
  return LLVM::LoadOp::create(b, type, address, align ? align : naturalAlign(type));
}
void KernelBuilder::store(Value value, Value address, unsigned align) {
  LLVM::StoreOp::create(b, value, address, align ? align : naturalAlign(value.getType()));
}

Value KernelBuilder::loadI32(Value base, Value index) { return toI64(load(i32, at(base, mul(index, 4)))); }

/// The first `count` lanes set.
static Value prefixMask(KernelBuilder &k, int64_t lanes, int64_t count) {
  SmallVector<bool> bits(lanes, false);
  std::fill(bits.begin(), bits.begin() + count, true);
  auto type = k.vec(k.b.getI1Type(), lanes);
  return arith::ConstantOp::create(k.b, DenseElementsAttr::get(type, bits));
}

Value KernelBuilder::loadF32(Type elem, Value address, int64_t lanes, int64_t count) {
  auto type = vec(elem.isBF16() ? i16 : elem, lanes);
  Value raw;
  if (count < 0 || count == lanes) {
    raw = load(type, address);
  } else {
    Value zero = elem.isBF16() ? cint(type, 0) : cf(type, 0);
    raw = LLVM::MaskedLoadOp::create(b, type, address, prefixMask(*this, lanes, count), zero,
                                     b.getI32IntegerAttr(int(naturalAlign(type))));
  }
  return elem.isBF16() ? fromBF16(raw) : raw;
}

void KernelBuilder::storeF32(Type elem, Value value, Value address, int64_t count) {
  int64_t lanes = cast<VectorType>(value.getType()).getNumElements();
  if (elem.isBF16())
    value = toBF16(value);
  if (count < 0 || count == lanes)
    return store(value, address, unsigned(elemBytes(elem)));
  if (count == 1) // LLVM 22 turns a masked store of one truncated lane into a store of the lane before truncation
    return store(LLVM::ExtractElementOp::create(b, value, cint(i32, 0)), address);
  LLVM::MaskedStoreOp::create(b, value, address, prefixMask(*this, lanes, count), b.getI32IntegerAttr(int(elemBytes(elem))));
}

Value KernelBuilder::loadScalarF32(Type elem, Value address) {
  return elem.isBF16() ? fromBF16(load(i16, address)) : load(f32, address);
}

void KernelBuilder::storeScalarF32(Type elem, Value value, Value address) {
  store(elem.isBF16() ? toBF16(value) : value, address);
}

//===-- Floats ------------------------------------------------------------===//

Value KernelBuilder::fadd(Value a, Value c) { return arith::AddFOp::create(b, a, c); }
Value KernelBuilder::fsub(Value a, Value c) { return arith::SubFOp::create(b, a, c); }
Value KernelBuilder::fmul(Value a, Value c) { return arith::MulFOp::create(b, a, c); }
Value KernelBuilder::fdiv(Value a, Value c) { return arith::DivFOp::create(b, a, c); }
Value KernelBuilder::fma(Value a, Value c, Value acc) { return LLVM::FMAOp::create(b, a, c, acc); }
Value KernelBuilder::fmax(Value a, Value c) {
  // A compare and a select is exactly vmaxps; the IEEE maximum would cost NaN handling.
  Value gt = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, a, c);
  return arith::SelectOp::create(b, gt, a, c);
}
Value KernelBuilder::fsqrt(Value a) { return LLVM::SqrtOp::create(b, a); }

Value KernelBuilder::roundTo(Type elem, Value v) {
  if (elem.isF32())
    return v;
  return fromBF16(toBF16(v));
}

Value KernelBuilder::toBF16(Value v) {
  auto vt = dyn_cast<VectorType>(v.getType());
  int64_t lanes = vt ? vt.getNumElements() : 0;
  auto like = [&](Type elem) { return vt ? Type(vec(elem, lanes)) : elem; };
  if (variant.bf16Dot && vt)
    return arith::BitcastOp::create(b, like(i16), arith::TruncFOp::create(b, like(bf16), v).getResult());
  // Round to nearest, ties to even, on the bits; without the instruction LLVM would call a library function.
  Value bits = arith::BitcastOp::create(b, like(i32), v);
  Value odd = arith::AndIOp::create(b, arith::ShRUIOp::create(b, bits, cint(like(i32), 16)), cint(like(i32), 1));
  Value rounded = add(add(bits, cint(like(i32), 0x7fff)), odd);
  // A NaN must not round up to infinity: keep its top bits and set a quiet one.
  Value quiet = arith::OrIOp::create(b, bits, cint(like(i32), 0x400000));
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, v, v);
  Value picked = arith::SelectOp::create(b, isNan, quiet, rounded);
  return arith::TruncIOp::create(b, like(i16), arith::ShRUIOp::create(b, picked, cint(like(i32), 16)));
}

Value KernelBuilder::fromBF16(Value bits) {
  auto vt = dyn_cast<VectorType>(bits.getType());
  auto like = [&](Type elem) { return vt ? Type(vec(elem, vt.getNumElements())) : elem; };
  Value wide = arith::ShLIOp::create(b, arith::ExtUIOp::create(b, like(i32), bits), cint(like(i32), 16));
  return arith::BitcastOp::create(b, like(f32), wide);
}

Value KernelBuilder::exp(Value x) {
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

Value KernelBuilder::sigmoid(Value x) {
  Type type = x.getType();
  Value e = exp(fsub(cf(type, 0.0), x));
  return fdiv(cf(type, 1.0), fadd(cf(type, 1.0), e));
}
Value KernelBuilder::silu(Value x) {
  Type type = x.getType();
  Value e = exp(fsub(cf(type, 0.0), x));
  return fdiv(x, fadd(cf(type, 1.0), e));
}

Value KernelBuilder::reduce(Value v, llvm::function_ref<Value(Value, Value)> combine) {
  for (int32_t half = kLanes / 2; half >= 1; half /= 2) {
    SmallVector<int32_t> low, high;
    for (int32_t i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(i + half);
    }
    v = combine(LLVM::ShuffleVectorOp::create(b, v, v, low), LLVM::ShuffleVectorOp::create(b, v, v, high));
  }
  return LLVM::ExtractElementOp::create(b, v, cint(i32, 0));
}
Value KernelBuilder::reduceAdd(Value v) {
  return reduce(v, [&](Value a, Value c) { return fadd(a, c); });
}
Value KernelBuilder::reduceMax(Value v) {
  return reduce(v, [&](Value a, Value c) { return fmax(a, c); });
}

//===-- Control flow ------------------------------------------------------===//

void KernelBuilder::loop(Value lb, Value ub, int64_t step, llvm::function_ref<void(Value)> body) {
  loop(lb, ub, step, {}, [&](Value iv, ValueRange) {
    body(iv);
    return SmallVector<Value>();
  });
}
void KernelBuilder::loop(int64_t lb, int64_t ub, int64_t step, llvm::function_ref<void(Value)> body) {
  if (lb + step >= ub) { // at most one turn: no loop
    if (lb < ub)
      body(idx(lb));
    return;
  }
  loop(idx(lb), idx(ub), step, body);
}

SmallVector<Value> KernelBuilder::loop(Value lb, Value ub, int64_t step, ValueRange init,
                                       llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto op = scf::ForOp::create(b, lb, ub, idx(step), init);
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

void KernelBuilder::when(Value condition, llvm::function_ref<void()> body) {
  auto op = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(op.thenBlock()->getTerminator());
  body();
}
void KernelBuilder::when(Value condition, llvm::function_ref<void()> body, llvm::function_ref<void()> otherwise) {
  auto op = scf::IfOp::create(b, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(op.thenBlock()->getTerminator());
  body();
  b.setInsertionPoint(op.elseBlock()->getTerminator());
  otherwise();
}

} // namespace dsv3::codegen
