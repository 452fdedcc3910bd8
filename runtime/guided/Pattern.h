// Regular expressions of `pattern` and `format`, as rules for JSON strings.
#pragma once

#include "runtime/guided/JsonGrammar.h"

#include <optional>
#include <string>

namespace dsv3::guided {

/// A rule for strings (with quotes) in which the expression is found. The part of ECMA 262's syntax that is regular:
/// characters, escapes (\d \w \s \D \W \S \n \t \r \f \v \0 \xHH \uHHHH and of punctuation), classes, '.', groups (plain and
/// (?:...)), alternatives, ? * + {m} {m,} {m,n}, lazy ones too; ^ and $ at the ends of the whole or of its outermost
/// alternatives. \d and \w are ASCII, and their complements too, as dialects differ about the rest. Where an end is not
/// anchored any text may stand. Thompson 1968, "Regular expression search algorithm". Usage error for anything else:
/// "expected ..., got ... at 5".
Result<RuleId> compilePattern(const std::string &pattern, Grammar &grammar, JsonGrammar &json);

/// The expression of a `format`; nothing for one we do not know.
std::optional<std::string> patternOfFormat(const std::string &format);

/// "one of the formats date, ..."
std::string knownFormats();

} // namespace dsv3::guided
