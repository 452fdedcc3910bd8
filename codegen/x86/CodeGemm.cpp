#include "codegen/x86/CodeGemm.h"
#include "codegen/x86/RowOps.h"

using namespace mlir;

namespace dsv3::codegen {

/// Bytes of one vector of codes: 16 columns x 4 k of int8, or x 8 k of int4.
static constexpr int64_t kVector = 64;

CodeGemm::CodeGemm(KernelBuilder &k, const QuantOperand &x, SmallVector<WeightPanels> weights, int64_t panelsPerWeight, Value rows,
                   RowIndex xRow, PanelGemm::Epilogue epilogue)
    : k(k), x(x), weights(std::move(weights)), panelsPerWeight(panelsPerWeight), rows(rows), xRow(std::move(xRow)),
      epilogue(std::move(epilogue)), shape(this->weights.front().type), pieceK(piece(x.scheme, shape)), nibbles(shape.storage.isInteger(4)),
      fp8(isa<Float8E4M3FNType>(x.scheme.storage)) {}

int64_t CodeGemm::piece(const RowScheme &x, const WeightShape &w) { return std::min({x.group, w.scaleBlock, w.k}); }

std::string CodeGemm::why(RankedTensorType x, RankedTensorType w) {
  if (std::string why = RowScheme::why(x); !why.empty())
    return why;
  RowScheme rows(x);
  WeightShape shape(w);
  bool integers = shape.storage.isInteger(8) || shape.storage.isInteger(4);
  bool meet = integers || (!rows.storage.isInteger(8) && isa<Float8E4M3FNType>(shape.storage));
  if (!meet || !shape.scaleBlock) {
    std::string text;
    llvm::raw_string_ostream(text) << "x in " << rows.storage << " does not meet weights stored as " << shape.storage;
    return text;
  }
  if (shape.zeroPoints)
    return "x in codes does not meet weights with zero points";
  int64_t most = std::max(rows.group, shape.scaleBlock), one = piece(rows, shape);
  if (most < shape.k && most % one)
    return "scale blocks of " + std::to_string(rows.group) + " and " + std::to_string(shape.scaleBlock) + " along K do not divide one another";
  if (one < shape.k && one % shape.kp)
    return "scale blocks of " + std::to_string(one) + " along K are no multiple of " + std::to_string(shape.kp);
  return {};
}

int64_t CodeGemm::scratchBytes(RankedTensorType x, RankedTensorType w, int64_t rowBlock) {
  WeightShape shape(w);
  int64_t perRow = isa<Float8E4M3FNType>(RowScheme(x).storage) ? shape.k : int64_t(llvm::divideCeil(shape.k, piece(RowScheme(x), shape)));
  return rowBlock * perRow * 4;
}

//===-- Units of k --------------------------------------------------------===//

static Value shifted(KernelBuilder &k, Value halves, int64_t left, int64_t right) {
  Type type = halves.getType();
  Value up = left ? arith::ShLIOp::create(k.b, halves, k.cint(type, left)).getResult() : halves;
  return arith::ShRSIOp::create(k.b, up, k.cint(type, right));
}

static Value as16(KernelBuilder &k, Value words) { return LLVM::BitcastOp::create(k.b, k.vec(k.i16, 2 * kLanes), words); }

/// A vector of codes as operands of `dot`; `xUnit` gives what they meet. Byte j of a lane is k = j, of int4 its low half is
/// k = j and its high half k = j + 4.
SmallVector<Value, 8> CodeGemm::weightUnit(Value vector) const {
  if (isa<Float8E4M3FNType>(shape.storage)) {
    SmallVector<Value, 4> numbers = decodeE4M3(k, vector);
    return {numbers.begin(), numbers.end()};
  }
  if (fp8) {
    SmallVector<Value, 8> numbers = decodeIntegers(k, vector, shape.storage.getIntOrFloatBitWidth());
    for (Value &number : numbers)
      number = arith::SIToFPOp::create(k.b, k.vf32, number);
    return numbers;
  }
  auto flip = [&](Value v, int64_t mask) -> Value { return arith::XOrIOp::create(k.b, v, k.cint(k.vi32, int32_t(uint32_t(mask)))); };
  auto keep = [&](Value v) -> Value { return arith::AndIOp::create(k.b, v, k.cint(k.vi32, 0x0f0f0f0f)); };
  if (k.variant.int8Dot) {
    if (!nibbles)
      return {flip(vector, 0x80808080)};
    Value moved = flip(vector, 0x88888888);
    return {keep(moved), keep(arith::ShRUIOp::create(k.b, moved, k.cint(k.vi32, 4)))};
  }
  Value halves = as16(k, vector); // byte 0 and 2, or 1 and 3
  if (!nibbles)
    return {shifted(k, halves, 8, 8), shifted(k, halves, 0, 8)};
  return {shifted(k, halves, 12, 12), shifted(k, halves, 4, 12), shifted(k, halves, 8, 12), shifted(k, halves, 0, 12)};
}

/// Four codes of x in every lane, those beyond the `n`th zero; nothing behind them is read.
Value CodeGemm::xWord(Value at, int64_t n) const {
  if (n >= 4)
    return k.splat(k.load(k.i32, at, 1));
  Value word = k.cint(k.i32, 0);
  for (int64_t j = 0; j < n; ++j) {
    Value byte = arith::ExtUIOp::create(k.b, k.i32, k.load(k.i8, k.at(at, j)));
    word = arith::OrIOp::create(k.b, word, arith::ShLIOp::create(k.b, byte, k.cint(k.i32, 8 * j)));
  }
  return k.splat(word);
}

SmallVector<Value, 8> CodeGemm::xUnit(Value at, int64_t n) const {
  SmallVector<Value, 8> v;
  for (int64_t j = 0; fp8 && j < n; ++j)
    v.push_back(k.splat(k.load(k.f32, k.at(at, 4 * j))));
  if (fp8)
    return v;
  for (int64_t first = 0; first < shape.kp; first += 4) {
    Value word = xWord(k.at(at, first), n - first);
    if (k.variant.int8Dot) {
      v.push_back(word);
      continue;
    }
    Value halves = as16(k, word);
    v.push_back(shifted(k, halves, 8, 8));
    v.push_back(shifted(k, halves, 0, 8));
  }
  return v;
}

static Value call(KernelBuilder &k, Type type, StringRef intrinsic, ValueRange args) {
  return LLVM::CallIntrinsicOp::create(k.b, type, k.b.getStringAttr(intrinsic), args).getResult(0);
}

/// acc + the products of a unit's operands: exact, or one rounding where rows are E4M3.
Value CodeGemm::dot(Value acc, Value w, Value x) const {
  if (fp8)
    return k.fma(x, w, acc);
  if (k.variant.int8Dot) {
    auto bytes = k.vec(k.i8, kVector);
    return call(k, k.vi32, "llvm.x86.avx512.vpdpbusd.512",
                {acc, LLVM::BitcastOp::create(k.b, bytes, w), LLVM::BitcastOp::create(k.b, bytes, x)});
  }
  if (k.variant.vectorBits == 512)
    return k.add(acc, call(k, k.vi32, "llvm.x86.avx512.pmaddw.d.512", {w, x}));
  SmallVector<Value, 2> half;
  for (int32_t first : {0, 16}) {
    auto lanes = llvm::to_vector(llvm::seq<int32_t>(first, first + 16));
    half.push_back(call(k, k.vec(k.i32, 8), "llvm.x86.avx2.pmadd.wd",
                        {LLVM::ShuffleVectorOp::create(k.b, w, w, lanes), LLVM::ShuffleVectorOp::create(k.b, x, x, lanes)}));
  }
  return k.add(acc, LLVM::ShuffleVectorOp::create(k.b, half[0], half[1], llvm::to_vector(llvm::seq<int32_t>(0, 16))));
}

//===-- Sums of x ---------------------------------------------------------===//

/// What a sum of products starts at: minus what flipping a bit has added to each code of the weight, times `n` codes of x.
Value CodeGemm::movedSum(Value codes, Value first, int64_t n) const {
  Value ones = k.cint(k.vi32, 0x01010101), acc = k.cint(k.vi32, 0);
  int64_t whole = n / kVector * kVector;
  if (whole)
    acc = k.loop(k.idx(0), k.idx(whole), kVector, acc, [&](Value at, ValueRange in) {
      return SmallVector<Value>{dot(in[0], ones, k.load(k.vi32, k.at(codes, k.add(first, at)), 1))};
    })[0];
  Value sum = LLVM::vector_reduce_add::create(k.b, k.i32, acc);
  auto addByte = [&](Value at, Value before) { // a loop of its own: rows need not end at vectors
    Value code = arith::ExtSIOp::create(k.b, k.i32, k.load(k.i8, k.at(codes, k.add(first, at))));
    return SmallVector<Value>{k.add(before, code)};
  };
  if (whole < n)
    sum = k.loop(k.idx(whole), k.idx(n), 1, sum, [&](Value at, ValueRange in) { return addByte(at, in[0]); })[0];
  return k.mul(sum, nibbles ? -8 : -128);
}

void CodeGemm::sumRows() {
  int64_t whole = shape.k / pieceK, rest = shape.k % pieceK;
  k.loop(k.idx(0), rows, 1, [&](Value row) {
    Value codes = x.codesOf(k, xRow(row)), to = k.at(k.scratch, k.mul(row, pieces() * 4));
    k.loop(0, whole, 1, [&](Value g) { k.store(movedSum(codes, k.mul(g, pieceK), pieceK), k.at(to, k.mul(g, 4))); });
    if (rest)
      k.store(movedSum(codes, k.idx(whole * pieceK), rest), k.at(to, whole * 4));
  });
}

//===-- E4M3 rows ---------------------------------------------------------===//

/// Writes the rows of the tile to scratch as f32, without their scales.
void CodeGemm::decodeRows() {
  k.loop(k.idx(0), rows, 1, [&](Value row) {
    Value codes = x.codesOf(k, xRow(row)), to = xRowAt(row);
    auto decode = [&](Value at, int64_t lanes) {
      Type words = lanes == 1 ? k.i32 : Type(k.vi32), floats = lanes == 1 ? k.f32 : Type(k.vf32);
      Value code = arith::ExtUIOp::create(k.b, words, k.load(lanes == 1 ? k.i8 : Type(k.vec(k.i8)), k.at(codes, at), 1));
      auto bits = [&](int64_t mask, int64_t left) -> Value {
        return arith::ShLIOp::create(k.b, arith::AndIOp::create(k.b, code, k.cint(words, mask)), k.cint(words, left));
      };
      // The exponent's bias is 127 instead of 7 where the bits are, and subnormal numbers stay what they are.
      Value moved = arith::BitcastOp::create(k.b, floats, arith::OrIOp::create(k.b, bits(0x7f, 20), bits(0x80, 24)).getResult());
      k.store(k.fmul(moved, k.cf(floats, 0x1p120)), k.at(to, k.mul(at, 4)), 4);
    };
    int64_t whole = shape.k / kLanes * kLanes;
    k.loop(0, whole, kLanes, [&](Value at) { decode(at, kLanes); });
    k.loop(whole, shape.k, 1, [&](Value at) { decode(at, 1); });
  });
}

/// What `xUnit` reads of a row of the tile: its codes, or its numbers in scratch.
Value CodeGemm::xRowAt(Value row) { return fp8 ? k.at(k.scratch, k.mul(row, shape.k * 4)) : x.codesOf(k, xRow(row)); }

//===-- Multiply ----------------------------------------------------------===//

/// The sums of piece `g`, of `n` values: rows outside, slots inside.
SmallVector<Value> CodeGemm::sums(ArrayRef<Slot> slots, ArrayRef<Value> codes, Value row, Value g, int64_t n) {
  SmallVector<Value> acc;
  for (size_t r = 0; r < codes.size(); ++r) {
    Value start = fp8 ? k.cf(k.vf32, 0) : k.cint(k.vi32, 0);
    if (k.variant.int8Dot && !fp8) {
      Value index = k.add(k.mul(k.add(row, int64_t(r)), pieces()), g);
      start = k.splat(k.load(k.i32, k.at(k.scratch, k.mul(index, 4))));
    }
    acc.append(slots.size(), start);
  }
  Value first = k.mul(g, pieceK);
  auto unit = [&](Value kk, int64_t count, ValueRange in) {
    SmallVector<Value> next(in);
    Value at = k.add(first, kk);
    SmallVector<SmallVector<Value, 8>> w;
    for (const Slot &slot : slots)
      w.push_back(weightUnit(k.load(k.vi32, k.at(slot.data, k.mul(at, kVector / shape.kp)), 4)));
    for (auto [r, row] : llvm::enumerate(codes)) {
      SmallVector<Value, 8> x = xUnit(k.at(row, k.mul(at, fp8 ? 4 : 1)), count);
      for (size_t s = 0; s < slots.size(); ++s)
        for (size_t j = 0; j < x.size(); ++j) {
          Value &a = next[r * slots.size() + s];
          a = dot(a, w[s][j], x[j]);
        }
    }
    return next;
  };
  int64_t whole = n / shape.kp * shape.kp;
  if (whole)
    acc = k.loop(k.idx(0), k.idx(whole), shape.kp, acc, [&](Value kk, ValueRange in) { return unit(kk, shape.kp, in); });
  return whole < n ? unit(k.idx(whole), n - whole, acc) : acc;
}

SmallVector<Value> CodeGemm::promote(ArrayRef<Slot> slots, ArrayRef<Value> scales, ValueRange acc, ArrayRef<Value> sums, Value g) {
  SmallVector<Value> w, next;
  for (const Slot &slot : slots) {
    w.push_back(k.load(k.vf32, k.at(slot.scale, k.mul(k.div(g, llvm::divideCeil(shape.scaleBlock, pieceK)), kLanes * 4)), 4));
    if (isa<Float8E4M3FNType>(shape.storage))
      w.back() = k.fmul(w.back(), k.cf(k.vf32, kE4M3Scale));
  }
  for (Value row : scales) {
    Value sx = k.splat(k.load(k.f32, k.at(row, k.mul(k.div(g, llvm::divideCeil(x.scheme.group, pieceK)), 4))));
    for (Value sw : w) {
      Value sum = fp8 ? sums[next.size()] : arith::SIToFPOp::create(k.b, k.vf32, sums[next.size()]).getResult();
      next.push_back(k.fadd(acc[next.size()], k.fmul(sum, k.fmul(sx, sw))));
    }
  }
  return next;
}

/// `mr` rows from `row` times `slots`, over all of K.
SmallVector<Value> CodeGemm::rowGroup(ArrayRef<Slot> slots, Value row, int64_t mr) {
  SmallVector<Value> codes, scales, acc(size_t(mr) * slots.size(), k.cf(k.vf32, 0));
  for (int64_t r = 0; r < mr; ++r) {
    Value index = xRow(k.add(row, r));
    codes.push_back(xRowAt(k.add(row, r)));
    scales.push_back(x.scalesOf(k, index));
  }
  auto piece = [&](Value g, int64_t n, ValueRange in) { return promote(slots, scales, in, sums(slots, codes, row, g, n), g); };
  int64_t whole = shape.k / pieceK, rest = shape.k % pieceK;
  if (whole == 1)
    acc = piece(k.idx(0), pieceK, acc);
  else if (whole)
    acc = k.loop(k.idx(0), k.idx(whole), 1, acc, [&](Value g, ValueRange in) { return piece(g, pieceK, in); });
  return rest ? piece(k.idx(whole), rest, acc) : acc;
}

void CodeGemm::emit() {
  if (fp8)
    decodeRows();
  else if (k.variant.int8Dot)
    sumRows();
  auto slotAt = [&](const WeightPanels &w, int64_t p) {
    Value panel = k.add(w.firstPanel, p);
    return Slot{k.at(w.data, k.mul(panel, shape.panelBytes())), k.at(w.scale, k.mul(panel, shape.scaleBlocks() * kLanes * 4))};
  };
  // Accumulators, two vectors of the weight and one of x must fit the registers.
  int64_t most = k.variant.vectorBits == 512 ? 8 : 2;
  bool gated = weights.size() > 1;
  int64_t together = gated ? 1 : 2;
  for (int64_t first = 0; first < panelsPerWeight; first += together) {
    SmallVector<Slot> slots;
    int64_t panels = std::min(together, panelsPerWeight - first);
    for (const WeightPanels &w : weights)
      for (int64_t p = 0; p < panels; ++p)
        slots.push_back(slotAt(w, first + p));
    for (int64_t mr = most; mr >= 1; mr /= 2) {
      Value from = mr == most ? k.idx(0) : k.mul(k.div(rows, 2 * mr), 2 * mr);
      k.loop(from, k.mul(k.div(rows, mr), mr), mr, [&](Value row) {
        SmallVector<Value> acc = rowGroup(slots, row, mr);
        for (int64_t r = 0; r < mr; ++r)
          for (int64_t p = 0; p < panels; ++p) {
            ArrayRef<Value> one = ArrayRef(acc).slice(size_t(r) * slots.size() + size_t(p), gated ? slots.size() : 1);
            epilogue(k.add(row, r), first + p, one);
          }
      });
    }
  }
}

} // namespace dsv3::codegen
