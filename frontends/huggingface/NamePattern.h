// Names of modules in `targets` and `ignore` of a quantization_config.
#pragma once

#include "runtime/core/Result.h"

#include <memory>
#include <string>

namespace dsv3::hf {

/// An exact module name, or `re:` and a regular expression that must match from the name's start but need not reach
/// its end (Python's re.match, as compressed-tensors matches; the engine is Oniguruma in Python's syntax).
class NamePattern {
public:
  /// BadCheckpoint: an ill-formed expression; `where` names its place.
  static Result<NamePattern> parse(const std::string &text, const std::string &where);
  /// A plain piece of text that a name must contain (AutoAWQ's modules_to_not_convert).
  static NamePattern containing(const std::string &text);

  /// BadCheckpoint when an expression takes too long on a name.
  Result<bool> matches(const std::string &module) const;

  const std::string &text() const { return pattern; }
  bool isRegex() const { return regex != nullptr; }

private:
  class Regex; // hides oniguruma.h

  std::string pattern, where;
  bool anywhere = false;
  std::shared_ptr<const Regex> regex;
};

} // namespace dsv3::hf
