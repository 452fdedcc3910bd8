// Template text to tokens.
#pragma once

#include "runtime/core/Result.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dsv3::text::jinja {

struct Token {
  enum Kind { Data, BlockBegin, BlockEnd, OutputBegin, OutputEnd, Name, String, Integer, Float,
              Operator, End };
  Kind kind = End;
  std::string text; ///< data, name, digits, operator; a string's content without escapes
  size_t offset = 0;
};

/// "line 3, column 7", counted from 1, columns in characters.
std::string describePosition(std::string_view source, size_t offset);

/// "SOURCE NAME: line 3, column 7: message".
Error errorAt(ExitCode code, std::string_view source, size_t offset, const std::string &message);

/// `source` with line ends as "\n" and without one at the very end, as Jinja reads it.
std::string normaliseTemplate(std::string_view source);

/// Cuts a normalised template into tokens; the last one is `End`. White space follows
/// Jinja with trim_blocks and lstrip_blocks, as HuggingFace sets them: a line break after
/// a block or comment goes, and so do blanks between a line's start and a block.
/// Errors: BadCheckpoint for an unclosed tag or string or a stray character,
/// Unsupported for an escape in a string that we do not know.
Result<std::vector<Token>> tokenize(std::string_view source);

} // namespace dsv3::text::jinja
