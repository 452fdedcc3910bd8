#include "runtime/core/Json.h"

#include "runtime/core/MappedFile.h"

#include <cmath>
#include <unordered_set>
#include <vector>

namespace dsv3 {

Result<int64_t> eachJsonLine(std::string_view text, const std::string &path, int64_t limit,
                             const std::function<Status(const Json &, const std::string &)> &read) {
  int64_t taken = 0;
  for (int64_t number = 1; !text.empty() && (limit == 0 || taken < limit); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (content.find_first_not_of(" \t\r") == content.npos)
      continue;
    const std::string where = path + ": line " + std::to_string(number);
    Result<Json> line = parseJson(content, where);
    if (!line)
      return line.error();
    if (!line->is_object())
      return checkpointError(where + ": expected an object, got " + describe(*line));
    if (Status s = read(*line, where); !s)
      return s.error();
    ++taken;
  }
  return taken;
}

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  for (char c : text.substr(0, limit))
    out += (c >= 0x20 && c < 0x7f) ? c : '?';
  if (text.size() > limit)
    out += "...";
  return out;
}

/// nlohmann's "[json.exception.parse_error.101] parse error at line 1, ..." without the
/// bracket, which means nothing to a user.
static std::string parserMessage(const char *what) {
  std::string_view text = what;
  if (size_t end = text.find("] "); end != text.npos && text.front() == '[')
    text.remove_prefix(end + 2);
  return printable(text, 200);
}

template <typename J> static Result<J> parse(std::string_view text, const std::string &what) {
  if (const size_t null = text.find('\0'); null != text.npos) // to the parser the end: what follows would be left out in silence
    return checkpointError(what + ": not valid JSON: a null byte at byte " + std::to_string(null + 1));
  // The parser keeps the last of several equal keys. That would let a file mean two
  // things to two readers, so count the keys of each open object.
  std::vector<std::unordered_set<std::string>> open;
  std::optional<std::string> duplicate;
  auto watch = [&](int, typename J::parse_event_t event, J &parsed) {
    if (event == J::parse_event_t::object_start) {
      open.emplace_back();
    } else if (event == J::parse_event_t::object_end) {
      open.pop_back();
    } else if (event == J::parse_event_t::key) {
      const auto &key = parsed.template get_ref<const std::string &>();
      if (!open.back().insert(key).second && !duplicate)
        duplicate = key;
    }
    return true;
  };
  try {
    J value = J::parse(text.begin(), text.end(), watch);
    if (duplicate)
      return checkpointError(what + ": duplicate key \"" + printable(*duplicate, 200) + "\"");
    return value;
  } catch (const nlohmann::json::exception &e) {
    return checkpointError(what + ": not valid JSON: " + parserMessage(e.what()));
  }
}

Result<Json> parseJson(std::string_view text, const std::string &what) {
  return parse<Json>(text, what);
}

Result<OrderedJson> parseOrderedJson(std::string_view text, const std::string &what) {
  return parse<OrderedJson>(text, what);
}

Result<Json> parseJsonFile(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.error();
  return parseJson(file->bytes(), path);
}

std::string describe(const Json &value) {
  if (value.is_object())
    return "an object";
  if (value.is_array())
    return "a list";
  if (value.is_string())
    return "\"" + printable(value.get_ref<const std::string &>()) + "\"";
  return value.dump();
}

const Json *JsonFields::find(const char *key) const {
  auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

Error JsonFields::wrong(const char *key, const std::string &expected) const {
  const Json *value = find(key);
  return checkpointError(name(key) + ": expected " + expected + ", got " +
                         (value ? describe(*value) : "null"));
}

static std::string rangeText(int64_t low, int64_t high) {
  return "an integer from " + std::to_string(low) + " to " + std::to_string(high);
}

Result<int64_t> JsonFields::integer(const char *key, int64_t low, int64_t high) const {
  const Json *value = find(key);
  if (!value)
    return missing(key);
  if (!value->is_number_integer())
    return wrong(key, "an integer");
  // Unsigned values beyond int64 would wrap to negative ones.
  bool tooLarge = value->is_number_unsigned() && value->get<uint64_t>() > uint64_t(INT64_MAX);
  int64_t number = tooLarge ? 0 : value->get<int64_t>();
  if (tooLarge || number < low || number > high)
    return wrong(key, rangeText(low, high));
  return number;
}

Result<int64_t> JsonFields::integerOr(const char *key, int64_t fallback, int64_t low,
                                      int64_t high) const {
  return has(key) ? integer(key, low, high) : Result<int64_t>(fallback);
}

Result<std::optional<int64_t>> JsonFields::integerOrNull(const char *key, int64_t low,
                                                         int64_t high) const {
  if (!has(key))
    return std::optional<int64_t>();
  Result<int64_t> value = integer(key, low, high);
  if (!value)
    return value.error();
  return std::optional<int64_t>(*value);
}

Result<double> JsonFields::number(const char *key) const {
  const Json *value = find(key);
  if (!value)
    return missing(key);
  if (!value->is_number() || !std::isfinite(value->get<double>()))
    return wrong(key, "a finite number");
  return value->get<double>();
}

Result<double> JsonFields::numberOr(const char *key, double fallback) const {
  return has(key) ? number(key) : Result<double>(fallback);
}

Result<bool> JsonFields::boolean(const char *key) const {
  const Json *value = find(key);
  if (!value)
    return missing(key);
  if (!value->is_boolean())
    return wrong(key, "true or false");
  return value->get<bool>();
}

Result<bool> JsonFields::booleanOr(const char *key, bool fallback) const {
  return has(key) ? boolean(key) : Result<bool>(fallback);
}

Result<std::string> JsonFields::string(const char *key) const {
  const Json *value = find(key);
  if (!value)
    return missing(key);
  if (!value->is_string())
    return wrong(key, "a string");
  return value->get<std::string>();
}

Result<std::string> JsonFields::stringOr(const char *key, std::string fallback) const {
  return has(key) ? string(key) : Result<std::string>(std::move(fallback));
}

Result<JsonFields> JsonFields::child(const char *key) const {
  const Json *value = find(key);
  if (!value)
    return missing(key);
  if (!value->is_object())
    return wrong(key, "an object");
  return JsonFields(*value, where, prefix + key + ".");
}

} // namespace dsv3
