#include "passes/tile/OpAccess.h"

using namespace mlir;

namespace dsv3::tile {
namespace {

std::vector<WarpAccess> accesses(Operation *op, BufType buf) {
  const SmemLayout layout = buf.getSmem();
  auto fragment = [](Type type) { return getFrag(type).fragmentOf(cast<RankedTensorType>(type).getShape()); };
  if (auto load = dyn_cast<LoadOp>(op)) {
    if (load.getPaired())
      return pairedOf(layout, *load.getPaired());
    if (!isFragment(load.getResult().getType()))
      return {WarpAccess()}; // one element for all lanes
    return accessesOf(fragment(load.getResult().getType()), buf.getElementBits(), layout, load.getTrans(), false);
  }
  if (auto store = dyn_cast<StoreOp>(op))
    return accessesOf(fragment(store.getValue().getType()), buf.getElementBits(), layout, store.getTrans(), true);
  if (auto sum = dyn_cast<ClusterSumOp>(op)) // a buffer per warpgroup: the last two dims
    return accessesOf(getFrag(sum.getValue().getType()).fragmentOf(buf.getShape().take_back(2)), buf.getElementBits(),
                      BufType::get(buf.getContext(), buf.getShape().take_back(2), buf.getElement(), buf.getLayout()).getSmem(), false, true);
  if (auto write = dyn_cast<WriteOp>(op))
    return restagingOf(cast<RankedTensorType>(write.getValue().getType()).getShape()[1], layout, write.getTrans());
  return zeroingOf(layout, buf.getElementBits());
}

std::string whyNotBox(TmaType map, BufType buf) {
  if (map.getLayout() != buf.getLayout()) {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << "T17: expected the layout of the tensor map, " << map.getLayout() << ", got " << buf.getLayout();
    return text;
  }
  const int64_t inner = map.getBox().back();
  if (buf.getLayout().getKind() == SmemKind::Linear && inner != buf.getShape().back())
    return "T17: expected boxes as wide as a linear buffer, " + std::to_string(buf.getShape().back()) + ", got " + std::to_string(inner);
  return "";
}

/// 16-byte words of a row stay whole and in their row.
std::string whyNotWords(BufType buf) {
  const SmemLayout layout = buf.getSmem();
  const std::vector<int64_t> &shape = layout.shape();
  const int64_t perWord = 128 / buf.getElementBits();
  std::vector<int64_t> coord(shape.size());
  for (int64_t row = 0; row < shape[shape.size() - 2]; ++row)
    for (int64_t column = 0; column < shape.back(); column += perWord) {
      coord[shape.size() - 2] = row;
      coord.back() = column;
      const int64_t first = layout.bit(coord);
      coord.back() = column + perWord - 1;
      if (first % 128 || coord.back() >= shape.back() || layout.bit(coord) != first + 128 - buf.getElementBits())
        return "expected rows of whole 16-byte words";
    }
  return "";
}

} // namespace

Value accessedBuffer(Operation *op) {
  if (auto load = dyn_cast<LoadOp>(op))
    return load.getSource();
  if (auto store = dyn_cast<StoreOp>(op))
    return store.getDest();
  if (auto zero = dyn_cast<ZeroOp>(op))
    return zero.getDest();
  if (auto write = dyn_cast<WriteOp>(op))
    return write.getVia();
  if (auto sum = dyn_cast<ClusterSumOp>(op))
    return sum.getVia();
  return {};
}

std::vector<AccessEntry> accessesOf(KernelOp kernel) {
  std::vector<AccessEntry> out;
  kernel->walk<WalkOrder::PreOrder>([&](Operation *op) {
    Value buffer = accessedBuffer(op);
    if (!buffer)
      return;
    const AccessCost cost = accessCost(op, cast<BufType>(buffer.getType()));
    out.push_back({op, accessName(op, cost.instruction), cost.degree, cost.excess});
  });
  return out;
}

AccessCost accessCost(Operation *op, BufType buf) { return costOf(accesses(op, buf)); }

const char *accessName(Operation *op, SmemInstruction instruction) { return name(instruction, !isa<LoadOp>(op)); }

Result<WgmmaDescriptor> descriptorOf(MmaOp op, bool isA, BufType buf) {
  const bool turned = !isA && op.getForm() == Form::Nn; // [k, n]
  const SmemLayout layout = buf.getSmem();
  if (buf.getRank() != 2)
    return unsupportedError("expected an operand of rank 2, got " + std::to_string(buf.getRank()));
  WgmmaOperand operand;
  operand.mn = buf.getShape()[turned ? 1 : 0];
  operand.k = buf.getShape()[turned ? 0 : 1];
  operand.elementBytes = buf.getElementBits() / 8;
  operand.major = turned ? Major::MN : Major::K;
  operand.byte = [&](int64_t mn, int64_t k) { return turned ? layout.byte({k, mn}) : layout.byte({mn, k}); };
  return solveDescriptor(operand);
}

std::string whyIllegalBuffer(OpOperand &use, BufType buf) {
  Operation *op = use.getOwner();
  if (auto mma = dyn_cast<MmaOp>(op)) {
    Result<WgmmaDescriptor> d = descriptorOf(mma, use.getOperandNumber() == 0, buf);
    return d ? "" : "T26: " + d.error().message;
  }
  if (auto copy = dyn_cast<CopyOp>(op)) {
    if (auto map = dyn_cast<TmaType>(copy.getSource().getType()))
      return whyNotBox(map, buf);
    return buf.getLayout().getKind() == SmemKind::Pad ? "T17: expected a layout without padding for a bulk copy" : "";
  }
  if (auto put = dyn_cast<PutOp>(op))
    return whyNotBox(put.getDest().getType(), buf);
  if (isa<ZeroOp, WriteOp>(op))
    return whyNotWords(buf);
  return "";
}

} // namespace dsv3::tile
