// Set-up, and the schedule: who moves next.
#include "passes/tile/sim/Machine.h"

using namespace mlir;

namespace dsv3::tile::sim {
namespace {

constexpr int64_t kAlign = 1024; // every buffer at a multiple: offsets then swizzle like addresses

int64_t alignTo(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

/// Arrivals that free a group: given, or every warp (warpgroup) of its roles.
unsigned freeCount(KernelOp kernel, RingAttr ring, FreeAttr group) {
  if (group.getCount() > 0)
    return unsigned(group.getCount());
  unsigned n = 0;
  for (FlatSymbolRefAttr name : group.getRoles()) {
    RoleOp role = kernel.getRole(name.getValue());
    const unsigned each = role.getProducer() || ring.getArrive() == Arrive::Warpgroup ? 1 : 4;
    n += unsigned(role.getProducer() ? 1 : role.getWarpgroups()) * each;
  }
  return n;
}

} // namespace

VectorClock Agent::joined() const {
  VectorClock all = clock.front();
  for (const VectorClock &c : clock)
    all.join(c);
  return all;
}

VectorClock Agent::agreed() const {
  VectorClock all = clock.front();
  for (const VectorClock &c : clock)
    all.meet(c);
  return all;
}

void Agent::learn(const VectorClock &when) {
  for (VectorClock &c : clock)
    c.join(when);
}

Machine::Machine(KernelOp kernel, llvm::MutableArrayRef<SimArgument> args, const SimOptions &options, int64_t cta, Tables &tables,
                 Findings &findings, ClusterBoard *board)
    : kernel(kernel), args(args), options(options), cta(cta), tables(tables), findings(findings), board(board), memory(0),
      random(options.seed * 1000003 + uint64_t(cta)) {}

SimValue Machine::get(Agent &agent, Value v) {
  auto it = agent.values.find(v);
  return it != agent.values.end() ? it->second : setup.values[v];
}

std::vector<int64_t> Machine::numbers(Agent &agent, llvm::ArrayRef<OpFoldResult> list) {
  std::vector<int64_t> out;
  for (OpFoldResult v : list)
    out.push_back(isa<Value>(v) ? int64_t(number(agent, cast<Value>(v))) : cast<IntegerAttr>(cast<Attribute>(v)).getInt());
  return out;
}

/// Makes rings and buffers, in the order of the kernel's ops.
Status Machine::prepare() {
  int64_t size = 0;
  auto place = [&](int64_t bytes) {
    size = alignTo(size, kAlign);
    const int64_t at = size;
    size += bytes;
    return at;
  };
  for (Operation &op : kernel.getBody().front()) {
    if (auto ringOp = dyn_cast<RingOp>(op)) {
      Ring ring;
      ring.op = ringOp;
      ring.attr = ringOp.getRing();
      for (unsigned i = 0; i < ring.attr.getBufs().size(); ++i) {
        ring.bufOffset.push_back(alignTo(ring.stageBytes, kAlign));
        ring.stageBytes = ring.bufOffset.back() + ring.attr.getBuf(i).getBytes();
      }
      ring.stageBytes = alignTo(ring.stageBytes, kAlign);
      const int64_t stages = ring.attr.getStages() * ring.attr.getLanes();
      ring.base = place(ring.stageBytes * stages);
      const unsigned filling = ring.attr.getFillWarps() ? unsigned(ring.attr.getFillWarps()) : 1;
      ring.firstLine = lines;
      lines += unsigned(stages) * std::max(1u, ring.parts());
      for (int64_t s = 0; s < stages; ++s) {
        for (unsigned p = 0; p < ring.parts(); ++p)
          ring.full.emplace_back("full barrier", filling);
        for (FreeAttr group : ring.attr.getFree())
          ring.free.emplace_back("free barrier", freeCount(kernel, ring.attr, group));
      }
      ring.acquired.resize(ring.free.size());
      ring.released.resize(ring.free.size());
      setup.values[ringOp.getResult()] = RingRef{unsigned(rings.size())};
      rings.push_back(std::move(ring));
    } else if (auto alloc = dyn_cast<AllocOp>(op)) {
      Buffer buffer;
      buffer.type = alloc.getBuf().getType();
      buffer.byte = place(buffer.type.getBytes());
      setup.values[alloc.getBuf()] = buffer;
    }
  }
  memory = SharedMemory(alignTo(size, kAlign));
  return {};
}

void Machine::makeAgents() {
  for (RoleOp role : kernel.getBody().front().getOps<RoleOp>()) {
    const unsigned copies = role.getProducer() ? 1 : unsigned(role.getWarpgroups());
    for (unsigned g = 0; g < copies; ++g) {
      Agent agent;
      agent.index = unsigned(agents.size());
      agent.role = role;
      agent.group = g;
      agent.producer = role.getProducer();
      agent.name = role.getName().str() + (copies > 1 ? "[" + std::to_string(g) + "]" : "");
      for (unsigned w = 0; w < (agent.producer ? 1u : 4u); ++w) {
        agent.line.push_back(newLine());
        agent.clock.emplace_back();
      }
      agent.tensorLine = newLine();
      agent.storeLine = newLine();
      if (Value index = role.getIndex())
        agent.values[index] = double(g);
      Block &body = role.getBody().front();
      agent.frames.push_back({role, &body, body.begin()});
      agents.push_back(std::move(agent));
    }
  }
  block.members = unsigned(agents.size());
  mmas.resize(agents.size());
  puts.resize(agents.size());
  // Even seeds starve somebody: an agent, the copies, the tensor cores or the bulk stores.
  if (options.seed != 0 && options.seed % 2 == 0)
    slow = random() % (agents.size() + 3);
}

Status Machine::runSetup() {
  setup.name = "setup";
  setup.line.push_back(newLine());
  setup.clock.emplace_back();
  for (auto [i, arg] : llvm::enumerate(kernel.getBody().front().getArguments()))
    setup.values[arg] = args[i].data ? SimValue(ArgumentRef{unsigned(i)}) : SimValue(args[i].number);
  for (Operation &op : kernel.getBody().front()) {
    if (isa<RoleOp, RingOp, AllocOp>(op))
      continue;
    Result<Step> step = interpret(*this, setup, &op);
    if (!step)
      return step.error();
  }
  return {};
}

/// Runs an agent up to its next event that others can see.
Status Machine::stepAgent(Agent &agent, bool &moved) {
  moved = false;
  while (!agent.ended) {
    Frame &frame = agent.frames.back();
    Operation *op = frame.next == frame.block->end() ? nullptr : &*frame.next;
    Result<Step> step = op ? interpret(*this, agent, op) : leaveBlock(*this, agent);
    if (!step)
      return step.error();
    if (*step == Step::Blocked)
      return {};
    if (*step == Step::Visible || isa_and_nonnull<FillOp>(op))
      note(agent, op);
    if (op && !agent.inFlight.empty())
      checkRegisters(agent, op);
    agent.progress = 0;
    moved = true;
    if (*step == Step::Moved)
      continue;
    ++agent.frames.back().next;
    if (*step == Step::Visible)
      return {};
  }
  return {};
}

/// Picks one of those who can move. Nobody: `moved` stays false.
Status Machine::stepSomething(bool &moved) {
  moved = false;
  const size_t n = agents.size();
  struct Choice { size_t who, index; };
  std::vector<Choice> choices;
  for (Agent &a : agents)
    if (!a.ended)
      choices.push_back({a.index, a.index});
  for (size_t i = 0; i < copies.size(); ++i)
    choices.push_back({n, i});
  for (size_t i = 0; i < n; ++i) {
    if (!mmas[i].empty())
      choices.push_back({n + 1, i});
    if (!puts[i].empty())
      choices.push_back({n + 2, i});
  }
  while (!choices.empty()) {
    size_t pick = options.seed == 0 ? turn++ % choices.size() : random() % choices.size();
    if (choices[pick].who == slow && choices.size() > 1 && random() % 10 != 0)
      continue;
    const Choice c = choices[pick];
    if (c.who >= n) {
      c.who == n ? land(c.index) : c.who == n + 1 ? multiply(agents[c.index]) : drain(agents[c.index]);
      moved = true;
      return {};
    }
    if (Status s = stepAgent(agents[c.index], moved); !s || moved)
      return s;
    choices.erase(choices.begin() + int64_t(pick));
  }
  return {};
}

Status Machine::run() {
  if (Status s = prepare(); !s)
    return s;
  if (Status s = runSetup(); !s)
    return s;
  makeAgents();
  bool moved = true;
  while (moved) {
    if (Status s = stepSomething(moved); !s)
      return s;
    if (++stepCount > options.maxSteps)
      return unsupportedError("the simulation of kernel '" + kernel.getName().str() + "' did not end within " +
                              std::to_string(options.maxSteps) + " steps");
    if (findings.all().size() >= options.maxFindings)
      return {};
  }
  if (llvm::any_of(agents, [](Agent &a) { return !a.ended; }))
    reportDeadlock();
  else
    checkEnd();
  return {};
}

} // namespace dsv3::tile::sim
