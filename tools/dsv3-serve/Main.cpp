// dsv3-serve: an artifact behind an OpenAI-compatible HTTP server.
#include "Fault.h"
#include "Options.h"
#include "runtime/cuda/OpenDevice.h"
#include "runtime/engine/Engine.h"
#include "runtime/server/Server.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>

namespace dsv3::serve {

namespace {

using server::LogLevel;

void setUpLog(const Options &options) {
  LogLevel least = options.logLevel == "debug"     ? LogLevel::Debug
                   : options.logLevel == "warning" ? LogLevel::Warning
                   : options.logLevel == "error"   ? LogLevel::Error
                                                   : LogLevel::Info;
  server::setUpLog(options.logFormat == "json" ? server::LogFormat::Json : server::LogFormat::Text, least);
}

/// "models/tiny.dsv3/" -> "tiny"
std::string nameOf(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/')
    folder.pop_back();
  folder.erase(0, folder.rfind('/') + 1);
  const std::string ending = ".dsv3";
  if (folder.size() > ending.size() && folder.compare(folder.size() - ending.size(), ending.size(), ending) == 0)
    folder.resize(folder.size() - ending.size());
  return folder;
}

Result<int> serve(Options options) {
  auto start = std::chrono::steady_clock::now();
  std::optional<TextModel> text;
  options.open.check = [&](const Artifact &artifact) -> Status {
    Result<TextModel> loaded = TextModel::load(artifact);
    if (!loaded)
      return loaded.error();
    text.emplace(std::move(*loaded));
    return {};
  };
  Result<OpenedModel> opened = openModel(options.artifact, options.open);
  if (!opened)
    return opened.error();
  for (const std::string &note : opened->notes)
    log(LogLevel::Warning, note);
  Result<std::unique_ptr<Engine>> engine = Engine::create(*opened->device, opened->artifact->manifest(), options.engine);
  if (!engine)
    return engine.error();
  if (options.server.names.empty())
    options.server.names.push_back(nameOf(options.artifact));
  options.server.version = DSV3_VERSION;
  server::ServedModel model(*text, opened->artifact->manifest(), options.server.names);
  server::Metrics metrics(model.names().front(), model.limits().maxModelLen);
  std::optional<EngineLoop> loop;
  EngineLoop::Options how;
  how.maxQueued = options.maxQueued;
  Result<std::function<void()>> fault = faultOfEnvironment();
  if (!fault)
    return fault.error();
  how.beforeStep = *fault;
  how.watchdog = std::chrono::milliseconds(int64_t(options.watchdogSeconds * 1000));
  loop.emplace(**engine, how);
  int code;
  {
    server::Server server(model, *loop, metrics, options.server);
    if (Status s = server.listen(); !s)
      return s.error();
    double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    // Only now: what could not start has said why in one line.
    OrderedJson effective = options.effective;
    log(LogLevel::Info, "configuration", {{"flags", effective}});
    log(LogLevel::Info, "serving", {{"url", "http://" + server.address()}, {"model", model.names().front()}, {"artifact", options.artifact},
                                    {"device", opened->device->describe()}, {"start_ms", int64_t(ms)}});
    code = server.run();
    loop.reset(); // its callbacks post to the server's thread
  }
  return code;
}

int run(int argc, char **argv) {
  std::signal(SIGPIPE, SIG_IGN); // a client that goes away is seen as an error of a write
  Result<std::optional<Options>> options = parseOptions(argc, argv);
  if (options && !*options)
    return int(ExitCode::Ok);
  Result<int> code = options ? [&]() -> Result<int> {
    setUpLog(**options);
    return serve(std::move(**options));
  }()
                             : Result<int>(options.error());
  if (code)
    return *code;
  std::fprintf(stderr, "dsv3-serve: error: %s\n", code.error().message.c_str());
  return int(code.error().code);
}

} // namespace

} // namespace dsv3::serve

int main(int argc, char **argv) { return dsv3::serve::run(argc, argv); }
