// Shared memory: views, loads, stores, and copies into it.
#include "passes/tile/sim/Machine.h"
#include "passes/tile/sim/Numbers.h"

using namespace mlir;

namespace dsv3::tile::sim {
namespace {

constexpr int64_t kGranule = SharedMemory::kGranule;

Buffer bufferOf(Machine &m, Agent &agent, Value v) { return std::get<Buffer>(m.get(agent, v)); }

SimValue view(Machine &m, Agent &agent, ViewOp op) {
  Buffer buffer = bufferOf(m, agent, op.getSource());
  std::vector<int64_t> coords = m.numbers(agent, op.getMixedCoords());
  coords.resize(buffer.type.getShape().size());
  buffer.byte += buffer.type.getSmem().byte(coords);
  buffer.type = cast<BufType>(op.getResult().getType());
  return buffer;
}

/// Every warp of the mask is a line of its own; each has one event per op.
std::vector<Touch> touches(Agent &agent, Operation *op) {
  std::vector<Touch> out;
  for (unsigned w = 0; w < agent.warps(); ++w)
    out.push_back({agent.line[w], agent.clock[w].advance(agent.line[w]), op});
  return out;
}

/// Columns of a buffer as rows, each 16 of them in the order that the op describes.
SimValue loadPaired(Machine &m, Agent &agent, LoadOp op) {
  const Buffer buffer = bufferOf(m, agent, op.getSource());
  const std::vector<Touch> touch = touches(agent, op);
  const std::vector<int64_t> &bits = m.tables.bits(buffer.type);
  const int64_t first = *op.getPaired(), rows = buffer.type.getShape()[0], cols = buffer.type.getShape()[1];
  std::vector<double> data(64 * rows);
  llvm::SmallDenseSet<std::pair<int64_t, unsigned>> seen;
  for (int64_t r = 0; r < 64; ++r)
    for (int64_t c = 0; c < rows; ++c) {
      const int64_t column = first + r / 16 * 16 + 2 * (r % 8) + r % 16 / 8, bit = bits[c * cols + column];
      const int64_t granule = (buffer.byte + bit / 8) / kGranule;
      data[r * rows + c] = decode(buffer.type.getElement(), m.memory.data() + buffer.byte, bit);
      if (seen.insert({granule, unsigned(r / 16)}).second)
        if (auto hazard = m.memory.read(granule, touch[r / 16], agent.clock[r / 16]))
          m.reportHazard(agent, op, *hazard, false, false, buffer.peeked);
    }
  return FragValue{{64, rows}, std::make_shared<const std::vector<double>>(std::move(data))};
}

SimValue load(Machine &m, Agent &agent, LoadOp op) {
  if (op.getPaired())
    return loadPaired(m, agent, op);
  const Buffer buffer = bufferOf(m, agent, op.getSource());
  const int64_t phase = buffer.byte % kGranule, first = buffer.byte / kGranule;
  const std::vector<Touch> touch = touches(agent, op);
  auto read = [&](int64_t granule, unsigned warps) {
    for (unsigned w = 0; w < agent.warps(); ++w)
      if (warps & (1u << w))
        if (auto hazard = m.memory.read(granule, touch[w], agent.clock[w]))
          m.reportHazard(agent, op, *hazard, false, false, buffer.peeked);
  };
  auto type = dyn_cast<RankedTensorType>(op.getResult().getType());
  if (!type) { // one element, by every thread
    read(first, 0xf);
    return decode(buffer.type.getElement(), m.memory.data() + buffer.byte, 0);
  }
  for (const GranuleUse &use : m.tables.uses(buffer.type, type, op.getTrans(), false, phase))
    read(first + use.granule, use.warps);
  std::vector<double> data = readNumbers(m, buffer);
  if (op.getTrans() && type.getRank() == 2) {
    const int64_t rows = type.getShape()[0], cols = type.getShape()[1];
    std::vector<double> turned(data.size());
    for (int64_t i = 0; i < int64_t(data.size()); ++i)
      turned[i] = data[transposed(i, rows, cols)];
    data = std::move(turned);
  }
  return FragValue{type.getShape().vec(), std::make_shared<const std::vector<double>>(std::move(data))};
}

void store(Machine &m, Agent &agent, StoreOp op) {
  const Buffer buffer = bufferOf(m, agent, op.getDest());
  const FragValue value = std::get<FragValue>(m.get(agent, op.getValue()));
  auto type = cast<RankedTensorType>(op.getValue().getType());
  const int64_t phase = buffer.byte % kGranule, first = buffer.byte / kGranule;
  const std::vector<Touch> touch = touches(agent, op);
  for (const GranuleUse &use : m.tables.uses(buffer.type, type, op.getTrans(), true, phase))
    for (unsigned w = 0; w < agent.warps(); ++w)
      if (use.warps & (1u << w))
        if (auto hazard = m.memory.write(first + use.granule, touch[w], agent.clock[w]))
          m.reportHazard(agent, op, *hazard, true, false, buffer.peeked);
  const std::vector<int64_t> &bits = m.tables.bits(buffer.type);
  const int64_t cols = type.getShape().back(), rows = int64_t(bits.size()) / cols;
  for (int64_t i = 0; i < int64_t(bits.size()); ++i)
    encode(buffer.type.getElement(), (*value.data)[i], m.memory.data() + buffer.byte,
           bits[op.getTrans() ? transposed(i, rows, cols) : i]);
}

/// Which warp clears what is the lowering's choice: all must be ordered behind the readers, and whoever reads next must
/// be ordered behind all.
void zero(Machine &m, Agent &agent, ZeroOp op) {
  const Buffer buffer = bufferOf(m, agent, op.getDest());
  const std::vector<int64_t> rows = m.numbers(agent, op.getMixedRows());
  const std::vector<int64_t> &bits = m.tables.bits(buffer.type);
  const int64_t cols = buffer.type.getShape()[1];
  const int64_t from = std::max<int64_t>(rows[0], 0), to = std::min(rows[1], buffer.type.getShape()[0]);
  const VectorClock past = agent.agreed();
  const std::vector<Touch> touch = touches(agent, op);
  llvm::SmallDenseSet<int64_t> granules;
  for (int64_t i = from * cols; i < to * cols; ++i) {
    encode(buffer.type.getElement(), 0, m.memory.data() + buffer.byte, bits[i]);
    granules.insert((buffer.byte + bits[i] / 8) / kGranule);
  }
  for (int64_t granule : granules)
    if (auto hazard = m.memory.write(granule, touch[granule % agent.warps()], past))
      m.reportHazard(agent, op, *hazard, true, false, buffer.peeked);
}

// ---- copies

/// Where a copy completes: the full barrier of a slot's part.
struct Landing {
  Ring *ring;
  Slot slot;
  unsigned part;
};

CopyJob startJob(Machine &m, Agent &agent, Operation *op, const Landing &at, Type element) {
  const unsigned index = at.ring->fullIndex(at.slot, at.part);
  CopyJob job;
  job.op = op;
  job.element = element;
  job.barrier = &at.ring->full[index];
  job.done = agent.joined();
  job.done.set(at.ring->firstLine + index, uint32_t(at.ring->phase(at.slot)) + 1);
  return job;
}

/// Announces the bytes, notes the writes, and lets the copy fly.
void launch(Machine &m, Agent &agent, Operation *op, const Landing &at, CopyJob job, int64_t width) {
  const unsigned index = at.ring->fullIndex(at.slot, at.part);
  const Touch touch{at.ring->firstLine + index, uint32_t(at.ring->phase(at.slot)) + 1, op};
  const VectorClock past = agent.agreed();
  llvm::SmallDenseSet<int64_t> granules;
  for (auto [bit, value] : job.elements) {
    granules.insert(bit / 8 / kGranule);
    m.memory.poison(bit / 8, std::max<int64_t>(1, width / 8));
  }
  for (int64_t granule : granules)
    if (auto hazard = m.memory.write(granule, touch, past))
      m.reportHazard(agent, op, *hazard, true, false, false);
  if (job.barrier->phasesDone() != at.ring->phase(at.slot))
    m.report(Check::Count, op, agent.name + " announces bytes for " + m.nameOf(*at.ring, at.slot) + ", but the barrier collects turn " +
             std::to_string(job.barrier->phasesDone()));
  job.bytes = int64_t(job.elements.size()) * width / 8;
  job.barrier->expect(job.bytes);
  m.copies.push_back(std::move(job));
}

Landing landingOf(Machine &m, Agent &agent, Operation *op, Value slotValue = {}) {
  if (!slotValue)
    slotValue = op->getParentOfType<FillOp>().getSlot();
  const Slot slot = std::get<Slot>(m.get(agent, slotValue));
  return {&m.rings[slot.ring], slot, 0};
}

/// Columns of the buffer's type that are copied: all, or those of the fill's group.
std::vector<std::pair<int64_t, int64_t>> rangesOf(const Buffer &dest) {
  if (!dest.columns.empty())
    return dest.columns;
  return {{0, dest.type.getShape().back()}};
}

/// A tensor map: one job per box, zeros beyond the edges.
void copyBoxes(Machine &m, Agent &agent, CopyOp op) {
  auto tma = cast<TmaType>(op.getSource().getType());
  const SimArgument &source = m.args[std::get<ArgumentRef>(m.get(agent, op.getSource())).index];
  const Buffer dest = bufferOf(m, agent, op.getDest());
  const std::vector<int64_t> start = m.numbers(agent, op.getMixedCoords());
  const std::vector<int64_t> &bits = m.tables.bits(dest.type);
  const int64_t rank = tma.getRank(), width = dest.type.getElementBits(), cols = dest.type.getShape().back();
  std::vector<int64_t> shape(rank - dest.type.getRank(), 1); // leading dims that the buffer lacks
  llvm::append_range(shape, dest.type.getShape());
  Landing at = landingOf(m, agent, op, op.getOn());
  const bool byPart = !op.getOn() && at.ring->attr.getLanded() == Landed::Cols;
  const int64_t firstColumn = rangesOf(dest).front().first;
  std::map<std::vector<int64_t>, CopyJob> boxes;
  std::vector<int64_t> coord(rank), box(rank);
  int64_t i = -1;
  do {
    ++i;
    const int64_t column = i % cols;
    if (llvm::none_of(rangesOf(dest), [&](auto r) { return column >= r.first && column < r.second; }))
      continue;
    int64_t index = 0;
    bool inside = true;
    for (int64_t d = 0; d < rank; ++d) {
      // `*` is the part's own place; a number is where the first column of the part comes from.
      int64_t place = coord[d] + (start[d] == kStar ? 0 : start[d] - (d == rank - 1 ? firstColumn : 0));
      inside &= place >= 0 && place < source.shape[d];
      index = index * source.shape[d] + place;
      box[d] = coord[d] / tma.getBox()[d];
    }
    const double value = inside ? decode(tma.getElement(), source.data, index * width) : 0;
    auto it = boxes.find(box);
    if (it == boxes.end()) {
      if (byPart)
        at.part = unsigned(column / at.ring->attr.getLandedCols());
      it = boxes.emplace(box, startJob(m, agent, op, at, tma.getElement())).first;
    }
    it->second.elements.push_back({dest.byte * 8 + bits[i], value});
  } while (step(coord, shape));
  for (auto &[key, job] : boxes) {
    if (byPart)
      at.part = unsigned(key.back() * tma.getBox().back() / at.ring->attr.getLandedCols());
    launch(m, agent, op, at, std::move(job), width);
  }
}

/// A pointer: contiguous bytes, as they are.
Status copyBytes(Machine &m, Agent &agent, CopyOp op) {
  auto gmem = cast<GmemType>(op.getSource().getType());
  const SimArgument &source = m.args[std::get<ArgumentRef>(m.get(agent, op.getSource())).index];
  const Buffer dest = bufferOf(m, agent, op.getDest());
  std::vector<int64_t> start = m.numbers(agent, op.getMixedCoords());
  start.resize(source.shape.size());
  int64_t index = 0;
  for (size_t d = 0; d < start.size(); ++d)
    index = index * source.shape[d] + start[d];
  const int64_t width = gmem.getElement().getIntOrFloatBitWidth(), bytes = dest.type.getBytes();
  if (index * width % 128 || bytes % 16)
    return unsupportedError("expected a bulk copy to start and end at a multiple of 16 bytes, got start " +
                            std::to_string(index * width / 8) + " and size " + std::to_string(bytes));
  if (index < 0 || index * width / 8 + bytes > product(source.shape) * width / 8)
    return unsupportedError("expected a bulk copy within its tensor, got bytes " + std::to_string(index * width / 8) + " to " +
                            std::to_string(index * width / 8 + bytes) + " of " + std::to_string(product(source.shape) * width / 8));
  const Landing at = landingOf(m, agent, op, op.getOn());
  Type byte = IntegerType::get(op.getContext(), 8);
  CopyJob job = startJob(m, agent, op, at, byte);
  for (int64_t b = 0; b < bytes; ++b)
    job.elements.push_back({(dest.byte + b) * 8, decode(byte, source.data + index * width / 8, b * 8)});
  launch(m, agent, op, at, std::move(job), 8);
  return {};
}

/// Picked rows: eight of them a job, as threads copy them on their own.
Status gatherRows(Machine &m, Agent &agent, GatherOp op) {
  auto gmem = cast<GmemType>(op.getSource().getType());
  const SimArgument &source = m.args[std::get<ArgumentRef>(m.get(agent, op.getSource())).index];
  const Buffer dest = bufferOf(m, agent, op.getDest());
  const FragValue ids = std::get<FragValue>(m.get(agent, op.getIds()));
  const int64_t first = int64_t(m.number(agent, op.getColumn())), exist = int64_t(m.number(agent, op.getRows()));
  const int64_t rows = dest.type.getShape()[0], cols = dest.type.getShape()[1], width = dest.type.getElementBits();
  const std::vector<int64_t> &bits = m.tables.bits(dest.type);
  if (first < 0 || first * width % 128)
    return unsupportedError("expected a gather to start at a multiple of 16 bytes, got column " + std::to_string(first));
  const Landing at = landingOf(m, agent, op);
  for (int64_t row = 0; row < rows; row += 8) {
    CopyJob job = startJob(m, agent, op, at, gmem.getElement());
    for (int64_t r = row; r < std::min(row + 8, rows); ++r) {
      const int64_t id = int64_t((*ids.data)[size_t(r)]);
      if (r < exist && (id < 0 || id >= source.shape[0]))
        return unsupportedError("a gather leaves its matrix: expected a row below " + std::to_string(source.shape[0]) + ", got " + std::to_string(id));
      for (int64_t c = 0; c < cols; ++c) {
        const bool inside = r < exist && first + c < source.shape[1];
        job.elements.push_back({dest.byte * 8 + bits[size_t(r * cols + c)],
                                inside ? decode(gmem.getElement(), source.data, (id * source.shape[1] + first + c) * width) : 0});
      }
    }
    launch(m, agent, op, at, std::move(job), width);
  }
  return {};
}

} // namespace

void readByEngine(Machine &m, const Agent &agent, Operation *op, const Buffer &buffer, const Touch &touch, const VectorClock &past) {
  for (int64_t granule : m.tables.granules(buffer.type, buffer.byte % kGranule))
    if (auto hazard = m.memory.read(buffer.byte / kGranule + granule, touch, past))
      m.reportHazard(agent, op, *hazard, false, true, buffer.peeked);
}

MaybeStep interpretMemory(Machine &m, Agent &agent, Operation *op) {
  if (auto o = dyn_cast<ViewOp>(op)) {
    SimValue value = view(m, agent, o);
    agent.values[o.getResult()] = value;
    return Step::Quiet;
  }
  if (auto o = dyn_cast<LoadOp>(op)) {
    SimValue value = load(m, agent, o);
    agent.values[o.getResult()] = value;
    return Step::Visible;
  }
  if (auto o = dyn_cast<StoreOp>(op)) {
    store(m, agent, o);
    return Step::Visible;
  }
  if (auto o = dyn_cast<ZeroOp>(op)) {
    zero(m, agent, o);
    return Step::Visible;
  }
  if (auto o = dyn_cast<GatherOp>(op)) {
    if (Status s = gatherRows(m, agent, o); !s)
      return MaybeStep(s.error());
    return Step::Visible;
  }
  auto copy = dyn_cast<CopyOp>(op);
  if (!copy)
    return std::nullopt;
  if (isa<TmaType>(copy.getSource().getType()))
    copyBoxes(m, agent, copy);
  else if (Status s = copyBytes(m, agent, copy); !s)
    return MaybeStep(s.error());
  return Step::Visible;
}

} // namespace dsv3::tile::sim
