#include "codegen/x86/CachedPage.h"

#include "codegen/x86/Fp8.h"
#include "codegen/x86/RowOps.h"

using namespace mlir;

namespace dsv3::codegen {

int64_t CachedPage::scratchBytes(ir::KvType kv) {
  return kv.getScheme() ? int64_t(llvm::alignTo(kv.getPage() * kv.getLatent() * elemBytes(kv.getElem()), 64)) : 0;
}

/// `count` codes of a row from `lane` on. A partial vector is loaded lane by lane: what follows may be the pool's end.
static Value loadCodes(KernelBuilder &k, Value row, Value lane, int64_t count) {
  Type i8 = k.b.getI8Type();
  if (count == kLanes)
    return k.load(k.vec(i8), k.at(row, lane), 1);
  Value codes = k.cint(k.vec(i8), 0);
  for (int64_t i = 0; i < count; ++i)
    codes = LLVM::InsertElementOp::create(k.b, codes, k.load(i8, k.at(row, k.add(lane, i)), 1), k.cint(k.i32, i));
  return codes;
}

static void storeCodes(KernelBuilder &k, Value codes, Value row, Value lane, int64_t count) {
  if (count == kLanes)
    return k.store(codes, k.at(row, lane), 1);
  for (int64_t i = 0; i < count; ++i)
    k.store(LLVM::ExtractElementOp::create(k.b, codes, k.cint(k.i32, i)), k.at(row, k.add(lane, i)), 1);
}

CachedPage CachedPage::read(KernelBuilder &k, ir::KvType kv, Value address, Value count, Value scratch) {
  Value rope = k.at(address, kv.getRopeAt());
  if (!kv.getScheme())
    return {address, rope, kv.getLatentPitch(), kv.getRopePitch()};
  int64_t pitch = kv.getLatent() * elemBytes(kv.getElem());
  k.loop(k.idx(0), count, 1, [&](Value token) {
    Value scale = k.splat(k.load(k.f32, k.at(address, k.add(k.mul(token, 4), kv.getScaleAt()))));
    Value from = k.at(address, k.mul(token, kv.getLatentPitch())), to = k.at(scratch, k.mul(token, pitch));
    forLanes(k, kv.getLatent(), [&](Value lane, int64_t n) {
      Value v = k.fmul(fromF8(k, kv.getCodes(), loadCodes(k, from, lane, n)), scale);
      k.storeF32(kv.getElem(), v, lanesAt(k, to, kv.getElem(), lane), n);
    });
  });
  return {scratch, rope, pitch, kv.getRopePitch()};
}

void storeLatent(KernelBuilder &k, ir::KvType kv, Value address, Value token, llvm::function_ref<Value(Value, int64_t)> latent) {
  Value row = k.at(address, k.mul(token, kv.getLatentPitch()));
  int64_t n = kv.getLatent();
  if (!kv.getScheme())
    return forLanes(k, n, [&](Value lane, int64_t count) {
      k.storeF32(kv.getElem(), latent(lane, count), lanesAt(k, row, kv.getElem(), lane), count);
    });
  // Lanes beyond the row are zero, which is below any magnitude.
  auto rounded = [&](Value lane, int64_t count) { return k.roundTo(kv.getElem(), latent(lane, count)); };
  auto larger = [&](Value lane, int64_t count, Value most) {
    Value bits = arith::BitcastOp::create(k.b, k.vi32, rounded(lane, count));
    bits = arith::AndIOp::create(k.b, bits, k.cint(k.vi32, 0x7fffffff));
    return k.fmax(arith::BitcastOp::create(k.b, k.vf32, bits), most);
  };
  int64_t whole = n / kLanes * kLanes;
  Value most = k.cf(k.vf32, 0);
  if (whole)
    most = k.loop(k.idx(0), k.idx(whole), kLanes, most, [&](Value lane, ValueRange in) {
      return SmallVector<Value>{larger(lane, kLanes, in[0])};
    })[0];
  if (n % kLanes)
    most = larger(k.idx(whole), n % kLanes, most);
  Value scale = k.fdiv(k.reduceMax(most), k.cf(k.f32, largestOf(kv.getCodes())));
  Value isZero = arith::CmpFOp::create(k.b, arith::CmpFPredicate::OEQ, scale, k.cf(k.f32, 0));
  scale = k.select(isZero, k.cf(k.f32, 1.0), scale);
  k.store(scale, k.at(address, k.add(k.mul(token, 4), kv.getScaleAt())));
  Value all = k.splat(scale);
  forLanes(k, n, [&](Value lane, int64_t count) {
    storeCodes(k, toF8(k, kv.getCodes(), k.fdiv(rounded(lane, count), all)), row, lane, count);
  });
}

} // namespace dsv3::codegen
