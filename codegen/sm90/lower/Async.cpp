#include "codegen/sm90/lower/Async.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dsv3::codegen {

static bool mayBeNone(Type type) { return isa<tile::AccType, tile::SlotType, tile::TokenType>(type); }

AsyncAnalysis::AsyncAnalysis(Block &role) { walk(role); }

Presence AsyncAnalysis::presence(Value v) const { return stateOf(v).presence; }
bool AsyncAnalysis::isPut(Value token) const { return stateOf(token).kind == Put; }

std::optional<int64_t> AsyncAnalysis::age(Operation *await) const {
  auto it = ages.find(await);
  return it == ages.end() ? std::nullopt : it->second;
}

AsyncAnalysis::State AsyncAnalysis::stateOf(Value v) const {
  auto it = states.find(v);
  return it == states.end() ? State() : it->second;
}

void AsyncAnalysis::walk(Block &block) {
  for (Operation &op : block)
    visit(&op);
}

void AsyncAnalysis::visit(Operation *op) {
  if (isa<tile::NoneOp>(op)) {
    states[op->getResult(0)].presence = Presence::None;
  } else if (auto mma = dyn_cast<tile::MmaOp>(op)) {
    State state{Presence::Some, Mma, ++committed[Mma]};
    states[mma.getResult()] = states[mma.getToken()] = state;
  } else if (auto put = dyn_cast<tile::PutOp>(op)) {
    states[put.getToken()] = State{Presence::Some, Put, ++committed[Put]};
  } else if (auto await = dyn_cast<tile::AwaitOp>(op)) {
    State source = stateOf(await.getSource());
    ages[op] = source.presence == Presence::None ? std::nullopt : std::optional<int64_t>(committed[source.kind] - source.group);
  } else if (auto next = dyn_cast<tile::NextOp>(op)) {
    states[next.getResult()].presence = stateOf(next.getFrom()).presence;
  } else if (isa<scf::IfOp>(op)) {
    visitIf(op);
  } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
    visitLoop(op, loop.getInitArgs(), *loop.getBody(), loop.getRegionIterArgs());
  } else if (auto foreach = dyn_cast<tile::ForeachOp>(op)) {
    visitLoop(op, foreach.getInits(), foreach.getBody().front(), ValueRange(foreach.getIterArgs()));
  } else {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        walk(block);
  }
}

AsyncAnalysis::State AsyncAnalysis::join(ArrayRef<State> states, ArrayRef<Counts> counts, const Counts &now) const {
  State out = states.front();
  int64_t age = std::numeric_limits<int64_t>::max();
  bool any = false, all = true;
  for (auto [state, count] : llvm::zip(states, counts)) {
    any |= state.presence != Presence::None;
    all &= state.presence == Presence::Some;
    if (state.presence == Presence::None)
      continue;
    out.kind = state.kind;
    age = std::min(age, count[state.kind] - state.group);
  }
  out.presence = all ? Presence::Some : any ? Presence::Maybe : Presence::None;
  out.group = any ? now[out.kind] - age : 0;
  return out;
}

void AsyncAnalysis::visitIf(Operation *op) {
  const Counts before = committed;
  SmallVector<Counts> counts;
  SmallVector<Block *> ends;
  for (Region &region : op->getRegions()) {
    committed = before;
    if (!region.empty()) {
      walk(region.front());
      ends.push_back(&region.front());
    }
    counts.push_back(committed);
  }
  for (int k = 0; k < Kinds; ++k)
    committed[k] = std::min(counts[0][k], counts[1][k]);
  for (OpResult result : op->getResults()) {
    if (!mayBeNone(result.getType()))
      continue;
    SmallVector<State> yielded;
    for (Block *end : ends)
      yielded.push_back(stateOf(end->getTerminator()->getOperand(result.getResultNumber())));
    states[result] = join(yielded, counts, committed);
  }
}

void AsyncAnalysis::visitLoop(Operation *op, ValueRange inits, Block &body, ValueRange args) {
  const Counts before = committed;
  for (auto [init, arg] : llvm::zip(inits, args))
    if (mayBeNone(arg.getType()))
      states[arg] = stateOf(init);
  // Ages only sink and presence only goes to Maybe, so this ends; in practice after the second round.
  for (bool changed = true; changed;) {
    changed = false;
    committed = before;
    walk(body);
    for (auto [i, arg] : llvm::enumerate(args)) {
      if (!mayBeNone(arg.getType()))
        continue;
      State yielded = stateOf(body.getTerminator()->getOperand(i)), old = states[arg];
      State joined = join({stateOf(inits[i]), old, yielded}, {before, before, committed}, before);
      if (old.presence == joined.presence && old.group == joined.group && old.kind == joined.kind)
        continue;
      states[arg] = joined;
      changed = true;
    }
  }
  committed = before; // the loop may run no trip
  for (auto [result, arg] : llvm::zip(op->getResults(), args))
    if (mayBeNone(arg.getType()))
      states[result] = states[arg];
}

} // namespace dsv3::codegen
