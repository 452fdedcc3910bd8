// Rings, slots, gates, barriers.
#include "passes/tile/sim/Machine.h"

#include <numeric>

using namespace mlir;

namespace dsv3::tile::sim {
namespace {

int64_t groupOf(std::optional<uint64_t> group) { return group ? int64_t(*group) : -1; }

std::vector<unsigned> groupsOf(const Ring &ring, int64_t group) {
  if (group >= 0)
    return {unsigned(group)};
  std::vector<unsigned> all(ring.groups());
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

Ring &ringOf(Machine &m, const Slot &slot) { return m.rings[slot.ring]; }

/// A wait that passed: by the right turn, or by one that looks the same?
void checkTurn(Machine &m, Agent &agent, Operation *op, const Ring &ring, const Slot &slot, const Mbarrier &barrier, uint64_t wanted) {
  if (barrier.phasesDone() != wanted)
    m.report(Check::Aliasing, op, agent.name + " waits at the " + barrier.name + " of " + m.nameOf(ring, slot) + " for phase " +
             std::to_string(wanted) + ", and phase " + std::to_string(barrier.phasesDone()) + " of the same parity lets it pass",
             barrier.lastArrival, "last arrival");
}

/// Waits until the groups are free for this turn; true when they all are.
bool tryFree(Machine &m, Agent &agent, Operation *op, const Slot &slot, int64_t group) {
  Ring &ring = ringOf(m, slot);
  const std::vector<unsigned> groups = groupsOf(ring, group);
  for (; agent.progress < groups.size(); ++agent.progress) {
    const unsigned index = ring.freeIndex(slot, groups[agent.progress]);
    const Mbarrier &barrier = ring.free[index];
    // The complement: the barrier's phase -1 counts as over, so the first turn goes through.
    if (!barrier.passes((ring.phase(slot) & 1) ^ 1)) {
      agent.waiting = m.nameOf(ring, slot) + " to be free (" + std::to_string(barrier.arrivals()) + " of " +
                      std::to_string(barrier.expectedArrivals()) + " arrivals)";
      return false;
    }
    checkTurn(m, agent, op, ring, slot, barrier, ring.phase(slot));
    agent.learn(barrier.clock());
    ring.acquired[index] = std::max(ring.acquired[index], ring.phase(slot) + 1);
  }
  return true;
}

void giveBuffers(Machine &m, Agent &agent, Operation *op, const Slot &slot, bool peeked) {
  const Ring &ring = ringOf(m, slot);
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    Buffer buffer = stageBuffer(ring, slot, unsigned(i));
    buffer.peeked = peeked;
    agent.values[result] = buffer;
  }
}

Step wait(Machine &m, Agent &agent, WaitOp op) {
  const Slot slot = std::get<Slot>(m.get(agent, op.getSlot()));
  Ring &ring = ringOf(m, slot);
  const int64_t group = groupOf(op.getGroup());
  if (op.getBarrier() == Barrier::Free) {
    if (!tryFree(m, agent, op, slot, group))
      return Step::Blocked;
  } else {
    const std::vector<unsigned> parts = partsOf(ring, group);
    for (; agent.progress < parts.size(); ++agent.progress)
      if (!tryFull(m, agent, op, ring, slot, parts[agent.progress]))
        return Step::Blocked;
  }
  giveBuffers(m, agent, op, slot, false);
  return Step::Visible;
}

/// A matrix product of this agent that still reads these columns of the slot, or null.
Operation *readerInFlight(Machine &m, Agent &agent, const Slot &slot, unsigned group) {
  const Ring &ring = ringOf(m, slot);
  for (const std::shared_ptr<MmaJob> &job : agent.inFlight)
    for (const Buffer &b : job->reads) {
      if (b.ring != int(slot.ring) || b.turn != slot.turn)
        continue;
      llvm::SmallVector<std::pair<int64_t, int64_t>> cols = ring.attr.getGroupCols(group);
      const Buffer stage = stageBuffer(ring, slot, 0);
      if (ring.groups() == 1)
        return job->op;
      // By address: the reader's view may start anywhere.
      const std::vector<int64_t> &read = m.tables.bits(b.type), &all = m.tables.bits(stage.type);
      llvm::SmallDenseSet<int64_t> granules;
      for (int64_t bit : read)
        granules.insert((b.byte + bit / 8) / SharedMemory::kGranule);
      const int64_t width = stage.type.getShape().back();
      for (size_t i = 0; i < all.size(); ++i)
        for (auto [from, to] : cols)
          if (int64_t(i) % width >= from && int64_t(i) % width < to &&
              granules.contains((stage.byte + all[i] / 8) / SharedMemory::kGranule))
            return job->op;
    }
  return nullptr;
}

void releaseFree(Machine &m, Agent &agent, Operation *op, const Slot &slot, unsigned group) {
  Ring &ring = ringOf(m, slot);
  const unsigned index = ring.freeIndex(slot, group);
  Mbarrier &barrier = ring.free[index];
  auto &released = ring.released[index];
  auto mine = llvm::find_if(released, [&](auto &r) { return r.first == agent.index; });
  if (mine == released.end())
    mine = released.insert(released.end(), {agent.index, 0});
  if (mine->second > ring.phase(slot))
    m.report(Check::Release, op, agent.name + " releases " + m.nameOf(ring, slot) + " twice");
  else if (barrier.phasesDone() != ring.phase(slot))
    m.report(Check::Count, op, agent.name + " releases " + m.nameOf(ring, slot) + ", but the barrier collects turn " +
             std::to_string(barrier.phasesDone()), barrier.lastArrival, "last arrival");
  mine->second = std::max(mine->second, ring.phase(slot) + 1);
  if (Operation *reader = readerInFlight(m, agent, slot, group))
    m.report(Check::Release, op, agent.name + " releases " + m.nameOf(ring, slot) + " while an mma in flight reads it", reader, "this mma");
  const bool leaderOnly = ring.attr.getArrive() == Arrive::Warpgroup;
  barrier.arrive(leaderOnly ? 1 : agent.warps(), leaderOnly ? agent.clock.front() : agent.joined(), op);
  if (barrier.overrun())
    m.report(Check::Count, op, "more than " + std::to_string(barrier.expectedArrivals()) + " arrivals in one phase of the free barrier of " + m.nameOf(ring, slot));
}

Step release(Machine &m, Agent &agent, ReleaseOp op) {
  SimValue value = m.get(agent, op.getSlot());
  if (std::holds_alternative<NotYet>(value))
    return Step::Quiet;
  const Slot slot = std::get<Slot>(value);
  Ring &ring = ringOf(m, slot);
  if (op.getBarrier() == Barrier::Free) {
    for (unsigned group : groupsOf(ring, groupOf(op.getGroup())))
      releaseFree(m, agent, op, slot, group);
    return Step::Visible;
  }
  Mbarrier &barrier = ring.full[ring.fullIndex(slot, 0)];
  if (barrier.phasesDone() != ring.phase(slot))
    m.report(Check::Count, op, agent.name + " says that " + m.nameOf(ring, slot) + " is full, but the barrier collects turn " +
             std::to_string(barrier.phasesDone()), barrier.lastArrival, "last arrival");
  barrier.arrive(agent.warps(), agent.joined(), op);
  if (barrier.overrun())
    m.report(Check::Count, op, "more than " + std::to_string(barrier.expectedArrivals()) + " arrivals in one phase of the full barrier of " + m.nameOf(ring, slot));
  return Step::Visible;
}

/// Arrives once; true if that ended the phase.
void arriveAt(Machine &m, Agent &agent, Operation *op, Gate &gate) {
  if (llvm::is_contained(gate.here, agent.index)) {
    m.report(Check::Gate, op, agent.name + " arrives at the gate twice, before the others came once", gate.op, "the gate");
    return;
  }
  gate.here.push_back(agent.index);
  gate.gathering.join(agent.joined());
  if (gate.here.size() < gate.members)
    return;
  gate.here.clear();
  ++gate.done;
  gate.visible.join(gate.gathering);
}

Step meet(Machine &m, Agent &agent, Operation *op, Gate &gate, const char *what) {
  if (agent.progress == 0) {
    agent.meeting = gate.done;
    arriveAt(m, agent, op, gate);
    agent.progress = 1;
  }
  if (gate.done <= agent.meeting) {
    agent.waiting = std::string(what) + " (" + std::to_string(gate.here.size()) + " of " + std::to_string(gate.members) + " warpgroups are there)";
    return Step::Blocked;
  }
  agent.learn(gate.visible);
  return Step::Visible;
}

Step sync(Machine &m, Agent &agent, SyncOp op) {
  if (op.getScope() == Scope::Cta || op.getScope() == Scope::Cluster) // clusters of more than one are refused
    return meet(m, agent, op, m.block, "the barrier of the block");
  if (op.getScope() == Scope::Warpgroup)
    agent.learn(agent.joined());
  return Step::Quiet;
}

Step fill(Machine &m, Agent &agent, FillOp op) {
  const Slot slot = std::get<Slot>(m.get(agent, op.getSlot()));
  const int64_t group = groupOf(op.getGroup());
  if (!tryFree(m, agent, op, slot, group))
    return Step::Blocked;
  const Ring &ring = ringOf(m, slot);
  for (auto [i, arg] : llvm::enumerate(op.getBody().getArguments())) {
    Buffer buffer = stageBuffer(ring, slot, unsigned(i));
    if (ring.groups() > 1 && group >= 0)
      for (auto range : ring.attr.getGroupCols(group))
        buffer.columns.push_back(range);
    agent.values[arg] = buffer;
  }
  ++agent.frames.back().next;
  Frame frame;
  frame.owner = op;
  frame.block = &op.getBody().front();
  frame.next = frame.block->begin();
  agent.frames.push_back(frame);
  return Step::Moved;
}

SimValue next(Machine &m, Agent &agent, NextOp op) {
  SimValue from = m.get(agent, op.getFrom());
  if (auto *slot = std::get_if<Slot>(&from))
    return Slot{slot->ring, slot->lane, slot->turn + 1};
  const unsigned lane = op.getLane() ? unsigned(m.number(agent, op.getLane())) : 0;
  return Slot{std::get<RingRef>(from).index, lane, 0};
}

SimValue makeGate(Machine &m, GateOp op) {
  Gate gate;
  gate.op = op;
  for (llvm::StringRef name : {op.getA(), op.getB()})
    gate.members += unsigned(m.kernel.getRole(name).getWarpgroups());
  m.gates.push_back(gate);
  return GateRef{unsigned(m.gates.size() - 1)};
}

} // namespace

Buffer stageBuffer(const Ring &ring, const Slot &slot, unsigned index) {
  Buffer buffer;
  buffer.type = ring.attr.getBuf(index);
  buffer.byte = ring.stageByte(slot) + ring.bufOffset[index];
  buffer.ring = int(slot.ring);
  buffer.turn = slot.turn;
  return buffer;
}

std::vector<unsigned> partsOf(const Ring &ring, int64_t group) {
  std::vector<unsigned> parts;
  if (ring.attr.getLanded() != Landed::Cols) {
    if (ring.parts())
      parts.push_back(0);
    return parts;
  }
  for (auto [from, to] : ring.attr.getGroupCols(group))
    for (int64_t c = from; c < to; c += ring.attr.getLandedCols())
      parts.push_back(unsigned(c / ring.attr.getLandedCols()));
  return parts;
}

bool tryFull(Machine &m, Agent &agent, Operation *op, Ring &ring, const Slot &slot, unsigned part) {
  const Mbarrier &barrier = ring.full[ring.fullIndex(slot, part)];
  if (!barrier.passes(ring.phase(slot) & 1)) {
    agent.waiting = m.nameOf(ring, slot) + (ring.parts() > 1 ? " part " + std::to_string(part) : "") + " to land";
    return false;
  }
  checkTurn(m, agent, op, ring, slot, barrier, ring.phase(slot) + 1);
  agent.learn(barrier.clock());
  return true;
}

Result<Step> leaveBlock(Machine &m, Agent &agent) {
  Operation *owner = agent.frames.back().owner;
  agent.frames.pop_back();
  if (isa<RoleOp>(owner)) {
    agent.ended = true;
    return Step::Moved;
  }
  // All copies of the fill are issued: the announcement is complete.
  auto op = cast<FillOp>(owner);
  const Slot slot = std::get<Slot>(m.get(agent, op.getSlot()));
  Ring &ring = ringOf(m, slot);
  for (unsigned part : partsOf(ring, groupOf(op.getGroup())))
    ring.full[ring.fullIndex(slot, part)].arrive(1, agent.joined(), op);
  return Step::Moved;
}

MaybeStep interpretSync(Machine &m, Agent &agent, Operation *op) {
  if (auto o = dyn_cast<WaitOp>(op))
    return wait(m, agent, o);
  if (auto o = dyn_cast<ReleaseOp>(op))
    return release(m, agent, o);
  if (auto o = dyn_cast<FillOp>(op))
    return fill(m, agent, o);
  if (auto o = dyn_cast<SyncOp>(op))
    return sync(m, agent, o);
  if (auto o = dyn_cast<MeetOp>(op))
    return meet(m, agent, o, m.gates[std::get<GateRef>(m.get(agent, o.getGate())).index], "a gate");
  if (auto o = dyn_cast<SignalOp>(op)) {
    arriveAt(m, agent, o, m.gates[std::get<GateRef>(m.get(agent, o.getGate())).index]);
    return Step::Visible;
  }
  if (auto o = dyn_cast<PeekOp>(op)) {
    giveBuffers(m, agent, o, std::get<Slot>(m.get(agent, o.getSlot())), true);
    return Step::Quiet;
  }
  if (auto o = dyn_cast<NextOp>(op)) {
    agent.values[o.getResult()] = next(m, agent, o);
    return Step::Quiet;
  }
  if (auto o = dyn_cast<GateOp>(op)) {
    agent.values[o.getGate()] = makeGate(m, o);
    return Step::Quiet;
  }
  if (isa<PdlOp>(op))
    return Step::Quiet;
  return std::nullopt;
}

} // namespace dsv3::tile::sim
