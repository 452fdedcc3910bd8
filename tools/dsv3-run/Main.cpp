// dsv3-run: one prompt, or a file of them, through a compiled model.
#include "Options.h"
#include "Output.h"
#include "Requests.h"
#include "ScoreFiles.h"
#include "runtime/cuda/OpenDevice.h"
#include "runtime/engine/Engine.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>

namespace dsv3::run {

namespace {

using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Everything between the requests and the output.
class Runner {
public:
  Runner(Engine &engine, const TextModel &model, const Options &options, std::vector<TextRequest> requests,
         double loadMs)
      : engine(engine), model(model), options(options), requests(std::move(requests)), loadMs(loadMs) {}

  Status runAll() {
    if (Status s = writeScoreFiles(engine, options, requests); !s)
      return s;
    for (size_t i = 0; i < requests.size(); ++i)
      if (Status s = start(i); !s)
        return options.batch
                   ? Error{s.error().code, "request " + std::to_string(i) + ": " + s.error().message}
                   : s.error();
    while (engine.hasWork() && !output.closed() && output.status() && !failed)
      if (Status s = engine.step(); !s)
        return s;
    if (failed)
      return *failed;
    if (!json() && !output.closed())
      output.write("\n");
    return output.status();
  }

private:
  bool json() const { return options.json || options.batch; }

  Status start(size_t index) {
    const TextRequest &request = requests[index];
    Completion::OnText onText;
    if (!json())
      onText = [this](const std::string &piece) { output.write(piece); };
    Result<std::unique_ptr<Completion>> made =
        Completion::create(model.tokenizer(), request.params, engine.artifact().model.eosIds, onText);
    if (!made)
      return made.error();
    completions.push_back(std::move(*made));
    Completion &completion = *completions.back();
    completion.onDone = [this, &completion] {
      if (completion.error() && !failed)
        failed = completion.error();
      if (!failed)
        printDone();
    };
    Request r = completion.request(request.prompt);
    r.name = "request " + std::to_string(index); // also after requests that are not submitted
    if (!json() && !model.tokenizer())
      printIds(r);
    if (request.params.maxTokens == 0) { // only the prompt's logits were wanted
      r.onFinish(FinishReason::Length);
      return {};
    }
    Result<RequestId> id = engine.submit(std::move(r));
    return id ? Status() : id.error();
  }

  /// Without a tokenizer the ids stand in for the text.
  void printIds(Request &request) {
    request.onToken = [this, inner = request.onToken, first = true](const SampledToken &token) mutable {
      output.write((first ? "" : ",") + std::to_string(token.id));
      first = false;
      return inner(token);
    };
  }

  /// Lines come in the order of the input, each as soon as those before it are out.
  void printDone() {
    for (; json() && next < completions.size() && completions[next]->done(); ++next)
      output.write(jsonLine(requests[next].prompt, *completions[next], loadMs,
                            options.batch ? std::optional<size_t>(next) : std::nullopt));
  }

  Engine &engine;
  const TextModel &model;
  const Options &options;
  std::vector<TextRequest> requests;
  double loadMs;
  Output output;
  std::vector<std::unique_ptr<Completion>> completions;
  size_t next = 0;
  std::optional<Error> failed; ///< the first request's that failed: no lines after it
};

Status runOptions(const Options &options) {
  Clock::time_point start = Clock::now();
  if (Status s = checkScoreFiles(options); !s)
    return s;
  std::optional<TextModel> model;
  std::vector<TextRequest> requests;
  OpenOptions open = options.open;
  open.check = [&](const Artifact &artifact) -> Status {
    Result<TextModel> loaded = TextModel::load(artifact);
    if (!loaded)
      return loaded.error();
    model.emplace(std::move(*loaded));
    Result<std::vector<TextRequest>> made = makeRequests(options, *model);
    if (!made)
      return made.error();
    requests = std::move(*made);
    return {};
  };
  Result<OpenedModel> opened = openModel(options.artifact, open);
  if (!opened)
    return opened.error();
  for (const std::string &note : opened->notes)
    std::fprintf(stderr, "dsv3-run: warning: %s\n", note.c_str());
  Engine::Options engineOptions;
  engineOptions.scheduling.prefillChunk = options.prefillChunk;
  engineOptions.sampleOnDevice = !options.hostSampling;
  Result<std::unique_ptr<Engine>> engine = Engine::create(*opened->device, opened->artifact->manifest(), engineOptions);
  if (!engine)
    return engine.error();
  return Runner(**engine, *model, options, std::move(requests), millisecondsSince(start)).runAll();
}

int run(int argc, char **argv) {
  // A reader that goes away is seen as an error of write(), not as the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  Result<std::optional<Options>> options = parseOptions(argc, argv);
  Status status = !options ? Status(options.error()) : *options ? runOptions(**options) : Status();
  if (status)
    return int(ExitCode::Ok);
  std::fprintf(stderr, "dsv3-run: error: %s\n", status.error().message.c_str());
  return int(status.error().code);
}

} // namespace

} // namespace dsv3::run

int main(int argc, char **argv) { return dsv3::run::run(argc, argv); }
