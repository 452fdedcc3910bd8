#include "test/passes/tile/Mutants.h"

#include "mlir/IR/Builders.h"

#include <map>

using namespace mlir;

namespace dsv3::tile {
namespace {

/// The n-th op of a walk: names an op across clones.
Operation *nth(KernelOp kernel, size_t n) {
  Operation *found = nullptr;
  size_t i = 0;
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (i++ == n)
      found = op;
  });
  return found;
}

bool isToken(Operation *op) {
  auto await = dyn_cast<AwaitOp>(op);
  return await && isa<TokenType>(await.getSource().getType());
}

void toPeek(Operation *op) {
  OpBuilder b(op);
  auto peek = PeekOp::create(b, op->getLoc(), op->getResultTypes(), cast<WaitOp>(op).getSlot());
  op->replaceAllUsesWith(peek);
  op->erase();
}

/// Ops whose order against a barrier matters.
bool matters(Operation *op) {
  return op && isa<LoadOp, StoreOp, ZeroOp, MmaOp, PutOp, AwaitOp, ReleaseOp, WaitOp, SignalOp, MeetOp, SyncOp>(op);
}

bool uses(Operation *user, Operation *def) {
  return llvm::any_of(user->getOperands(), [&](Value v) { return v.getDefiningOp() == def; });
}

/// Arriving too early lets the others in too early; waiting too late is the same seen from the other side.
bool canMoveUp(Operation *op) {
  Operation *before = op->getPrevNode();
  return isa<ReleaseOp, SignalOp, MeetOp, SyncOp>(op) && matters(before) && !uses(op, before);
}
bool canMoveDown(Operation *op) {
  Operation *after = op->getNextNode();
  return isa<WaitOp, AwaitOp, MeetOp, SyncOp>(op) && matters(after) && !uses(after, op);
}

} // namespace

std::vector<Mutant> mutantsOf(KernelOp kernel) {
  std::vector<Mutant> out;
  std::map<std::string, int> seen;
  size_t i = 0;
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    const size_t n = i++;
    if (!isa<WaitOp, ReleaseOp, SyncOp, SignalOp, MeetOp>(op) && !isToken(op))
      return;
    const std::string kind = op->getName().stripDialect().str(), what = kind + " " + std::to_string(seen[kind]++);
    if (isa<WaitOp>(op))
      out.push_back({"peek instead of " + what, [n](KernelOp k) { toPeek(nth(k, n)); }});
    else
      out.push_back({"drop " + what, [n](KernelOp k) { nth(k, n)->erase(); }});
    if (canMoveUp(op))
      out.push_back({"earlier " + what, [n](KernelOp k) { nth(k, n)->moveBefore(nth(k, n)->getPrevNode()); }});
    if (canMoveDown(op))
      out.push_back({"later " + what, [n](KernelOp k) { nth(k, n)->moveAfter(nth(k, n)->getNextNode()); }});
  });
  return out;
}

} // namespace dsv3::tile
