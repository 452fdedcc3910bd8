// JSON Schema (draft 2020-12, a subset) to a grammar of the values it allows. See docs/structured-output.md.
#pragma once

#include "runtime/guided/JsonGrammar.h"

#include <string>
#include <string_view>
#include <vector>

namespace dsv3::guided {

/// The values of a schema. Every text of the grammar is valid JSON and satisfies the schema; not every such text is in it
/// (properties come in the order of the schema, white space and numbers are bounded, see JsonGrammar.h).
///
/// Usage errors name the place and what is there: "schema: #/properties/a: expected a keyword we support, got \"not\"".
/// Time and memory are bounded by `limits`, whatever the schema.
Result<Grammar> compileSchema(std::string_view schema, const Limits &limits = {});

/// The same values as a rule of a grammar that has other rules as well; `json` is of that grammar.
Result<RuleId> addSchema(std::string_view schema, Grammar &grammar, JsonGrammar &json, const Limits &limits = {});

/// One of some texts as they are. Usage error when they are too many or too long.
Result<Grammar> choiceGrammar(const std::vector<std::string> &texts, const Limits &limits = {});

/// Any JSON object.
Result<Grammar> anyObjectGrammar(const Limits &limits = {});

} // namespace dsv3::guided
