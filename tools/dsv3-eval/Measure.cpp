#include "Measure.h"

#include "runtime/engine/Completion.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace dsv3::eval {

Result<std::vector<std::vector<int32_t>>> encodeDocuments(const Engine &engine, const TextModel &model, const std::vector<std::string> &texts, int64_t cut) {
  std::optional<int32_t> bos = model.bosId();
  if (!bos)
    return usageError("the artifact names no begin token, which the measurement needs");
  std::vector<std::vector<int32_t>> prompts;
  size_t longest = 0;
  for (const std::string &text : texts) {
    std::vector<int32_t> ids = model.encodeText(text);
    if (ids.empty())
      return usageError("document " + std::to_string(prompts.size()) + ": expected a text, got one without tokens");
    ids.resize(std::min<size_t>(ids.size(), cut));
    ids.insert(ids.begin(), *bos);
    longest = std::max(longest, ids.size());
    prompts.push_back(std::move(ids));
  }
  int64_t plan = engine.artifact().config.maxModelLen;
  if (int64_t(longest) > plan)
    return usageError("the longest document has " + std::to_string(longest) +
                      " tokens: expected an artifact with " + "at least that max_model_len, got " +
                      std::to_string(plan));
  return prompts;
}

Result<Likelihood> measureLikelihood(Engine &engine, const TextModel &model, const std::vector<std::vector<int32_t>> &prompts,
                                     const OnProgress &progress) {
  const int64_t vocab = engine.artifact().model.vocabSize;
  Likelihood out;
  out.documents = prompts.size();
  std::vector<double> perDocument(prompts.size(), 0);
  size_t done = 0;
  ScoreSink sink;
  sink.logits = [&](size_t i, int64_t row, int64_t rows, const float *logits) {
    const std::vector<int32_t> &ids = prompts[i];
    for (int64_t r = row; r < row + rows && r + 1 < int64_t(ids.size()); ++r)
      perDocument[i] -= logProbability(logits + (r - row) * vocab, vocab, ids[r + 1]);
    if (row + rows == int64_t(ids.size()))
      progress(++done, prompts.size());
    return Status();
  };
  if (Status s = engine.score(prompts, sink); !s)
    return s.error();
  double sum = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    sum += perDocument[i];
    out.tokens += int64_t(prompts[i].size()) - 1;
    for (size_t t = 1; t < prompts[i].size(); ++t)
      out.bytes += int64_t(model.tokenizer()->idToBytes(prompts[i][t]).size());
  }
  out.nll = sum / double(out.tokens);
  out.perplexity = std::exp(out.nll);
  out.bitsPerByte = sum / std::log(2.0) / double(std::max<int64_t>(1, out.bytes));
  return out;
}

std::optional<int64_t> finalNumber(const std::string &answer) {
  const std::string mark = "#### ";
  for (size_t at = answer.find(mark); at != answer.npos; at = answer.find(mark, at + 1)) {
    int64_t number;
    const char *begin = answer.data() + at + mark.size();
    if (std::from_chars(begin, answer.data() + answer.size(), number).ec == std::errc())
      return number;
  }
  return std::nullopt;
}

Result<ExactMatch> measureProblems(Engine &engine, const TextModel &model,
                                   const std::vector<Problem> &problems, int64_t maxTokens,
                                   const OnProgress &progress) {
  ExactMatch out;
  out.problems = problems.size();
  CompletionParams params;
  params.maxTokens = maxTokens;
  std::vector<std::unique_ptr<Completion>> answers;
  size_t done = 0;
  for (const Problem &problem : problems) {
    Result<std::vector<int32_t>> prompt = model.encodeChat({{"user", problem.question}}, "--problems");
    if (!prompt)
      return prompt.error();
    auto made = Completion::create(model.tokenizer(), params, engine.artifact().model.eosIds, {});
    if (!made)
      return made.error();
    answers.push_back(std::move(*made));
    answers.back()->onDone = [&] { progress(++done, problems.size()); };
    Result<RequestId> id = engine.submit(answers.back()->request(std::move(*prompt)));
    if (!id)
      return Error{id.error().code,
                   "problem " + std::to_string(answers.size() - 1) + ": " + id.error().message};
  }
  if (Status s = engine.runAll(); !s)
    return s.error();
  for (const std::unique_ptr<Completion> &answer : answers)
    if (answer->error())
      return *answer->error();
  for (size_t i = 0; i < problems.size(); ++i)
    out.correct += finalNumber(answers[i]->text()) == problems[i].final;
  return out;
}

} // namespace dsv3::eval
