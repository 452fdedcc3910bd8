// One CTA in motion: memory, rings, gates, the roles' warpgroups, and the engines that work late.
#pragma once

#include "passes/tile/Simulator.h"
#include "passes/tile/sim/Barrier.h"
#include "passes/tile/sim/Memory.h"
#include "passes/tile/sim/Tables.h"
#include "passes/tile/sim/Values.h"

#include "dialects/tile/TileDialect.h"

#include "llvm/ADT/DenseMap.h"

#include <deque>
#include <map>
#include <random>
#include <tuple>

namespace dsv3::tile::sim {

/// A ring: `stages` x `lanes` stages, each with its full and free barriers.
struct Ring {
  RingOp op;
  RingAttr attr;
  std::vector<int64_t> bufOffset; ///< of each buffer in a stage
  int64_t base = 0, stageBytes = 0;
  ClockId firstLine = 0;          ///< lines of the copies that land on each full barrier
  std::vector<Mbarrier> full;     ///< [lane][stage][part]
  std::vector<Mbarrier> free;     ///< [lane][stage][group]
  std::vector<uint64_t> acquired; ///< turns that somebody took over to fill, like `free`
  std::vector<std::vector<std::pair<unsigned, uint64_t>>> released; ///< (agent, last turn + 1), like `free`

  unsigned stage(const Slot &s) const { return unsigned(s.turn % uint64_t(attr.getStages())); }
  uint64_t phase(const Slot &s) const { return s.turn / uint64_t(attr.getStages()); }
  unsigned parts() const { return unsigned(attr.getParts()); }
  unsigned groups() const { return unsigned(attr.getFree().size()); }
  unsigned stageIndex(const Slot &s) const { return s.lane * unsigned(attr.getStages()) + stage(s); }
  unsigned fullIndex(const Slot &s, unsigned part) const { return stageIndex(s) * parts() + part; }
  unsigned freeIndex(const Slot &s, unsigned group) const { return stageIndex(s) * groups() + group; }
  int64_t stageByte(const Slot &s) const { return base + stageBytes * stageIndex(s); }
};

/// A named barrier: `members` warpgroups make a phase.
struct Gate {
  GateOp op;
  unsigned members = 0;
  std::vector<unsigned> here; ///< agents that arrived in this phase
  uint64_t done = 0;
  VectorClock gathering, visible;
};

/// A copy on its way: the bytes change when it lands.
struct CopyJob {
  Operation *op = nullptr;
  std::vector<std::pair<int64_t, double>> elements; ///< bit in shared memory, value: read when it was issued
  Type element;
  int64_t bytes = 0;
  Mbarrier *barrier = nullptr;
  VectorClock done;
};

struct MmaJob {
  MmaOp op;
  unsigned agent = 0;
  uint32_t tick = 0;                   ///< on the agent's tensor core line
  std::shared_ptr<MmaJob> before;      ///< whose accumulator it adds to, or null
  std::optional<FragValue> initial;    ///< or numbers that it adds to
  std::optional<FragValue> registersA;
  std::vector<Buffer> a, b;            ///< pieces along k
  std::vector<Buffer> reads;           ///< all that it reads of shared memory
  bool done = false;
  FragValue result;
};

struct PutJob {
  PutOp op;
  unsigned agent = 0;
  uint32_t tick = 0;
  Buffer source;
  unsigned target = 0; ///< argument
  std::vector<int64_t> at;
  bool done = false;
};

/// What an op that enters a region left behind, to go on when the region yields.
struct Frame {
  Operation *owner = nullptr;
  Block *block = nullptr;
  Block::iterator next;
  double iv = 0, end = 0, step = 1; ///< of loops; foreach: item number and count
  uint64_t count = 0;               ///< trips so far
};

/// A warpgroup of a role (the producer: one warp), and where it is.
struct Agent {
  unsigned index = 0;
  std::string name;
  RoleOp role;
  unsigned group = 0; ///< which warpgroup of its role
  bool producer = false;
  std::vector<ClockId> line;       ///< of each warp
  std::vector<VectorClock> clock;  ///< of each warp
  ClockId tensorLine = 0, storeLine = 0;
  uint32_t mmas = 0, puts = 0;     ///< issued
  uint64_t clusterSums = 0;        ///< done
  uint64_t rowReductions = 0;      ///< done
  llvm::DenseMap<Value, SimValue> values;
  std::vector<Frame> frames;
  unsigned progress = 0;           ///< pieces of the current op that are over (an op that blocks is tried again)
  uint64_t meeting = 0;            ///< phase of the gate at which it waits
  bool ended = false;
  std::string waiting;             ///< for what, when the last try blocked
  std::vector<std::shared_ptr<MmaJob>> inFlight; ///< not awaited yet

  unsigned warps() const { return unsigned(line.size()); }
  VectorClock joined() const; ///< what any of its warps knows
  VectorClock agreed() const; ///< what all of its warps know
  void learn(const VectorClock &when);
};

/// Where an item list comes from, and its items for this CTA.
struct Work {
  Operation *op = nullptr;
  std::vector<std::vector<double>> items;
};

/// What the blocks of a cluster give each other. Blocks run one after the other, so a cluster runs twice: first every
/// block puts down what it gives, which must not depend on what it gets, then every block also gets.
struct ClusterBoard {
  bool first = true;
  std::map<std::pair<unsigned, uint64_t>, std::vector<FragValue>> given; ///< by agent and how many sums it did before: of each rank
};

class Machine {
public:
  Machine(KernelOp kernel, llvm::MutableArrayRef<SimArgument> args, const SimOptions &options, int64_t cta, Tables &tables,
          Findings &findings, ClusterBoard *board = nullptr);

  /// Runs to the end, a deadlock, or the step limit. An error is something this simulator cannot run; what the kernel
  /// does wrong goes to the findings.
  Status run();
  uint64_t steps() const { return stepCount; }

  // ---- what the semantics of ops (Interpret*.cpp) work on
  KernelOp kernel;
  llvm::MutableArrayRef<SimArgument> args;
  const SimOptions &options;
  const int64_t cta;
  Tables &tables;
  Findings &findings;
  ClusterBoard *const board; ///< null without a cluster
  SharedMemory memory;
  Agent setup; ///< runs the kernel's own ops before the roles start
  std::deque<Agent> agents;
  std::deque<Ring> rings;
  std::deque<Gate> gates;
  std::vector<Work> works;
  Gate block;  ///< `sync cta`
  /// What warpgroups gave to a reduction along rows, by role and group of them, and how many they did before.
  struct RowReduction {
    std::vector<std::optional<FragValue>> given;
    VectorClock clock;
  };
  std::map<std::tuple<Operation *, unsigned, uint64_t>, RowReduction> rowReductions;
  std::deque<CopyJob> copies;                            ///< land in any order
  std::vector<std::deque<std::shared_ptr<MmaJob>>> mmas; ///< per agent, in order
  std::vector<std::deque<std::shared_ptr<PutJob>>> puts; ///< per agent, in order

  SimValue get(Agent &agent, Value v);
  double number(Agent &agent, Value v) { return std::get<double>(get(agent, v)); }
  /// Values and constants; dynamic ones are looked up.
  std::vector<int64_t> numbers(Agent &agent, llvm::ArrayRef<OpFoldResult> list);
  int64_t number(Agent &agent, OpFoldResult v) { return numbers(agent, {v}).front(); }
  ClockId newLine() { return lines++; }

  /// One access of shared memory that races with an earlier one becomes a finding.
  void reportHazard(const Agent &agent, Operation *op, const Hazard &hazard, bool wrote, bool asyncRead, bool peeked);
  void report(Check check, Operation *where, std::string message, Operation *other = nullptr, std::string note = "");
  /// Remembers an event for the trace of a finding.
  void note(const Agent &agent, Operation *op);
  /// Name of a place in a message: "ring 'kv' stage 2".
  std::string nameOf(const Ring &ring, const Slot &slot) const;

private:
  Status prepare();
  Status runSetup();
  void makeAgents();
  Status stepAgent(Agent &agent, bool &moved);
  void land(size_t copy);
  void multiply(Agent &agent);
  void drain(Agent &agent);
  Status stepSomething(bool &moved);
  void checkRegisters(const Agent &agent, Operation *op);
  void reportDeadlock();
  void checkEnd();
  void checkRing(const Ring &ring);

  ClockId lines = 0;
  std::mt19937_64 random;
  uint64_t stepCount = 0, turn = 0;
  size_t slow = ~size_t(0); ///< the participant that is starved in this run
  std::deque<std::string> trace;
};

/// What became of an op that was tried.
enum class Step {
  Quiet,   ///< done, nobody else can tell
  Visible, ///< done, others may have been waiting for it
  Blocked, ///< not done; to be tried again
  Moved,   ///< entered or left a region: the position is already the next one
};
/// Runs one op of an agent. `agent.waiting` says for what, if it blocked.
Result<Step> interpret(Machine &m, Agent &agent, Operation *op);
/// Called at the end of a block that has no terminator (role, fill).
Result<Step> leaveBlock(Machine &m, Agent &agent);

// The groups of ops; nullopt: not one of theirs.
using MaybeStep = std::optional<Result<Step>>;
MaybeStep interpretControl(Machine &m, Agent &agent, Operation *op);
MaybeStep interpretElementwise(Machine &m, Agent &agent, Operation *op);
MaybeStep interpretFragment(Machine &m, Agent &agent, Operation *op);
MaybeStep interpretMemory(Machine &m, Agent &agent, Operation *op);
MaybeStep interpretGlobal(Machine &m, Agent &agent, Operation *op);
MaybeStep interpretSync(Machine &m, Agent &agent, Operation *op);
MaybeStep interpretMma(Machine &m, Agent &agent, Operation *op);

/// Reads a whole buffer as numbers, row-major.
std::vector<double> readNumbers(Machine &m, const Buffer &buffer);
/// Notes that every byte of a buffer is read by an engine (tensor core, bulk store), which sees what `past` knows.
void readByEngine(Machine &m, const Agent &agent, Operation *op, const Buffer &buffer, const Touch &touch, const VectorClock &past);
/// Waits for the full barrier of a slot's part; true when it is over.
bool tryFull(Machine &m, Agent &agent, Operation *op, Ring &ring, const Slot &slot, unsigned part);
/// Parts of a slot that hold the columns of a group (all for -1), in the order of loading.
std::vector<unsigned> partsOf(const Ring &ring, int64_t group);
Buffer stageBuffer(const Ring &ring, const Slot &slot, unsigned index);

} // namespace dsv3::tile::sim
