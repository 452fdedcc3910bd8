#include "Run.h"

#include "Inputs.h"

#include "runtime/reference/Linear.h"

namespace dsv3::interpret {

namespace {

/// The programs of a request, in the order they run in a step.
struct Plan {
  ir::ProgramOp main;
  ir::ProgramOp head; ///< reads the "hidden" of main; null if main gives logits itself
  ir::ProgramOp mtp;  ///< null if not asked for
};

class Planner {
public:
  Planner(mlir::ModuleOp module, const Request &request) : request(request) {
    for (ir::ProgramOp program : module.getOps<ir::ProgramOp>())
      programs.push_back(program);
  }

  Result<Plan> plan() const {
    if (programs.empty())
      return usageError("expected a module with a dsv3.program, got none");
    if (request.program == "trunk_head")
      return wholeModel();
    if (request.mtp)
      return usageError("--mtp: expected --program=trunk_head, got '" + request.program + "'");
    if (!request.program.empty())
      return single(named(request.program), "expected a program @" + request.program);
    if (request.decode)
      return single(decodeProgram(), "expected a decode program of " + std::to_string(sequences()) + " sequences");
    return single(programs.size() == 1 ? programs[0] : nullptr, "expected --program=NAME, since there are several");
  }

private:
  int64_t sequences() const { return int64_t(request.ids.empty() ? request.lengths.size() : request.ids.size()); }

  Result<Plan> single(ir::ProgramOp program, const std::string &expected) const {
    if (!program)
      return usageError(expected + "; the programs are " + names());
    return Plan{program, nullptr, nullptr};
  }

  Result<Plan> wholeModel() const {
    Plan plan{named("trunk"), named("head"), nullptr};
    if (request.decode && !plan.main)
      plan.main = decodeProgram();
    else if (!plan.main)
      plan.main = ofPhase("score");
    if (!plan.main || (plan.main.getSymName() == "trunk" && !plan.head))
      return usageError("--program=trunk_head: expected programs @trunk and @head, or one of phase score; the programs are " +
                        names());
    if (plan.main.getSymName() != "trunk")
      plan.head = nullptr;
    if (request.mtp && !(plan.mtp = named("mtp")) && !(plan.mtp = ofPhase("mtp")))
      return usageError("--mtp: expected a program @mtp; the programs are " + names());
    return plan;
  }

  ir::ProgramOp named(llvm::StringRef name) const {
    for (ir::ProgramOp program : programs)
      if (program.getSymName() == name)
        return program;
    return nullptr;
  }
  ir::ProgramOp ofPhase(llvm::StringRef phase) const {
    for (ir::ProgramOp program : programs)
      if (program.getPhase() == phase)
        return program;
    return nullptr;
  }
  /// The smallest that holds the sequences.
  ir::ProgramOp decodeProgram() const {
    ir::ProgramOp best;
    for (ir::ProgramOp program : programs)
      if (program.getPhase() == llvm::StringRef("decode") && int64_t(*program.getSeqs()) >= sequences() &&
          (!best || *program.getSeqs() < *best.getSeqs()))
        best = program;
    return best;
  }
  std::string names() const {
    std::string text;
    for (ir::ProgramOp program : programs)
      text += (text.empty() ? "@" : ", @") + program.getSymName().str();
    return text;
  }

  const Request &request;
  std::vector<ir::ProgramOp> programs;
};

/// `dsv3.name` of a result; programs as imported may leave it out.
std::string resultName(ir::ProgramOp program, unsigned i) {
  if (!program.getResultName(i).empty())
    return program.getResultName(i).str();
  if (llvm::isa<ir::KvType>(program.getResultTypes()[i]))
    return "kv";
  if (i == 0 && program.getSymName() == "trunk")
    return "hidden";
  if (i == 0 && (program.getSymName() == "head" || program.getSymName() == "mtp"))
    return "logits";
  return "result" + std::to_string(i);
}

/// Puts the rows of steps together.
class Collector {
public:
  template <typename T>
  void add(const std::string &name, mlir::Type type, const Held<T> &value, const Step &step) {
    auto [it, isNew] = index.try_emplace(name, order.size());
    if (isNew)
      order.push_back({name, mlir::getElementTypeOrSelf(type), {}, {}});
    Entry &entry = order[it->second];
    if (auto *numbers = std::get_if<std::shared_ptr<const Array<T>>>(&value))
      append(entry, (*numbers)->shape, (*numbers)->data, step);
    else if (auto *ids = std::get_if<std::shared_ptr<const Ids>>(&value))
      append(entry, (*ids)->shape, (*ids)->data, step);
  }

  std::vector<NamedTensor> tensors() const {
    std::vector<NamedTensor> out;
    for (const Entry &entry : order) {
      NamedTensor tensor{entry.name, entry.elem, entry.shape, {}};
      for (const auto &[sequence, values] : entry.values)
        tensor.values.insert(tensor.values.end(), values.begin(), values.end());
      int64_t width = 1;
      for (size_t i = 1; i < entry.shape.size(); ++i)
        width *= entry.shape[i];
      if (!tensor.shape.empty() && width)
        tensor.shape[0] = int64_t(tensor.values.size()) / width;
      out.push_back(std::move(tensor));
    }
    return out;
  }

private:
  struct Entry {
    std::string name;
    mlir::Type elem;
    Shape shape;
    std::map<int64_t, std::vector<double>> values; ///< by sequence
  };

  /// One row a token, or one a sequence; other values are kept whole, step after step.
  template <typename V>
  static void append(Entry &entry, const Shape &shape, const std::vector<V> &data, const Step &step) {
    entry.shape = shape;
    int64_t rows = shape.empty() ? 0 : shape[0], width = rows ? int64_t(data.size()) / rows : 0;
    bool perToken = rows == step.tokens(), perSequence = rows == int64_t(step.rows.size());
    if (!perToken && !perSequence) {
      auto &all = entry.values[0];
      all.insert(all.end(), data.begin(), data.end());
      return;
    }
    auto from = data.begin();
    for (const Step::Rows &r : step.rows) {
      auto &of = entry.values[r.sequence];
      auto to = from + (perToken ? r.end - r.begin : 1) * width;
      of.insert(of.end(), from, to);
      from = to;
    }
  }

  std::vector<Entry> order;
  std::map<std::string, size_t> index;
};

Status checkCapacity(ir::ProgramOp program, const Step &step) {
  if (!program.getTokens())
    return {};
  int64_t tokens = int64_t(*program.getTokens()), seqs = int64_t(*program.getSeqs());
  if (step.tokens() > tokens || int64_t(step.rows.size()) > seqs)
    return doesNotFitError("@" + program.getSymName().str() + ": expected at most " + std::to_string(tokens) + " tokens of " +
                           std::to_string(seqs) + " sequences in a step, got " + std::to_string(step.tokens()) + " of " +
                           std::to_string(step.rows.size()) + " (see --chunk)");
  return {};
}

template <typename T> class Session {
public:
  Session(mlir::ModuleOp module, const WeightReader &reader, const Request &request)
      : request(request), batch(request), interpreter(module, reader) {}

  Result<Output> run(const Plan &plan) {
    for (ir::ProgramOp program : {plan.main, plan.mtp})
      if (Status s = program ? prepareCache(program) : Status(); !s)
        return s.error();
    for (int64_t k = 0;; ++k) {
      Step step = batch.step(k);
      if (step.rows.empty())
        break;
      if (k && !request.arguments.empty())
        return usageError("--arg: expected a single step, so no --chunk and no --decode");
      if (Status s = runStep(plan, step); !s)
        return s.error();
    }
    Output out{results.tensors(), taps.tensors()};
    if (cache)
      if (Status s = addCache(out); !s)
        return s.error();
    return out;
  }

private:
  Status prepareCache(ir::ProgramOp program) {
    for (mlir::Type type : program.getArgumentTypes())
      if (auto kv = llvm::dyn_cast<ir::KvType>(type); kv && !cache) {
        Result<std::shared_ptr<Cache<T>>> made = makeCache<T>(kv, batch);
        if (!made)
          return made.error();
        cache = *made;
        cacheElem = kv.getElem();
      } else if (kv && (kv.getLayers() != cache->layers() || kv.getElem() != cacheElem)) {
        return usageError("@" + program.getSymName().str() + ": expected the cache of the other programs");
      }
    return {};
  }

  Status runStep(const Plan &plan, const Step &step) {
    Held<T> hidden;
    if (Status s = runProgram(plan.main, step, hidden, ""); !s)
      return s;
    if (plan.head)
      if (Status s = runProgram(plan.head, step, hidden, ""); !s)
        return s;
    if (!plan.mtp)
      return {};
    auto *rows = std::get_if<std::shared_ptr<const Array<T>>>(&hidden);
    if (!rows)
      return usageError("--mtp: expected a result 'hidden' of the main program");
    Step next = batch.withNext(step);
    if (next.rows.empty())
      return {};
    Result<Array<T>> some = selectRows(**rows, rowsOf(next, step));
    if (!some)
      return some.error();
    Held<T> in = hold<T>(std::move(*some));
    return runProgram(plan.mtp, next, in, "mtp_");
  }

  /// Where the rows of `part` lie in `step`.
  static Ids rowsOf(const Step &part, const Step &step) {
    Ids rows({part.tokens()});
    auto *to = rows.data.data();
    int32_t first = 0;
    auto next = part.rows.begin();
    for (const Step::Rows &r : step.rows) {
      if (next != part.rows.end() && next->sequence == r.sequence) {
        for (int64_t i = next->begin; i < next->end; ++i)
          *to++ = first + int32_t(i - r.begin);
        ++next;
      }
      first += int32_t(r.end - r.begin);
    }
    return rows;
  }

  /// `hidden` is the argument of that name, afterwards the result of that name if there is one.
  Status runProgram(ir::ProgramOp program, const Step &step, Held<T> &hidden, const std::string &prefix) {
    if (Status s = checkCapacity(program, step); !s)
      return s;
    Result<std::vector<Held<T>>> arguments = makeArguments<T>(program, request, batch, step, cache, hidden);
    if (!arguments)
      return arguments.error();
    auto tap = [&](llvm::StringRef name, mlir::Type type, const Held<T> &value) { taps.add(name.str(), type, value, step); };
    Result<std::vector<Held<T>>> values = interpreter.run(program, *arguments, tap);
    if (!values)
      return values.error();
    for (unsigned i = 0; i < values->size(); ++i) {
      std::string name = resultName(program, i);
      mlir::Type type = program.getResultTypes()[i];
      if (name == "hidden")
        hidden = (*values)[i];
      if (!llvm::isa<ir::KvType>(type))
        results.add(prefix + name, type, (*values)[i], step);
    }
    return {};
  }

  Status addCache(Output &out) {
    SeqMeta all = batch.everything();
    NamedTensor kv{"kv", cacheElem, {cache->layers(), all.tokens(), cache->width()}, {}};
    for (int64_t layer = 0; layer < cache->layers(); ++layer)
      for (int64_t s = 0; s < all.seqs(); ++s) {
        Result<Array<T>> rows = gatherRows(*cache, layer, all, s);
        if (!rows)
          return rows.error();
        kv.values.insert(kv.values.end(), rows->data.begin(), rows->data.end());
      }
    out.results.push_back(std::move(kv));
    return {};
  }

  const Request &request;
  Batch batch;
  Interpreter<T> interpreter;
  std::shared_ptr<Cache<T>> cache;
  mlir::Type cacheElem;
  Collector results, taps;
};

} // namespace

template <typename T>
Result<Output> runRequest(mlir::ModuleOp module, const WeightReader &reader, const Request &request) {
  Result<Plan> plan = Planner(module, request).plan();
  if (!plan)
    return plan.error();
  return Session<T>(module, reader, request).run(*plan);
}

template Result<Output> runRequest<float>(mlir::ModuleOp, const WeightReader &, const Request &);
template Result<Output> runRequest<double>(mlir::ModuleOp, const WeightReader &, const Request &);

} // namespace dsv3::interpret
