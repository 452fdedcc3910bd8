// Filters over lists.
#pragma once

#include "runtime/text/jinja/Builtins.h"

namespace dsv3::text::jinja {

/// map (of an attribute, or by a filter), select reject selectattr rejectattr (by a test), reverse, sort, unique, dictsort; and of
/// single values int, float, abs, indent.
bool isListFilter(const std::string &name);

Result<Value> applyListFilter(const std::string &name, const Value &input, const Arguments &arguments);

} // namespace dsv3::text::jinja
