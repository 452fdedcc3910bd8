// Structure: loops, branches, calls, items; what is around every op.
#include "passes/tile/sim/Machine.h"
#include "passes/tile/sim/Numbers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dsv3::tile::sim {
namespace {

/// Values of `from` become those of `to`. All are read before any is written: a loop may swap them.
void pass(Machine &m, Agent &agent, ValueRange from, ValueRange to) {
  std::vector<SimValue> values;
  for (Value v : from)
    values.push_back(m.get(agent, v));
  for (auto [v, value] : llvm::zip(to, values))
    agent.values[v] = value;
}

Step enter(Agent &agent, Frame frame) {
  ++agent.frames.back().next; // where it goes on afterwards
  frame.next = frame.block->begin();
  agent.frames.push_back(std::move(frame));
  return Step::Moved;
}

Step skip(Machine &m, Agent &agent, ValueRange inits, Operation *op) {
  pass(m, agent, inits, op->getResults());
  return Step::Quiet;
}

/// Sets the arguments of a trip that are not carried.
void startTrip(Machine &m, Agent &agent, Frame &f) {
  f.next = f.block->begin();
  if (auto loop = dyn_cast<LoopOp>(f.owner)) {
    agent.values[loop.getIndex()] = f.iv;
    if (Value fin = loop.getFin())
      agent.values[fin] = double(loop.getPeel() == Peel::First ? f.count == 0 : f.iv + f.step >= f.end);
  } else if (auto loop = dyn_cast<scf::ForOp>(f.owner)) {
    agent.values[loop.getInductionVar()] = f.iv;
  } else if (auto foreach = dyn_cast<ForeachOp>(f.owner)) {
    const unsigned work = std::get<WorkRef>(m.get(agent, foreach.getWork())).index;
    for (auto [arg, field] : llvm::zip(foreach.getFieldArgs(), m.works[work].items[f.count]))
      agent.values[arg] = field;
    agent.values[foreach.getOrdinal()] = double(f.count);
  }
}

Step enterLoop(Machine &m, Agent &agent, Operation *op, Block &body, double from, double to, double by, ValueRange inits,
               ValueRange carried) {
  if (from >= to)
    return skip(m, agent, inits, op);
  Frame f;
  f.owner = op;
  f.block = &body;
  f.iv = from;
  f.end = to;
  f.step = by;
  pass(m, agent, inits, carried);
  startTrip(m, agent, f);
  return enter(agent, f);
}

/// The end of a trip: once more, or the results.
Step finishTrip(Machine &m, Agent &agent, ValueRange yielded, ValueRange carried) {
  Frame &f = agent.frames.back();
  f.iv += f.step;
  ++f.count;
  if (f.iv < f.end) {
    pass(m, agent, yielded, carried);
    startTrip(m, agent, f);
    return Step::Moved;
  }
  pass(m, agent, yielded, f.owner->getResults());
  agent.frames.pop_back();
  return Step::Moved;
}

Step finishRegion(Machine &m, Agent &agent, ValueRange yielded) {
  pass(m, agent, yielded, agent.frames.back().owner->getResults());
  agent.frames.pop_back();
  return Step::Moved;
}

Step leaveYield(Machine &m, Agent &agent, Operation *op) {
  Operation *owner = agent.frames.back().owner;
  if (auto loop = dyn_cast<LoopOp>(owner))
    return finishTrip(m, agent, op->getOperands(), loop.getIterArgs());
  if (auto loop = dyn_cast<scf::ForOp>(owner))
    return finishTrip(m, agent, op->getOperands(), loop.getRegionIterArgs());
  if (auto foreach = dyn_cast<ForeachOp>(owner))
    return finishTrip(m, agent, op->getOperands(), foreach.getIterArgs());
  return finishRegion(m, agent, op->getOperands());
}

Result<Step> enterCall(Machine &m, Agent &agent, func::CallOp call) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  if (!callee || callee.isExternal())
    return unsupportedError("expected a function with a body for the call of '" + call.getCallee().str() + "'");
  Frame f;
  f.owner = call;
  f.block = &callee.getBody().front();
  pass(m, agent, call.getOperands(), f.block->getArguments());
  return enter(agent, f);
}

Step enterIf(Machine &m, Agent &agent, scf::IfOp op) {
  const bool taken = m.number(agent, op.getCondition()) != 0;
  if (!taken && !op.elseBlock())
    return Step::Quiet;
  Frame f;
  f.owner = op;
  f.block = taken ? op.thenBlock() : op.elseBlock();
  return enter(agent, f);
}

} // namespace

MaybeStep interpretControl(Machine &m, Agent &agent, Operation *op) {
  if (isa<YieldOp, scf::YieldOp, func::ReturnOp>(op))
    return leaveYield(m, agent, op);
  if (auto loop = dyn_cast<LoopOp>(op)) {
    const auto bounds = m.numbers(agent, {loop.getLower(), loop.getUpper(), loop.getStep()});
    if (loop.getPeel() != Peel::None && bounds[0] >= bounds[1])
      return unsupportedError("expected at least one trip of the peeled loop in kernel '" + m.kernel.getName().str() + "'");
    return enterLoop(m, agent, op, loop.getBody().front(), double(bounds[0]), double(bounds[1]), double(bounds[2]),
                     loop.getInits(), loop.getIterArgs());
  }
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return enterLoop(m, agent, op, *loop.getBody(), m.number(agent, loop.getLowerBound()), m.number(agent, loop.getUpperBound()),
                     m.number(agent, loop.getStep()), loop.getInitArgs(), loop.getRegionIterArgs());
  if (auto foreach = dyn_cast<ForeachOp>(op)) {
    const unsigned work = std::get<WorkRef>(m.get(agent, foreach.getWork())).index;
    return enterLoop(m, agent, op, foreach.getBody().front(), 0, double(m.works[work].items.size()), 1, foreach.getInits(),
                     foreach.getIterArgs());
  }
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return enterIf(m, agent, branch);
  if (auto call = dyn_cast<func::CallOp>(op))
    return enterCall(m, agent, call);
  return std::nullopt;
}

Result<Step> interpret(Machine &m, Agent &agent, Operation *op) {
  for (auto group : {interpretElementwise, interpretControl, interpretFragment, interpretSync, interpretMemory, interpretGlobal,
                     interpretMma})
    if (MaybeStep step = group(m, agent, op))
      return *step;
  return unsupportedError("not simulated: op '" + op->getName().getStringRef().str() + "' in kernel '" + m.kernel.getName().str() + "'");
}

} // namespace dsv3::tile::sim
