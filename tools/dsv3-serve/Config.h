// Values for flags that the command line does not give: environment and file.
#pragma once

#include "runtime/core/Result.h"

#include <CLI/CLI.hpp>

#include <map>
#include <string>
#include <vector>

namespace dsv3::serve {

/// "--max-num-queued-reqs" -> "DSV3_MAX_NUM_QUEUED_REQS"
std::string environmentName(const CLI::Option &option);

/// Where each option's value is from: "flag", "env", "file" or "default".
using Origins = std::map<const CLI::Option *, std::string>;

/// Fills in options of `app` that its parse() has not seen: from the environment, else from the YAML file `path` (empty: none),
/// whose keys are the flags without dashes in front ('_' is as good as '-'). Usage errors: an unknown or repeated key, a value
/// that the flag refuses.
Result<Origins> fillIn(CLI::App &app, const std::string &path);

} // namespace dsv3::serve
