#include "Options.h"

#include "Config.h"
#include "runtime/core/Json.h"
#include "tools/flags/Flags.h"

#include <cstdio>

namespace dsv3::serve {

namespace {

using Seconds = server::ServerOptions::Seconds;

CLI::Option *addSeconds(CLI::App &app, const char *flag, Seconds &out, const char *help) {
  return app.add_option_function<double>(flag, [&out](double value) { out = Seconds(value); }, help)
      ->check(CLI::Range(0.001, 1e6))
      ->default_str(CLI::detail::to_string(out.count()))
      ->type_name("SECONDS");
}

void addServer(CLI::App &app, server::ServerOptions &o) {
  const char *group = "Server";
  app.add_option("--host", o.host, "address to listen on; 0.0.0.0 or :: for all")->capture_default_str()->group(group);
  app.add_option("--port", o.port, "0: any free one, which the first log line names")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str()
      ->group(group);
  app.add_option("--api-key", o.apiKey, "what clients must send as \"Authorization: Bearer KEY\" (prefer the environment or the file)")->group(group);
  app.add_option("--served-model-name", o.names, "what clients call the model; may be given several times (default: the artifact's name)")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--max-body-bytes", o.maxBodyBytes, "largest body of a request")
      ->check(CLI::Range(int64_t(1024), int64_t(1) << 30))
      ->capture_default_str()
      ->group(group);
  app.add_option("--max-connections", o.maxConnections, "more are turned away with 503")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->group(group);
  app.add_option("--stream-buffer-bytes", o.streamBufferBytes, "what may wait for a client that does not read its stream; more ends the request")
      ->check(CLI::Range(int64_t(4096), int64_t(1) << 40))
      ->capture_default_str()
      ->group(group);
  app.add_option("--tokenizer-threads", o.tokenizerThreads, "threads that parse and tokenise requests")
      ->check(CLI::Range(1, 256))
      ->capture_default_str()
      ->group(group);
  app.add_option("--seed", o.seed, "of requests that bring none (default: drawn at start)")->check(flags::checkSeed)->group(group);
  addSeconds(app, "--header-timeout", o.headerTimeout, "for the header of a request")->group(group);
  addSeconds(app, "--body-timeout", o.bodyTimeout, "for its body")->group(group);
  addSeconds(app, "--idle-timeout", o.idleTimeout, "between requests of a connection")->group(group);
  addSeconds(app, "--write-timeout", o.writeTimeout, "without the client taking a byte")->group(group);
  addSeconds(app, "--shutdown-timeout", o.shutdownTimeout, "that running requests have after SIGTERM")->group(group);
}

void addEngine(CLI::App &app, Options &o) {
  const char *group = "Engine";
  app.add_option("--max-num-queued-reqs", o.maxQueued, "requests that may wait; more get 429 (default: any number)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 30))
      ->group(group);
  SchedulerOptions &s = o.engine.scheduling;
  app.add_option("--schedule", o.schedule, "split: prompts and decoding in steps of their own; mixed: in one")
      ->check(CLI::IsMember({"split", "mixed"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--scheduling-policy", o.policy, "fcfs, or priority: lower `priority` of a request first")
      ->check(CLI::IsMember({"fcfs", "priority"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--max-num-seqs", s.maxNumSeqs, "sequences that run at once (default: as many as the artifact holds)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 30))
      ->group(group);
  app.add_option("--max-num-batched-tokens", s.maxNumBatchedTokens, "tokens of a step (default: as many as the artifact holds)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 30))
      ->group(group);
  flags::addPrefillChunk(app, s.prefillChunk)->group(group);
  app.add_option("--max-token-gap", s.maxTokenGap, "between two tokens of a running request while prompts stream in")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str()
      ->type_name("SECONDS")
      ->group(group);
  app.add_option("--prefix-cache", o.prefixCache, "on: keys of prompts are kept for requests that begin alike; off")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--watchdog-timeout", o.watchdogSeconds, "a step that runs longer makes /health answer 503")
      ->check(CLI::Range(0.01, 1e6))
      ->capture_default_str()
      ->type_name("SECONDS")
      ->group(group);
}

void addLog(CLI::App &app, Options &o) {
  app.add_option("--log-format", o.logFormat, "text or json: of the lines on standard error")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str()
      ->group("Log");
  app.add_option("--log-level", o.logLevel, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str()
      ->group("Log");
}

std::string valueText(const CLI::Option &option) {
  if (option.get_name() == "--api-key")
    return option.count() ? "(hidden)" : "(none)";
  if (option.count() == 0)
    return option.get_default_str().empty() ? "(default)" : option.get_default_str();
  std::string text;
  for (const std::string &value : option.results())
    text += (text.empty() ? "" : ",") + value;
  return text;
}

std::vector<std::string> describe(const CLI::App &app, const Origins &origins) {
  std::vector<std::string> lines;
  for (const CLI::Option *option : app.get_options())
    if (auto it = origins.find(option); it != origins.end())
      lines.push_back(option->get_name() + "=" + printable(valueText(*option), 200) + (it->second == "default" ? "" : " (" + it->second + ")"));
  return lines;
}

} // namespace

Result<std::optional<Options>> parseOptions(int argc, char **argv) {
  Options options;
  CLI::App app("Serves a model compiled by compile-model over HTTP, with OpenAI's API. Each flag can also be set by DSV3_NAME in the "
               "environment or by its name in the file of --config; a flag wins over the environment, that over the file.",
               "dsv3-serve");
  app.add_option("OUT", options.artifact, "artifact written by compile-model")->required();
  app.add_option("--config", options.config, "YAML file: a map of flags, without the dashes in front, to values");
  addServer(app, options.server);
  addEngine(app, options);
  flags::addMachine(app, options.open);
  addLog(app, options);
  flags::refuseEmptyValues(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    std::fputs(app.help().c_str(), stdout);
    return std::optional<Options>();
  } catch (const CLI::ParseError &e) {
    return usageError(flags::oneLine(e.what()));
  }
  Result<Origins> origins = fillIn(app, options.config);
  if (!origins)
    return origins.error();
  options.engine.scheduling.schedule = options.schedule == "mixed" ? Schedule::Mixed : Schedule::Split;
  options.engine.scheduling.policy = options.policy == "priority" ? Policy::Priority : Policy::Fcfs;
  options.engine.prefixCache = options.prefixCache == "on";
  options.effective = describe(app, *origins);
  return std::optional<Options>(std::move(options));
}

} // namespace dsv3::serve
