// From what went wrong to a sentence about it.
#include "passes/tile/sim/Machine.h"

using namespace mlir;

namespace dsv3::tile::sim {
namespace {

constexpr size_t kTrace = 12; // events that a finding shows

std::string lineOf(Operation *op) {
  if (auto loc = op->getLoc()->findInstanceOf<FileLineColLoc>())
    return "line " + std::to_string(loc.getLine());
  return "an unknown line";
}

} // namespace

void Machine::note(const Agent &agent, Operation *op) {
  trace.push_back(agent.name + ": " + op->getName().getStringRef().str() + " at " + lineOf(op));
  if (trace.size() > kTrace)
    trace.pop_front();
}

std::string Machine::nameOf(const Ring &ring, const Slot &slot) const {
  std::string text = "ring";
  if (!ring.attr.getName().empty())
    text += " '" + ring.attr.getName().str() + "'";
  else if (rings.size() > 1)
    text += " " + std::to_string(&ring - &rings.front());
  if (ring.attr.getLanes() > 1)
    text += " lane " + std::to_string(slot.lane);
  return text + " stage " + std::to_string(ring.stage(slot)) + " turn " + std::to_string(ring.phase(slot));
}

void Machine::report(Check check, Operation *where, std::string message, Operation *other, std::string noteText) {
  Finding f{check, std::move(message), where->getLoc(), std::nullopt, std::move(noteText), {trace.begin(), trace.end()}};
  if (other)
    f.other = other->getLoc();
  findings.add(std::move(f));
}

void Machine::reportHazard(const Agent &agent, Operation *op, const Hazard &hazard, bool wrote, bool asyncRead, bool peeked) {
  Operation *other = hazard.earlier.op;
  const bool otherIsAsync = isa<CopyOp, GatherOp, MmaOp, PutOp>(other);
  const Agent *owner = nullptr; // of the earlier access, if a warp made it
  for (const Agent &a : agents)
    if (llvm::is_contained(a.line, hazard.earlier.line))
      owner = &a;
  const std::string what = std::string(hazard.earlierWrote ? "written" : "read") + " here";
  const std::string place = "byte " + std::to_string(hazard.byte) + " of shared memory";
  if (asyncRead && hazard.earlierWrote && owner == &agent && !otherIsAsync)
    return report(Check::Proxy, op, agent.name + " reads " + place + " by an engine, but not all warps are known to have stored: expected a 'sync' between", other, what);
  if (!wrote && peeked && hazard.earlierWrote)
    return report(Check::Unordered, op, agent.name + " reads " + place + " of a peeked buffer, which no wait, gate or own fill orders", other, what);
  const std::string doing = wrote ? (hazard.earlierWrote ? " overwrites " : " overwrites, while it may still be read, ")
                                  : " reads, before it is known to be there, ";
  report(Check::Race, op, agent.name + doing + place, other, what);
}

/// A register operand gets new values in the registers from which an mma of an earlier trip may still read.
void Machine::checkRegisters(const Agent &agent, Operation *op) {
  for (const std::shared_ptr<MmaJob> &job : agent.inFlight)
    if (job->registersA && job->op.getOperation() != op && job->op.getA().getDefiningOp() == op)
      report(Check::Race, op, agent.name + " overwrites registers that an mma in flight reads: expected an 'await' of it before", job->op, "this mma");
}

/// Everybody waits: who for what, and who could have helped.
void Machine::reportDeadlock() {
  std::string text = "deadlock:";
  Operation *where = nullptr, *other = nullptr;
  bool atGate = false;
  for (const Agent &a : agents) {
    text += (&a == &agents.front() ? " " : "; ") + a.name + (a.ended ? " has ended" : " waits for " + a.waiting);
    if (a.ended)
      continue;
    Operation *at = a.frames.empty() ? a.role : &*a.frames.back().next;
    (where ? other : where) = at;
    atGate |= isa<MeetOp>(at);
  }
  // A gate whose other side has left, or waits at another gate, can never open.
  const bool gateOnly = atGate && llvm::all_of(agents, [](const Agent &a) {
    return a.ended || a.producer || isa<MeetOp>(&*a.frames.back().next);
  });
  report(gateOnly ? Check::Gate : Check::Deadlock, where, text, other, other ? "and here" : "");
}

void Machine::checkRing(const Ring &ring) {
  for (unsigned lane = 0; lane < ring.attr.getLanes(); ++lane)
    for (unsigned stage = 0; stage < ring.attr.getStages(); ++stage) {
      Slot slot{0, lane, stage};
      for (unsigned part = 0; part < ring.parts(); ++part)
        if (const Mbarrier &b = ring.full[ring.fullIndex(slot, part)]; !b.idle())
          report(Check::Count, b.lastArrival ? b.lastArrival : ring.op,
                 "the kernel ends with " + std::to_string(b.arrivals()) + " of " + std::to_string(b.expectedArrivals()) +
                     " arrivals at the full barrier of " + nameOf(ring, slot));
      for (unsigned group = 0; group < ring.groups(); ++group) {
        const Mbarrier &b = ring.free[ring.freeIndex(slot, group)];
        if (!b.idle())
          report(Check::Count, b.lastArrival ? b.lastArrival : ring.op,
                 "the kernel ends with " + std::to_string(b.arrivals()) + " of " + std::to_string(b.expectedArrivals()) +
                     " arrivals at a free barrier of " + nameOf(ring, slot));
        else if (b.phasesDone() < ring.acquired[ring.freeIndex(slot, group)])
          report(Check::Release, ring.op, nameOf(ring, slot) + " was filled " +
                 std::to_string(ring.acquired[ring.freeIndex(slot, group)]) + " times, but released " +
                 std::to_string(b.phasesDone()) + " times");
      }
    }
}

/// What must hold when all roles have ended.
void Machine::checkEnd() {
  for (const Ring &ring : rings)
    checkRing(ring);
  for (const Gate &gate : gates)
    if (!gate.here.empty())
      report(Check::Gate, gate.op, "the kernel ends with " + std::to_string(gate.here.size()) + " of " +
             std::to_string(gate.members) + " warpgroups at this gate");
  for (const Agent &a : agents) {
    for (const std::shared_ptr<MmaJob> &job : a.inFlight)
      report(Check::Race, job->op, a.name + " ends while this mma is in flight");
    if (a.puts > a.clock.front()[a.storeLine])
      report(Check::Race, a.role, a.name + " ends while a bulk store may still read shared memory: expected an 'await' of the last 'put'");
  }
}

} // namespace dsv3::tile::sim
