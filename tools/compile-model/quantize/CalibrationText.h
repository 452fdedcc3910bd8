// The text that a model is calibrated on.
#pragma once

#include "runtime/core/Result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dsv3 {

/// Token sequences of at most `length` tokens, begin token included, and at most `tokens` in all, by the tokenizer of a checkpoint folder.
/// JSON lines ("FILE.jsonl"): a sequence per field `text`, whose special tokens are parsed; what is longer is cut. Other files are
/// one text, cut into sequences one after the other. Where there is more than `tokens`, sequences are taken at even distances.
/// Usage errors: no tokenizer, an empty file, a line without the field.
Result<std::vector<std::vector<int32_t>>> readCalibrationText(const std::string &modelFolder, const std::string &path, int64_t tokens, int64_t length);

} // namespace dsv3
