// Engine::score: the logits of every position, by the score program and the MTP program.
#include "runtime/engine/Engine.h"

#include <algorithm>
#include <memory>

namespace dsv3 {

/// The prompts of one call of score() on their way through the score program.
class Engine::Scoring {
public:
  Scoring(Engine &engine, const std::vector<std::vector<int32_t>> &prompts, const ScoreSink &sink, uint32_t phase)
      : engine(engine), prompts(prompts), sink(sink), module(engine.device.module()), phase(phase),
        program(module.programs[engine.programs.largest(phase)]),
        withMtp(phase == DSV3_PHASE_SCORE && (sink.mtpLogits || sink.taps) && engine.hasMtp()) {}

  ~Scoring() {
    for (const std::unique_ptr<Active> &a : active)
      engine.blocks.release(a->sequence.pages);
  }

  Status runAll() {
    while (next < prompts.size() || !active.empty()) {
      admit();
      if (active.empty())
        return doesNotFitError("prompt of " + std::to_string(prompts[next].size()) +
                               " tokens: expected at most " + std::to_string(engine.blocks.freePages()) +
                               " free kv pages, got " +
                               std::to_string(engine.blocks.pagesFor(prompts[next].size())));
      if (Status s = step(); !s)
        return s;
      retire();
    }
    return {};
  }

private:
  StepBuffer buffer() const { return StepBuffer(module, engine.device.stepBuffer()); }

  struct Active {
    Sequence sequence;
    size_t prompt;
  };

  void admit() {
    while (next < prompts.size() && active.size() < program.seqs) {
      int64_t pages = engine.blocks.pagesFor(prompts[next].size());
      if (pages > engine.blocks.freePages())
        return;
      auto a = std::make_unique<Active>();
      a->sequence.tokens = prompts[next];
      a->sequence.pages = engine.blocks.allocate(pages);
      a->prompt = next++;
      active.push_back(std::move(a));
    }
  }

  Status step() {
    std::vector<Sequence *> sequences;
    for (const std::unique_ptr<Active> &a : active)
      sequences.push_back(&a->sequence);
    std::vector<StepItem> items = planStep(program, sequences, engine.chunk);
    if (withMtp)
      cutFor(module.programs[engine.programs.largest(DSV3_PHASE_MTP)], items);
    if (items.empty())
      return internalError("the score program has no room for a single row");
    uint32_t index = engine.programs.smallestFor(phase, items);
    if (Status s =
            runProgram(index, buffer().fill(module.programs[index], items), items, sink.logits, 0);
        !s)
      return s;
    if (withMtp)
      if (Status s = runMtp(items); !s)
        return s;
    for (const StepItem &item : items)
      item.sequence->cached += item.rows;
    return {};
  }

  /// The MTP program takes the same rows, so a step has to fit both.
  static void cutFor(const dsv3_program_desc &mtp, std::vector<StepItem> &items) {
    while (!items.empty() && !fitsStep(mtp, items)) {
      if (items.size() > 1)
        items.pop_back();
      else if (--items[0].rows == 0)
        items.pop_back();
    }
  }

  Status runMtp(const std::vector<StepItem> &items) {
    uint32_t index = engine.programs.smallestFor(DSV3_PHASE_MTP, items);
    return runProgram(index, buffer().fillMtp(module.programs[index], items), items, sink.mtpLogits, 1);
  }

  /// Runs and hands out the rows. `without`: rows at a prompt's end that mean nothing.
  Status runProgram(uint32_t index, const dsv3_step_host &step, const std::vector<StepItem> &items,
                    const ScoreSink::Rows &rowsTo, int64_t without) {
    Status tapStatus;
    TapSink taps;
    if (sink.taps)
      taps = [&](uint32_t tap, const void *data, int64_t rows) {
        if (tapStatus)
          tapStatus = handOutTap(tap, data, rows, items, without);
      };
    if (!rowsTo) {
      Status s = engine.run(index, step, {}, taps);
      return s ? tapStatus : s;
    }
    HostCopy rows = engine.rowsOf(index, "logits", 0, step.scalars[DSV3_SCALAR_TOKENS]);
    if (Status s = engine.run(index, step, {rows}, taps); !s)
      return s;
    if (!tapStatus)
      return tapStatus;
    Result<const float *> logits = engine.fetch<float>(rows);
    if (!logits)
      return logits.error();
    return forEachPiece(items, without, [&](size_t prompt, int64_t position, int64_t rows, int64_t row) {
      const float *first = *logits + row * engine.manifest.model.vocabSize;
      Status finite = checkRows(prompt, position, rows, first, without != 0);
      return finite ? rowsTo(prompt, position, rows, first) : finite;
    });
  }

  Status checkRows(size_t prompt, int64_t position, int64_t rows, const float *logits, bool mtp) const {
    const int64_t vocab = engine.manifest.model.vocabSize;
    for (int64_t r = 0; r < rows; ++r)
      if (Status s = checkFinite(logits + r * vocab, vocab, position + r); !s)
        return Error{s.error().code,
                     "request " + std::to_string(prompt) + ": " + (mtp ? "mtp " : "") + s.error().message};
    return {};
  }

  Status handOutTap(uint32_t tap, const void *data, int64_t rows, const std::vector<StepItem> &items,
                    int64_t without) {
    const dsv3_tap_desc &t = module.taps[tap];
    int64_t tokens = 0;
    for (const StepItem &item : items)
      tokens += item.rows;
    if (rows != tokens)
      return internalError(std::string("tap ") + t.name + ": expected " + std::to_string(tokens) +
                           " rows, got " + std::to_string(rows));
    uint64_t rowBytes = t.cols * elemBytes(t.elem);
    return forEachPiece(items, without, [&](size_t prompt, int64_t, int64_t count, int64_t row) {
      return sink.taps(prompt, tap, count, static_cast<const char *>(data) + row * rowBytes);
    });
  }

  /// Calls fn(prompt, position, rows, row of the step) for each item that has rows left.
  template <typename Fn> Status forEachPiece(const std::vector<StepItem> &items, int64_t without, Fn fn) {
    int64_t row = 0;
    for (const StepItem &item : items) {
      int64_t end =
          std::min<int64_t>(item.start + item.rows, int64_t(item.sequence->tokens.size()) - without);
      if (end > item.start)
        if (Status s = fn(promptOf(item.sequence), item.start, end - item.start, row); !s)
          return s;
      row += item.rows;
    }
    return {};
  }

  size_t promptOf(const Sequence *sequence) const {
    auto at = std::find_if(active.begin(), active.end(), [&](auto &a) { return &a->sequence == sequence; });
    return (*at)->prompt;
  }

  void retire() {
    for (std::unique_ptr<Active> &a : active) {
      if (a->sequence.cached < int64_t(a->sequence.tokens.size()))
        continue;
      engine.blocks.release(a->sequence.pages);
      a.reset();
    }
    active.erase(std::remove(active.begin(), active.end(), nullptr), active.end());
  }

  Engine &engine;
  const std::vector<std::vector<int32_t>> &prompts;
  const ScoreSink &sink;
  const dsv3_module_desc &module;
  const uint32_t phase;
  const dsv3_program_desc &program;
  bool withMtp;
  size_t next = 0;
  std::vector<std::unique_ptr<Active>> active; // in the order of the prompts
};

Status Engine::score(const std::vector<std::vector<int32_t>> &prompts, const ScoreSink &sink) {
  if (!hasScore())
    return unsupportedError("the artifact has no score program: logits of every position are not available");
  for (const std::vector<int32_t> &prompt : prompts)
    if (Status s = checkPrompt(prompt); !s)
      return s;
  if (Status s = settle(); !s)
    return s;
  return Scoring(*this, prompts, sink, DSV3_PHASE_SCORE).runAll();
}

Status Engine::states(const std::vector<std::vector<int32_t>> &prompts,
                      const std::function<Status(size_t, uint32_t, int64_t, const void *)> &taps) {
  for (const std::vector<int32_t> &prompt : prompts)
    if (Status s = checkPrompt(prompt); !s)
      return s;
  if (Status s = settle(); !s)
    return s;
  ScoreSink sink;
  sink.taps = taps;
  return Scoring(*this, prompts, sink, DSV3_PHASE_PREFILL).runAll();
}

} // namespace dsv3
