// Tokens to syntax tree.
#pragma once

#include "runtime/core/Result.h"
#include "runtime/text/jinja/Ast.h"

#include <string_view>

namespace dsv3::text::jinja {

/// Parses a normalised template (see `normaliseTemplate`).
///
/// Statements: set (names or a namespace's attribute, or a block of text), if/elif/else, for
/// (several targets, `if` filter, else), break, continue, macro (outside of other statements). Expressions: all of Jinja's operators
/// but `**`, slices, inline if, the filters, tests, methods and functions of Builtins.h.
/// Errors name construct and position: Unsupported for Jinja we do not have,
/// BadCheckpoint for what is no Jinja.
Result<Body> parseTemplate(std::string_view source);

} // namespace dsv3::text::jinja
