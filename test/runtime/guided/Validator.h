// A validator of JSON Schema that shares nothing with the compiler: it looks at values, not at texts.
#pragma once

#include <nlohmann/json.hpp>

#include <cmath>
#include <regex>
#include <string>

namespace dsv3::guided {

class Validator {
public:
  explicit Validator(const nlohmann::json &root) : root(root) {}

  /// Empty: satisfied.
  std::string check(const nlohmann::json &schema, const nlohmann::json &v, int depth = 0) const {
    if (schema.is_boolean())
      return schema.get<bool>() ? "" : "nothing is allowed";
    if (depth > 200)
      return "too deep";
    if (schema.contains("$ref"))
      return check(root.at(nlohmann::json::json_pointer(schema["$ref"].get<std::string>().substr(1))), v, depth + 1);
    if (schema.contains("anyOf")) {
      for (const auto &s : schema["anyOf"])
        if (check(s, v, depth + 1).empty())
          return "";
      return "none of anyOf";
    }
    if (schema.contains("const") && v != schema["const"])
      return "not the constant";
    if (schema.contains("enum")) {
      bool found = false;
      for (const auto &e : schema["enum"])
        found |= e == v;
      if (!found)
        return "not in enum";
    }
    if (schema.contains("type")) {
      nlohmann::json kinds = schema["type"].is_array() ? schema["type"] : nlohmann::json::array({schema["type"]});
      bool found = false;
      for (const auto &k : kinds)
        found |= isKind(v, k);
      if (!found)
        return "wrong type: " + v.dump();
    }
    if (v.is_object())
      return object(schema, v, depth);
    if (v.is_array())
      return array(schema, v, depth);
    if (v.is_string())
      return string(schema, v);
    if (v.is_number())
      return number(schema, v.get<double>());
    return "";
  }

private:
  static bool isKind(const nlohmann::json &v, const std::string &k) {
    if (k == "integer")
      return v.is_number() && std::trunc(v.get<double>()) == v.get<double>();
    return k == "object" ? v.is_object() : k == "array" ? v.is_array() : k == "string" ? v.is_string() : k == "number" ? v.is_number()
         : k == "boolean" ? v.is_boolean() : v.is_null();
  }

  std::string object(const nlohmann::json &schema, const nlohmann::json &v, int depth) const {
    for (const auto &name : schema.value("required", nlohmann::json::array()))
      if (!v.contains(name.get<std::string>()))
        return "missing " + name.dump();
    const auto properties = schema.value("properties", nlohmann::json::object());
    for (const auto &[key, value] : v.items()) {
      std::string problem;
      if (properties.contains(key))
        problem = check(properties[key], value, depth + 1);
      else if (schema.contains("additionalProperties"))
        problem = check(schema["additionalProperties"], value, depth + 1);
      if (!problem.empty())
        return key + ": " + problem;
    }
    return "";
  }

  std::string array(const nlohmann::json &schema, const nlohmann::json &v, int depth) const {
    if (v.size() < schema.value("minItems", size_t(0)) || v.size() > schema.value("maxItems", SIZE_MAX))
      return "wrong number of items";
    const auto prefix = schema.value("prefixItems", nlohmann::json::array());
    for (size_t i = 0; i < v.size(); ++i) {
      std::string problem;
      if (i < prefix.size())
        problem = check(prefix[i], v[i], depth + 1);
      else if (schema.contains("items"))
        problem = check(schema["items"], v[i], depth + 1);
      if (!problem.empty())
        return "[" + std::to_string(i) + "]: " + problem;
    }
    return "";
  }

  static std::string string(const nlohmann::json &schema, const std::string &v) {
    size_t length = 0;
    for (char c : v)
      length += (c & 0xC0) != 0x80;
    if (length < schema.value("minLength", size_t(0)) || length > schema.value("maxLength", SIZE_MAX))
      return "wrong length: " + v;
    if (schema.contains("pattern") && !std::regex_search(v, std::regex(schema["pattern"].get<std::string>())))
      return "no match: " + v;
    if (schema.value("format", "") == "date" && !std::regex_match(v, std::regex(R"(\d{4}-\d\d-\d\d)")))
      return "no date: " + v;
    return "";
  }

  static std::string number(const nlohmann::json &schema, double v) {
    bool ok = true;
    if (schema.contains("minimum"))
      ok &= v >= schema["minimum"].get<double>();
    if (schema.contains("maximum"))
      ok &= v <= schema["maximum"].get<double>();
    if (schema.contains("exclusiveMinimum"))
      ok &= v > schema["exclusiveMinimum"].get<double>();
    if (schema.contains("exclusiveMaximum"))
      ok &= v < schema["exclusiveMaximum"].get<double>();
    return ok ? "" : "out of bounds: " + std::to_string(v);
  }

  const nlohmann::json &root;
};

/// What is wrong with a text; empty: nothing.
inline std::string violation(const nlohmann::json &schema, const std::string &text) {
  nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  return value.is_discarded() ? "not JSON" : Validator(schema).check(schema, value);
}

} // namespace dsv3::guided
