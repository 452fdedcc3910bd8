// wgmma: descriptors, fences, groups and their waits.
#include "codegen/sm90/lower/Lowering.h"

#include "dialects/tile/Descriptor.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace dsv3::codegen {

/// Descriptor of a buffer operand: rows are the dim that is not K.
static Result<tile::WgmmaDescriptor> describe(tile::BufType buf, bool kFirst) {
  tile::SmemLayout layout = buf.getSmem();
  ArrayRef<int64_t> shape = buf.getShape();
  tile::WgmmaOperand operand;
  operand.mn = shape[kFirst ? 1 : 0];
  operand.k = shape[kFirst ? 0 : 1];
  operand.elementBytes = buf.getElementBits() / 8;
  operand.major = kFirst ? tile::Major::MN : tile::Major::K;
  operand.byte = [=](int64_t mn, int64_t k) { return kFirst ? layout.byte({k, mn}) : layout.byte({mn, k}); };
  return tile::solveDescriptor(operand);
}

static std::optional<Wgmma::Type> wgmmaType(Type element) {
  if (element.isBF16())
    return Wgmma::Type::BF16;
  if (element.isF16())
    return Wgmma::Type::F16;
  if (isa<Float8E4M3FNType, Float8E5M2Type>(element))
    return Wgmma::Type::E4M3;
  if (element.isInteger(8))
    return Wgmma::Type::S8;
  return std::nullopt;
}

LogicalResult KernelLowering::lowerMma(tile::MmaOp op) {
  auto slotType = dyn_cast<tile::SlotType>(op.getB().getType());
  tile::RingAttr ring = slotType ? slotType.getRing() : tile::RingAttr();
  auto bufB = slotType ? ring.getBuf(0) : cast<tile::BufType>(op.getB().getType());
  auto bufA = dyn_cast<tile::BufType>(op.getA().getType());
  std::optional<Wgmma::Type> type = wgmmaType(bufB.getElement());
  if (!type || bufB.getRank() != 2 || (bufA && bufA.getRank() != 2))
    return op.emitOpError("expected operands of rank 2 of bf16, f16, 8-bit floats or i8");
  const bool kFirst = op.getForm() == tile::Form::Nn;
  Wgmma w{*type, bufB.getShape()[kFirst ? 1 : 0], kFirst};
  w.e5m2B = isa<Float8E5M2Type>(bufB.getElement());
  if (*type == Wgmma::Type::E4M3 && !isa<Float8E4M3FNType>(getElementTypeOrSelf(op.getA().getType())) && !(bufA && isa<Float8E4M3FNType>(bufA.getElement())))
    return op.emitOpError("expected a of f8E4M3FN with b of 8-bit floats");
  Result<tile::WgmmaDescriptor> db = describe(bufB, kFirst), da = bufA ? describe(bufA, false) : Result<tile::WgmmaDescriptor>(tile::WgmmaDescriptor());
  for (const Result<tile::WgmmaDescriptor> *d : {&db, &da})
    if (!*d)
      return op.emitOpError("T26: ") << d->error().message;

  // The start of a descriptor goes through an opaque move: else LLVM computes every start + offset ahead of the loop.
  SlotRegs s = slotType ? slot(op.getB()) : SlotRegs();
  Value startB = ptx.add(slotType ? bufferOf(ring, s, 0) : scalar(op.getB()), db->start);
  Value descB = ptx.opaque(ptx.descriptor(startB, db->bits()));
  Value descA = bufA ? ptx.opaque(ptx.descriptor(ptx.add(scalar(op.getA()), da->start), da->bits())) : Value();
  Regs a = bufA ? Regs() : values.lookup(op.getA());

  const Presence presenceOfAcc = presence(op.getAcc());
  Regs acc = presenceOfAcc == Presence::None ? Regs() : values.lookup(op.getAcc());
  Value scaleD;
  if (presenceOfAcc == Presence::Maybe)
    scaleD = acc.pop_back_val();
  // What defines registers of the product must not sink behind its fence (ptxas C7513).
  ptx.pin(a);
  if (tile::isFragment(op.getAcc().getType()))
    ptx.pin(acc);

  auto step = [&](int64_t k) {
    auto offset = [&](Value desc, int64_t bytes) { return ptx.add(desc, bytes >> 4); };
    Value stepB = offset(descB, db->kOffset[k]);
    acc = bufA ? ptx.wgmmaSS(w, offset(descA, da->kOffset[k]), stepB, acc, scaleD) : ptx.wgmmaRS(w, ValueRange(a).slice(4 * k, 4), stepB, acc, scaleD);
    scaleD = {};
  };
  const int64_t steps = db->kOffset.size(), group = op.getGroup().value_or(-1);
  if (!slotType || ring.getLanded() != tile::Landed::Cols) {
    if (slotType)
      waitForParts(ring, s, partsOf(ring, -1));
    ptx.wgmmaFence(); // behind the wait: in the basic block of the wgmma
    for (int64_t k = 0; k < steps; ++k)
      step(k);
  } else {
    if (kFirst)
      return op.emitOpError("expected form nt for a slot whose columns land one after the other");
    const int64_t perPart = ring.getLandedCols() / w.k();
    for (int64_t part : partsOf(ring, group)) {
      waitForParts(ring, s, part);
      ptx.wgmmaFence();
      for (int64_t k = part * perPart; k < (part + 1) * perPart; ++k)
        step(k);
    }
  }
  ptx.wgmmaCommit();
  ++flight.groups;
  if (!bufA)
    flight.pending.push_back({a, flight.groups});
  set(op.getResult(), acc);
  return success();
}

LogicalResult KernelLowering::lowerAwait(tile::AwaitOp op) {
  std::optional<int64_t> age = async ? async->age(op) : std::nullopt;
  if (!age)
    return op.getResult() ? LogicalResult(op.emitOpError("expected an accumulator, got none")) : LogicalResult(success());
  if (async->isPut(op.getSource())) {
    ptx.bulkWait(*age, op.getReads(), ptx.equal(thread, 0));
    return success();
  }
  // What comes out of the wait cannot be read above it, nor can the registers that the retired mmas read be reused.
  Regs tied = op.getResult() ? values.lookup(op.getSource()) : Regs();
  if (op.getResult() && presence(op.getSource()) == Presence::Maybe)
    tied.pop_back();
  const size_t results = tied.size();
  llvm::erase_if(flight.pending, [&](const PendingA &p) {
    if (flight.groups - p.group < *age)
      return false;
    llvm::append_range(tied, p.registers);
    return true;
  });
  ptx.wgmmaWait(*age, tied);
  tied.truncate(results);
  if (op.getResult())
    set(op.getResult(), tied);
  return success();
}

} // namespace dsv3::codegen
