// Global memory: work lists, reads, writes.
#include "passes/tile/sim/Machine.h"
#include "passes/tile/sim/Numbers.h"

using namespace mlir;

namespace dsv3::tile::sim {
namespace {

SimArgument &memoryOf(Machine &m, Agent &agent, Value v) { return m.args[std::get<ArgumentRef>(m.get(agent, v)).index]; }

// ---- work

/// Items ctaid, ctaid + nctaid, ...
SimValue share(Machine &m, Operation *op, std::vector<std::vector<double>> all) {
  Work work;
  work.op = op;
  for (int64_t i = m.cta; i < int64_t(all.size()); i += m.options.ctas)
    work.items.push_back(std::move(all[i]));
  m.works.push_back(std::move(work));
  return WorkRef{unsigned(m.works.size() - 1)};
}

SimValue raster(Machine &m, Agent &agent, RasterOp op) {
  const std::vector<int64_t> extents = m.numbers(agent, op.getMixedExtents());
  llvm::ArrayRef<int64_t> tile = op.getTile();
  std::vector<int64_t> tiles;
  for (auto [extent, t] : llvm::zip(extents, tile))
    tiles.push_back((extent + t - 1) / t);
  const size_t rank = tiles.size();
  const int64_t cols = tiles.back(), rows = rank > 1 ? tiles[rank - 2] : 1, group = int64_t(op.getGroup());
  std::vector<std::vector<double>> items;
  for (int64_t i = 0; i < product(tiles); ++i) {
    const int64_t t = i % (rows * cols), row0 = t / (group * cols) * group, band = std::min(group, rows - row0);
    const int64_t r = t % (group * cols);
    std::vector<int64_t> at(rank);
    at[rank - 1] = r / band;
    if (rank > 1)
      at[rank - 2] = row0 + r % band;
    int64_t outer = i / (rows * cols);
    for (size_t d = rank >= 2 ? rank - 2 : 0; d-- > 0; outer /= tiles[d])
      at[d] = outer % tiles[d];
    std::vector<double> item;
    for (size_t d = 0; d < rank; ++d)
      item.push_back(double(at[d] * tile[d]));
    items.push_back(std::move(item));
  }
  return share(m, op, std::move(items));
}

SimValue list(Machine &m, Agent &agent, ListOp op) {
  const SimArgument &items = memoryOf(m, agent, op.getItems()), &parts = memoryOf(m, agent, op.getParts());
  const Type element = cast<GmemType>(op.getItems().getType()).getElement(), partElement = cast<GmemType>(op.getParts().getType()).getElement();
  const int64_t lanes = int64_t(m.number(agent, op.getLanes())), part = m.cta / lanes, columns = items.shape[1];
  auto number = [](const SimArgument &a, Type t, int64_t i) { return decode(t, a.data, i * t.getIntOrFloatBitWidth()); };
  Work work;
  work.op = op;
  if (part + 1 < product(parts.shape))
    for (int64_t i = int64_t(number(parts, partElement, part)); i < number(parts, partElement, part + 1); ++i) {
      std::vector<double> item = {double(m.cta % lanes)};
      for (int64_t c = 0; c < columns; ++c)
        item.push_back(number(items, element, i * columns + c));
      work.items.push_back(std::move(item));
    }
  m.works.push_back(std::move(work));
  return WorkRef{unsigned(m.works.size() - 1)};
}

SimValue groups(Machine &m, Agent &agent, GroupsOp op) {
  const SimArgument &offsets = memoryOf(m, agent, op.getOffsets());
  const Type element = cast<GmemType>(op.getOffsets().getType()).getElement();
  auto offset = [&](int64_t i) { return int64_t(decode(element, offsets.data, i * element.getIntOrFloatBitWidth())); };
  const int64_t experts = int64_t(m.number(agent, op.getExperts())), cols = int64_t(m.number(agent, op.getCols()));
  const int64_t rows = int64_t(op.getRows()), tile = int64_t(op.getTile());
  const bool ranked = op.getFields().size() == 5;
  const int64_t parts = ranked ? int64_t(m.kernel.getCluster()) : 1;
  std::vector<std::vector<double>> items;
  for (int64_t e = 0; e < experts; ++e)
    for (int64_t n = 0; n < cols; n += tile)
      for (int64_t r = offset(e); r < offset(e + 1); r += rows)
        for (int64_t part = 0; part < parts; ++part) {
          items.push_back({double(e), double(std::min(rows, offset(e + 1) - r)), double(r), double(n)});
          if (ranked)
            items.back().push_back(double(part));
        }
  return share(m, op, std::move(items));
}

// ---- elements

/// The part of a tensor that a read or write names.
struct Part {
  SimArgument *memory;
  Type element;
  std::vector<int64_t> start;  ///< of the whole tensor
  std::vector<int64_t> shape;  ///< of the part, leading dims 1
  int64_t rows = INT64_MAX, cols = INT64_MAX; ///< how many exist along the last two dims
  bool trans = false;
};

template <typename Op> Part partOf(Machine &m, Agent &agent, Op op, Value global, Type value) {
  Part part;
  part.memory = &memoryOf(m, agent, global);
  part.element = cast<GmemType>(global.getType()).getElement();
  part.start = m.numbers(agent, op.getMixedCoords());
  part.start.resize(part.memory->shape.size());
  std::vector<int64_t> inner;
  if (auto tensor = dyn_cast<RankedTensorType>(value))
    inner = tensor.getShape().vec();
  part.trans = op.getTrans();
  if (part.trans && inner.size() == 1)
    inner.push_back(1); // a column
  else if (part.trans)
    std::reverse(inner.begin(), inner.end());
  part.shape.assign(part.memory->shape.size() - inner.size(), 1);
  part.shape.insert(part.shape.end(), inner.begin(), inner.end());
  if (op.getRows())
    part.rows = int64_t(m.number(agent, op.getRows()));
  if (op.getCols())
    part.cols = int64_t(m.number(agent, op.getCols()));
  return part;
}

/// Calls `visit(element of the value, bit of the tensor)` for what exists.
Status forEach(Operation *op, const Part &part, llvm::function_ref<void(int64_t, int64_t)> visit) {
  const size_t rank = part.shape.size();
  std::vector<int64_t> coord(rank);
  const int64_t width = part.element.getIntOrFloatBitWidth();
  int64_t i = -1;
  do {
    ++i;
    if (coord[rank - 1] >= part.cols || (rank > 1 && coord[rank - 2] >= part.rows))
      continue;
    int64_t index = 0;
    for (size_t d = 0; d < rank; ++d) {
      const int64_t at = part.start[d] + coord[d];
      if (at < 0 || at >= part.memory->shape[d])
        return unsupportedError("'" + op->getName().getStringRef().str() + "' leaves its tensor: expected dim " + std::to_string(d) +
                                " below " + std::to_string(part.memory->shape[d]) + ", got " + std::to_string(at));
      index = index * part.memory->shape[d] + at;
    }
    const int64_t rows = rank > 1 ? part.shape[rank - 2] : 1, cols = part.shape[rank - 1];
    visit(part.trans ? (i % cols) * rows + i / cols : i, index * width);
  } while (step(coord, part.shape));
  return {};
}

Result<Step> read(Machine &m, Agent &agent, ReadOp op) {
  const Part part = partOf(m, agent, op, op.getSource(), op.getResult().getType());
  std::vector<double> data(product(part.shape));
  Status s = forEach(op, part, [&](int64_t i, int64_t bit) { data[i] = decode(part.element, part.memory->data, bit); });
  if (!s)
    return s.error();
  if (auto tensor = dyn_cast<RankedTensorType>(op.getResult().getType()))
    agent.values[op.getResult()] = FragValue{tensor.getShape().vec(), std::make_shared<const std::vector<double>>(std::move(data))};
  else
    agent.values[op.getResult()] = data.front();
  return Step::Quiet;
}

Result<Step> lookup(Machine &m, Agent &agent, LookupOp op) {
  const SimArgument &source = memoryOf(m, agent, op.getSource());
  const Type element = cast<GmemType>(op.getSource().getType()).getElement();
  const FragValue ids = std::get<FragValue>(m.get(agent, op.getIds()));
  const int64_t column = int64_t(m.number(agent, op.getColumn()));
  std::vector<double> data;
  for (double id : *ids.data) {
    if (id < 0 || id >= double(source.shape[0]) || column < 0 || column >= source.shape[1])
      return unsupportedError("'tile.lookup' leaves its matrix: expected a place inside " + std::to_string(source.shape[0]) + "x" +
                              std::to_string(source.shape[1]) + ", got [" + std::to_string(int64_t(id)) + ", " + std::to_string(column) + "]");
    data.push_back(decode(element, source.data, (int64_t(id) * source.shape[1] + column) * element.getIntOrFloatBitWidth()));
  }
  agent.values[op.getResult()] = FragValue{ids.shape, std::make_shared<const std::vector<double>>(std::move(data))};
  return Step::Quiet;
}

Result<Step> write(Machine &m, Agent &agent, WriteOp op) {
  const Part part = partOf(m, agent, op, op.getDest(), op.getValue().getType());
  SimValue value = m.get(agent, op.getValue());
  const int64_t columns = part.shape.size() > 1 ? part.shape[part.shape.size() - 2] : 1; // of a transposed fragment
  Status s = forEach(op, part, [&](int64_t i, int64_t bit) {
    if (op.getPaired()) { // row 2r + h of each 16 of the tensor is row r + 8h of the fragment
      const int64_t at = i / columns;
      i += (at / 16 * 16 + at % 16 / 2 + at % 2 * 8 - at) * columns;
    }
    const double *number = std::get_if<double>(&value);
    encode(part.element, number ? *number : (*std::get<FragValue>(value).data)[i], part.memory->data, bit);
  });
  if (!s)
    return s.error();
  return Step::Quiet;
}

} // namespace

MaybeStep interpretGlobal(Machine &m, Agent &agent, Operation *op) {
  auto finish = [&](SimValue value) -> MaybeStep {
    agent.values[op->getResult(0)] = std::move(value);
    return Step::Quiet;
  };
  if (auto o = dyn_cast<RasterOp>(op))
    return finish(raster(m, agent, o));
  if (auto o = dyn_cast<ListOp>(op))
    return finish(list(m, agent, o));
  if (auto o = dyn_cast<GroupsOp>(op))
    return finish(groups(m, agent, o));
  if (auto o = dyn_cast<CountOp>(op)) {
    const SimArgument &scalars = memoryOf(m, agent, o.getScalars());
    return finish(decode(IntegerType::get(o.getContext(), 64), scalars.data, int64_t(o.getIndex()) * 64));
  }
  if (auto o = dyn_cast<ReadOp>(op))
    return read(m, agent, o);
  if (auto o = dyn_cast<LookupOp>(op))
    return lookup(m, agent, o);
  if (auto o = dyn_cast<WriteOp>(op))
    return write(m, agent, o);
  return std::nullopt;
}

} // namespace dsv3::tile::sim
