// --dsv3-fuse-linears
#include "passes/Passes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_FUSELINEARSPASS
#include "passes/Passes.h.inc"

namespace {
using Group = SmallVector<ir::LinearOp>;
/// What the members of a group share: input, element type of the result, scheme of the weight.
using Key = std::pair<Value, std::pair<Type, Attribute>>;

/// "l3.q_a", "l3.kv_a" -> "l3.q_a_kv_a": the common prefix up to a dot, then what follows it in each.
std::string join(ArrayRef<StringRef> names) {
  size_t dot = names.front().rfind('.') + 1;
  StringRef prefix = names.front().take_front(dot);
  if (!llvm::all_of(names, [&](StringRef n) { return n.starts_with(prefix); }))
    prefix = "";
  return prefix.str() + llvm::join(llvm::map_range(names, [&](StringRef n) { return n.drop_front(prefix.size()).str(); }), "_");
}

RankedTensorType tensor(Value v) { return cast<RankedTensorType>(v.getType()); }

struct FuseLinearsPass : impl::FuseLinearsPassBase<FuseLinearsPass> {
  void runOnOperation() override {
    SymbolTable table(getOperation());
    symbols = &table;
    made.clear();
    for (auto program : getOperation().getOps<ir::ProgramOp>()) {
      llvm::MapVector<Key, Group> groups;
      for (auto op : program.getBody().front().getOps<ir::LinearOp>())
        if (tensor(op.getY()).getRank() == 2 && op.getW().getDefiningOp<ir::UseOp>())
          groups[{op.getX(), {tensor(op.getY()).getElementType(), tensor(op.getW()).getEncoding()}}].push_back(op);
      for (auto &[key, group] : groups)
        if (group.size() > 1)
          fuse(group);
    }
  }

private:
  void fuse(Group group) {
    FailureOr<RankedTensorType> type = arrange(group);
    if (failed(type)) {
      group.front().emitRemark() << "left apart from its " << group.size() - 1
                                 << " neighbours: the scale grids of their weights do not continue";
      return;
    }
    OpBuilder b(*llvm::min_element(group, [](ir::LinearOp x, ir::LinearOp y) { return x->isBeforeInBlock(y); }));
    ir::WeightOp weight = concat(group, *type);
    SmallVector<StringRef> sites;
    SmallVector<Location> locations;
    SmallVector<Type> parts;
    for (ir::LinearOp op : group) {
      sites.push_back(op.getSite());
      locations.push_back(op.getLoc());
      parts.push_back(op.getY().getType());
    }
    Location loc = b.getFusedLoc(locations);
    auto first = tensor(group.front().getY());
    auto result = RankedTensorType::get({first.getDimSize(0), type->getDimSize(0)}, first.getElementType());
    Value use = ir::UseOp::create(b, loc, *type, weight.getSymName());
    Value y = ir::LinearOp::create(b, loc, result, group.front().getX(), use, join(sites));
    auto split = ir::SplitOp::create(b, loc, parts, y);
    for (auto [op, part] : llvm::zip_equal(group, split.getResults())) {
      op.replaceAllUsesWith(part);
      op.erase();
    }
    flatten(split);
  }

  /// Type of the joined weight. A weight with a partial scale block may only stand last, so if program order fails,
  /// each is tried there.
  FailureOr<RankedTensorType> arrange(Group &group) {
    auto weights = [](ArrayRef<ir::LinearOp> ops) {
      return llvm::map_to_vector(ops, [](ir::LinearOp op) { return tensor(op.getW()); });
    };
    FailureOr<RankedTensorType> type = ir::concatType(weights(group), 0);
    for (size_t i = 0; failed(type) && i + 1 < group.size(); ++i) {
      Group order(group);
      std::rotate(order.begin() + i, order.begin() + i + 1, order.end());
      type = ir::concatType(weights(order), 0);
      if (succeeded(type))
        group = order;
    }
    return type;
  }

  /// The joined weight, made once for all programs.
  ir::WeightOp concat(ArrayRef<ir::LinearOp> group, RankedTensorType type) {
    SmallVector<StringRef> names;
    SmallVector<Attribute> refs;
    for (ir::LinearOp op : group) {
      FlatSymbolRefAttr name = op.getW().getDefiningOp<ir::UseOp>().getWeightAttr();
      names.push_back(name.getValue());
      refs.push_back(ir::RefSourceAttr::get(&getContext(), name));
    }
    Attribute source = ir::ConcatSourceAttr::get(&getContext(), 0, refs);
    ir::WeightOp &weight = made[source];
    if (weight)
      return weight;
    auto last = symbols->lookup<ir::WeightOp>(names.front());
    for (StringRef name : names)
      if (auto w = symbols->lookup<ir::WeightOp>(name); last->isBeforeInBlock(w))
        last = w;
    OpBuilder b(&getContext());
    weight = ir::WeightOp::create(b, last.getLoc(), join(names), type, source);
    symbols->insert(weight, std::next(Block::iterator(last))); // renames it if the name is taken
    return weight;
  }

  /// A part that is only cut further is cut at once.
  void flatten(ir::SplitOp split) {
    SmallVector<Value> replaced;
    SmallVector<Type> types;
    SmallVector<Operation *> inner;
    for (Value part : split.getParts()) {
      auto next = part.hasOneUse() ? dyn_cast<ir::SplitOp>(*part.user_begin()) : ir::SplitOp();
      ValueRange values = next ? ValueRange(next.getParts()) : ValueRange(part);
      llvm::append_range(replaced, values);
      llvm::append_range(types, values.getTypes());
      if (next)
        inner.push_back(next);
    }
    if (inner.empty())
      return;
    OpBuilder b(split);
    auto flat = ir::SplitOp::create(b, split.getLoc(), types, split.getX());
    for (auto [before, after] : llvm::zip_equal(replaced, flat.getParts()))
      before.replaceAllUsesWith(after);
    for (Operation *op : inner)
      op->erase();
    split.erase();
  }

  SymbolTable *symbols = nullptr;
  llvm::DenseMap<Attribute, ir::WeightOp> made;
};
} // namespace
} // namespace dsv3
