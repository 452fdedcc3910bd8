#include "codegen/x86/KernelBuilder.h"

using namespace mlir;

namespace dsv3::codegen {

KernelBuilder::KernelBuilder(LLVM::LLVMFuncOp fn, const CpuVariant &variant) : BodyBuilder(fn.getLoc(), 64), variant(variant) {
  Block *entry = fn.addEntryBlock(b);
  b.setInsertionPointToEnd(entry);
  ptr = LLVM::LLVMPointerType::get(fn.getContext());
  vf32 = vec(f32), vi32 = vec(i32), vi16 = vec(i16);
  bufs = entry->getArgument(0), scalars = entry->getArgument(1);
  begin = entry->getArgument(2), end = entry->getArgument(3), scratch = entry->getArgument(4);
}

void KernelBuilder::finish() { LLVM::ReturnOp::create(b, ValueRange{}); }

Value KernelBuilder::buf(unsigned i) { return load(ptr, at(bufs, int64_t(i) * 8), 8); }
Value KernelBuilder::scalar(unsigned i) { return load(i64, at(scalars, int64_t(i) * 8), 8); }

Value KernelBuilder::splat(Value scalar, int64_t lanes) {
  return vector::BroadcastOp::create(b, vec(scalar.getType(), lanes), scalar);
}

//===-- Memory ------------------------------------------------------------===//

static unsigned naturalAlign(Type type) {
  Type elem = getElementTypeOrSelf(type);
  return isa<LLVM::LLVMPointerType>(elem) ? 8 : unsigned(elemBytes(elem));
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

} // namespace dsv3::codegen
