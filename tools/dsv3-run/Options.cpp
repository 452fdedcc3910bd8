#include "Options.h"

#include "tools/flags/Flags.h"

#include <cstdio>

namespace dsv3::run {

namespace {

void addInput(CLI::App &app, Options &o) {
  app.add_option("OUT", o.artifact, "artifact written by compile-model")->required();
  app.add_option("--prompt", o.prompt, "text to continue; BOS is added, special tokens are parsed")
      ->group("Input (one of)");
  app.add_option("--chat", o.chat, "a user's message, put into the chat template")->group("Input (one of)");
  app.add_option("--ids", o.ids, "token ids, verbatim: 0,2037,660")->group("Input (one of)");
  app.add_option(
         "--batch", o.batch,
         "JSON lines, all run together: {\"prompt\"|\"ids\"|\"chat\"|\"messages\", \"max_tokens\", "
         "\"temperature\", \"top_p\", \"top_k\", \"min_p\", \"seed\", \"repetition_penalty\", \"stop\", "
         "\"ignore_eos\"}")
      ->group("Input (one of)");
}

void addGeneration(CLI::App &app, Options &o) {
  CompletionParams &c = o.completion;
  SamplingParams &s = c.sampling;
  const char *group = "Generation";
  app.add_option("--max-tokens", c.maxTokens, "tokens to generate, cut to what the plan holds")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 30))
      ->capture_default_str()
      ->group(group);
  app.add_option("--temperature", s.temperature, "0: greedy")->capture_default_str()->group(group);
  app.add_option("--top-p", s.topP, "keep the likeliest tokens with this share")
      ->capture_default_str()
      ->group(group);
  app.add_option("--top-k", s.topK, "keep this many tokens, 0: all")->capture_default_str()->group(group);
  app.add_option("--min-p", s.minP, "keep tokens this likely against the best")
      ->capture_default_str()
      ->group(group);
  app.add_option("--seed", s.seed, "of sampling")->check(flags::checkSeed)->capture_default_str()->group(group);
  app.add_option("--repetition-penalty", s.repetitionPenalty, "above 1: repeat less")
      ->capture_default_str()
      ->group(group);
  app.add_option("--stop", c.stops, "end at this text; may be given several times")
      ->allow_extra_args(false)
      ->group(group);
  app.add_flag("--ignore-eos", c.ignoreEos, "go on through the end token")->group(group);
}

void addOutput(CLI::App &app, Options &o) {
  app.add_flag("--json", o.json, "print one object instead of text")->group("Output");
  app.add_option("--logits-out", o.logitsOut,
                 "safetensors file for the prompt's logits [T, vocab] (and mtp_logits [T-1, vocab]); "
                 "logits.0, logits.1, ... with --batch")
      ->group("Output");
  app.add_option("--taps-out", o.tapsOut, "safetensors file for the states that compile-model --taps kept")
      ->group("Output");
}

void addMachine(CLI::App &app, Options &o) {
  flags::addPrefillChunk(app, o.prefillChunk)->group("Machine");
  flags::addMachine(app, o.open);
  app.add_flag("--host-sampling", o.hostSampling, "choose tokens from copied logits where the device could: the same tokens, slower")
      ->group("Machine");
}

Status checkOptions(const Options &o) {
  int inputs = o.prompt.has_value() + o.chat.has_value() + o.ids.has_value() + o.batch.has_value();
  if (inputs != 1)
    return usageError("expected exactly one of --prompt, --chat, --ids and --batch, got " +
                      std::to_string(inputs));
  if (Status s = o.completion.sampling.validate(); !s)
    return usageError("--" + s.error().message);
  for (const std::string &stop : o.completion.stops)
    if (stop.empty())
      return usageError("--stop: expected at least one character, got an empty string");
  return {};
}

} // namespace

Result<std::optional<Options>> parseOptions(int argc, char **argv) {
  Options options;
  CLI::App app("Runs a model compiled by compile-model.", "dsv3-run");
  addInput(app, options);
  addGeneration(app, options);
  addOutput(app, options);
  addMachine(app, options);
  // An empty text is one; empty ids and stops are refused where they are read.
  flags::refuseEmptyValues(app, {"--prompt", "--chat", "--ids", "--stop"});
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    std::fputs(app.help().c_str(), stdout);
    return std::optional<Options>();
  } catch (const CLI::ParseError &e) {
    return usageError(flags::oneLine(e.what()));
  }
  if (Status s = checkOptions(options); !s)
    return s.error();
  return std::optional<Options>(std::move(options));
}

} // namespace dsv3::run
