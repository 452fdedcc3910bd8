#include "codegen/sm90/simt/SimtBuilder.h"

#include <limits>

#include "runtime/core/Abi.h"

using namespace mlir;

namespace dsv3::codegen {

SimtBuilder::SimtBuilder(OpBuilder &module, Location loc, StringRef symbol, ArrayRef<Type> params, int64_t threads, int64_t cluster)
    : BodyBuilder(loc, 32), threads(threads), cluster(cluster) {
  MLIRContext *ctx = loc.getContext();
  globalPtr = LLVM::LLVMPointerType::get(ctx, 1), sharedPtr = LLVM::LLVMPointerType::get(ctx, 3);
  SmallVector<Type> types{globalPtr};
  llvm::append_range(types, params);
  fn = LLVM::LLVMFuncOp::create(module, loc, symbol, LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(ctx), types));
  fn->setAttr("nvvm.kernel", module.getUnitAttr());
  fn->setAttr("nvvm.reqntid", module.getDenseI32ArrayAttr({int32_t(threads), 1, 1}));
  if (threads > 512)
    takeRegisters();
  b.setInsertionPointToEnd(fn.addEntryBlock(b));
  // Read once, where every later use is dominated.
  threadIndex = intrinsic(i32, "llvm.nvvm.read.ptx.sreg.tid.x", {});
  blockIndex = intrinsic(i32, "llvm.nvvm.read.ptx.sreg.ctaid.x", {});
}

void SimtBuilder::takeRegisters() { fn->setAttr("nvvm.minctasm", b.getI32IntegerAttr(1)); }

void SimtBuilder::finish() { LLVM::ReturnOp::create(b, ValueRange{}); }

Value SimtBuilder::param(unsigned i) { return fn.getArgument(1 + i); }

Value SimtBuilder::scalar(int i) { return loadScalar(i64, at(fn.getArgument(0), int64_t(i) * 8), /*readOnly=*/true); }
Value SimtBuilder::scalarI32(int i) { return toI32(scalar(i)); }

Value SimtBuilder::intrinsic(Type result, StringRef name, ValueRange args) {
  StringAttr callee = b.getStringAttr(name);
  if (result)
    return LLVM::CallIntrinsicOp::create(b, result, callee, args).getResults();
  LLVM::CallIntrinsicOp::create(b, callee, args);
  return {};
}

//===-- Place -------------------------------------------------------------===//

Value SimtBuilder::thread() { return threadIndex; }
Value SimtBuilder::block() { return blockIndex; }
Value SimtBuilder::clusterRank() { return cluster == 1 ? cint(i32, 0) : intrinsic(i32, "llvm.nvvm.read.ptx.sreg.cluster.ctarank", {}); }
Value SimtBuilder::lane() { return bitAnd(threadIndex, cint(i32, kWarp - 1)); }
Value SimtBuilder::warp() { return shr(threadIndex, 5); }

//===-- Memory ------------------------------------------------------------===//

Value SimtBuilder::shared(int64_t bytes) {
  OpBuilder module(fn);
  auto type = LLVM::LLVMArrayType::get(i8, bytes);
  std::string name = (fn.getSymName() + "_smem" + Twine(sharedBuffers++)).str();
  auto global = LLVM::GlobalOp::create(module, fn.getLoc(), type, /*isConstant=*/false, LLVM::Linkage::Internal, name, Attribute(),
                                       /*alignment=*/16, /*addrSpace=*/3);
  return LLVM::AddressOfOp::create(b, global);
}

Value SimtBuilder::remote(Value buffer, Value rank) {
  return intrinsic(LLVM::LLVMPointerType::get(b.getContext(), 7), "llvm.nvvm.mapa.shared.cluster", {buffer, rank});
}

Value SimtBuilder::element(Value base, Value index, int64_t bytes) {
  if (base.getType() != sharedPtr && index.getType() != i64)
    index = toI64(index);
  return at(base, mul(index, bytes));
}

Value SimtBuilder::loadScalar(Type type, Value address, bool readOnly) {
  Value v = load(type, address);
  if (readOnly)
    v.getDefiningOp<LLVM::LoadOp>().setInvariant(true);
  return v;
}

SmallVector<Value> SimtBuilder::loadWords(Type type, Value address, int64_t n, bool readOnly) {
  // LLVM takes a vector load apart and forgets that it is invariant; neighbours that say how they are aligned it joins
  // to ld.global.nc.v4.
  SmallVector<Value> words;
  for (int64_t i = 0; i < n; ++i) {
    auto load = LLVM::LoadOp::create(b, type, at(address, i * 4), unsigned(4 * std::min({i ? i & -i : n, n, int64_t(4)})));
    load.setInvariant(readOnly);
    words.push_back(load);
  }
  return words;
}

SmallVector<Value> SimtBuilder::loadI32(Value address, int64_t n, bool readOnly) { return loadWords(i32, address, n, readOnly); }

Lanes SimtBuilder::loadF32(Type elem, Value address, int64_t n, bool readOnly) {
  if (!elem.isBF16())
    return loadWords(f32, address, n, readOnly);
  // A bf16 is the upper half of the float32 with the same value.
  if (n == 1)
    return {bitcast(f32, shl(arith::ExtUIOp::create(b, i32, loadScalar(i16, address, readOnly)), 16))};
  Lanes lanes;
  for (Value word : loadWords(i32, address, n / 2, readOnly)) {
    lanes.push_back(bitcast(f32, shl(word, 16)));
    lanes.push_back(bitcast(f32, bitAnd(word, cint(i32, int32_t(0xffff0000)))));
  }
  return lanes;
}

void SimtBuilder::storeWords(ArrayRef<Value> words, Value address) {
  for (int64_t done = 0, n = int64_t(words.size()); done < n;) {
    int64_t count = std::min<int64_t>(n - done, 4);
    Value to = at(address, done * 4), v = words[done];
    if (count > 1) {
      v = LLVM::PoisonOp::create(b, vec(words[0].getType(), count));
      for (int64_t i = 0; i < count; ++i)
        v = LLVM::InsertElementOp::create(b, v, words[done + i], cint(i32, i));
    }
    store(v, to, unsigned(count * 4));
    done += count;
  }
}

void SimtBuilder::addShared(Value address, Value v) {
  LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::add, address, v, LLVM::AtomicOrdering::monotonic, /*syncscope=*/"block");
}

Value SimtBuilder::fetchAddShared(Value address, Value v) {
  return LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::add, address, v, LLVM::AtomicOrdering::monotonic, /*syncscope=*/"block");
}

void SimtBuilder::storeF32(Type elem, ArrayRef<Value> lanes, Value address) {
  if (!elem.isBF16())
    return storeWords(lanes, address);
  if (lanes.size() == 1)
    return store(LLVM::FPTruncOp::create(b, bf16, lanes[0]), address);
  SmallVector<Value> words;
  for (size_t i = 0; i < lanes.size(); i += 2)
    words.push_back(packBF16(lanes[i], lanes[i + 1]));
  storeWords(words, address);
}

void SimtBuilder::storeE4M3(ArrayRef<Value> lanes, Value address) { storeF8(mlir::Float8E4M3FNType::get(b.getContext()), lanes, address); }

void SimtBuilder::storeF8(Type codes, ArrayRef<Value> lanes, Value address) {
  StringRef convert = mlir::isa<mlir::Float8E5M2Type>(codes) ? "llvm.nvvm.ff.to.e5m2x2.rn" : "llvm.nvvm.ff.to.e4m3x2.rn";
  SmallVector<Value> words;
  auto pair = [&](size_t i) { // the first argument becomes the upper byte
    return arith::ExtUIOp::create(b, i32, intrinsic(i16, convert, {lanes[i + 1], lanes[i]}));
  };
  if (lanes.size() % 4) {
    for (auto [i, v] : llvm::enumerate(lanes))
      store(arith::TruncIOp::create(b, i8, intrinsic(i16, convert, {v, v})), at(address, int64_t(i)));
    return;
  }
  for (size_t i = 0; i < lanes.size(); i += 4)
    words.push_back(bitOr(pair(i), shl(pair(i + 2), 16)));
  storeWords(words, address);
}

Lanes SimtBuilder::loadF8(Type codes, Value address, int64_t n, bool readOnly) {
  const bool e5m2 = mlir::isa<mlir::Float8E5M2Type>(codes);
  Lanes lanes;
  for (Value word : loadI32(address, n / 4, readOnly))
    for (int64_t i = 0; i < 4; ++i) {
      Value high = bitAnd(i > 1 ? shr(word, 8 * (i - 1)) : shl(word, 8 * (1 - i)), cint(i32, 0xff00)); // the byte at 15..8
      // E5M2 is the upper half of a binary16; E4M3 is one times 256 once its exponent and mantissa move down by a bit.
      Value half = e5m2 ? high : bitOr(bitAnd(high, cint(i32, 0x8000)), shr(bitAnd(high, cint(i32, 0x7f00)), 1));
      Value value = arith::ExtFOp::create(b, f32, arith::BitcastOp::create(b, b.getF16Type(), arith::TruncIOp::create(b, i16, half).getResult()).getResult());
      if (!e5m2) {
        Value isNan = eq(bitAnd(high, cint(i32, 0x7f00)), cint(i32, 0x7f00));
        value = select(isNan, cf(f32, std::numeric_limits<double>::quiet_NaN()), fmul(value, cf(f32, 256)));
      }
      lanes.push_back(value);
    }
  return lanes;
}

Value SimtBuilder::toE4M3(Value v) { return arith::TruncIOp::create(b, i8, intrinsic(i16, "llvm.nvvm.ff.to.e4m3x2.rn", {v, v})); }

void SimtBuilder::storeI8(ArrayRef<Value> lanes, Value address) {
  SmallVector<Value> words;
  for (size_t i = 0; i < lanes.size(); i += 4) {
    Value word;
    for (size_t j = 0; j < 4; ++j) {
      Value v = fmax(lanes[i + j], cf(f32, -127)), most = cf(f32, 127);
      v = select(gt(v, most), most, v);
      // Where a number's last place is 1, it holds the integer.
      Value byte = bitAnd(bitcast(i32, fadd(v, cf(f32, 0x1.8p23))), cint(i32, 0xff));
      word = j ? bitOr(word, shl(byte, int64_t(8 * j))) : byte;
    }
    words.push_back(word);
  }
  storeWords(words, address);
}

//===-- Arithmetic --------------------------------------------------------===//

Value SimtBuilder::toI32(Value v) { return arith::TruncIOp::create(b, i32, v); }
Value SimtBuilder::divide(Value a, Value c) { return arith::DivUIOp::create(b, a, c); }
Value SimtBuilder::bitAnd(Value a, Value c) { return arith::AndIOp::create(b, a, c); }
Value SimtBuilder::bitOr(Value a, Value c) { return arith::OrIOp::create(b, a, c); }
Value SimtBuilder::bitXor(Value a, Value c) { return arith::XOrIOp::create(b, a, c); }
Value SimtBuilder::shl(Value a, int64_t bits) { return arith::ShLIOp::create(b, a, cint(a.getType(), bits)); }
Value SimtBuilder::shr(Value a, int64_t bits) { return arith::ShRUIOp::create(b, a, cint(a.getType(), bits)); }
Value SimtBuilder::popcount(Value a) { return LLVM::CtPopOp::create(b, a.getType(), a); }
Value SimtBuilder::ult(Value a, Value c) { return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, a, c); }
Value SimtBuilder::leadingZeros(Value a) { return LLVM::CountLeadingZerosOp::create(b, a.getType(), a, /*is_zero_poison=*/false); }
Value SimtBuilder::mulHigh(Value a, Value c, bool roundUp) {
  auto product = arith::MulUIExtendedOp::create(b, a, c);
  if (!roundUp)
    return product.getHigh();
  return add(product.getHigh(), select(eq(product.getLow(), cint(i64, 0)), cint(i64, 0), cint(i64, 1)));
}
Value SimtBuilder::gt(Value a, Value c) { return arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, a, c); }
Value SimtBuilder::bitcast(Type type, Value v) { return LLVM::BitcastOp::create(b, type, v); }

Value SimtBuilder::packBF16(Value low, Value high) {
  Value pair = LLVM::PoisonOp::create(b, vec(f32, 2)); // one cvt.rn.bf16x2.f32
  pair = LLVM::InsertElementOp::create(b, pair, low, cint(i32, 0));
  pair = LLVM::InsertElementOp::create(b, pair, high, cint(i32, 1));
  return bitcast(i32, LLVM::FPTruncOp::create(b, vec(bf16, 2), pair));
}

Lanes SimtBuilder::roundTo(Type elem, ArrayRef<Value> lanes) {
  if (!elem.isBF16())
    return Lanes(lanes);
  Lanes rounded;
  for (size_t i = 0; i < lanes.size(); i += 2) {
    bool pair = i + 1 < lanes.size();
    Value word = packBF16(lanes[i], pair ? lanes[i + 1] : lanes[i]);
    rounded.push_back(bitcast(f32, shl(word, 16)));
    if (pair)
      rounded.push_back(bitcast(f32, bitAnd(word, cint(i32, int32_t(0xffff0000)))));
  }
  return rounded;
}

Value SimtBuilder::exp2Fast(Value x) { return intrinsic(f32, "llvm.nvvm.ex2.approx.ftz.f32", x); }
Value SimtBuilder::log2Fast(Value x) { return intrinsic(f32, "llvm.nvvm.lg2.approx.ftz.f", x); }

Value SimtBuilder::rsqrt(Value x) {
  Value r = intrinsic(f32, "llvm.nvvm.rsqrt.approx.ftz.f", x);
  // r (1 + e / 2) with e = 1 - x r^2
  Value e = fma(fmul(x, r), negate(r), cf(f32, 1.0));
  return fma(fmul(r, cf(f32, 0.5)), e, r);
}

Value SimtBuilder::negate(Value x) { return arith::NegFOp::create(b, x); }
Value SimtBuilder::magnitude(Value x) { return bitcast(f32, bitAnd(bitcast(i32, x), cint(i32, 0x7fffffff))); }

Value SimtBuilder::reciprocal(Value x) {
  Value r = intrinsic(f32, "llvm.nvvm.rcp.approx.ftz.f", x);
  return fma(fma(negate(x), r, cf(f32, 1.0)), r, r);
}

Value SimtBuilder::quotient(Value a, Value c, Value inverse) {
  Value q = fmul(a, inverse), rest = fma(negate(q), c, a);
  return fma(rest, inverse, q);
}

Value SimtBuilder::siluFast(Value x) {
  Value e = exp2Fast(fmul(x, cf(f32, -1.44269504088896341)));
  return fmul(x, intrinsic(f32, "llvm.nvvm.rcp.approx.ftz.f", fadd(e, cf(f32, 1.0))));
}

//===-- Warps and blocks --------------------------------------------------===//

Value SimtBuilder::shuffleXor(Value v, int64_t mask) {
  bool isFloat = v.getType() == f32;
  return intrinsic(v.getType(), isFloat ? "llvm.nvvm.shfl.sync.bfly.f32" : "llvm.nvvm.shfl.sync.bfly.i32",
                   {allLanes(), v, cint(i32, mask), cint(i32, kWarp - 1)});
}

Value SimtBuilder::shuffleUp(Value v, int64_t distance) {
  return intrinsic(i32, "llvm.nvvm.shfl.sync.up.i32", {allLanes(), v, cint(i32, distance), cint(i32, 0)});
}

Value SimtBuilder::reduceWarp(Value v, llvm::function_ref<Value(Value, Value)> combine) {
  for (int64_t mask = kWarp / 2; mask; mask /= 2)
    v = combine(v, shuffleXor(v, mask));
  return v;
}

Value SimtBuilder::reduceBlock(Value v, double identity, Value scratch, llvm::function_ref<Value(Value, Value)> combine) {
  v = reduceWarp(v, combine);
  int64_t warps = threads / kWarp;
  if (warps == 1)
    return v;
  when(eq(lane(), cint(i32, 0)), [&] { store(v, element(scratch, warp(), 4)); });
  syncBlock();
  // Every warp reduces all warps' results, so that nobody waits for a broadcast.
  Value mine = lane(), other = minI(mine, cint(i32, warps - 1));
  Value partial = loadScalar(f32, element(scratch, other, 4));
  if (warps < kWarp)
    partial = select(lt(mine, cint(i32, warps)), partial, cf(f32, identity));
  return reduceWarp(partial, combine);
}

Value SimtBuilder::sumBlock(Value v, Value scratch) {
  return reduceBlock(v, 0, scratch, [&](Value a, Value c) { return fadd(a, c); });
}
Value SimtBuilder::maxBlock(Value v, Value scratch) {
  return reduceBlock(v, -std::numeric_limits<double>::infinity(), scratch, [&](Value a, Value c) { return fmax(a, c); });
}

Value SimtBuilder::sumWarp(Value v) { return intrinsic(i32, "llvm.nvvm.redux.sync.add", {v, allLanes()}); }

Value SimtBuilder::sumWarp64(Value v) {
  // One instruction adds 32-bit numbers over a warp: pieces of 26 bits, whose sums have 31.
  Value piece = cint(i64, (1 << 26) - 1), sum;
  for (int64_t bit : {0, 26, 52}) {
    Value low = toI32(bitAnd(shr(v, bit), piece));
    Value part = arith::ExtUIOp::create(b, i64, sumWarp(low));
    sum = sum ? add(sum, shl(part, bit)) : part;
  }
  return sum;
}

Value SimtBuilder::scanWarp64(Value v) {
  for (int64_t distance = 1; distance < kWarp; distance *= 2) {
    Value low = arith::ExtUIOp::create(b, i64, shuffleUp(toI32(v), distance)), high = arith::ExtUIOp::create(b, i64, shuffleUp(toI32(shr(v, 32)), distance));
    v = add(v, select(ge(lane(), cint(i32, distance)), bitOr(low, shl(high, 32)), cint(i64, 0)));
  }
  return v;
}

Value SimtBuilder::scanWarp(Value v) {
  for (int64_t distance = 1; distance < kWarp; distance *= 2) {
    Value below = shuffleUp(v, distance);
    v = add(v, select(ge(lane(), cint(i32, distance)), below, cint(i32, 0)));
  }
  return v;
}

SimtBuilder::Scan SimtBuilder::scanBlock(Value v) {
  int64_t warps = threads / kWarp;
  Value upTo = scanWarp(v), before = sub(upTo, v), sums = shared(warps * 4 + 4);
  Value last = eq(lane(), cint(i32, kWarp - 1));
  when(last, [&] { store(upTo, element(sums, add(warp(), 1), 4)); });
  syncBlock();
  when(lt(thread(), cint(i32, kWarp)), [&] { // the first warp: sums of the warps before each
    Value valid = lt(lane(), cint(i32, warps)), place = element(sums, add(minI(lane(), cint(i32, warps - 1)), 1), 4);
    Value sum = scanWarp(select(valid, loadScalar(i32, place), cint(i32, 0)));
    when(valid, [&] { store(sum, place); });
    when(eq(lane(), cint(i32, 0)), [&] { store(cint(i32, 0), sums); });
  });
  syncBlock();
  return {add(before, loadScalar(i32, element(sums, warp(), 4))), loadScalar(i32, at(sums, warps * 4))};
}

Value SimtBuilder::maxWarpU32(Value v) { return intrinsic(i32, "llvm.nvvm.redux.sync.umax", {v, allLanes()}); }
Value SimtBuilder::minWarpU32(Value v) { return intrinsic(i32, "llvm.nvvm.redux.sync.umin", {v, allLanes()}); }
Value SimtBuilder::matchWarp(Value v) { return intrinsic(i32, "llvm.nvvm.match.any.sync.i32", {allLanes(), v}); }
Value SimtBuilder::lanesBelow() { return intrinsic(i32, "llvm.nvvm.read.ptx.sreg.lanemask.lt", {}); }
Value SimtBuilder::ballot(Value condition) { return intrinsic(i32, "llvm.nvvm.vote.ballot.sync", {allLanes(), condition}); }
void SimtBuilder::syncBlock() { intrinsic({}, "llvm.nvvm.barrier.cta.sync.aligned.all", cint(i32, 0)); }
void SimtBuilder::syncCluster() {
  intrinsic({}, "llvm.nvvm.barrier.cluster.arrive.aligned", {});
  intrinsic({}, "llvm.nvvm.barrier.cluster.wait.aligned", {});
}
void SimtBuilder::syncWarp() { intrinsic({}, "llvm.nvvm.bar.warp.sync", allLanes()); }

} // namespace dsv3::codegen
