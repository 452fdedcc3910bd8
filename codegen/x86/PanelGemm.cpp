#include "codegen/x86/PanelGemm.h"

using namespace mlir;

namespace dsv3::codegen {

/// K values of one turn of the inner loop, if the weight's storage does not ask for more: what a vector of bytes holds.
static constexpr int64_t kUnit = 4;

/// Up to this many rows codes are decoded in the multiply loop.
static constexpr int64_t kFewRows = 2;

WeightShape::WeightShape(RankedTensorType type) {
  ArrayRef<int64_t> shape = type.getShape();
  n = shape[shape.size() - 2], k = shape.back();
  expressed = type.getElementType();
  Attribute enc = type.getEncoding();
  if (auto packed = dyn_cast_or_null<kernel::PackedAttr>(enc))
    enc = packed.getScheme();
  auto scheme = dyn_cast_or_null<ir::QuantScheme>(enc);
  storage = scheme ? scheme.getStorageType() : expressed;
  kp = 32 / int64_t(storage.getIntOrFloatBitWidth());
  scaleBlock = !scheme ? 0 : scheme.getScaleExtentK() ? scheme.getScaleExtentK() : k;
  auto blocked = dyn_cast_or_null<ir::BlockedAttr>(enc);
  zeroPoints = blocked && blocked.getZero();
}

std::string whyNotPanels(RankedTensorType type) {
  ir::QuantScheme scheme = ir::getScheme(type);
  Type storage = scheme ? scheme.getStorageType() : type.getElementType();
  if (!isa<Float32Type, BFloat16Type, Float8E4M3FNType>(storage) && !storage.isInteger(8) && !storage.isInteger(4)) {
    std::string text;
    llvm::raw_string_ostream(text) << "weight storage " << storage << " is not f32, bf16, f8E4M3FN, i8 or i4";
    return text;
  }
  WeightShape w(type);
  if (auto blocked = dyn_cast_or_null<ir::BlockedAttr>(type.getEncoding()); blocked && blocked.getIndexed())
    return "groups of columns are permuted";
  constexpr int64_t kChunk = PanelGemm::kChunk;
  int64_t least = std::max<int64_t>(4, w.kp);
  if (w.scaleBlock && w.scaleBlock < w.k && (w.scaleBlock % least || kChunk % w.scaleBlock))
    return "scale block of " + std::to_string(w.scaleBlock) + " along K is not a power of two between " + std::to_string(least) + " and " +
           std::to_string(kChunk);
  return {};
}

kernel::PackedAttr panelEncoding(RankedTensorType type) {
  WeightShape w(type);
  MLIRContext *ctx = type.getContext();
  std::string kp = std::to_string(w.kp);
  std::string column = w.storage.isInteger(4) ? "k%4, k/4%2" : "k%" + kp;
  std::string data = "(n, k) -> [n/16, k/" + kp + ", n%16, " + column + "] pad n:16 k:" + kp;
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

/// Panels in the multiply type stand behind the accumulators. Those of bf16 leave half of the room to copies of rows.
Value PanelGemm::preparedAddress(int64_t slot) {
  return k.at(k.scratch, slots() * kLanes * 4 * rowBlock + slot * kChunk * kLanes * elemBytes(mulType));
}

//===-- Weights to the multiply type --------------------------------------===//

// E4M3 is binary16 with a shifted exponent: moving its bits gives value / 256, exact for subnormals too.
SmallVector<Value, 4> decodeE4M3(KernelBuilder &k, Value lanes) {
  ImplicitLocOpBuilder &b = k.b;
  auto halves = k.vec(k.i16, 2 * kLanes);
  Value raw = LLVM::BitcastOp::create(b, halves, lanes);
  // The arithmetic shift copies the sign down: [s][eeee mmm] becomes [s][s -> 0][eeee mmm][0...] under the mask.
  auto moved = [&](Value highByte) -> Value {
    Value shifted = arith::ShRSIOp::create(b, highByte, k.cint(halves, 1));
    return LLVM::BitcastOp::create(b, k.vi32, arith::AndIOp::create(b, shifted, k.cint(halves, int16_t(0xbf80))).getResult());
  };
  Value even = moved(arith::ShLIOp::create(b, raw, k.cint(halves, 8))), odd = moved(raw); // k 0 and 2, k 1 and 3 of each column
  auto toF32 = [&](Value pairs, bool high) -> Value {
    if (high)
      pairs = arith::ShRUIOp::create(b, pairs, k.cint(k.vi32, 16));
    Value f16 = arith::BitcastOp::create(b, k.vec(b.getF16Type()), arith::TruncIOp::create(b, k.vi16, pairs).getResult());
    return arith::ExtFOp::create(b, k.vf32, f16);
  };
  return {toF32(even, false), toF32(odd, false), toF32(even, true), toF32(odd, true)};
}

/// Two vectors of f32 (k and k + 1 of 16 columns) as bf16 pairs.
static Value pairBF16(KernelBuilder &k, Value lo, Value hi) {
  auto bits = [&](Value v) -> Value { return arith::ExtUIOp::create(k.b, k.vi32, k.toBF16(v)); };
  Value high = arith::ShLIOp::create(k.b, bits(hi), k.cint(k.vi32, 16));
  return arith::OrIOp::create(k.b, bits(lo), high);
}

/// The lower and upper bf16 of each lane as f32.
static Value lowerBF16(KernelBuilder &k, Value pairs) {
  return arith::BitcastOp::create(k.b, k.vf32, arith::ShLIOp::create(k.b, pairs, k.cint(k.vi32, 16)).getResult());
}
static Value upperBF16(KernelBuilder &k, Value pairs) {
  return arith::BitcastOp::create(k.b, k.vf32, arith::AndIOp::create(k.b, pairs, k.cint(k.vi32, int64_t(int32_t(0xffff0000)))).getResult());
}

SmallVector<Value, 8> decodeIntegers(KernelBuilder &k, Value lanes, int64_t bits) {
  SmallVector<Value, 8> v;
  for (int64_t half = 0; half < 8; half += bits)
    for (int64_t byte = 0; byte < 4; ++byte) {
      Value up = arith::ShLIOp::create(k.b, lanes, k.cint(k.vi32, 32 - bits - (8 * byte + half)));
      v.push_back(arith::ShRSIOp::create(k.b, up, k.cint(k.vi32, 32 - bits)));
    }
  return v;
}

/// A vector of codes as f32, with their scale.
SmallVector<Value, 8> PanelGemm::decoded(const Group &group, Value codes) {
  WeightShape shape(weights.front().type);
  SmallVector<Value, 8> v;
  if (isa<Float8E4M3FNType>(shape.storage)) {
    for (Value code : decodeE4M3(k, codes))
      v.push_back(k.fmul(code, group.scale));
    return v;
  }
  for (Value code : decodeIntegers(k, codes, shape.storage.getIntOrFloatBitWidth())) {
    Value number = arith::SIToFPOp::create(k.b, k.vf32, group.zero ? k.sub(code, group.zero) : code);
    v.push_back(k.fmul(number, group.scale));
  }
  return v;
}

/// Vectors of the multiply type for the `n` k values from `kk` of a panel: pairs for bf16.
SmallVector<Value, 8> PanelGemm::unit(const Source &source, const Group &group, Value kk, int64_t n) {
  WeightShape shape(weights.front().type);
  bool narrow = mulType.isBF16();
  Type storage = source.ready ? mulType : shape.storage;
  Value at = k.at(source.base, k.mul(kk, source.ready ? kLanes * elemBytes(mulType) : shape.bytesPerK()));
  SmallVector<Value, 8> v;
  if (storage == mulType) {
    for (int64_t j = 0; j < n; j += narrow ? 2 : 1)
      v.push_back(k.load(narrow ? k.vi32 : k.vf32, k.at(at, kLanes * 4 * int64_t(v.size())), 4));
    return v;
  }
  if (storage.isBF16()) { // to f32
    for (int64_t j = 0; j < n; j += 2) {
      Value pair = k.load(k.vi32, k.at(at, kLanes * 2 * j), 4);
      v.push_back(lowerBF16(k, pair));
      if (j + 1 < n)
        v.push_back(upperBF16(k, pair));
    }
    return v;
  }
  SmallVector<Value, 8> numbers = decoded(group, k.load(k.vi32, at, 4));
  for (size_t j = 0; j < numbers.size(); ++j) {
    if (!narrow)
      v.push_back(k.roundTo(shape.expressed, numbers[j]));
    else if (j % 2) // pairs round on their own; k values past the end are codes of zero, or meet zeros of x
      v.push_back(pairBF16(k, numbers[j - 1], numbers[j]));
  }
  v.truncate(size_t(narrow ? (n + 1) / 2 : n));
  return v;
}

PanelGemm::Group PanelGemm::groupAt(const Source &source, Value index) {
  Group g;
  WeightShape shape(weights.front().type);
  g.scale = k.load(k.vf32, k.at(source.scale, k.mul(index, kLanes * 4)), 4);
  if (isa<Float8E4M3FNType>(shape.storage))
    g.scale = k.fmul(g.scale, k.cf(k.vf32, kE4M3Scale));
  if (source.zero)
    g.zero = arith::ExtSIOp::create(k.b, k.vi32, k.load(k.vec(k.i8), k.at(source.zero, k.mul(index, kLanes)), 1));
  return g;
}

/// Calls `body(kk, n, groups, carried)` for units of k values in [0, count), `groups` being those of each source.
SmallVector<Value> PanelGemm::forUnits(ArrayRef<Source> sources, int64_t count, ValueRange init, UnitBody body) {
  WeightShape shape(weights.front().type);
  bool scaled = shape.scaleBlock && !sources.front().ready;
  int64_t block = scaled ? std::min(shape.scaleBlock, count) : count, turn = sources.front().ready ? kUnit : std::max(kUnit, shape.kp);
  auto within = [&](Value first, Value index, int64_t n, ValueRange in) { // one scale block of n k values
    SmallVector<Group> groups(sources.size());
    SmallVector<Value> carried(in);
    for (auto [s, source] : llvm::enumerate(sources))
      if (scaled)
        groups[s] = groupAt(source, index);
    int64_t whole = n / turn * turn;
    if (whole)
      carried = k.loop(first, k.add(first, whole), turn, carried, [&](Value kk, ValueRange c) { return body(kk, turn, groups, c); });
    if (n % turn)
      carried = body(k.add(first, whole), n % turn, groups, carried);
    return carried;
  };
  int64_t blocks = count / block;
  SmallVector<Value> carried(init);
  if (blocks == 1)
    carried = within(k.idx(0), k.idx(0), block, carried);
  else
    carried = k.loop(k.idx(0), k.idx(blocks), 1, carried, [&](Value b, ValueRange c) { return within(k.mul(b, block), b, block, c); });
  if (count % block)
    carried = within(k.idx(blocks * block), k.idx(blocks), count % block, carried);
  return carried;
}

/// Writes `count` k values of a panel to scratch, in the multiply type.
void PanelGemm::prepare(const Source &from, Value to, int64_t count) {
  int64_t bytes = kLanes * elemBytes(mulType);
  forUnits(from, count, {}, [&](Value kk, int64_t n, ArrayRef<Group> groups, ValueRange) {
    for (auto [j, v] : llvm::enumerate(unit(from, groups[0], kk, n)))
      k.store(v, k.at(to, k.add(k.mul(kk, bytes), int64_t(j) * kLanes * 4)), 4);
    return SmallVector<Value>();
  });
}

//===-- Multiply ----------------------------------------------------------===//

/// The x values that meet `unit`: broadcasts of n k values, bf16 pairs where the multiply type is bf16.
SmallVector<Value, 8> PanelGemm::broadcasts(Value x, int64_t n) {
  SmallVector<Value, 8> v;
  bool narrow = mulType.isBF16();
  for (int64_t j = 0; j < n; j += 2) {
    bool alone = j + 1 == n; // the last value has no partner, and what follows must not be read
    Value at = k.at(x, j * elemBytes(xElem));
    if (xElem.isF32()) {
      v.push_back(k.splat(k.load(k.f32, at)));
      if (!alone)
        v.push_back(k.splat(k.load(k.f32, k.at(at, 4))));
      continue;
    }
    Value pair = alone ? arith::ExtUIOp::create(k.b, k.i32, k.load(k.i16, at)).getResult() : k.load(k.i32, at, 2);
    pair = k.splat(pair);
    if (narrow) {
      v.push_back(pair);
      continue;
    }
    v.push_back(lowerBF16(k, pair));
    if (!alone)
      v.push_back(upperBF16(k, pair));
  }
  return v;
}

/// acc + x pair . w pair in every lane. Without the instruction: two fused multiply-adds, k ascending.
static Value dotPair(KernelBuilder &k, Value acc, Value x, Value w) {
  auto vbf = k.vec(k.bf16, 2 * kLanes);
  if (k.variant.bf16Dot)
    return LLVM::CallIntrinsicOp::create(k.b, k.vf32, k.b.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512"),
                                         ValueRange{acc, LLVM::BitcastOp::create(k.b, vbf, x), LLVM::BitcastOp::create(k.b, vbf, w)})
        .getResult(0);
  return k.fma(upperBF16(k, x), upperBF16(k, w), k.fma(lowerBF16(k, x), lowerBF16(k, w), acc));
}

/// `mr` rows from `row` times the panels of `slotsOfGroup`, over `count` k values from `k0`.
void PanelGemm::rowGroup(ArrayRef<Source> sources, ArrayRef<int64_t> slotsOfGroup, Value row, int64_t mr, Value k0, int64_t count) {
  SmallVector<Value> x, acc;
  size_t panels = sources.size();
  for (int64_t r = 0; r < mr; ++r)
    x.push_back(k.at(rowAddress(k.add(row, r)), k.mul(k0, elemBytes(xElem))));
  for (int64_t r = 0; r < mr; ++r)
    for (int64_t slot : slotsOfGroup)
      acc.push_back(k.load(k.vf32, accAddress(k.add(row, r), slot), 4));
  acc = forUnits(sources, count, acc, [&](Value kk, int64_t n, ArrayRef<Group> groups, ValueRange in) {
    SmallVector<Value> next(in);
    SmallVector<SmallVector<Value, 8>> w;
    for (size_t p = 0; p < panels; ++p)
      w.push_back(unit(sources[p], groups[p], kk, n));
    SmallVector<SmallVector<Value, 8>> xs;
    for (int64_t r = 0; r < mr; ++r)
      xs.push_back(broadcasts(k.at(x[r], k.mul(kk, elemBytes(xElem))), n));
    for (size_t j = 0; j < w[0].size(); ++j)
      for (int64_t r = 0; r < mr; ++r)
        for (size_t p = 0; p < panels; ++p) {
          Value &a = next[size_t(r) * panels + p];
          a = mulType.isBF16() ? dotPair(k, a, xs[r][j], w[p][j]) : k.fma(xs[r][j], w[p][j], a);
        }
    return next;
  });
  for (int64_t r = 0; r < mr; ++r)
    for (auto [p, slot] : llvm::enumerate(slotsOfGroup))
      k.store(acc[size_t(r) * panels + p], accAddress(k.add(row, r), slot), 4);
}

/// All rows, in groups of `mr` and of smaller powers of two for the rest.
void PanelGemm::multiply(ArrayRef<Source> sources, int64_t mr, Value k0, int64_t count) {
  // Accumulators, the weight vectors and one broadcast must fit the registers; a 16-lane vector is two of AVX2's.
  int64_t together = k.variant.vectorBits == 512 ? 2 : 1;
  for (int64_t first = 0; first < slots(); first += together) {
    SmallVector<int64_t> group;
    for (int64_t s = first; s < std::min(first + together, slots()); ++s)
      group.push_back(s);
    ArrayRef<Source> some = sources.slice(size_t(first), group.size());
    for (int64_t n = mr; n >= 1; n /= 2) {
      Value from = n == mr ? k.idx(0) : k.mul(k.div(rows, 2 * n), 2 * n);
      k.loop(from, k.mul(k.div(rows, n), n), n, [&](Value row) { rowGroup(some, group, row, n, k0, count); });
    }
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

  bool tiles = k.variant.bf16Tile && mulType.isBF16();
  int64_t mr = k.variant.vectorBits == 512 ? 8 : 4;
  auto chunk = [&](Value k0, int64_t count) {
    SmallVector<Source> stored, prepared;
    for (int64_t s = 0; s < slots(); ++s) {
      const WeightPanels &w = weights[s / panelsPerWeight];
      Value panel = k.add(w.firstPanel, s % panelsPerWeight), scale, zero;
      if (shape.scaleBlock) {
        Value first = k.add(k.mul(panel, shape.scaleBlocks()), k.div(k0, shape.scaleBlock));
        scale = k.at(w.scale, k.mul(first, kLanes * 4));
        if (shape.zeroPoints)
          zero = k.at(w.zero, k.mul(first, kLanes));
      }
      Value base = k.at(k.at(w.data, k.mul(panel, shape.panelBytes())), k.mul(k0, shape.bytesPerK()));
      stored.push_back({base, scale, zero, direct});
      prepared.push_back({preparedAddress(s), Value(), Value(), true});
    }
    auto prepareAll = [&] {
      for (int64_t s = 0; s < slots(); ++s)
        prepare(stored[s], prepared[s].base, count);
    };
    if (tiles) {
      if (!direct)
        prepareAll();
      return multiplyTiles(direct ? stored : prepared, k0, count);
    }
    if (direct)
      return multiply(stored, mr, k0, count);
    // Dequantising through scratch pays when more than a few rows read it; the bits are the same.
    k.when(
        k.lt(rows, k.idx(kFewRows + 1)), [&] { multiply(stored, kFewRows, k0, count); },
        [&] {
          prepareAll();
          multiply(prepared, mr, k0, count);
        });
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
