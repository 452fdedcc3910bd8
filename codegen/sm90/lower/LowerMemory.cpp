// Buffers in shared memory and what threads load and store there.
#include "codegen/sm90/lower/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace dsv3::codegen {

LogicalResult KernelLowering::lowerAlloc(tile::AllocOp op) {
  auto offset = op->getAttrOfType<IntegerAttr>(plan::kOffset);
  if (!offset)
    return op.emitOpError("expected an offset from --dsv3-tile-allocate");
  set(op.getBuf(), {ptx.add(smem, offset.getInt())});
  return success();
}

LogicalResult KernelLowering::lowerView(tile::ViewOp op) {
  tile::BufType source = op.getSource().getType();
  tile::SmemLayout layout = source.getSmem();
  SmallVector<OpFoldResult> coords = op.getMixedCoords();
  std::vector<int64_t> fixed(source.getRank(), 0);
  SmallVector<std::pair<size_t, Value>> moving;
  for (auto [d, coord] : llvm::enumerate(coords)) {
    if (auto attr = dyn_cast<Attribute>(coord))
      fixed[d] = cast<IntegerAttr>(attr).getInt();
    else if (auto c = constant(scalar(cast<Value>(coord))))
      fixed[d] = *c;
    else
      moving.push_back({d, scalar(cast<Value>(coord))});
  }
  Value address = ptx.add(scalar(op.getSource()), layout.byte(fixed));
  for (auto [d, value] : moving) {
    const int64_t extent = source.getShape()[d];
    auto byteAt = [&, dim = d](int64_t i) {
      std::vector<int64_t> c(source.getRank(), 0);
      c[dim] = i;
      return layout.byte(c);
    };
    // T9: a coordinate that moves is a multiple of the atom's rows or columns where address bits are exchanged; over the
    // smallest such multiple bytes are linear.
    auto linear = [&](int64_t unit) {
      for (int64_t i = 0; i < extent; i += unit)
        if (byteAt(i) != (i / unit) * byteAt(unit))
          return false;
      return true;
    };
    int64_t unit = 1;
    while (unit < extent && !linear(unit))
      unit *= 2;
    if (unit >= extent && extent > 1)
      return op.emitOpError("T9: expected bytes that are linear in coordinate ") << d;
    const int64_t bytes = extent > 1 ? byteAt(unit) : 0;
    address = ptx.add(address, bytes % unit ? ptx.mul(ptx.shr(value, llvm::Log2_64(unit)), bytes) : ptx.mul(value, bytes / unit));
  }
  set(op.getResult(), {address});
  return success();
}

//===-- Places of registers -----------------------------------------------===//

Value KernelLowering::threadTerms(const std::array<int64_t, AddressFit::kBits> &terms, bool exclusive) {
  Value sum;
  auto accumulate = [&](Value v) { sum = !sum ? v : exclusive ? ptx.bitXor(sum, v) : ptx.add(sum, v); };
  for (int i = 0; i < AddressFit::kBits;) {
    if (terms[i] == 0) {
      ++i;
      continue;
    }
    int n = 1; // bits whose terms double: one field, one multiplication
    while (i + n < AddressFit::kBits && terms[i + n] == terms[i] << n)
      ++n;
    accumulate(ptx.mul(ptx.bitAnd(ptx.shr(thread, i), (1 << n) - 1), terms[i]));
    i += n;
  }
  return sum ? sum : ptx.i32(0);
}

std::optional<KernelLowering::Places> KernelLowering::places(Value address, int64_t registers, const std::function<int64_t(int64_t, int64_t)> &at,
                                                            tile::SmemLayout::Xor exchange) {
  std::optional<AddressFit> fit = fitAddress(registers, at, exchange);
  if (!fit)
    return std::nullopt;
  Places out;
  out.fit = *fit;
  out.base = ptx.add(address, threadSum(fit->linear));
  out.exchanged = threadTerms(fit->exchanged, /*exclusive=*/true);
  return out;
}

Value KernelLowering::placeOf(Places &p, int64_t reg, int64_t &offset) {
  offset = p.fit.offset[reg];
  const int64_t mask = p.fit.mask[reg];
  if (constant(p.exchanged)) { // no thread exchanges bits: the mask is a plain offset
    offset += mask ^ *constant(p.exchanged);
    return p.base;
  }
  Value &base = p.bases[mask];
  if (!base)
    base = ptx.add(p.base, mask ? ptx.bitXor(p.exchanged, ptx.i32(mask)) : p.exchanged);
  return base;
}

/// Coordinate in the buffer of a fragment's element.
static std::vector<int64_t> inBuffer(std::vector<int64_t> coord, bool transpose) {
  if (transpose && coord.size() == 1) // along the second last dim
    coord.push_back(0);
  else if (transpose)
    std::reverse(coord.begin(), coord.end());
  return coord;
}

/// Whether 8 elements along the buffer's last dim are 16 aligned bytes, wherever an 8 x 8 matrix of it starts.
static bool rowsOfMatricesAreWhole(const tile::SmemLayout &layout) {
  for (int64_t row = 0; row < layout.shape()[0]; ++row)
    for (int64_t column = 0; column < layout.shape()[1]; column += 8) {
      int64_t first = layout.byte({row, column});
      if (first % 16)
        return false;
      for (int64_t i = 1; i < 8; ++i)
        if (layout.byte({row, column + i}) != first + 2 * i)
          return false;
    }
  return true;
}

LogicalResult KernelLowering::accessByMatrix(Value address, tile::BufType buf, const FragmentRegs &frag, bool transpose, Regs &words, bool store) {
  if (frag.map.kind() != tile::FragKind::Acc || frag.bits != 16 || buf.getRank() != 2)
    return failure();
  tile::SmemLayout layout = buf.getSmem();
  if (!rowsOfMatricesAreWhole(layout))
    return failure();
  auto at = [&](int64_t, int64_t row, int64_t column) { return layout.byte({row, column}); };
  return moveMatrices(address, at, 16, layout.exchange(), frag.map.shape()[1], transpose, words, store);
}

LogicalResult KernelLowering::moveMatrices(Value address, const std::function<int64_t(int64_t, int64_t, int64_t)> &at, int64_t warpRows,
                                           tile::SmemLayout::Xor exchange, int64_t columns, bool transpose, Regs &words, bool store) {
  // Four 8 x 8 matrices (two for the last 8 columns of an odd number): rows 0-7, rows 8-15, of columns 0-7 and 8-15. Lane l
  // names row l % 8 of matrix l / 8, a row of the buffer: of the fragment, or of its transpose.
  auto place = [&](int64_t access, int64_t t, bool narrow) {
    const int64_t l = t % 32, w = t / 32, matrix = l / 8;
    const int64_t right = narrow ? 0 : matrix / 2; // of two matrices, lanes 16-31 are not read
    const int64_t row = warpRows * w + 8 * (matrix % 2), column = 16 * access + 8 * right;
    return transpose ? at(w, column + l % 8, row) : at(w, row + l % 8, column);
  };
  const int64_t wide = columns / 16;
  std::optional<Places> quads, pair;
  if (wide && !(quads = places(address, wide, [&](int64_t i, int64_t t) { return place(i, t, false); }, exchange)))
    return failure();
  if (columns % 16 && !(pair = places(address, 1, [&](int64_t, int64_t t) { return place(wide, t, true); }, exchange)))
    return failure();
  for (int64_t i = 0; i < (columns + 15) / 16; ++i) {
    const int64_t count = i < wide ? 4 : 2;
    int64_t offset;
    Value base = i < wide ? placeOf(*quads, i, offset) : placeOf(*pair, 0, offset);
    if (store)
      ptx.stMatrix(base, offset, ValueRange(words).slice(4 * i, count), transpose);
    else
      llvm::append_range(words, ptx.ldMatrix(base, offset, count, transpose));
  }
  return success();
}

/// Longest run of registers, in bytes, that are neighbours in memory for every thread, at an aligned address.
static int64_t runBytes(const FragmentRegs &frag, const tile::SmemLayout &layout, bool transpose) {
  const int64_t registers = frag.map.registers();
  for (int64_t bytes = 16; bytes * 8 > frag.bits; bytes /= 2) {
    const int64_t run = bytes * 8 / frag.bits;
    if (registers % run)
      continue;
    bool whole = true;
    for (int64_t reg = 0; whole && reg < registers; ++reg)
      for (int64_t t = 0; whole && t < 128; ++t) {
        int64_t first = layout.bit(inBuffer(frag.coord(reg - reg % run, t), transpose));
        whole = first % (8 * bytes) == 0 && layout.bit(inBuffer(frag.coord(reg, t), transpose)) == first + (reg % run) * frag.bits;
      }
    if (whole)
      return bytes;
  }
  return frag.bits / 8;
}

LogicalResult KernelLowering::accessByVector(Operation *op, Value address, tile::BufType buf, const FragmentRegs &frag, bool transpose, Regs &words,
                                             bool store) {
  tile::SmemLayout layout = buf.getSmem();
  const int64_t bytes = runBytes(frag, layout, transpose), run = bytes * 8 / frag.bits, accesses = frag.map.registers() / run;
  if (bytes == 0 || frag.bits > 32)
    return op->emitOpError("expected elements of 4 to 32 bits in whole bytes");
  auto at = [&](int64_t access, int64_t t) { return layout.byte(inBuffer(frag.coord(access * run, t), transpose)); };
  std::optional<Places> where = places(address, accesses, at, layout.exchange());
  if (!where)
    return op->emitOpError("expected a layout whose addresses are sums over the bits of the thread's index");
  // Of threads that hold the same value, the first one stores.
  Value predicate;
  if (store && frag.map.copies() > 1)
    predicate = frag.map.kind() == tile::FragKind::Row ? ptx.equal(ptx.bitAnd(thread, 3), 0) : ptx.equal(ptx.shr(thread, 2), 0);
  const int64_t perAccess = std::max<int64_t>(1, bytes / 4), accessesPerWord = std::max<int64_t>(1, 4 / bytes);
  if (store && predicate && bytes < 4)
    return op->emitOpError("expected elements of 32 bits in a fragment with copies");
  for (int64_t i = 0; i < accesses; ++i) {
    int64_t offset;
    Value base = placeOf(*where, i, offset);
    if (bytes >= 4) {
      if (!store) {
        llvm::append_range(words, ptx.ldShared(base, offset, perAccess));
        continue;
      }
      Regs raw;
      for (Value v : ValueRange(words).slice(i * perAccess, perAccess))
        raw.push_back(ptx.bitcast(v, b.getI32Type()));
      ptx.stShared(base, offset, raw, predicate);
      continue;
    }
    const int64_t shift = (i % accessesPerWord) * 8 * bytes;
    if (store) {
      Value part = ptx.shr(words[i / accessesPerWord], shift);
      bytes == 2 ? ptx.stShared16(base, offset, part) : ptx.stShared8(base, offset, part);
      continue;
    }
    Value part = bytes == 2 ? ptx.ldShared16(base, offset) : ptx.ldShared8(base, offset);
    if (shift == 0)
      words.push_back(part);
    else
      words.back() = arith::OrIOp::create(b, op->getLoc(), words.back(), ptx.shl(part, shift));
  }
  return success();
}

//===-- Accesses ----------------------------------------------------------===//

LogicalResult KernelLowering::loadPaired(tile::LoadOp op) {
  // Matrix j of 8 x 8 pairs: rows 8j to 8j + 7 of the buffer, 16 columns of the warp. Transposed, lane l gets elements of rows
  // 2 (l % 4), + 1 and of columns 2 (l / 4), + 1: bytes 1 and 2 exchanged, they are two rows of an acc fragment.
  tile::SmemLayout layout = op.getSource().getType().getSmem();
  const int64_t first = *op.getPaired(), rows = op.getSource().getType().getShape()[0];
  auto at = [&](int64_t access, int64_t t) { return layout.byte({32 * access + t % 32, first + 16 * (t / 32)}); };
  std::optional<Places> where = places(scalar(op.getSource()), rows / 32, at, layout.exchange());
  if (!where)
    return op.emitOpError("expected a layout whose addresses are sums over the bits of the thread's index");
  FragmentRegs frag(op.getResult().getType());
  Regs words;
  for (int64_t i = 0; i < rows / 32; ++i) {
    int64_t offset;
    Value base = placeOf(*where, i, offset);
    for (Value word : ptx.ldMatrix(base, offset, 4, /*transpose=*/true))
      words.push_back(ptx.bitcast(ptx.permute(word, word, 0x3120), frag.machineType()));
  }
  set(op.getResult(), words);
  return success();
}

LogicalResult KernelLowering::lowerLoad(tile::LoadOp op) {
  if (op.getPaired())
    return loadPaired(op);
  tile::BufType buf = op.getSource().getType();
  Value address = scalar(op.getSource());
  Type type = op.getResult().getType();
  if (!tile::isFragment(type)) {
    if (buf.getElementBits() != 32)
      return op.emitOpError("expected a scalar of 32 bits");
    set(op.getResult(), {uniform(ptx.bitcast(ptx.ldShared(address, 0, 1)[0], type))});
    return success();
  }
  FragmentRegs frag(type);
  Regs words;
  if (failed(accessByMatrix(address, buf, frag, op.getTrans(), words, /*store=*/false)) &&
      failed(accessByVector(op, address, buf, frag, op.getTrans(), words, /*store=*/false)))
    return failure();
  for (Value &word : words)
    word = ptx.bitcast(word, frag.machineType());
  set(op.getResult(), words);
  return success();
}

LogicalResult KernelLowering::lowerStore(tile::StoreOp op) {
  tile::BufType buf = op.getDest().getType();
  FragmentRegs frag(op.getValue().getType());
  Regs words = values.lookup(op.getValue());
  Value address = scalar(op.getDest());
  if (failed(accessByMatrix(address, buf, frag, op.getTrans(), words, /*store=*/true)) &&
      failed(accessByVector(op, address, buf, frag, op.getTrans(), words, /*store=*/true)))
    return failure();
  if (readByHardware(op.getDest()) && !storesMore(op))
    ptx.fenceProxyAsync();
  return success();
}

/// Whether nothing but more of such stores follows, whose fence serves this one too.
bool KernelLowering::storesMore(tile::StoreOp op) const {
  Operation *after = op->getNextNode();
  while (after && isMemoryEffectFree(after))
    after = after->getNextNode();
  auto store = dyn_cast_or_null<tile::StoreOp>(after);
  return store && readByHardware(store.getDest());
}

namespace {
/// What a buffer is part of: an `alloc`, or a numbered buffer of a ring; neither when it cannot be seen from here.
struct Root {
  Operation *alloc = nullptr;
  Attribute ring;
  unsigned buffer = 0;

  explicit Root(Value buf) {
    while (auto view = buf.getDefiningOp<tile::ViewOp>())
      buf = view.getSource();
    Operation *def = buf.getDefiningOp();
    if (def && isa<tile::AllocOp>(def)) {
      alloc = def;
    } else if (def && isa<tile::WaitOp, tile::PeekOp>(def)) {
      ring = tile::ringOf(def->getOperand(0).getType());
      buffer = cast<OpResult>(buf).getResultNumber();
    }
  }
  bool known() const { return alloc || ring; }
  bool operator==(const Root &o) const { return alloc == o.alloc && ring == o.ring && buffer == o.buffer; }
};
} // namespace

bool KernelLowering::readByHardware(Value buf) const {
  const Root root(buf);
  if (!root.known())
    return true;
  auto same = [&](Value other) {
    const Root from(other);
    return !from.known() || from == root;
  };
  auto reads = [&](Operation *op) {
    if (auto put = dyn_cast<tile::PutOp>(op))
      return same(put.getSource());
    auto mma = dyn_cast<tile::MmaOp>(op);
    if (!mma)
      return false;
    for (Value operand : {mma.getA(), mma.getB()}) {
      if (isa<tile::BufType>(operand.getType()) && same(operand))
        return true;
      if (auto slot = dyn_cast<tile::SlotType>(operand.getType()))
        if (slot.getRing() == root.ring)
          return true;
    }
    return false;
  };
  return const_cast<tile::KernelOp &>(kernel)->walk([&](Operation *op) { return reads(op) ? WalkResult::interrupt() : WalkResult::advance(); }).wasInterrupted();
}

LogicalResult KernelLowering::lowerZero(tile::ZeroOp op) {
  tile::BufType buf = op.getDest().getType();
  tile::SmemLayout layout = buf.getSmem();
  const int64_t rowBytes = buf.getShape().back() * buf.getElementBits() / 8, chunks = rowBytes / 16, perChunk = 128 / buf.getElementBits();
  if (buf.getRank() != 2 || rowBytes % 16 || chunks > 128 || 128 % chunks)
    return op.emitOpError("expected rows of a power of two of 16-byte words, at most 128, got ") << rowBytes << " bytes";
  // Thread t clears word t % chunks of row t / chunks, then of every 128 / chunks rows on. A word of zeros may go to any
  // place of its row, so exchanged bits do not matter: the words of a row are all cleared.
  const int64_t stride = 128 / chunks;
  SmallVector<OpFoldResult> rows = op.getMixedRows();
  Value word = ptx.bitAnd(thread, chunks - 1), firstRow = ptx.shr(thread, llvm::Log2_64(chunks));
  const int64_t width = layout.atomBytes() ? layout.atomBytes() / 16 : chunks;
  Value column = ptx.add(ptx.mul(ptx.shr(word, llvm::Log2_64(width)), layout.atomStride()), ptx.mul(ptx.bitAnd(word, width - 1), 16));
  Value base = ptx.add(scalar(op.getDest()), column);
  for (int64_t row = 0; row < buf.getShape()[0]; ++row)
    for (int64_t c = 0; c < chunks; ++c) {
      int64_t place = layout.byte({row, c * perChunk}), plain = row * layout.pitch() + (c / width) * layout.atomStride();
      if (place < plain || place >= plain + width * 16)
        return op.emitOpError("expected a layout that exchanges words within a row only");
    }
  Value from = arith::MaxSIOp::create(b, op.getLoc(), scalar(rows[0]), ptx.i32(0));
  Value lower = ptx.add(uniform(from), firstRow), upper = uniform(scalar(rows[1]));
  scf::ForOp::create(b, op.getLoc(), lower, upper, ptx.i32(stride), ValueRange(), [&](OpBuilder &, Location loc, Value row, ValueRange) {
    Value zero = ptx.i32(0);
    ptx.stShared(ptx.add(base, ptx.mul(row, layout.pitch())), 0, {zero, zero, zero, zero});
    scf::YieldOp::create(b, loc);
  });
  if (readByHardware(op.getDest()))
    ptx.fenceProxyAsync();
  return success();
}

} // namespace dsv3::codegen
