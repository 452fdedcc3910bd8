#include "codegen/x86/PanelGemm.h"

#include "mlir/Dialect/X86Vector/X86VectorDialect.h"

using namespace mlir;

namespace dsv3::codegen {

/// K values per chunk: panels of one tile stay in the second-level cache (4 x 64 KiB) and accumulators are
/// spilled once per chunk. A multiple of every supported scale block.
static constexpr int64_t kChunk = 512;

WeightShape::WeightShape(RankedTensorType type) {
  ArrayRef<int64_t> shape = type.getShape();
  n = shape[shape.size() - 2], k = shape.back();
  expressed = type.getElementType();
  Attribute enc = type.getEncoding();
  if (auto packed = dyn_cast_or_null<kernel::PackedAttr>(enc))
    enc = packed.getScheme();
  auto scheme = dyn_cast_or_null<ir::QuantScheme>(enc);
  storage = scheme ? scheme.getStorageType() : expressed;
  kp = 4 / elemBytes(storage);
  scaleBlock = !scheme ? 0 : scheme.getScaleExtentK() ? scheme.getScaleExtentK() : k;
}

std::string whyNotPanels(RankedTensorType type) {
  WeightShape w(type);
  if (!isa<Float32Type, BFloat16Type, Float8E4M3FNType>(w.storage)) {
    std::string text;
    llvm::raw_string_ostream(text) << "weight storage " << w.storage << " is not f32, bf16 or f8E4M3FN";
    return text;
  }
  if (w.scaleBlock && w.scaleBlock < w.k && (w.scaleBlock % 4 || kChunk % w.scaleBlock))
    return "scale block of " + std::to_string(w.scaleBlock) + " along K is not a power of two between 4 and " + std::to_string(kChunk);
  return {};
}

kernel::PackedAttr panelEncoding(RankedTensorType type) {
  WeightShape w(type);
  MLIRContext *ctx = type.getContext();
  std::string kp = std::to_string(w.kp);
  std::string data = "(n, k) -> [n/16, k/" + kp + ", n%16, k%" + kp + "] pad n:16 k:" + kp;
  auto scheme = ir::getScheme(type);
  kernel::LayoutAttr scale;
  if (scheme)
    scale = kernel::LayoutAttr::get(ctx, "(n, k) -> [n/16, k/" + std::to_string(w.scaleBlock) + ", n%16] pad n:16");
  return kernel::PackedAttr::get(ctx, scheme, kernel::LayoutAttr::get(ctx, data), scale);
}

Type multiplyType(Type x, RankedTensorType weight) {
  bool narrow = x.isBF16() && weight.getElementType().isBF16();
  return narrow ? x : Type(Float32Type::get(weight.getContext()));
}

int64_t PanelGemm::scratchBytes(int64_t rowBlock, int64_t panels) {
  return panels * kLanes * 4 * (rowBlock + kChunk);
}

Value PanelGemm::accAddress(Value row, int64_t slot) {
  return k.at(k.at(k.scratch, k.mul(row, slots() * kLanes * 4)), slot * kLanes * 4);
}

//===-- Weights to the multiply type --------------------------------------===//

/// Dequantises 16 columns x 4 consecutive k of E4M3 codes: code j of each lane as f32, without its scale but
/// times 2^-8. E4M3 is binary16 with a shifted exponent: moving its bits gives value / 256, exact for subnormals too.
static Value decodeE4M3(KernelBuilder &k, Value lanes, int64_t j) {
  ImplicitLocOpBuilder &b = k.b;
  Value byte = lanes;
  if (j)
    byte = arith::ShRUIOp::create(b, byte, k.cint(k.vi32, 8 * j));
  Value mag = arith::ShLIOp::create(b, arith::AndIOp::create(b, byte, k.cint(k.vi32, 0x7f)), k.cint(k.vi32, 7));
  Value sign = arith::ShLIOp::create(b, arith::AndIOp::create(b, byte, k.cint(k.vi32, 0x80)), k.cint(k.vi32, 8));
  Value half = arith::TruncIOp::create(b, k.vi16, arith::OrIOp::create(b, mag, sign));
  Value f16 = arith::BitcastOp::create(b, k.vec(b.getF16Type()), half);
  return arith::ExtFOp::create(b, k.vf32, f16);
}

/// Two vectors of f32 (k and k + 1 of 16 columns) as bf16 pairs.
static Value pairBF16(KernelBuilder &k, Value lo, Value hi) {
  auto bits = [&](Value v) -> Value {
    Value narrow = arith::TruncFOp::create(k.b, k.vec(k.bf16), v);
    return arith::ExtUIOp::create(k.b, k.vi32, arith::BitcastOp::create(k.b, k.vi16, narrow));
  };
  Value high = arith::ShLIOp::create(k.b, bits(hi), k.cint(k.vi32, 16));
  return arith::OrIOp::create(k.b, bits(lo), high);
}

/// Writes the panel's `count` k values from `k0` to scratch slot `slot`.
void PanelGemm::prepare(const WeightPanels &w, int64_t slot, Value k0, int64_t count) {
  WeightShape shape(w.type);
  Value panel = k.add(w.firstPanel, slot % panelsPerWeight);
  Value src = k.at(k.at(w.data, k.mul(panel, shape.panelBytes())), k.mul(k0, kLanes * elemBytes(shape.storage)));
  Value dst = k.at(k.scratch, slots() * kLanes * 4 * rowBlock + slot * kChunk * kLanes * 4);
  bool fp8 = shape.scaleBlock != 0, narrow = mulType.isBF16();
  int64_t dstStep = kLanes * (narrow ? 2 : 4); // bytes per k

  auto four = [&](Value kk, Value scale) { // k values kk .. kk + 3 of fp8
    Value lanes = k.load(k.vi32, k.at(src, k.mul(kk, kLanes)), 4);
    SmallVector<Value> v;
    for (int64_t j = 0; j < 4; ++j)
      v.push_back(k.roundTo(shape.expressed, k.fmul(decodeE4M3(k, lanes, j), scale)));
    Value to = k.at(dst, k.mul(kk, dstStep));
    if (narrow) {
      k.store(pairBF16(k, v[0], v[1]), to, 4);
      k.store(pairBF16(k, v[2], v[3]), k.at(to, 64), 4);
      return;
    }
    for (int64_t j = 0; j < 4; ++j)
      k.store(v[j], k.at(to, 64 * j), 4);
  };
  if (fp8) {
    int64_t block = std::min(shape.scaleBlock, count);
    Value scaleRow = k.at(w.scale, k.mul(panel, shape.scaleBlocks() * kLanes * 4));
    Value firstBlock = k.div(k0, shape.scaleBlock);
    for (int64_t base = 0; base < count; base += block) {
      Value at = k.mul(k.add(firstBlock, base / shape.scaleBlock), kLanes * 4);
      Value scale = k.fmul(k.load(k.vf32, k.at(scaleRow, at), 4), k.cf(k.vf32, 256.0));
      k.loop(base, std::min(llvm::alignTo(count, 4), uint64_t(base + block)), 4, [&](Value kk) { four(kk, scale); });
    }
    return;
  }
  // bf16 to f32: pairs of k in memory.
  k.loop(0, llvm::alignTo(count, 2), 2, [&](Value kk) {
    Value pair = k.load(k.vi32, k.at(src, k.mul(kk, kLanes * 2)), 4);
    Value lo = arith::ShLIOp::create(k.b, pair, k.cint(k.vi32, 16));
    Value hi = arith::AndIOp::create(k.b, pair, k.cint(k.vi32, int64_t(int32_t(0xffff0000))));
    Value to = k.at(dst, k.mul(kk, dstStep));
    k.store(lo, to, 4);
    k.store(hi, k.at(to, 64), 4);
  });
}

//===-- Multiply ----------------------------------------------------------===//

/// Two k values of x's row as one bf16 pair in every lane; `last` has no partner.
static Value broadcastPair(KernelBuilder &k, Value address, bool last) {
  Value pair = last ? arith::ExtUIOp::create(k.b, k.i32, k.load(k.i16, address)).getResult() : k.load(k.i32, address, 2);
  return k.splat(pair);
}

/// acc + x pair . w pair in every lane. Without the instruction: two fused multiply-adds, k ascending.
static Value dotPair(KernelBuilder &k, Value acc, Value x, Value w) {
  auto vbf = k.vec(k.bf16, 2 * kLanes);
  if (k.variant.bf16Dot)
    return x86vector::DotBF16Op::create(k.b, k.vf32, acc, LLVM::BitcastOp::create(k.b, vbf, x), LLVM::BitcastOp::create(k.b, vbf, w));
  auto low = [&](Value v) -> Value {
    return arith::BitcastOp::create(k.b, k.vf32, arith::ShLIOp::create(k.b, v, k.cint(k.vi32, 16)).getResult());
  };
  auto high = [&](Value v) -> Value {
    return arith::BitcastOp::create(k.b, k.vf32, arith::AndIOp::create(k.b, v, k.cint(k.vi32, int64_t(int32_t(0xffff0000)))).getResult());
  };
  return k.fma(high(x), high(w), k.fma(low(x), low(w), acc));
}

/// `mr` rows from `row` times the panels of `panelSlots`, over `count` k values from `k0`.
void PanelGemm::rowGroup(ArrayRef<Value> panelBase, ArrayRef<int64_t> panelSlots, Value row, int64_t mr, Value k0, int64_t count) {
  bool narrow = mulType.isBF16();
  int64_t perStep = narrow ? 2 : 1, xBytes = elemBytes(xElem), steps = count / perStep;
  SmallVector<Value> x, acc;
  for (int64_t r = 0; r < mr; ++r)
    x.push_back(k.at(rowAddress(k.add(row, r)), k.mul(k0, xBytes)));
  for (int64_t r = 0; r < mr; ++r)
    for (int64_t slot : panelSlots)
      acc.push_back(k.load(k.vf32, accAddress(k.add(row, r), slot), 4));

  auto step = [&](Value s, ArrayRef<Value> in, bool last) {
    SmallVector<Value> out, w;
    for (Value base : panelBase)
      w.push_back(k.load(narrow ? k.vi32 : k.vf32, k.at(base, k.mul(s, kLanes * 4)), 4));
    for (int64_t r = 0; r < mr; ++r) {
      Value address = k.at(x[r], k.mul(s, perStep * xBytes));
      Value xv = narrow ? broadcastPair(k, address, last) : k.splat(k.loadScalarF32(xElem, address));
      for (size_t p = 0; p < w.size(); ++p) {
        Value a = in[r * w.size() + p];
        out.push_back(narrow ? dotPair(k, a, xv, w[p]) : k.fma(xv, w[p], a));
      }
    }
    return out;
  };
  if (steps)
    acc = k.loop(k.idx(0), k.idx(steps), 1, acc, [&](Value s, ValueRange in) { return step(s, SmallVector<Value>(in), false); });
  if (count % perStep)
    acc = step(k.idx(steps), acc, true);
  for (int64_t r = 0; r < mr; ++r)
    for (auto [p, slot] : llvm::enumerate(panelSlots))
      k.store(acc[r * panelSlots.size() + p], accAddress(k.add(row, r), slot), 4);
}

void PanelGemm::multiply(ArrayRef<Value> panelBase, Value k0, int64_t count) {
  // Accumulators, the weight vectors and one broadcast must fit the registers; a 16-lane vector is two of AVX2's.
  bool wide = k.variant.vectorBits == 512;
  int64_t together = wide ? 2 : 1, mr = wide ? 8 : 4;
  for (int64_t first = 0; first < slots(); first += together) {
    SmallVector<Value> bases;
    SmallVector<int64_t> group;
    for (int64_t s = first; s < std::min(first + together, slots()); ++s) {
      bases.push_back(panelBase[s]);
      group.push_back(s);
    }
    Value whole = k.mul(k.div(rows, mr), mr);
    k.loop(k.idx(0), whole, mr, [&](Value row) { rowGroup(bases, group, row, mr, k0, count); });
    k.loop(whole, rows, 1, [&](Value row) { rowGroup(bases, group, row, 1, k0, count); });
  }
}

void PanelGemm::emit() {
  WeightShape shape(weights.front().type);
  mulType = multiplyType(xElem, weights.front().type);
  bool direct = shape.storage == mulType;
  k.loop(k.idx(0), rows, 1, [&](Value row) {
    for (int64_t s = 0; s < slots(); ++s)
      k.store(k.cf(k.vf32, 0.0), accAddress(row, s), 4);
  });

  auto chunk = [&](Value k0, int64_t count) {
    SmallVector<Value> bases;
    for (int64_t s = 0; s < slots(); ++s) {
      const WeightPanels &w = weights[s / panelsPerWeight];
      if (direct) {
        Value panel = k.add(w.firstPanel, s % panelsPerWeight);
        bases.push_back(k.at(k.at(w.data, k.mul(panel, shape.panelBytes())), k.mul(k0, kLanes * elemBytes(shape.storage))));
        continue;
      }
      prepare(w, s, k0, count);
      bases.push_back(k.at(k.scratch, slots() * kLanes * 4 * rowBlock + s * kChunk * kLanes * 4));
    }
    multiply(bases, k0, count);
  };
  int64_t whole = shape.k / kChunk * kChunk;
  k.loop(0, whole, kChunk, [&](Value k0) { chunk(k0, kChunk); });
  if (whole < shape.k)
    chunk(k.idx(whole), shape.k - whole);

  k.loop(k.idx(0), rows, 1, [&](Value row) {
    for (int64_t p = 0; p < panelsPerWeight; ++p) {
      SmallVector<Value> acc;
      for (size_t w = 0; w < weights.size(); ++w)
        acc.push_back(k.load(k.vf32, accAddress(row, int64_t(w) * panelsPerWeight + p), 4));
      epilogue(row, p, acc);
    }
  });
}

} // namespace dsv3::codegen
