// Flags of dsv3-serve.
#pragma once

#include "runtime/cuda/OpenDevice.h"
#include "runtime/engine/EngineLoop.h"
#include "runtime/server/Log.h"
#include "runtime/server/Options.h"

#include <optional>
#include <string>
#include <vector>

namespace dsv3::serve {

struct Options {
  std::string artifact, config;
  OpenOptions open;
  Engine::Options engine;
  std::string schedule = "split", policy = "fcfs", prefixCache = "on";
  int64_t maxQueued = 0;
  double watchdogSeconds = 60;
  server::ServerOptions server;
  std::string logFormat = "text", logLevel = "info";
  /// Every flag with its value in effect and where it is from, for people: `--port=8000 (env)`. Secrets are hidden.
  std::vector<std::string> effective;
};

/// Flags, then DSV3_* of the environment, then the file of --config. Nothing after --help. Usage errors.
Result<std::optional<Options>> parseOptions(int argc, char **argv);

} // namespace dsv3::serve
