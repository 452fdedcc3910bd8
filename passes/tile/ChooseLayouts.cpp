// --dsv3-tile-choose-layouts: tries layouts on a buffer and its views, and lets the ops' own verifiers say what is legal.
#include "passes/tile/OpAccess.h"
#include "passes/tile/TileAnalysis.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_TILECHOOSELAYOUTSPASS
#include "passes/tile/TileAnalysis.h.inc"

namespace tile {
namespace {

constexpr int64_t kSmemBytes = 232448, kUnknownTrips = 8;

std::vector<LayoutAttr> candidates(MLIRContext *context) {
  std::vector<LayoutAttr> out;
  auto add = [&](SmemKind kind, int64_t a = 0, int64_t b = 0, int64_t c = 0) { out.push_back(LayoutAttr::get(context, kind, a, b, c)); };
  add(SmemKind::Linear);
  for (int64_t bytes : {4, 8, 16, 32, 64})
    add(SmemKind::Pad, bytes);
  for (SmemKind kind : {SmemKind::Sw32, SmemKind::Sw64, SmemKind::Sw128})
    add(kind);
  add(SmemKind::Swizzle, 5, 2, 5);
  add(SmemKind::Swizzle, 4, 3, 4);
  add(SmemKind::Swizzle, 1, 4, 3);
  return out;
}

std::string text(Attribute attr) {
  std::string s;
  llvm::raw_string_ostream os(s);
  auto layout = cast<LayoutAttr>(attr); // as types print it, without the dialect's prefix
  switch (layout.getKind()) {
  case SmemKind::Pad: os << "pad<" << layout.getA() << ">"; break;
  case SmemKind::Swizzle: os << "swizzle<" << layout.getA() << ", " << layout.getB() << ", " << layout.getC() << ">"; break;
  case SmemKind::Linear: os << "linear"; break;
  default: os << "sw" << SmemLayout::atomBytes(layout.getKind()); break;
  }
  return s;
}

/// "" if a buffer of this shape can have the layout.
std::string whyIllegalLayout(BufType buf, LayoutAttr layout) {
  return SmemLayout::whyIllegal(layout.getKind(), buf.getShape().vec(), buf.getElementBits(), layout.getA(), layout.getB(), layout.getC());
}

/// How often an access runs, as far as bounds are known.
int64_t trips(Operation *op) {
  int64_t n = 1;
  for (Operation *parent = op->getParentOp(); parent && !isa<KernelOp>(parent); parent = parent->getParentOp()) {
    auto known = [](OpFoldResult v) { return getConstantIntValue(v); };
    std::optional<int64_t> lower, upper, step;
    if (auto loop = dyn_cast<LoopOp>(parent)) {
      lower = known(loop.getLower()), upper = known(loop.getUpper()), step = known(loop.getStep());
    } else if (auto loop = dyn_cast<scf::ForOp>(parent)) {
      lower = known(loop.getLowerBound()), upper = known(loop.getUpperBound()), step = known(loop.getStep());
    } else if (!isa<ForeachOp>(parent)) {
      continue;
    }
    n *= lower && upper && step && *step > 0 ? std::max<int64_t>(1, (*upper - *lower + *step - 1) / *step) : kUnknownTrips;
  }
  return n;
}

/// A buffer without a layout: an alloc, or one of a ring.
struct Root {
  Operation *op = nullptr;
  unsigned index = 0; ///< in the ring
};

/// What a layout would mean for a buffer.
struct Verdict {
  LayoutAttr layout;
  std::string illegal;          ///< why not, or ""
  bool evaluated = false;       ///< the costs below are known
  unsigned degree = 1;
  uint64_t excess = 0;          ///< weighted
  int64_t bytes = 0;
  Operation *worst = nullptr;
};

class Chooser {
public:
  Chooser(KernelOp kernel, Root root) : kernel(kernel), root(root) {}

  /// Leaves the buffer with the best layout.
  LogicalResult run();

private:
  RingAttr ring() const { return cast<RingOp>(root.op).getRing(); }
  SmallVector<Value> values();
  void assign(LayoutAttr layout);
  static BufType restricted(BufType source, BufType view);
  bool follow(Value value);
  std::string collectUses();
  std::string whyIllegal(LayoutAttr layout);
  Verdict judge(LayoutAttr layout);
  void explain(const Verdict &linear, const Verdict &best, const std::vector<Verdict> &all);

  KernelOp kernel;
  Root root;
  SmallVector<ViewOp> views;       ///< sources before results
  SmallVector<OpOperand *> uses;   ///< of the buffer and its views, views themselves not
  SmallVector<Operation *> slotUsers; ///< ops that see the ring's type
};

/// Values that are this buffer.
SmallVector<Value> Chooser::values() {
  if (auto alloc = dyn_cast<AllocOp>(root.op))
    return {alloc.getBuf()};
  SmallVector<Value> out;
  kernel->walk([&](Operation *op) {
    if (isa<WaitOp, PeekOp>(op) && ringOf(op->getOperand(0).getType()) == ring())
      out.push_back(op->getResult(root.index));
    else if (auto fill = dyn_cast<FillOp>(op); fill && ringOf(fill.getSlot().getType()) == ring())
      out.push_back(fill.getBody().getArgument(root.index));
  });
  return out;
}

/// The type of a view when its source has a layout: the same, or a pad that keeps the pitch.
BufType Chooser::restricted(BufType source, BufType view) {
  LayoutAttr layout = source.getLayout();
  const SmemKind kind = layout.getKind();
  if (kind == SmemKind::Linear || kind == SmemKind::Pad) {
    const int64_t pad = source.getSmem().pitch() - view.getShape().back() * view.getElementBits() / 8;
    layout = pad == 0 || view.getRank() < 2 ? LayoutAttr::get(view.getContext(), SmemKind::Linear)
                                            : LayoutAttr::get(view.getContext(), SmemKind::Pad, pad, 0, 0);
  }
  return BufType::get(view.getContext(), view.getShape(), view.getElement(), layout);
}

void Chooser::assign(LayoutAttr layout) {
  auto with = [&](BufType t) { return BufType::get(t.getContext(), t.getShape(), t.getElement(), layout); };
  SmallVector<Value> all = values();
  if (isa<AllocOp>(root.op)) {
    all[0].setType(with(cast<BufType>(all[0].getType())));
  } else {
    RingAttr from = ring();
    SmallVector<Type> bufs(from.getBufs());
    bufs[root.index] = with(cast<BufType>(bufs[root.index]));
    auto to = RingAttr::get(from.getContext(), from.getName(), from.getStages(), from.getLanes(), bufs, from.getLanded(), from.getLandedCols(),
                            from.getFree(), from.getFillWarps(), from.getArrive());
    // The attribute identifies the ring, so all types that hold it change with it.
    AttrTypeReplacer replacer;
    replacer.addReplacement([&](RingAttr r) -> Attribute { return r == from ? to : r; });
    replacer.recursivelyReplaceElementsIn(kernel, /*replaceAttrs=*/true, /*replaceLocs=*/false, /*replaceTypes=*/true);
    for (Value v : all)
      v.setType(with(cast<BufType>(v.getType())));
  }
  for (ViewOp view : views)
    view.getResult().setType(restricted(view.getSource().getType(), view.getResult().getType()));
}

bool Chooser::follow(Value value) {
  for (OpOperand &use : value.getUses()) {
    if (auto view = dyn_cast<ViewOp>(use.getOwner())) {
      views.push_back(view);
      if (!follow(view.getResult()))
        return false;
      continue;
    }
    if (!isa<LoadOp, StoreOp, ZeroOp, WriteOp, MmaOp, CopyOp, PutOp>(use.getOwner()))
      return false;
    uses.push_back(&use);
  }
  return true;
}

std::string Chooser::collectUses() {
  for (Value v : values())
    if (!follow(v))
      return "expected a buffer of layout auto to stay in its kernel: inline calls, and carry no buffer through a loop";
  if (isa<RingOp>(root.op))
    kernel->walk([&](Operation *op) {
      if (isa<FillOp, WaitOp, MmaOp, CopyOp>(op) &&
          llvm::any_of(op->getOperandTypes(), [&](Type t) { return isa<SlotType>(t) && ringOf(t) == ring(); }))
        slotUsers.push_back(op);
    });
  return "";
}

/// Runs the verifiers of everything that the layout concerns; the first complaint, or "".
std::string Chooser::whyIllegal(LayoutAttr layout) {
  std::string why;
  ScopedDiagnosticHandler capture(kernel.getContext(), [&](Diagnostic &d) {
    if (why.empty() && d.getSeverity() == DiagnosticSeverity::Error)
      why = d.str();
    return success();
  });
  auto check = [&](Operation *op) {
    if (failed(op->getName().verifyInvariants(op)) && why.empty())
      why = "refused by '" + op->getName().getStringRef().str() + "'";
  };
  check(root.op);
  for (ViewOp view : views)
    check(view);
  for (Operation *op : slotUsers)
    check(op);
  for (OpOperand *use : uses) {
    check(use->getOwner());
    if (why.empty())
      why = whyIllegalBuffer(*use, cast<BufType>(use->get().getType()));
  }
  if (why.empty() && kernel.getBufferBytes() > kSmemBytes)
    why = "T1: expected at most " + std::to_string(kSmemBytes) + " bytes of shared memory, got " + std::to_string(kernel.getBufferBytes());
  // "'tile.put' op T17: ..." -> "T17: ..."
  if (size_t at = why.find(" op "); at != std::string::npos)
    why = why.substr(at + 4);
  return why;
}

Verdict Chooser::judge(LayoutAttr layout) {
  Verdict v;
  v.layout = layout;
  Value first = values().front();
  v.illegal = whyIllegalLayout(cast<BufType>(first.getType()), layout);
  if (!v.illegal.empty())
    return v;
  assign(layout);
  for (ViewOp view : views) {
    BufType t = view.getResult().getType();
    if (v.illegal = whyIllegalLayout(t, t.getLayout()); !v.illegal.empty())
      return v;
  }
  v.illegal = whyIllegal(layout);
  v.evaluated = true;
  v.bytes = cast<BufType>(values().front().getType()).getBytes();
  for (OpOperand *use : uses) {
    Operation *op = use->getOwner();
    if (accessedBuffer(op) != use->get())
      continue;
    const AccessCost cost = accessCost(op, cast<BufType>(use->get().getType()));
    v.excess += cost.excess * uint64_t(trips(op));
    if (cost.degree > v.degree) {
      v.degree = cost.degree;
      v.worst = op;
    }
  }
  return v;
}

void Chooser::explain(const Verdict &linear, const Verdict &best, const std::vector<Verdict> &all) {
  InFlightDiagnostic remark = root.op->emitRemark();
  remark << "chose " << text(best.layout) << ": degree " << best.degree << ", " << best.excess << " cycles lost";
  if (linear.evaluated)
    remark << " (linear: degree " << linear.degree << ", " << linear.excess << ")";
  if (best.degree == 1)
    return;
  InFlightDiagnostic warning = best.worst->emitWarning();
  warning << best.degree << "-way bank conflict remains under " << text(best.layout);
  for (const Verdict &v : all)
    if (v.evaluated && v.degree == 1) {
      warning << ": " << text(v.layout) << " has none, but " << v.illegal;
      return;
    }
  warning << ": no candidate has none";
}

LogicalResult Chooser::run() {
  if (std::string why = collectUses(); !why.empty())
    return root.op->emitOpError(why);
  std::vector<Verdict> all;
  const Verdict *best = nullptr;
  std::vector<LayoutAttr> layouts = candidates(kernel.getContext());
  all.reserve(layouts.size());
  for (LayoutAttr layout : layouts) {
    all.push_back(judge(layout));
    const Verdict &v = all.back();
    if (v.illegal.empty() && (!best || std::pair(v.excess, v.bytes) < std::pair(best->excess, best->bytes)))
      best = &v;
  }
  if (!best)
    return root.op->emitOpError() << "expected a legal layout among the candidates, got none; " << text(all.back().layout) << ": " << all.back().illegal;
  assign(best->layout);
  explain(all.front(), *best, all);
  return success();
}

std::vector<Root> rootsOf(KernelOp kernel) {
  std::vector<Root> roots;
  auto isAuto = [](Type t) { return cast<BufType>(t).getLayout().getKind() == SmemKind::Auto; };
  for (Operation &op : kernel.getBody().front()) {
    if (auto alloc = dyn_cast<AllocOp>(op); alloc && isAuto(alloc.getBuf().getType()))
      roots.push_back({&op, 0});
    if (auto ring = dyn_cast<RingOp>(op))
      for (auto [i, buf] : llvm::enumerate(ring.getRing().getBufs()))
        if (isAuto(buf))
          roots.push_back({&op, unsigned(i)});
  }
  return roots;
}

} // namespace
} // namespace tile

namespace {

class ChooseLayouts : public impl::TileChooseLayoutsPassBase<ChooseLayouts> {
  void runOnOperation() override {
    getOperation()->walk([&](tile::KernelOp kernel) {
      for (tile::Root root : tile::rootsOf(kernel))
        if (failed(tile::Chooser(kernel, root).run()))
          return signalPassFailure();
    });
  }
};

} // namespace
} // namespace dsv3
