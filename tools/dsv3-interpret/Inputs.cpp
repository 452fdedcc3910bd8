#include "Inputs.h"

#include "dialects/kernel/KernelDialect.h"
#include "runtime/core/Dummy.h"

#include <cstdlib>

namespace dsv3::interpret {

using reference::kPageTokens;

int64_t Step::tokens() const {
  int64_t n = 0;
  for (const Rows &r : rows)
    n += r.end - r.begin;
  return n;
}

//===-- Sequences ---------------------------------------------------------===//

Batch::Batch(const Request &request) : request(request) {
  lengths = request.lengths;
  if (!request.ids.empty()) {
    lengths.clear();
    for (const auto &ids : request.ids)
      lengths.push_back(int64_t(ids.size()));
  }
  int64_t used = 0;
  for (int64_t n : lengths)
    used += (request.past + n + kPageTokens - 1) / kPageTokens;
  numPages = used + 3;
  // Fisher-Yates with the counter-based generator.
  std::vector<int32_t> order(numPages);
  std::iota(order.begin(), order.end(), 0);
  Dummy dummy("pages");
  for (int64_t i = numPages - 1; i > 0; --i)
    std::swap(order[i], order[dummy.word(i) % (i + 1)]);
  auto next = order.begin();
  for (int64_t n : lengths) {
    int64_t count = (request.past + n + kPageTokens - 1) / kPageTokens;
    tables.emplace_back(next, next + count);
    next += count;
  }
}

Step Batch::step(int64_t k) const {
  int64_t chunk = request.decode ? 1 : request.chunk;
  Step step;
  for (int64_t s = 0; s < sequences(); ++s) {
    int64_t begin = chunk ? k * chunk : (k ? lengths[s] : 0), end = chunk ? begin + chunk : lengths[s];
    if (begin < lengths[s])
      step.rows.push_back({s, begin, std::min(end, lengths[s])});
  }
  return step;
}

Step Batch::withNext(const Step &step) const {
  Step out;
  for (Step::Rows r : step.rows) {
    r.end = std::min(r.end, lengths[r.sequence] - 1);
    if (r.begin < r.end)
      out.rows.push_back(r);
  }
  return out;
}

std::shared_ptr<const SeqMeta> Batch::seq(const Step &step) const {
  auto seq = std::make_shared<SeqMeta>();
  for (const Step::Rows &r : step.rows)
    seq->addSequence(request.past + r.begin, r.end - r.begin, tables[r.sequence]);
  return seq;
}

SeqMeta Batch::everything() const {
  SeqMeta seq;
  for (int64_t s = 0; s < sequences(); ++s)
    seq.addSequence(0, request.past + lengths[s], tables[s]);
  return seq;
}

Ids Batch::ids(const Step &step, int64_t ahead, int64_t vocab) const {
  Ids ids({step.tokens()});
  auto *to = ids.data.data();
  for (const Step::Rows &r : step.rows) {
    Dummy dummy("ids." + std::to_string(r.sequence));
    for (int64_t i = r.begin + ahead; i < r.end + ahead; ++i)
      *to++ = request.ids.empty() ? int32_t(dummy.word(i) % vocab) : request.ids[r.sequence][i];
  }
  return ids;
}

//===-- The cache ---------------------------------------------------------===//

template <typename T> Result<std::shared_ptr<Cache<T>>> makeCache(ir::KvType type, const Batch &batch) {
  if (type.getPage() != kPageTokens)
    return unsupportedError("expected a cache of " + std::to_string(kPageTokens) + " tokens per page, got " +
                            std::to_string(type.getPage()));
  Result<Rounding> elem = roundingOf(type.getElem());
  if (!elem)
    return elem.error();
  reference::CacheStorage storage{*elem, {}};
  if (type.getScheme()) {
    Result<reference::QuantScheme> scheme = schemeOf(llvm::cast<ir::BlockedAttr>(type.getScheme()));
    if (!scheme)
      return scheme.error();
    storage.scheme = *scheme;
  }
  std::vector<int64_t> fields{type.getLatent(), type.getRope()};
  auto cache = std::make_shared<Cache<T>>(type.getLayers(), batch.pages(), fields, storage);
  SeqMeta all = batch.everything();
  for (int64_t layer = 0; layer < type.getLayers(); ++layer) {
    std::vector<Array<T>> rows{Array<T>({all.tokens(), fields[0]}), Array<T>({all.tokens(), fields[1]})};
    for (int64_t t = 0; t < all.tokens(); ++t) {
      Dummy dummy("kv." + std::to_string(layer) + "." + std::to_string(all.tokenSeq[t]) + "." +
                  std::to_string(all.tokenPos[t]));
      for (int64_t i = 0; i < fields[0] + fields[1]; ++i)
        (i < fields[0] ? rows[0].row(t)[i] : rows[1].row(t)[i - fields[0]]) = dummy.normal(i);
    }
    if (Status s = kvAppend(*cache, layer, rows, all); !s)
      return s.error();
  }
  return cache;
}

//===-- Arguments ---------------------------------------------------------===//

/// Rows of the table that `ids` index, or 0 when nothing embeds them.
static int64_t vocabOf(mlir::Value ids) {
  for (mlir::Operation *user : ids.getUsers()) {
    mlir::Value table;
    if (auto embed = llvm::dyn_cast<ir::EmbedOp>(user))
      table = embed.getTable();
    if (auto embed = llvm::dyn_cast<kernel::EmbedOp>(user))
      table = embed.getTable();
    if (table)
      return llvm::cast<mlir::RankedTensorType>(table.getType()).getDimSize(0);
  }
  return 0;
}

static std::string argumentText(unsigned i) { return "argument " + std::to_string(i); }

/// Numbers as the user wrote them: "1,2.5,-3".
static Result<std::vector<double>> parseNumbers(unsigned i, const std::string &text) {
  std::vector<double> numbers;
  const char *at = text.c_str();
  while (true) {
    char *end = nullptr;
    numbers.push_back(std::strtod(at, &end));
    if (end == at || (*end && *end != ','))
      return usageError("--arg: expected numbers for " + argumentText(i) + ", got '" + text + "'");
    if (!*end)
      return numbers;
    at = end + 1;
  }
}

template <typename T> static Result<Held<T>> given(unsigned i, mlir::RankedTensorType type, const std::string &text) {
  Result<std::vector<double>> numbers = parseNumbers(i, text);
  if (!numbers)
    return numbers.error();
  int64_t count = int64_t(numbers->size());
  Result<Shape> shape = shapeUnder(type, {count});
  if (!shape || (!type.isDynamicDim(0) && shape->front() != type.getDimSize(0)))
    return usageError("--arg: expected numbers for shape " +
                      reference::toString(Shape(type.getShape().begin(), type.getShape().end())) + " of " +
                      argumentText(i) + ", got " + std::to_string(count));
  if (type.getElementType().isInteger(32))
    return hold<T>(Ids(*shape, std::vector<int32_t>(numbers->begin(), numbers->end())));
  Result<Rounding> elem = roundingOf(type.getElementType());
  if (!elem)
    return elem.error();
  Array<T> value(*shape, std::vector<T>(numbers->begin(), numbers->end()));
  return hold<T>(std::move(roundTo(*elem, value)));
}

/// Drawn numbers. Rows of tokens are a function of the token alone, so that chunks and neighbours change none.
template <typename T>
static Result<Held<T>> drawn(unsigned i, mlir::RankedTensorType type, bool perToken, const Step &step) {
  Result<Rounding> elem = roundingOf(type.getElementType());
  if (!elem)
    return elem.error();
  Shape shape(type.getShape());
  if (perToken)
    shape[0] = step.tokens();
  Array<T> value(shape);
  std::string name = "arg" + std::to_string(i);
  if (!perToken) {
    Dummy dummy(name);
    for (int64_t j = 0; j < value.size(); ++j)
      value.data[j] = dummy.normal(j);
    return hold<T>(std::move(roundTo(*elem, value)));
  }
  int64_t width = shape[0] ? value.size() / shape[0] : 0;
  T *to = value.data.data();
  for (const Step::Rows &r : step.rows) {
    Dummy dummy(name + "." + std::to_string(r.sequence));
    for (int64_t j = r.begin * width; j < r.end * width; ++j)
      *to++ = dummy.normal(j);
  }
  return hold<T>(std::move(roundTo(*elem, value)));
}

template <typename T>
Result<std::vector<Held<T>>> makeArguments(ir::ProgramOp program, const Request &request, const Batch &batch,
                                           const Step &step, std::shared_ptr<Cache<T>> cache, const Held<T> &hidden) {
  std::vector<Held<T>> arguments;
  unsigned count = program.getBody().getNumArguments();
  for (const auto &[index, values] : request.arguments)
    if (index >= count || !llvm::isa<mlir::RankedTensorType>(program.getBody().getArgument(index).getType()))
      return usageError("--arg=" + std::to_string(index) + ": expected a tensor among the " + std::to_string(count) + " arguments of @" + program.getSymName().str());
  for (mlir::BlockArgument argument : program.getBody().getArguments()) {
    unsigned i = argument.getArgNumber();
    llvm::StringRef name = program.getArgName(i);
    auto type = llvm::dyn_cast<mlir::RankedTensorType>(argument.getType());
    if (llvm::isa<ir::SeqType>(argument.getType())) {
      arguments.push_back(batch.seq(step));
    } else if (llvm::isa<ir::KvType>(argument.getType())) {
      arguments.push_back(cache);
    } else if (!type || type.getRank() == 0 || type.getEncoding()) {
      return unsupportedError(argumentText(i) + ": expected a plain tensor, !dsv3.seq or !dsv3.kv");
    } else if (auto it = request.arguments.find(i); it != request.arguments.end()) {
      Result<Held<T>> value = given<T>(i, type, it->second);
      if (!value)
        return value.error();
      arguments.push_back(std::move(*value));
    } else if (int64_t vocab = vocabOf(argument)) {
      arguments.push_back(hold<T>(batch.ids(step, name == "next_ids", vocab)));
    } else if (type.getElementType().isInteger(32)) {
      return usageError(argumentText(i) + ": expected values, --arg=" + std::to_string(i) + "=.., since nothing embeds them");
    } else if ((name == "hidden" || name.empty()) && !std::holds_alternative<std::monostate>(hidden)) {
      arguments.push_back(hidden);
    } else {
      bool perToken = type.isDynamicDim(0) || (program.getTokens() && type.getDimSize(0) == int64_t(*program.getTokens()));
      Result<Held<T>> value = drawn<T>(i, type, perToken, step);
      if (!value)
        return value.error();
      arguments.push_back(std::move(*value));
    }
  }
  return arguments;
}

#define DSV3_INSTANTIATE(T)                                                                                            \
  template Result<std::shared_ptr<Cache<T>>> makeCache(ir::KvType, const Batch &);                                     \
  template Result<std::vector<Held<T>>> makeArguments(ir::ProgramOp, const Request &, const Batch &, const Step &,    \
                                                      std::shared_ptr<Cache<T>>, const Held<T> &);
DSV3_INSTANTIATE(float)
DSV3_INSTANTIATE(double)
#undef DSV3_INSTANTIATE

} // namespace dsv3::interpret
