// JSON values as template values.
#pragma once

#include "runtime/text/jinja/Value.h"

#include <nlohmann/json.hpp>

namespace dsv3::text::jinja {

/// The value of `json`; keys keep their order. All its strings are untrusted, since JSON
/// is how messages, tools and request options arrive. Ill-formed UTF-8 becomes U+FFFD.
/// Usage error for nesting deeper than 100 or an integer above 2^63 - 1.
Result<Value> fromJson(const nlohmann::ordered_json &json);

} // namespace dsv3::text::jinja
