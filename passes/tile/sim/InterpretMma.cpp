// Matrix products and bulk stores: what starts them and what waits for them.
#include "passes/tile/sim/Machine.h"

using namespace mlir;

namespace dsv3::tile::sim {
namespace {

/// Columns [from, to) of a buffer of rank 2, as a buffer.
Buffer columns(const Buffer &buffer, int64_t from, int64_t to) {
  Buffer part = buffer;
  part.byte += buffer.type.getSmem().byte({0, from});
  part.type = BufType::get(buffer.type.getContext(), {buffer.type.getShape()[0], to - from}, buffer.type.getElement(), buffer.type.getLayout());
  return part;
}

/// The operands of a product whose `b` is a slot: column pieces in the order of loading, as they land. False: not yet.
Result<bool> streamOperands(Machine &m, Agent &agent, MmaOp op, MmaJob &job) {
  if (op.getForm() == Form::Nn || !isa<BufType>(op.getA().getType()))
    return unsupportedError("not simulated: mma over a slot with form nn or a fragment as a");
  const Slot slot = std::get<Slot>(m.get(agent, op.getB()));
  Ring &ring = m.rings[slot.ring];
  const int64_t group = op.getGroup() ? int64_t(*op.getGroup()) : -1;
  const std::vector<unsigned> parts = partsOf(ring, group);
  for (; agent.progress < parts.size(); ++agent.progress)
    if (!tryFull(m, agent, op, ring, slot, parts[agent.progress]))
      return false;
  const Buffer a = std::get<Buffer>(m.get(agent, op.getA()));
  const Buffer b = stageBuffer(ring, slot, 0);
  for (auto [from, to] : ring.attr.getGroupCols(group)) {
    job.a.push_back(columns(a, from, to));
    job.b.push_back(columns(b, from, to));
  }
  return true;
}

Result<Step> mma(Machine &m, Agent &agent, MmaOp op) {
  auto job = std::make_shared<MmaJob>();
  job->op = op;
  job->agent = agent.index;
  if (isa<SlotType>(op.getB().getType())) {
    Result<bool> landed = streamOperands(m, agent, op, *job);
    if (!landed)
      return landed.error();
    if (!*landed)
      return Step::Blocked;
  } else {
    SimValue a = m.get(agent, op.getA());
    if (auto *fragment = std::get_if<FragValue>(&a))
      job->registersA = *fragment;
    else
      job->a = {std::get<Buffer>(a)};
    job->b = {std::get<Buffer>(m.get(agent, op.getB()))};
  }
  SimValue into = m.get(agent, op.getAcc());
  if (auto *acc = std::get_if<Accumulator>(&into))
    job->before = acc->job;
  else if (auto *numbers = std::get_if<FragValue>(&into))
    job->initial = *numbers;
  job->tick = ++agent.mmas;
  job->reads = job->a;
  job->reads.insert(job->reads.end(), job->b.begin(), job->b.end());
  const VectorClock past = agent.agreed();
  for (const Buffer &b : job->reads)
    readByEngine(m, agent, op, b, {agent.tensorLine, job->tick, op}, past);
  agent.inFlight.push_back(job);
  m.mmas[agent.index].push_back(job);
  agent.values[op.getResult()] = Accumulator{job};
  agent.values[op.getToken()] = Token{job, nullptr};
  return Step::Visible;
}

/// wait_group: this product and all before it are over.
Step awaitMma(Agent &agent, const std::shared_ptr<MmaJob> &job) {
  if (!job->done) {
    agent.waiting = "the tensor core";
    return Step::Blocked;
  }
  for (VectorClock &c : agent.clock)
    c.set(agent.tensorLine, std::max(c[agent.tensorLine], job->tick));
  llvm::erase_if(agent.inFlight, [&](auto &j) { return j->tick <= job->tick; });
  return Step::Visible;
}

Step awaitPut(Agent &agent, const std::shared_ptr<PutJob> &job) {
  if (!job->done) {
    agent.waiting = "a bulk store";
    return Step::Blocked;
  }
  VectorClock &leader = agent.clock.front(); // nobody else waits
  leader.set(agent.storeLine, std::max(leader[agent.storeLine], job->tick));
  return Step::Visible;
}

Step await(Machine &m, Agent &agent, AwaitOp op) {
  SimValue source = m.get(agent, op.getSource());
  if (std::holds_alternative<NotYet>(source))
    return Step::Quiet;
  if (auto *acc = std::get_if<Accumulator>(&source)) {
    const Step step = awaitMma(agent, acc->job);
    if (step != Step::Blocked)
      agent.values[op.getResult()] = acc->job->result;
    return step;
  }
  const Token token = std::get<Token>(source);
  return token.mma ? awaitMma(agent, token.mma) : awaitPut(agent, token.put);
}

Step put(Machine &m, Agent &agent, PutOp op) {
  auto job = std::make_shared<PutJob>();
  job->op = op;
  job->agent = agent.index;
  job->source = std::get<Buffer>(m.get(agent, op.getSource()));
  job->target = std::get<ArgumentRef>(m.get(agent, op.getDest())).index;
  job->at = m.numbers(agent, op.getMixedCoords());
  job->tick = ++agent.puts;
  readByEngine(m, agent, op, job->source, {agent.storeLine, job->tick, op}, agent.clock.front());
  m.puts[agent.index].push_back(job);
  agent.values[op.getToken()] = Token{nullptr, job};
  return Step::Visible;
}

} // namespace

MaybeStep interpretMma(Machine &m, Agent &agent, Operation *op) {
  if (auto o = dyn_cast<MmaOp>(op))
    return mma(m, agent, o);
  if (auto o = dyn_cast<AwaitOp>(op))
    return await(m, agent, o);
  if (auto o = dyn_cast<PutOp>(op))
    return put(m, agent, o);
  return std::nullopt;
}

} // namespace dsv3::tile::sim
