#include "runtime/server/Fields.h"

#include <cmath>

namespace dsv3::server {

namespace {

std::string range(const std::string &what, const std::string &low, const std::string &high) {
  return what + " from " + low + " to " + high;
}

std::string shortNumber(double value) { return OrderedJson(value).dump(); }

/// What the parser would take too badly. It calls itself for nothing, but copies and dumps of what it makes do: a body of
/// brackets would end the stack. And it keeps keys in order, in a list that it searches for each new one.
std::optional<std::string> badShape(std::string_view body) {
  std::vector<int> commas; // of each open list or object; in lists they do not count
  bool inString = false;
  for (size_t i = 0; i < body.size(); ++i) {
    char c = body[i];
    if (inString) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        inString = false;
    } else if (c == '"') {
      inString = true;
    } else if (c == '{' || c == '[') {
      commas.push_back(c == '{' ? 0 : INT32_MIN);
      if (commas.size() > kMaxDepth)
        return "at most " + std::to_string(kMaxDepth) + " levels of nesting";
    } else if ((c == '}' || c == ']') && !commas.empty()) {
      commas.pop_back();
    } else if (c == ',' && !commas.empty() && ++commas.back() >= kMaxKeys) {
      return "at most " + std::to_string(kMaxKeys) + " keys in one object";
    }
  }
  return {};
}

ApiError badBody(std::string message) {
  ApiError error;
  error.message = std::move(message);
  return error;
}

} // namespace

std::string describe(const OrderedJson &value) {
  if (value.is_object())
    return "an object";
  if (value.is_array())
    return value.empty() ? "an empty list" : "a list";
  if (value.is_string())
    return "\"" + printable(value.get_ref<const std::string &>()) + "\"";
  return value.dump();
}

Outcome<OrderedJson> parseBody(std::string_view body) {
  if (std::optional<std::string> expected = badShape(body))
    return badBody("the body: expected " + *expected);
  Result<OrderedJson> parsed = parseOrderedJson(body, "the body");
  if (!parsed)
    return badBody(parsed.error().message);
  if (!parsed->is_object())
    return badBody("the body: expected a JSON object, got " + describe(*parsed));
  return std::move(*parsed);
}

const OrderedJson *Fields::find(const char *key) const {
  auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

void Fields::integer(const char *key, int64_t &out, int64_t low, int64_t high) {
  std::optional<int64_t> value;
  integer(key, value, low, high);
  out = value.value_or(out);
}

void Fields::integer(const char *key, std::optional<int64_t> &out, int64_t low, int64_t high) {
  const OrderedJson *value = find(key);
  if (!value)
    return;
  // Above 2^63 the parser has an unsigned number, above 2^64 a floating one.
  bool fits = value->is_number_integer() && !(value->is_number_unsigned() && value->get<uint64_t>() > uint64_t(INT64_MAX));
  if (!fits || value->get<int64_t>() < low || value->get<int64_t>() > high)
    return refuse(key, range("an integer", std::to_string(low), std::to_string(high)));
  out = value->get<int64_t>();
}

void Fields::number(const char *key, double &out, double low, double high) {
  const OrderedJson *value = find(key);
  if (!value)
    return;
  if (!value->is_number() || !(value->get<double>() >= low && value->get<double>() <= high))
    return refuse(key, range("a number", shortNumber(low), shortNumber(high)));
  out = value->get<double>();
}

void Fields::boolean(const char *key, bool &out) {
  const OrderedJson *value = find(key);
  if (!value)
    return;
  if (!value->is_boolean())
    return refuse(key, "true or false");
  out = value->get<bool>();
}

void Fields::string(const char *key, std::string &out) {
  const OrderedJson *value = find(key);
  if (!value)
    return;
  if (!value->is_string())
    return refuse(key, "a string");
  out = value->get<std::string>();
}

const OrderedJson *Fields::child(const char *key) {
  const OrderedJson *value = find(key);
  if (value && !value->is_object()) {
    refuse(key, "an object");
    return nullptr;
  }
  return value;
}

void Fields::refuse(const char *key, const std::string &expected) {
  const OrderedJson *value = find(key);
  fail(key, "expected " + expected + ", got " + (value ? describe(*value) : std::string("null")));
}

void Fields::fail(const char *key, const std::string &message) {
  if (!first)
    first = badField(prefix + key, message);
}

void Fields::take(const std::optional<ApiError> &other) {
  if (!first)
    first = other;
}

} // namespace dsv3::server
