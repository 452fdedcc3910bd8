// --dsv3-lower-to-kernel
#include "passes/Passes.h"
#include "passes/bind/Lowering.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_LOWERTOKERNELPASS
#include "passes/Passes.h.inc"

namespace bind {

Value Lowering::empty(Location loc, Type type) { return kernel::EmptyOp::create(b, loc, type); }

Value Lowering::empty(Location loc, ArrayRef<int64_t> shape, Type elem) { return empty(loc, RankedTensorType::get(shape, elem)); }

Value Lowering::view(Location loc, Value source, int64_t offset, RankedTensorType type) {
  if (auto outer = source.getDefiningOp<kernel::ViewOp>()) {
    offset += outer.getOffset();
    source = outer.getSource();
  }
  if (source.getType() == type)
    return source;
  return kernel::ViewOp::create(b, loc, type, source, b.getI64IntegerAttr(offset));
}

Value Lowering::ropeTable(ir::RopeAttr rope) {
  Value &table = tables[rope];
  if (table)
    return table;
  auto module = cast<ModuleOp>(symbols.getOp());
  auto source = ir::RopeTableSourceAttr::get(b.getContext(), rope, capacities.maxModelLen);
  ir::WeightOp weight;
  for (auto other : module.getOps<ir::WeightOp>())
    if (other.getSource() == source)
      weight = other;
  if (!weight) {
    auto type = RankedTensorType::get({capacities.maxModelLen, rope.getDims()}, b.getF32Type());
    OpBuilder outside(b.getContext());
    weight = ir::WeightOp::create(outside, module.getLoc(), "rope_table", type, source);
    symbols.insert(weight, Block::iterator(*module.getOps<ir::ProgramOp>().begin())); // renames it if the name is taken
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(body); // before every reader in the program
  return table = use(weight.getLoc(), weight);
}

FailureOr<ir::WeightOp> Lowering::weightOf(Operation *op, StringRef name, Value value) {
  auto use = value.getDefiningOp<ir::UseOp>();
  if (auto weight = use ? symbols.lookup<ir::WeightOp>(use.getWeight()) : ir::WeightOp())
    return weight;
  return op->emitOpError() << "expected " << name << " to be a dsv3.use of a weight";
}

FailureOr<ir::WeightOp> Lowering::derived(ir::WeightOp whole, StringRef suffix, RankedTensorType type, Attribute source) {
  std::string name = (whole.getSymName() + suffix).str();
  if (Operation *there = symbols.lookup(name)) {
    auto weight = dyn_cast<ir::WeightOp>(there);
    if (weight && weight.getSource() == source && weight.getType() == type)
      return weight;
    return there->emitError() << "expected @" << name << " to be " << type << " from " << source;
  }
  OpBuilder outside(b.getContext());
  auto weight = ir::WeightOp::create(outside, whole.getLoc(), name, type, source);
  symbols.insert(weight, std::next(Block::iterator(whole)));
  return weight;
}

Value Lowering::use(Location loc, ir::WeightOp weight) {
  return ir::UseOp::create(b, loc, weight.getTensorType(), weight.getSymName());
}

void Lowering::replace(Operation *op, ValueRange values) {
  op->replaceAllUsesWith(values);
  op->erase();
}

/// Appends go first: their kernel computes the norm and the rotation that feed them, which are dead afterwards
/// unless a tap reads them.
LogicalResult Lowering::lowerAppends(Block &block) {
  for (auto append : llvm::make_early_inc_range(block.getOps<ir::KvAppendOp>())) {
    SmallVector<Operation *> producers{append.getLatent().getDefiningOp(), append.getRope().getDefiningOp()};
    b.setInsertionPoint(append);
    if (failed(lower(append, *this)))
      return failure();
    for (Operation *producer : producers) {
      Operation *split = producer->getOperand(0).getDefiningOp();
      if (producer->use_empty())
        producer->erase();
      if (split->use_empty())
        split->erase();
    }
  }
  return success();
}

template <typename... Ops> static LogicalResult lowerAny(Operation *op, Lowering &l) {
  LogicalResult result = failure();
  bool known = ((isa<Ops>(op) && (result = lower(cast<Ops>(op), l), true)) || ...);
  return known ? result : op->emitOpError() << "expected an op that has a kernel";
}

LogicalResult Lowering::run(ir::ProgramOp program) {
  body = &program.getBody().front();
  tables.clear();
  if (failed(lowerAppends(*body)))
    return failure();
  for (Operation &op : llvm::make_early_inc_range(*body)) {
    if (!isa<ir::Dsv3Dialect>(op.getDialect()) || isa<ir::UseOp, ir::ReturnOp>(op))
      continue;
    b.setInsertionPoint(&op);
    if (failed(lowerAny<ir::EmbedOp, ir::RmsNormOp, ir::QuantizeOp, ir::LinearOp, ir::GatedLinearOp, ir::BatchedLinearOp, ir::SwigluOp, ir::AddOp,
                        ir::SplitOp, ir::ConcatOp, ir::SelectRowsOp, ir::TapOp, ir::RopeOp, ir::MlaAttentionOp,
                        ir::LatentAttentionOp, ir::RouteOp, ir::RoutedExpertsOp, ir::DispatchOp, ir::GroupedLinearOp,
                        ir::CombineOp>(&op, *this)))
      return failure();
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*body))) // from below: a view's reader goes before it
    if (isa<ir::UseOp, kernel::ViewOp>(op) && op.use_empty())
      op.erase();
  return success();
}

} // namespace bind

namespace {
struct LowerToKernelPass : impl::LowerToKernelPassBase<LowerToKernelPass> {
  void runOnOperation() override {
    FailureOr<codegen::Capacities> capacities = codegen::Capacities::fromModule(getOperation());
    if (failed(capacities))
      return signalPassFailure();
    bind::Lowering lowering(getOperation(), *capacities);
    for (auto program : getOperation().getOps<ir::ProgramOp>())
      if (failed(lowering.run(program)))
        return signalPassFailure();
  }
};
} // namespace
} // namespace dsv3
