// dsv3-eval: perplexity and exact match of a compiled model.
#include "Compare.h"
#include "Documents.h"
#include "Measure.h"
#include "runtime/core/Json.h"
#include "runtime/engine/Engine.h"
#include "tools/flags/Flags.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <unistd.h>

namespace dsv3::eval {

namespace {

// As the stored reference values were measured: BOS and this many ids.
constexpr int64_t kProseIds = 1023, kStoryIds = 511, kAnswerTokens = 120;

struct Options {
  std::string artifact, against, prose, problems, stories;
  int64_t limit = 0;
  bool perLayer = false, json = false;
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
  app.add_option("--against", o.against,
                 "a second artifact, the reference: mean KL and top-1 agreement on the prose and the stories");
  app.add_flag("--per-layer", o.perLayer,
               "with --against: error of every state that both artifacts tap (compile-model --taps), by layer");
  app.add_option("--limit", o.limit, "read only the first lines of each file")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  app.add_flag("--json", o.json, "print one object");
  flags::addMachine(app, o.open);
  flags::refuseEmptyValues(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    std::fputs(app.help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError &e) {
    return usageError(flags::oneLine(e.what()));
  }
  if (o.prose.empty() && o.problems.empty() && o.stories.empty())
    return usageError("expected at least one of --prose, --problems and --stories, got none");
  if (!o.against.empty() && o.prose.empty() && o.stories.empty())
    return usageError("--against: expected --prose or --stories to compare on, got neither");
  if (o.perLayer && o.against.empty())
    return usageError("--per-layer: expected --against with the reference, got none");
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
  /// `reference` may be null.
  Evaluation(Engine &engine, Engine *reference, const TextModel &model, const Options &options)
      : engine(engine), reference(reference), model(model), options(options) {}

  Status run() {
    if (reference)
      if (Status s = checkComparable(engine, *reference, options.perLayer); !s)
        return s;
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
    auto at = [&](const Error &e) { return Error{e.code, path + ": " + e.message}; };
    Result<std::vector<std::vector<int32_t>>> prompts = encodeDocuments(engine, model, *texts, cut);
    if (!prompts)
      return at(prompts.error());
    if (reference)
      if (Result<std::vector<std::vector<int32_t>>> same = encodeDocuments(*reference, model, *texts, cut); !same)
        return at(Error{same.error().code, "--against: " + same.error().message});
    Progress progress(name);
    Result<Likelihood> l = measureLikelihood(engine, model, *prompts, progress.callback());
    if (!l)
      return at(l.error());
    result[name] = {{"documents", l->documents}, {"tokens", l->tokens},         {"bytes", l->bytes},
                    {"nll", l->nll},             {"perplexity", l->perplexity}, {"bits_per_byte", l->bitsPerByte}};
    if (!options.json)
      std::printf("%-9s %zu documents, %lld tokens, nll %.5f, perplexity %.4f, bits per byte %.4f\n", name, l->documents,
                  static_cast<long long>(l->tokens), l->nll, l->perplexity, l->bitsPerByte);
    Status s = reference ? compare(name, *prompts) : Status();
    return s ? s : Status(at(s.error()));
  }

  Status compare(const char *name, const std::vector<std::vector<int32_t>> &prompts) {
    Progress progress("comparing");
    Result<Comparison> c = compareModels(engine, *reference, prompts, options.perLayer, progress.callback());
    if (!c)
      return c.error();
    const Agreement &g = c->agreement;
    double same = double(g.sameTop) / double(std::max<int64_t>(1, g.tokens));
    OrderedJson entry = {{"kl", g.kl}, {"worst_kl", g.worstKl}, {"top1_agreement", same}};
    for (const StateError &state : c->states)
      entry["states"][state.name] = state.relative();
    result[name]["against"] = entry;
    if (!options.json)
      std::printf("%-9s against %s: mean kl %.6f, worst %.4f, the same first choice for %.3f%%\n%s", name, options.against.c_str(), g.kl, g.worstKl,
                  100 * same, options.perLayer ? statesText(c->states).c_str() : "");
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
  Engine *reference;
  const TextModel &model;
  const Options &options;
  OrderedJson result = OrderedJson::object();
};

/// An artifact and the engine that runs it.
struct Loaded {
  OpenedModel opened;
  std::unique_ptr<Engine> engine;
};

Result<Loaded> load(const std::string &artifact, const OpenOptions &open) {
  Result<OpenedModel> opened = openModel(artifact, open);
  if (!opened)
    return opened.error();
  for (const std::string &note : opened->notes)
    std::fprintf(stderr, "dsv3-eval: warning: %s\n", note.c_str());
  Loaded out{std::move(*opened), nullptr};
  Result<std::unique_ptr<Engine>> engine = Engine::create(*out.opened.device, out.opened.artifact->manifest(), {});
  if (!engine)
    return engine.error();
  out.engine = std::move(*engine);
  return out;
}

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
  Result<Loaded> main = load(options.artifact, open);
  if (!main)
    return main.error();
  std::optional<Loaded> reference;
  if (!options.against.empty()) {
    Result<Loaded> second = load(options.against, options.open);
    if (!second)
      return second.error();
    reference.emplace(std::move(*second));
  }
  return Evaluation(*main->engine, reference ? reference->engine.get() : nullptr, *model, options).run();
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
