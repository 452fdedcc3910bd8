// Loads from and stores to global memory.
#include "codegen/sm90/lower/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace dsv3::codegen {

//===-- Addresses ---------------------------------------------------------===//

Value KernelLowering::globalStride(Value gmem, int64_t dim) {
  auto type = cast<tile::GmemType>(gmem.getType());
  ArrayRef<int64_t> shape = type.getShape();
  const Regs r = values.lookup(gmem);
  int64_t fixed = 1;
  Value product;
  size_t next = 1; // registers of the dynamic dims but the first
  for (int64_t d = 1; d < type.getRank(); ++d) {
    const bool dynamic = ShapedType::isDynamic(shape[d]);
    Value extent = dynamic ? r[next++] : Value();
    if (d <= dim)
      continue;
    if (!dynamic) {
      fixed *= shape[d];
      continue;
    }
    Value wide = arith::ExtUIOp::create(b, gmem.getLoc(), b.getI64Type(), extent);
    product = product ? Value(arith::MulIOp::create(b, gmem.getLoc(), product, wide)) : wide;
  }
  if (!product)
    return ptx.i64(fixed);
  return fixed == 1 ? product : Value(arith::MulIOp::create(b, gmem.getLoc(), product, ptx.i64(fixed)));
}

static Value step(OpBuilder &b, Location loc, Value pointer, Value bytes) {
  return LLVM::GEPOp::create(b, loc, pointer.getType(), b.getI8Type(), pointer, ArrayRef<LLVM::GEPArg>{bytes});
}

/// elements * bits / 8 as i64.
static Value toBytes(OpBuilder &b, Location loc, Value elements, unsigned bits) {
  Value scale = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(bits >= 8 ? bits / 8 : 1));
  Value scaled = arith::MulIOp::create(b, loc, elements, scale);
  if (bits >= 8)
    return scaled;
  return arith::DivUIOp::create(b, loc, scaled, arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(8 / bits)));
}

Value KernelLowering::globalAddress(Value gmem, ArrayRef<OpFoldResult> coords) {
  auto type = cast<tile::GmemType>(gmem.getType());
  Location loc = gmem.getLoc();
  Value index;
  for (auto [d, coord] : llvm::enumerate(coords)) {
    Value c = scalar(coord);
    if (constant(c) == 0)
      continue;
    Value wide = arith::ExtSIOp::create(b, loc, b.getI64Type(), c);
    Value stride = globalStride(gmem, d);
    Value term = constant(stride) == 1 ? wide : Value(arith::MulIOp::create(b, loc, wide, stride));
    index = index ? Value(arith::AddIOp::create(b, loc, index, term)) : term;
  }
  Value base = regs(gmem)[0];
  return index ? step(b, loc, base, toBytes(b, loc, index, type.getElement().getIntOrFloatBitWidth())) : base;
}

LogicalResult KernelLowering::lowerCount(tile::CountOp op) {
  Value ahead = counts.lookup(op);
  set(op.getResult(), {uniform(ahead ? ahead : ptx.ldGlobal(scalar(op.getScalars()), 8 * op.getIndex(), 1)[0])});
  return success();
}

//===-- Fragments ---------------------------------------------------------===//

namespace {
/// Runs of registers of a fragment in a tensor: offsets of each run's first element, as sums over the thread's bits.
struct GlobalRuns {
  int64_t run = 1, count = 0; ///< registers in a run; runs
  AddressFit row, column;     ///< in the tensor's second last and last dim
};
} // namespace

/// Runs as long as `maxBytes` whose elements are neighbours in the tensor's last dim.
static std::optional<GlobalRuns> runsOf(const FragmentRegs &frag, bool transpose, int64_t maxBytes) {
  const int64_t registers = frag.map.registers();
  auto rowOf = [&](int64_t reg, int64_t t) {
    std::vector<int64_t> c = frag.coord(reg, t);
    return c.size() == 1 ? (transpose ? c[0] : int64_t(0)) : transpose ? c[1] : c[0];
  };
  auto columnOf = [&](int64_t reg, int64_t t) {
    std::vector<int64_t> c = frag.coord(reg, t);
    return c.size() == 1 ? (transpose ? int64_t(0) : c[0]) : transpose ? c[0] : c[1];
  };
  GlobalRuns out;
  for (int64_t run = std::max<int64_t>(1, maxBytes * 8 / frag.bits); run >= 1; run /= 2) {
    bool whole = registers % run == 0;
    for (int64_t reg = 0; whole && reg < registers; ++reg)
      for (int64_t t = 0; whole && t < 128; ++t) {
        int64_t first = reg - reg % run;
        whole = columnOf(first, t) % run == 0 && columnOf(reg, t) == columnOf(first, t) + reg % run && rowOf(reg, t) == rowOf(first, t);
      }
    if (!whole)
      continue;
    out.run = run;
    break;
  }
  out.count = registers / out.run;
  auto row = fitAddress(out.count, [&](int64_t i, int64_t t) { return rowOf(i * out.run, t); });
  auto column = fitAddress(out.count, [&](int64_t i, int64_t t) { return columnOf(i * out.run, t); });
  if (!row || !column)
    return std::nullopt;
  out.row = *row;
  out.column = *column;
  return out;
}

Value KernelLowering::both(Value x, Value y) {
  return !x ? y : !y ? x : Value(arith::AndIOp::create(b, x.getLoc(), x, y));
}

Value KernelLowering::below(Value x, Value bound) {
  return arith::CmpIOp::create(b, x.getLoc(), arith::CmpIPredicate::slt, x, bound);
}

KernelLowering::GlobalWindow KernelLowering::openWindow(Value gmem, ArrayRef<OpFoldResult> coords, Value rows, Value columns, Value threadRow, Value threadColumn) {
  auto type = cast<tile::GmemType>(gmem.getType());
  GlobalWindow w;
  Location loc = gmem.getLoc();
  unsigned bits = type.getElement().getIntOrFloatBitWidth();
  Value wideColumn = arith::ExtUIOp::create(b, loc, b.getI64Type(), threadColumn);
  w.base = step(b, loc, globalAddress(gmem, coords), toBytes(b, loc, wideColumn, bits));
  w.threadRow = threadRow;
  w.threadColumn = threadColumn;
  w.rowBytes = type.getRank() < 2 ? Value() : toBytes(b, loc, globalStride(gmem, type.getRank() - 2), bits);
  w.rows = rows ? scalar(rows) : Value();
  w.columns = columns ? scalar(columns) : Value();
  return w;
}

Value KernelLowering::rowOf(GlobalWindow &w, int64_t offset, Value &exists) {
  auto &entry = w.cache[offset];
  if (!entry.first) {
    Location loc = w.threadRow.getLoc();
    entry.second = w.rows ? below(ptx.add(w.threadRow, offset), w.rows) : Value();
    // From the thread's first row: with a constant pitch, rows are constants of the instruction.
    if (w.rowBytes && !w.firstRow) {
      Value wide = arith::ExtUIOp::create(b, loc, b.getI64Type(), w.threadRow);
      w.firstRow = step(b, loc, w.base, arith::MulIOp::create(b, loc, wide, w.rowBytes));
    }
    entry.first = w.rowBytes ? w.firstRow : w.base;
    if (w.rowBytes && offset)
      entry.first = step(b, loc, w.firstRow, arith::MulIOp::create(b, loc, w.rowBytes, ptx.i64(offset)));
  }
  exists = entry.second;
  return entry.first;
}

LogicalResult KernelLowering::lowerRead(tile::ReadOp op) {
  Type type = op.getResult().getType();
  SmallVector<OpFoldResult> coords = op.getMixedCoords();
  if (!tile::isFragment(type)) {
    Value at = globalAddress(op.getSource(), coords);
    const unsigned bits = type.getIntOrFloatBitWidth();
    if (bits == 32) {
      set(op.getResult(), {uniform(ptx.bitcast(ptx.ldGlobal(at, 0, 1)[0], type))});
    } else if (type.isBF16()) {
      return op.emitOpError("expected a scalar of 32 or 64 bits or an integer; read bf16 as a fragment");
    } else if (bits == 64) {
      Regs halves = ptx.ldGlobal(at, 0, 2);
      Value low = arith::ExtUIOp::create(b, op.getLoc(), b.getI64Type(), halves[0]), high = arith::ExtUIOp::create(b, op.getLoc(), b.getI64Type(), halves[1]);
      set(op.getResult(), {arith::OrIOp::create(b, op.getLoc(), low, arith::ShLIOp::create(b, op.getLoc(), high, ptx.i64(32)))});
    } else {
      Value word = uniform(ptx.ldGlobalNarrow(at, 0, bits / 8));
      set(op.getResult(), {arith::TruncIOp::create(b, op.getLoc(), type, word)});
    }
    return success();
  }
  FragmentRegs frag(type);
  if (frag.bits < 8 || frag.bits > 32)
    return op.emitOpError("expected elements of 8, 16 or 32 bits");
  std::optional<GlobalRuns> runs = runsOf(frag, op.getTrans(), op.getCols() ? frag.bits / 8 : 16);
  if (!runs)
    return op.emitOpError("expected coordinates that are sums over the bits of the thread's index");
  GlobalWindow w = openWindow(op.getSource(), coords, op.getRows(), op.getCols(), threadSum(runs->row.linear), threadSum(runs->column.linear));
  const int64_t bytes = runs->run * frag.bits / 8;
  Regs words;
  for (int64_t i = 0; i < runs->count; ++i) {
    Value exists, row = rowOf(w, runs->row.offset[i], exists);
    const int64_t column = runs->column.offset[i], offset = column * frag.bits / 8;
    if (w.columns)
      exists = both(exists, below(ptx.add(w.threadColumn, column), w.columns));
    if (bytes >= 4) {
      llvm::append_range(words, ptx.ldGlobal(row, offset, bytes / 4, exists));
      continue;
    }
    Value part = ptx.ldGlobalNarrow(row, offset, bytes, exists);
    const int64_t shift = (i % (4 / bytes)) * 8 * bytes;
    if (shift == 0)
      words.push_back(part);
    else
      words.back() = arith::OrIOp::create(b, op.getLoc(), words.back(), ptx.shl(part, shift));
  }
  for (Value &word : words)
    word = ptx.bitcast(word, frag.machineType());
  set(op.getResult(), words);
  return success();
}

LogicalResult KernelLowering::lowerLookup(tile::LookupOp op) {
  FragmentRegs frag(op.getResult().getType());
  Value base = globalAddress(op.getSource(), {OpFoldResult(b.getI64IntegerAttr(0)), OpFoldResult(op.getColumn())});
  Regs words;
  for (Value id : Regs(values.lookup(op.getIds()))) {
    Value wide = arith::ExtUIOp::create(b, op.getLoc(), b.getI64Type(), id);
    words.push_back(ptx.bitcast(ptx.ldGlobal(step(b, op.getLoc(), base, toBytes(b, op.getLoc(), arith::MulIOp::create(b, op.getLoc(), wide, globalStride(op.getSource(), 0)), frag.bits)), 0, 1)[0], frag.machineType()));
  }
  set(op.getResult(), words);
  return success();
}

/// Words of four lanes of a quad, transposed: lane q gets word q of every lane, in the order of lanes. So a quad that holds
/// 4-byte pieces of four 16-byte words ends up with one word each.
void KernelLowering::transposeQuad(MutableArrayRef<Value> words) {
  Location loc = words[0].getLoc();
  for (int64_t mask : {1, 2}) {
    Value upper = ptx.equal(ptx.bitAnd(thread, mask), mask);
    for (auto [i, j] : {std::pair<int, int>(0, mask), std::pair<int, int>(mask == 1 ? 2 : 1, 3)}) {
      Value send = arith::SelectOp::create(b, loc, upper, words[i], words[j]), got = ptx.shuffleXor(send, mask);
      words[i] = arith::SelectOp::create(b, loc, upper, got, words[i]);
      words[j] = arith::SelectOp::create(b, loc, upper, words[j], got);
    }
  }
}

LogicalResult KernelLowering::writeScalar(tile::WriteOp op) {
  Value value = scalar(op.getValue());
  const unsigned bits = value.getType().getIntOrFloatBitWidth();
  Value who;
  if (!role || !role.getProducer()) {
    who = ptx.equal(role ? thread : tid, 0);
    if (role && role.getWarpgroups() > 1)
      who = both(who, ptx.equal(scalar(role.getIndex()), 0));
  }
  if (bits != 32)
    return op.emitOpError("expected a scalar of 32 bits");
  ptx.stGlobal(globalAddress(op.getDest(), op.getMixedCoords()), 0, {ptx.bitcast(value, b.getI32Type())}, who);
  return success();
}

LogicalResult KernelLowering::lowerWrite(tile::WriteOp op) {
  if (!tile::isFragment(op.getValue().getType()))
    return writeScalar(op);
  FragmentRegs frag(op.getValue().getType());
  if (frag.bits < 8 || frag.bits > 32)
    return op.emitOpError("expected elements of 8, 16 or 32 bits");
  if (op.getVia())
    return writeRestaged(op, frag);
  if (op.getPaired())
    return writePaired(op, frag);
  if (frag.map.kind() == tile::FragKind::Acc && frag.bits == 8 && op.getTrans() && !op.getCols())
    return writeBytes(op, frag);
  const bool acc16 = frag.map.kind() == tile::FragKind::Acc && frag.bits == 16 && !op.getTrans();
  if (acc16 && !op.getCols() && frag.map.shape()[1] % 32 == 0)
    return writeByQuads(op, frag);
  const bool acc8 = frag.map.kind() == tile::FragKind::Acc && frag.bits == 8 && !op.getTrans();
  if (acc8 && !op.getCols() && frag.map.shape()[1] % 64 == 0)
    return writeBytesByQuads(op, frag);
  std::optional<GlobalRuns> runs = runsOf(frag, op.getTrans(), op.getCols() ? frag.bits / 8 : 16);
  if (!runs)
    return op.emitOpError("expected coordinates that are sums over the bits of the thread's index");
  GlobalWindow w = openWindow(op.getDest(), op.getMixedCoords(), op.getRows(), op.getCols(), threadSum(runs->row.linear), threadSum(runs->column.linear));
  const Regs words = values.lookup(op.getValue());
  const int64_t bytes = runs->run * frag.bits / 8;
  Value first;
  if (frag.map.copies() > 1)
    first = frag.map.kind() == tile::FragKind::Row ? ptx.equal(ptx.bitAnd(thread, 3), 0) : ptx.equal(ptx.shr(thread, 2), 0);
  for (int64_t i = 0; i < runs->count; ++i) {
    Value exists, row = rowOf(w, runs->row.offset[i], exists);
    const int64_t column = runs->column.offset[i], offset = column * frag.bits / 8;
    exists = both(exists, first);
    if (w.columns)
      exists = both(exists, below(ptx.add(w.threadColumn, column), w.columns));
    if (bytes < 4) {
      Value part = ptx.shr(words[i * bytes / 4], (i % (4 / bytes)) * 8 * bytes);
      ptx.stGlobalNarrow(row, offset, part, bytes, exists);
      continue;
    }
    Regs raw;
    for (Value v : ValueRange(words).slice(i * bytes / 4, bytes / 4))
      raw.push_back(ptx.bitcast(v, b.getI32Type()));
    ptx.stGlobal(row, offset, raw, exists);
  }
  return success();
}

/// Rows l / 4 and l / 4 + 8 of a lane are neighbours of the tensor's last dim.
LogicalResult KernelLowering::writePaired(tile::WriteOp op, const FragmentRegs &frag) {
  const Regs words = values.lookup(op.getValue());
  Value column = ptx.add(ptx.mul(ptx.shr(thread, 5), 16), ptx.mul(ptx.bitAnd(ptx.shr(thread, 2), 7), 2)), row0 = ptx.mul(ptx.bitAnd(thread, 3), 2);
  // Or LLVM adds them to the pointers in front of the loop over items, in whose body there are no registers for the sums.
  Value places[] = {column, row0};
  ptx.pin(places);
  GlobalWindow w = openWindow(op.getDest(), op.getMixedCoords(), op.getRows(), {}, places[1], places[0]);
  for (int64_t j = 0; j < frag.map.shape()[1] / 8; ++j)
    for (int64_t i = 0; i < 2; ++i) {
      Regs pair;
      if (frag.bits == 16)
        pair = {ptx.permute(ptx.bitcast(words[2 * j], b.getI32Type()), ptx.bitcast(words[2 * j + 1], b.getI32Type()), i ? 0x7632 : 0x5410)};
      else
        pair = {ptx.bitcast(words[4 * j + i], b.getI32Type()), ptx.bitcast(words[4 * j + 2 + i], b.getI32Type())};
      Value exists, row = rowOf(w, 8 * j + i, exists);
      ptx.stGlobal(row, 0, pair, exists);
    }
  return success();
}

LogicalResult KernelLowering::writeByQuads(tile::WriteOp op, const FragmentRegs &frag) {
  const Regs words = values.lookup(op.getValue());
  Value quad = ptx.bitAnd(thread, 3), row0 = ptx.add(ptx.mul(ptx.shr(thread, 5), 16), ptx.bitAnd(ptx.shr(thread, 2), 7));
  GlobalWindow w = openWindow(op.getDest(), op.getMixedCoords(), op.getRows(), {}, row0, ptx.mul(quad, 8));
  for (int64_t half = 0; half < 2; ++half)
    for (int64_t group = 0; group < frag.map.shape()[1] / 32; ++group) {
      Regs four;
      for (int64_t j = 0; j < 4; ++j)
        four.push_back(words[2 * (4 * group + j) + half]);
      transposeQuad(four);
      Value exists, row = rowOf(w, 8 * half, exists);
      ptx.stGlobal(row, 64 * group, four, exists);
    }
  return success();
}

/// As above: a word holds two columns of each of two rows. Four words of a row, of 16 columns each, become one lane's 16 columns.
LogicalResult KernelLowering::writeBytesByQuads(tile::WriteOp op, const FragmentRegs &frag) {
  const Regs words = values.lookup(op.getValue());
  Value quad = ptx.bitAnd(thread, 3), row0 = ptx.add(ptx.mul(ptx.shr(thread, 5), 16), ptx.bitAnd(ptx.shr(thread, 2), 7));
  GlobalWindow w = openWindow(op.getDest(), op.getMixedCoords(), op.getRows(), {}, row0, ptx.mul(quad, 16));
  auto halves = [&](Value x, Value y, bool high) {
    Value low = high ? ptx.shr(x, 16) : ptx.bitAnd(x, 0xffff), top = high ? ptx.bitAnd(y, int64_t(0xffff0000)) : ptx.shl(y, 16);
    return Value(arith::OrIOp::create(b, op.getLoc(), low, top));
  };
  for (int64_t half = 0; half < 2; ++half)
    for (int64_t group = 0; group < frag.map.shape()[1] / 64; ++group) {
      Regs four;
      for (int64_t i = 0; i < 4; ++i)
        four.push_back(halves(words[8 * group + 2 * i], words[8 * group + 2 * i + 1], half));
      transposeQuad(four);
      Value exists, row = rowOf(w, 8 * half, exists);
      ptx.stGlobal(row, 64 * group, {halves(four[0], four[1], false), halves(four[2], four[3], false), halves(four[0], four[1], true), halves(four[2], four[3], true)}, exists);
    }
  return success();
}

/// Bytes of the fragment's transpose. A word holds rows l / 4 and l / 4 + 8 of two columns; the four threads whose rows are
/// neighbours exchange bytes until each has four rows of one column, which are neighbours in the tensor.
LogicalResult KernelLowering::writeBytes(tile::WriteOp op, const FragmentRegs &frag) {
  const Regs words = values.lookup(op.getValue());
  auto choose = [&](int64_t bit, int64_t set, int64_t clear) -> Value {
    return arith::SelectOp::create(b, op.getLoc(), ptx.equal(ptx.bitAnd(lane, bit), bit), ptx.i32(set), ptx.i32(clear));
  };
  Value outer = choose(8, 0x3276, 0x5410), inner = choose(4, 0x3715, 0x6240);
  Value quad = ptx.bitAnd(thread, 3), odd = ptx.bitAnd(ptx.shr(thread, 2), 1), lower = ptx.bitAnd(ptx.shr(thread, 3), 1);
  Value column = ptx.add(ptx.mul(ptx.shr(thread, 5), 16), ptx.add(ptx.mul(lower, 8), ptx.mul(ptx.bitAnd(ptx.shr(thread, 4), 1), 4)));
  GlobalWindow w = openWindow(op.getDest(), op.getMixedCoords(), op.getRows(), {}, ptx.add(ptx.mul(quad, 2), odd), column);
  for (auto [j, word] : llvm::enumerate(words)) {
    Value half = ptx.permute(word, ptx.shuffleXor(word, 8), outer);
    Value whole = ptx.permute(half, ptx.shuffleXor(half, 4), inner);
    Value exists, row = rowOf(w, 8 * int64_t(j), exists);
    ptx.stGlobal(row, 0, {whole}, exists);
  }
  return success();
}

/// Through a buffer [warps of the role, ...] of which each warp uses its own part, in the tensor's order: [16, N], or [N, 16]
/// with `trans`. Then every lane stores 16 bytes.
LogicalResult KernelLowering::writeRestaged(tile::WriteOp op, const FragmentRegs &frag) {
  tile::BufType buf = op.getVia().getType();
  const bool transpose = op.getTrans();
  const int64_t columns = frag.map.kind() == tile::FragKind::Acc ? frag.map.shape()[1] : 0;
  const int64_t height = transpose ? columns : 16, width = transpose ? 16 : columns;
  if (frag.bits != 16 || !columns || op.getCols() || buf.getRank() != 3 || buf.getShape()[1] < height || buf.getShape()[2] != width || width % 8)
    return op.emitOpError("T32: expected 16-bit acc values and a buffer [warps, ") << height << ", " << width << "], without cols";
  tile::SmemLayout layout = buf.getSmem();
  const int64_t perWarpgroup = layout.byte({4 < buf.getShape()[0] ? 4 : 0, 0, 0});
  Value address = scalar(op.getVia());
  if (role.getWarpgroups() > 1)
    address = ptx.add(address, ptx.mul(scalar(role.getIndex()), perWarpgroup));
  Regs words = values.lookup(op.getValue());
  ptx.warpSync(); // the loads of the write before
  auto at = [&](int64_t warp, int64_t row, int64_t column) { return layout.byte({warp, row, column}); };
  if (failed(moveMatrices(address, at, /*warpRows=*/0, layout.exchange(), columns, transpose, words, /*store=*/true)))
    return op.emitOpError("expected a layout that stmatrix can write");
  ptx.warpSync();
  const int64_t chunksPerRow = width / 8, chunks = height * chunksPerRow, accesses = (chunks + 31) / 32;
  auto chunkOf = [&](int64_t access, int64_t t) { return (32 * access + t % 32) % chunks; };
  auto from = places(address, accesses, [&](int64_t i, int64_t t) { return at(t / 32, chunkOf(i, t) / chunksPerRow, 8 * (chunkOf(i, t) % chunksPerRow)); }, layout.exchange());
  auto rowFit = fitAddress(accesses, [&](int64_t i, int64_t t) { return chunkOf(i, t) / chunksPerRow + (transpose ? 0 : 16 * (t / 32)); });
  auto columnFit = fitAddress(accesses, [&](int64_t i, int64_t t) { return 8 * (chunkOf(i, t) % chunksPerRow) + (transpose ? 16 * (t / 32) : 0); });
  if (!from || !rowFit || !columnFit)
    return op.emitOpError("expected a layout whose 16-byte words are sums over the bits of the thread's index");
  GlobalWindow w = openWindow(op.getDest(), op.getMixedCoords(), op.getRows(), {}, threadSum(rowFit->linear), threadSum(columnFit->linear));
  Value some = chunks < 32 ? below(lane, ptx.i32(chunks)) : Value();
  for (int64_t i = 0; i < accesses; ++i) {
    int64_t offset;
    Value base = placeOf(*from, i, offset), exists, row = rowOf(w, rowFit->offset[i], exists);
    ptx.stGlobal(row, columnFit->offset[i] * 2, ptx.ldShared(base, offset, 4), both(exists, some));
  }
  return success();
}

} // namespace dsv3::codegen
