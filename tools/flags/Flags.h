// What the command lines of several tools share.
#pragma once

#include "runtime/cuda/OpenDevice.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace dsv3::flags {

/// --threads, --device, --kv-pages, --cpu-features, --verify.
void addMachine(CLI::App &app, OpenOptions &open);

/// --prefill-chunk, of a scheduler.
CLI::Option *addPrefillChunk(CLI::App &app, int64_t &rows);

/// A check of all flags but `allowed`: CLI11 takes an empty value as a zero, or as no flag at all.
void refuseEmptyValues(CLI::App &app, const std::vector<std::string> &allowed = {});

/// A check of one: CLI11 wraps "-1" into 2^64 - 1 and cuts larger numbers to it.
std::string checkSeed(const std::string &text);

/// CLI11's messages have several lines.
std::string oneLine(std::string text);

} // namespace dsv3::flags
