#include "tools/dsv3-eval/Compare.h"

#include "runtime/core/DType.h"

#include <algorithm>
#include <cmath>

namespace dsv3::eval {

namespace {

/// What one model says about a group of documents.
struct Answers {
  std::vector<std::vector<float>> logits;                          ///< by document, [rows, vocab]
  std::vector<std::map<std::string, std::vector<float>>> states;   ///< by document
};

bool isIndex(uint32_t elem) { return elem == DSV3_ELEM_I32 || elem == DSV3_ELEM_I64; }

DType typeOf(uint32_t elem) {
  return elem == DSV3_ELEM_F32 ? DType::F32 : elem == DSV3_ELEM_BF16 ? DType::BF16 : elem == DSV3_ELEM_I32 ? DType::I32 : DType::I64;
}

class Comparer {
public:
  Comparer(Engine &engine, Engine &reference, bool states) : engine(engine), reference(reference), withStates(states) {}

  Status prepare() {
    const int64_t a = engine.artifact().model.vocabSize, b = reference.artifact().model.vocabSize;
    if (a != b)
      return usageError("--against: expected a model of the same vocabulary, " + std::to_string(a) + " tokens, got " + std::to_string(b));
    vocab = a;
    if (!withStates)
      return {};
    for (const Manifest::Matrix &tap : engine.artifact().taps)
      for (const Manifest::Matrix &other : reference.artifact().taps)
        if (tap.name == other.name && tap.cols == other.cols)
          out.states.push_back({tap.name, int64_t(tap.cols), 0, 0, isIndex(tap.elem)});
    if (out.states.empty())
      return usageError("--per-layer: expected two artifacts with taps in common, got none: compile both with --taps, such as --taps='l[0-9]+[.].*'");
    return {};
  }

  Result<Answers> ask(Engine &model, const std::vector<std::vector<int32_t>> &prompts) {
    Answers answers;
    answers.logits.resize(prompts.size());
    answers.states.resize(prompts.size());
    ScoreSink sink;
    sink.logits = [&](size_t i, int64_t, int64_t rows, const float *data) {
      answers.logits[i].insert(answers.logits[i].end(), data, data + rows * vocab);
      return Status();
    };
    const std::vector<Manifest::Matrix> &taps = model.artifact().taps;
    if (withStates)
      sink.taps = [&](size_t i, uint32_t tap, int64_t rows, const void *data) {
        std::vector<float> &to = answers.states[i][taps[tap].name];
        const size_t n = size_t(rows) * taps[tap].cols, at = to.size();
        to.resize(at + n);
        convertToFloat(typeOf(taps[tap].elem), data, n, to.data() + at);
        return Status();
      };
    if (Status s = model.score(prompts, sink); !s)
      return s.error();
    return answers;
  }

  Status group(const std::vector<std::vector<int32_t>> &prompts) {
    Result<Answers> ours = ask(engine, prompts), theirs = ask(reference, prompts);
    if (!ours)
      return ours.error();
    if (!theirs)
      return Error{theirs.error().code, "--against: " + theirs.error().message};
    for (size_t i = 0; i < prompts.size(); ++i) {
      for (size_t row = 0; row + 1 < prompts[i].size(); ++row)
        position(ours->logits[i].data() + row * size_t(vocab), theirs->logits[i].data() + row * size_t(vocab));
      for (StateError &state : out.states)
        add(state, ours->states[i][state.name], theirs->states[i][state.name]);
    }
    return {};
  }

  Comparison out;

private:
  void position(const float *ours, const float *theirs) {
    auto logSum = [&](const float *x, float most) {
      double sum = 0;
      for (int64_t v = 0; v < vocab; ++v)
        sum += std::exp(double(x[v]) - double(most));
      return double(most) + std::log(sum);
    };
    const float *top = std::max_element(ours, ours + vocab), *want = std::max_element(theirs, theirs + vocab);
    double a = logSum(ours, *top), b = logSum(theirs, *want), kl = 0;
    for (int64_t v = 0; v < vocab; ++v) {
      double p = std::exp(double(theirs[v]) - b);
      kl += p * ((double(theirs[v]) - b) - (double(ours[v]) - a));
    }
    Agreement &g = out.agreement;
    ++g.tokens;
    g.kl += kl; // a sum until the end
    g.worstKl = std::max(g.worstKl, kl);
    g.sameTop += top - ours == want - theirs;
  }

  static void add(StateError &state, const std::vector<float> &ours, const std::vector<float> &theirs) {
    const size_t n = std::min(ours.size(), theirs.size());
    if (!state.choices) {
      for (size_t i = 0; i < n; ++i) {
        double d = double(ours[i]) - double(theirs[i]);
        state.lost += d * d;
        state.whole += double(theirs[i]) * double(theirs[i]);
      }
      return;
    }
    // The order of a token's choices does not matter.
    const size_t k = size_t(state.cols);
    for (size_t row = 0; row + k <= n; row += k)
      for (size_t i = row; i < row + k; ++i) {
        state.lost += std::find(theirs.begin() + long(row), theirs.begin() + long(row + k), ours[i]) == theirs.begin() + long(row + k);
        state.whole += 1;
      }
  }

  Engine &engine, &reference;
  const bool withStates;
  int64_t vocab = 0;
};

} // namespace

double StateError::relative() const { return whole == 0 ? 0 : choices ? lost / whole : std::sqrt(lost / whole); }

Status checkComparable(Engine &engine, Engine &reference, bool states) { return Comparer(engine, reference, states).prepare(); }

Result<Comparison> compareModels(Engine &engine, Engine &reference, const std::vector<std::vector<int32_t>> &prompts, bool states, const OnProgress &progress) {
  Comparer comparer(engine, reference, states);
  if (Status s = comparer.prepare(); !s)
    return s.error();
  const size_t room = std::max<size_t>(1, (size_t(256) << 20) / sizeof(float) / size_t(engine.artifact().model.vocabSize)); // rows of logits
  for (size_t i = 0; i < prompts.size();) {
    std::vector<std::vector<int32_t>> group;
    size_t rows = 0;
    while (i < prompts.size() && (group.empty() || rows + prompts[i].size() <= room)) {
      rows += prompts[i].size();
      group.push_back(prompts[i++]);
    }
    if (Status s = comparer.group(group); !s)
      return s.error();
    progress(i, prompts.size());
  }
  comparer.out.agreement.kl /= double(std::max<int64_t>(1, comparer.out.agreement.tokens));
  return std::move(comparer.out);
}

} // namespace dsv3::eval
