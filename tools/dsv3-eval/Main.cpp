// dsv3-eval: perplexity and exact match of a compiled model.
#include "Documents.h"
#include "Measure.h"
#include "runtime/core/Json.h"
#include "runtime/core/ThreadPool.h"
#include "runtime/cuda/OpenDevice.h"
#include "runtime/engine/Engine.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <unistd.h>

namespace dsv3::eval {

namespace {

// As the stored reference values were measured: BOS and this many ids.
constexpr int64_t kProseIds = 1023, kStoryIds = 511, kAnswerTokens = 120;

struct Options {
  std::string artifact, prose, problems, stories;
  int64_t limit = 0;
  bool json = false;
  OpenOptions open;
};

Result<bool> parseOptions(int argc, char **argv, Options &o) {
  CLI::App app("Measures a model compiled by compile-model.", "dsv3-eval");
  app.add_option("OUT", o.artifact, "artifact")->required();
  app.add_option("--prose", o.prose,
                 "JSON lines with \"text\": perplexity over BOS and the first 1023 ids of each");
  app.add_option("--stories", o.stories, "the same over the first 511 ids");
  app.add_option("--problems", o.problems,
                 "JSON lines with \"question\" and \"final\": exact match of greedy answers");
  app.add_option("--limit", o.limit, "read only the first lines of each file")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  app.add_flag("--json", o.json, "print one object");
  app.add_option("--threads", o.open.threads,
                 "default: all cores, here " + std::to_string(ThreadPool::defaultThreads()))
      ->check(CLI::Range(1, 4096));
  app.add_option("--device", o.open.device, "cpu, cuda, or auto: the first target of the artifact that runs here")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--cpu-features", o.open.cpuFeatures, "force a code variant: avx2, avx512, avx512-vnni-bf16, amx");
  app.add_flag("--verify", o.open.verify, "compare the hash of the weights");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    std::fputs(app.help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError &e) {
    std::string line = e.what();
    std::replace(line.begin(), line.end(), '\n', ' ');
    return usageError(line);
  }
  if (o.prose.empty() && o.problems.empty() && o.stories.empty())
    return usageError("expected at least one of --prose, --problems and --stories, got none");
  return true;
}

/// A line on the terminal that is written over and over; nothing elsewhere.
class Progress {
public:
  explicit Progress(const char *what) : what(what), shown(isatty(STDERR_FILENO)) {}
  ~Progress() {
    if (shown)
      std::fprintf(stderr, "\r\033[K");
  }
  OnProgress callback() {
    return [this](size_t done, size_t total) {
      if (shown)
        std::fprintf(stderr, "\r%s %zu/%zu", what, done, total);
    };
  }

private:
  const char *what;
  bool shown;
};

class Evaluation {
public:
  Evaluation(Engine &engine, const TextModel &model, const Options &options)
      : engine(engine), model(model), options(options) {}

  Status run() {
    if (Status s = likelihood("prose", options.prose, kProseIds); !s)
      return s;
    if (Status s = likelihood("stories", options.stories, kStoryIds); !s)
      return s;
    if (Status s = exactMatch(); !s)
      return s;
    if (options.json)
      std::printf("%s\n", result.dump().c_str());
    if (std::fflush(stdout) != 0)
      return usageError("cannot write to standard output");
    return {};
  }

private:
  Status likelihood(const char *name, const std::string &path, int64_t cut) {
    if (path.empty())
      return {};
    Result<std::vector<std::string>> texts = readTexts(path, options.limit);
    if (!texts)
      return texts.error();
    Progress progress(name);
    Result<Likelihood> l = measureLikelihood(engine, model, *texts, cut, progress.callback());
    if (!l)
      return Error{l.error().code, path + ": " + l.error().message};
    result[name] = {
        {"documents", l->documents}, {"tokens", l->tokens}, {"nll", l->nll}, {"perplexity", l->perplexity}};
    if (!options.json)
      std::printf("%-9s %zu documents, %lld tokens, nll %.5f, perplexity %.4f\n", name, l->documents,
                  static_cast<long long>(l->tokens), l->nll, l->perplexity);
    return {};
  }

  Status exactMatch() {
    if (options.problems.empty())
      return {};
    Result<std::vector<Problem>> problems = readProblems(options.problems, options.limit);
    if (!problems)
      return problems.error();
    Progress progress("problems");
    Result<ExactMatch> m = measureProblems(engine, model, *problems, kAnswerTokens, progress.callback());
    if (!m)
      return Error{m.error().code, options.problems + ": " + m.error().message};
    result["problems"] = {{"problems", m->problems}, {"total", m->problems}, {"correct", m->correct}};
    if (!options.json)
      std::printf("problems  %zu of %zu right\n", m->correct, m->problems);
    return {};
  }

  Engine &engine;
  const TextModel &model;
  const Options &options;
  OrderedJson result = OrderedJson::object();
};

Status evaluate(const Options &options) {
  std::optional<TextModel> model;
  OpenOptions open = options.open;
  open.check = [&](const Artifact &artifact) -> Status {
    Result<TextModel> loaded = TextModel::load(artifact);
    if (!loaded)
      return loaded.error();
    model.emplace(std::move(*loaded));
    if (!model->tokenizer())
      return usageError(options.artifact + ": the artifact has no tokenizer, which the measurements need");
    return {};
  };
  Result<OpenedModel> opened = openModel(options.artifact, open);
  if (!opened)
    return opened.error();
  for (const std::string &note : opened->notes)
    std::fprintf(stderr, "dsv3-eval: warning: %s\n", note.c_str());
  Result<std::unique_ptr<Engine>> engine = Engine::create(*opened->device, opened->artifact->manifest(), {});
  if (!engine)
    return engine.error();
  return Evaluation(**engine, *model, options).run();
}

int run(int argc, char **argv) {
  Options options;
  Result<bool> go = parseOptions(argc, argv, options);
  Status status = !go ? Status(go.error()) : *go ? evaluate(options) : Status();
  if (status)
    return int(ExitCode::Ok);
  std::fprintf(stderr, "dsv3-eval: error: %s\n", status.error().message.c_str());
  return int(status.error().code);
}

} // namespace

} // namespace dsv3::eval

int main(int argc, char **argv) { return dsv3::eval::run(argc, argv); }
