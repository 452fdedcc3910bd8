// What filters, methods and functions read their arguments with.
#pragma once

#include "runtime/text/jinja/Builtins.h"

#include <string>

namespace dsv3::text::jinja {

/// Hands out arguments by position or name, and finds those nobody asked for.
class ArgumentReader {
public:
  explicit ArgumentReader(const Arguments &arguments) : arguments(arguments) {}

  /// The next parameter, or null when it was not given.
  const Value *take(const std::string &name) {
    size_t index = taken++;
    if (index < arguments.positional.size())
      return &arguments.positional[index];
    for (const auto &[key, value] : arguments.named)
      if (key == name) {
        ++namedTaken;
        return &value;
      }
    return nullptr;
  }

  const Text *takeText(const std::string &name) {
    const Value *value = take(name);
    if (value && !value->asText() && !value->isNone())
      wrong("expected a string as argument '" + name + "', got " + value->typeName());
    return value ? value->asText() : nullptr;
  }

  int64_t takeInt(const std::string &name, int64_t fallback) {
    const Value *value = take(name);
    if (!value || value->isNone())
      return fallback;
    if (!value->asInt())
      wrong("expected an integer as argument '" + name + "', got " + value->typeName());
    return value->asInt() ? *value->asInt() : fallback;
  }

  void require(bool condition, const std::string &what) {
    if (!condition)
      wrong("expected " + what);
  }

  /// After the last `take`.
  Status finish() {
    if (arguments.positional.size() > taken || arguments.named.size() > namedTaken)
      wrong("more arguments than we know");
    return problem.empty() ? Status() : Status(checkpointError(problem));
  }

private:
  void wrong(const std::string &message) {
    if (problem.empty())
      problem = message;
  }
  const Arguments &arguments;
  size_t taken = 0, namedTaken = 0;
  std::string problem;
};

} // namespace dsv3::text::jinja
