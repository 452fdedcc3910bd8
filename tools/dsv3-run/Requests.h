// The requests of a run, from flags or from the lines of a batch file.
#pragma once

#include "Options.h"
#include "runtime/engine/TextModel.h"

#include <vector>

namespace dsv3::run {

struct TextRequest {
  std::vector<int32_t> prompt;
  CompletionParams params;
};

/// One request, or one per line of the batch file. A line without its own seed samples
/// with --seed and its index, so that equal lines differ. Usage errors name the flag, or
/// the file, line and key.
Result<std::vector<TextRequest>> makeRequests(const Options &options, const TextModel &model);

/// "0,2037,660"; whole lists only. `what` names it in errors.
Result<std::vector<int32_t>> parseIds(const std::string &text, const std::string &what);

} // namespace dsv3::run
