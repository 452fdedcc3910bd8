#include "codegen/sm90/simt/SimtEmitter.h"

#include "codegen/targets/RowClass.h"

using namespace mlir;

namespace dsv3::codegen {

DictionaryAttr SimtEmitter::config(Operation *op) const {
  if (int64_t blocks = cluster(op); blocks > 1)
    return dictionary(op, {{"cluster", blocks}, {"threads", threads(op)}});
  return dictionary(op, {{"threads", threads(op)}});
}

DeviceLaunch SimtEmitter::launch(Operation *op) const {
  DeviceLaunch launch;
  launch.grid = {blocks(op), 1, 1};
  launch.threads = param(op, "threads");
  launch.cluster = cluster(op);
  RefMap map = refs(op);
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    bool tensor = isa<RankedTensorType>(op->getOperand(i).getType());
    for (unsigned r = 0; r < map.count(i); ++r)
      launch.params.push_back(tensor && r == 0 ? address(op, i) : DeviceParam{DeviceParam::Pointer{map.of(i) + r}});
  }
  for (int64_t value : signature(op).consts)
    launch.params.push_back({DeviceParam::Const{value}});
  return launch;
}

LogicalResult SimtEmitter::emit(Operation *op, StringRef symbol, OpBuilder &builder) const {
  RefMap map = refs(op);
  SmallVector<Type> types(map.size(), LLVM::LLVMPointerType::get(op->getContext(), 1));
  types.append(signature(op).consts.size(), builder.getI64Type());
  SimtBuilder k(builder, op->getLoc(), symbol, types, param(op, "threads"), cluster(op));
  body(op, k, map);
  k.finish();
  return success();
}

Rows SimtEmitter::rows(SimtBuilder &k, const RefMap &refs, Operation *op, unsigned operand) {
  Value v = op->getOperand(operand);
  kernel::RowAccess access = kernel::getRowAccess(v);
  Type elem = tensorType(v).getElementType();
  bool written = llvm::any_of(cast<kernel::KernelOp>(op).getOuts(), [&](Value out) {
    return isa<RankedTensorType>(out.getType()) && kernel::getRowAccess(out).base == access.base;
  });
  return {k.param(refs.of(operand)), elem, access.stride * elemBytes(elem), !written};
}

int64_t SimtEmitter::rowCapacity(Value v) {
  RankedTensorType type = tensorType(v);
  return type.getNumElements() / type.getShape().back();
}

Value SimtEmitter::rowCount(SimtBuilder &k, Value v) {
  RankedTensorType type = tensorType(v);
  int64_t inner = rowCapacity(v) / type.getDimSize(0);
  return k.mul(k.scalarI32(rowScalar(v)), rowFactor(v) * inner);
}

int64_t SimtEmitter::vectorWidth(Operation *op, ArrayRef<unsigned> operands, ArrayRef<int64_t> widths) {
  auto fits = [&](int64_t n) {
    return llvm::all_of(widths, [&](int64_t w) { return w % n == 0; }) && llvm::all_of(operands, [&](unsigned i) {
             kernel::RowAccess access = kernel::getRowAccess(op->getOperand(i));
             return access.stride % n == 0 && access.offset % n == 0;
           });
  };
  int64_t n = 8;
  while (n > 1 && !fits(n))
    n /= 2;
  return n;
}

std::string SimtEmitter::floatsOnly(Operation *op, int64_t quantised) {
  for (auto [i, v] : llvm::enumerate(op->getOperands())) {
    auto type = dyn_cast<RankedTensorType>(v.getType());
    if (!type || !isa<FloatType>(type.getElementType()))
      continue;
    if (!isa<Float32Type, BFloat16Type>(type.getElementType()) || (ir::getScheme(type) && int64_t(i) != quantised))
      return "operand " + std::to_string(i) + " must be plain f32 or bf16";
  }
  return {};
}

//===-- One vector a thread -----------------------------------------------===//

std::string FlatEmitter::whyIllegal(Operation *op) const {
  if (std::string why = floatsOnly(op); !why.empty())
    return why;
  double all = double(rowCapacity(counted(op))) * double(items(op));
  return all < double(int64_t(1) << 31) ? "" : "rows and vectors must be fewer than 2^31 together";
}

int64_t FlatEmitter::blocks(Operation *op) const { return llvm::divideCeil(rowCapacity(counted(op)) * items(op), kThreads); }

void FlatEmitter::body(Operation *op, SimtBuilder &k, const RefMap &refs) const {
  int64_t perRow = items(op);
  Value index = k.add(k.mul(k.block(), kThreads), k.thread());
  k.when(k.lt(index, k.mul(rowCount(k, counted(op)), perRow)),
         [&] { item(op, k, refs, k.div(index, perRow), k.rem(index, perRow)); });
}

void addSimtEmitters(KernelRegistry &r) {
  addRowEmitters90(r);
  addCacheEmitters90(r);
  addExpertEmitters90(r);
  addRouteEmitters90(r);
  addPlanEmitters90(r);
  addQuantEmitters90(r);
  addCodeEmitters90(r);
  addSampleEmitters90(r);
}

} // namespace dsv3::codegen
