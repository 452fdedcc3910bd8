// The evaluation files: JSON lines.
#pragma once

#include "runtime/core/Result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dsv3::eval {

struct Problem {
  std::string question;
  int64_t final; ///< the number that the answer ends with
};

/// The field `text` of each line, at most `limit` lines (0: all). Usage errors name the
/// file, line and field.
Result<std::vector<std::string>> readTexts(const std::string &path, int64_t limit);

/// The fields `question` and `final` of each line.
Result<std::vector<Problem>> readProblems(const std::string &path, int64_t limit);

} // namespace dsv3::eval
