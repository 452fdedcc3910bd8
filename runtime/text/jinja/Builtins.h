// Filters, tests and methods: everything the language calls by name.
#pragma once

#include "runtime/text/jinja/Value.h"

#include <string>
#include <utility>
#include <vector>

namespace dsv3::text::jinja {

/// Evaluated arguments.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Known names, so that a template which needs more is refused before it runs.
/// Filters: trim upper lower capitalize length count tojson default d string list first last join replace items, and those of
/// ListFilters.h. Tests: defined undefined none string number integer float boolean true false mapping iterable sequence odd
/// even, and with an argument eq ne lt le gt ge (and their other names) in. Methods of strings: split splitlines strip lstrip
/// rstrip startswith endswith upper lower capitalize title replace find count join; of dicts: get items keys values. Functions:
/// namespace, raise_exception, range (done by the evaluator).
bool isFilter(const std::string &name);
bool isTest(const std::string &name);
bool isMethod(const std::string &name);
bool isFunction(const std::string &name);

/// `input | name(arguments)`, as in Jinja 3. upper and lower map ASCII only and refuse
/// other letters (Unsupported); what tojson writes is untrusted.
/// Errors carry no position: BadCheckpoint for wrong types or arguments.
Result<Value> applyFilter(const std::string &name, const Value &input, const Arguments &arguments);

/// `input is name(arguments)`.
Result<bool> applyTest(const std::string &name, const Value &input, const Arguments &arguments = {});

/// `self.name(arguments)`, as Python's str and dict do.
Result<Value> callMethod(const std::string &name, const Value &self, const Arguments &arguments);

/// Python's json.dumps(value, ensure_ascii=False, indent=indent); indent < 0 is none.
Result<std::string> toJson(const Value &value, int64_t indent);

} // namespace dsv3::text::jinja
