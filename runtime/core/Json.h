// JSON from files nobody vouches for: nlohmann-json without exceptions, without
// silently dropped duplicate keys, and with errors that name the file and the field.
#pragma once

#include "runtime/core/Result.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace dsv3 {

using Json = nlohmann::json;
/// Keeps the order of keys; lookups are linear, so only for small documents.
using OrderedJson = nlohmann::ordered_json;

/// Parses `text`; `what` names it in errors. A key that occurs twice in one object is an
/// error that contains "duplicate" and the key. The error code is BadCheckpoint.
Result<Json> parseJson(std::string_view text, const std::string &what);
Result<OrderedJson> parseOrderedJson(std::string_view text, const std::string &what);

/// Reads and parses a file; `path` names it in errors.
Result<Json> parseJsonFile(const std::string &path);

/// JSON Lines: calls `read` with the object of every line that is not blank and with "PATH: line 3", which names it in errors; the
/// first error ends it. At most `limit` lines are read, 0: all. Returns how many there were.
Result<int64_t> eachJsonLine(std::string_view text, const std::string &path, int64_t limit,
                             const std::function<Status(const Json &object, const std::string &where)> &read);

/// Makes text from a file safe to show on one line: control and non-ASCII bytes become
/// '?', and what is longer than `limit` is cut.
std::string printable(std::string_view text, size_t limit = 80);

/// How a value looks in an error message: `"gelu"`, `8`, `null`, `an object`.
std::string describe(const Json &value);

/// Typed access to the fields of one JSON object. Errors read
/// "config.json: kv_lora_rank is missing" or
/// "config.json: kv_lora_rank: expected an integer, got "x"", code BadCheckpoint.
/// `has` and the `OrNull` forms treat null like a missing field.
class JsonFields {
public:
  /// `object` must outlive this; `where` is the file, `prefix` the path of this object
  /// inside it ("rope_scaling.") or empty.
  JsonFields(const Json &object, std::string where, std::string prefix = "")
      : object(object), where(std::move(where)), prefix(std::move(prefix)) {}

  bool has(const char *key) const { return find(key) != nullptr; }
  /// The value, or nullptr when missing or null.
  const Json *find(const char *key) const;

  /// An integer in [low, high]. 3.0 is not an integer.
  Result<int64_t> integer(const char *key, int64_t low, int64_t high) const;
  Result<int64_t> integerOr(const char *key, int64_t fallback, int64_t low, int64_t high) const;
  Result<std::optional<int64_t>> integerOrNull(const char *key, int64_t low, int64_t high) const;
  /// Any finite number, integers included.
  Result<double> number(const char *key) const;
  Result<double> numberOr(const char *key, double fallback) const;
  Result<bool> boolean(const char *key) const;
  Result<bool> booleanOr(const char *key, bool fallback) const;
  Result<std::string> string(const char *key) const;
  Result<std::string> stringOr(const char *key, std::string fallback) const;
  /// The object under `key`, with errors that carry the path to it.
  Result<JsonFields> child(const char *key) const;

  /// "config.json: rope_scaling.factor"
  std::string name(const char *key) const { return where + ": " + prefix + key; }
  Error missing(const char *key) const { return checkpointError(name(key) + " is missing"); }
  Error wrong(const char *key, const std::string &expected) const;

private:
  const Json &object;
  std::string where, prefix;
};

} // namespace dsv3
