#include "runtime/guided/SchemaParts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

namespace dsv3::guided {

namespace {

using Schema = OrderedJson;

/// Keywords by the type they speak about; "": of any, "-": those that only describe.
const std::map<std::string, std::string> &keywords() {
  static const std::map<std::string, std::string> table = {
      {"title", "-"},           {"description", "-"},   {"default", "-"},   {"examples", "-"},
      {"$schema", "-"},         {"$id", "-"},           {"$comment", "-"},  {"deprecated", "-"},
      {"readOnly", "-"},        {"writeOnly", "-"},     {"$defs", "-"},     {"definitions", "-"},
      {"type", ""},             {"enum", ""},           {"const", ""},      {"anyOf", ""},
      {"allOf", ""},            {"$ref", ""},           {"properties", "object"}, {"required", "object"},
      {"additionalProperties", "object"}, {"items", "array"}, {"prefixItems", "array"}, {"minItems", "array"},
      {"maxItems", "array"},    {"minLength", "string"}, {"maxLength", "string"}, {"pattern", "string"},
      {"format", "string"},     {"minimum", "integer"}, {"maximum", "integer"}, {"exclusiveMinimum", "integer"},
      {"exclusiveMaximum", "integer"}};
  return table;
}

std::string quoted(const std::string &text) { return "\"" + printable(text) + "\""; }

} // namespace

Error schemaError(const std::string &path, const std::string &message) {
  return usageError("schema: " + printable(path, 200) + ": " + message);
}

std::string describeSchema(const Schema &value) {
  if (value.is_object())
    return "an object";
  if (value.is_array())
    return value.empty() ? "an empty list" : "a list";
  if (value.is_string())
    return quoted(value.get_ref<const std::string &>());
  return value.dump();
}

Status checkNesting(std::string_view json, int most) {
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < json.size(); ++i) {
    char c = json[i];
    if (inString && c == '\\')
      ++i;
    else if (c == '"')
      inString = !inString;
    else if (!inString && (c == '{' || c == '[') && ++depth > most)
      return usageError("schema: expected at most " + std::to_string(most) + " levels of brackets, got more");
    else if (!inString && (c == '}' || c == ']'))
      --depth;
  }
  return {};
}

const Schema *resolvePointer(const Schema &document, const std::string &pointer) {
  const Schema *at = &document;
  for (size_t i = 1; i < pointer.size();) {
    if (pointer[i] != '/')
      return nullptr;
    size_t end = std::min(pointer.find('/', i + 1), pointer.size());
    std::string name;
    for (size_t k = i + 1; k < end; ++k) {
      bool escape = pointer[k] == '~' && k + 1 < end && (pointer[k + 1] == '0' || pointer[k + 1] == '1');
      name += escape ? (pointer[++k] == '0' ? '~' : '/') : pointer[k];
    }
    i = end;
    if (at->is_object()) {
      auto found = at->find(name);
      if (found == at->end())
        return nullptr;
      at = &*found;
    } else if (at->is_array() && !name.empty() && name.size() < 8 && name.find_first_not_of("0123456789") == name.npos &&
               size_t(std::stoul(name)) < at->size()) {
      at = &(*at)[size_t(std::stoul(name))];
    } else {
      return nullptr;
    }
  }
  return at;
}

bool hasKind(const Schema &value, const std::vector<std::string> &kinds) {
  auto is = [&](const std::string &kind) {
    if (kind == "integer")
      return value.is_number_integer() || (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>());
    return kind == "object" ? value.is_object() : kind == "array" ? value.is_array() : kind == "string" ? value.is_string()
         : kind == "number" ? value.is_number() : kind == "boolean" ? value.is_boolean() : value.is_null();
  };
  return kinds.empty() || std::any_of(kinds.begin(), kinds.end(), is);
}

const Schema *SchemaView::find(const char *keyword) const {
  auto it = schema.find(keyword);
  return it == schema.end() ? nullptr : &*it;
}

Error SchemaView::unsupported(const std::string &keyword, const std::string &expected) const {
  return schemaError(path, "expected " + expected + ", got " + quoted(keyword));
}

Status SchemaView::checkKeywords() const {
  for (auto it = schema.begin(); it != schema.end(); ++it)
    if (!keywords().count(it.key()))
      return unsupported(it.key(), "a keyword that is supported");
  return {};
}

Status SchemaView::expectOnly(const std::vector<std::string> &allowed) const {
  for (auto it = schema.begin(); it != schema.end(); ++it)
    if (keywords().at(it.key()) != "-" && std::find(allowed.begin(), allowed.end(), it.key()) == allowed.end())
      return unsupported(it.key(), "no other keyword beside \"" + allowed.front() + "\"");
  return {};
}

Status SchemaView::expectKeywordsOf(const std::vector<std::string> &kinds) const {
  for (auto it = schema.begin(); it != schema.end(); ++it) {
    const std::string &kind = keywords().at(it.key());
    bool numeric = kind == "integer" && std::find(kinds.begin(), kinds.end(), "number") != kinds.end();
    if (numeric)
      return unsupported(it.key(), "bounds of integers only");
    if (kind != "-" && kind != "" && std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
      return unsupported(it.key(), "keywords of its type");
  }
  return {};
}

std::string SchemaView::firstRule() const {
  for (auto it = schema.begin(); it != schema.end(); ++it)
    if (keywords().at(it.key()) != "-")
      return quoted(it.key());
  return "";
}

Result<std::vector<std::string>> SchemaView::kinds() const {
  static const std::vector<std::string> known = {"object", "array", "string", "number", "integer", "boolean", "null"};
  std::vector<std::string> kinds;
  const Schema *type = find("type");
  if (!type)
    return kinds;
  Schema list = type->is_array() ? *type : Schema::array({*type});
  for (const Schema &t : list) {
    if (!t.is_string() || std::find(known.begin(), known.end(), t.get<std::string>()) == known.end())
      return schemaError(path + "/type", "expected a type, or a list of types, got " + describeSchema(t));
    if (std::find(kinds.begin(), kinds.end(), t.get<std::string>()) == kinds.end())
      kinds.push_back(t.get<std::string>());
  }
  if (kinds.empty())
    return schemaError(path + "/type", "expected a type, or a list of types, got an empty list");
  if (std::find(kinds.begin(), kinds.end(), "number") != kinds.end())
    kinds.erase(std::remove(kinds.begin(), kinds.end(), "integer"), kinds.end());
  return kinds;
}

Result<std::optional<uint64_t>> SchemaView::count(const char *keyword) const {
  const Schema *value = find(keyword);
  if (!value)
    return std::optional<uint64_t>();
  double number = value->is_number() ? value->get<double>() : -1;
  if (!(number >= 0 && number <= 1e9 && std::trunc(number) == number))
    return schemaError(path + "/" + keyword, "expected an integer from 0 to 1000000000, got " + describeSchema(*value));
  return std::optional<uint64_t>(uint64_t(number));
}

Result<std::optional<int64_t>> SchemaView::bound(const char *keyword) const {
  const Schema *value = find(keyword);
  if (!value)
    return std::optional<int64_t>();
  double number = value->is_number() ? value->get<double>() : NAN;
  if (!(std::fabs(number) <= 1e15)) // exact as a double, and so is one more
    return schemaError(path + "/" + keyword, "expected a number up to 1e15, got " + describeSchema(*value));
  std::string name = keyword;
  bool low = name.find("inimum") != name.npos, exclusive = name[0] == 'e';
  double nearest = low ? std::ceil(number) : std::floor(number);
  if (exclusive && nearest == number)
    nearest += low ? 1 : -1;
  return std::optional<int64_t>(int64_t(nearest));
}

Result<std::vector<Property>> SchemaView::properties() const {
  std::vector<Property> result;
  std::unordered_map<std::string, size_t> places;
  if (const Schema *map = find("properties")) {
    if (!map->is_object())
      return schemaError(path + "/properties", "expected an object, got " + describeSchema(*map));
    for (auto it = map->begin(); it != map->end(); ++it) {
      places[it.key()] = result.size();
      result.push_back({it.key(), path + "/properties/" + it.key(), &it.value(), false});
    }
  }
  if (const Schema *list = find("required")) {
    if (!list->is_array())
      return schemaError(path + "/required", "expected a list of names, got " + describeSchema(*list));
    for (const Schema &name : *list) {
      if (!name.is_string())
        return schemaError(path + "/required", "expected a list of names, got " + describeSchema(name));
      auto [it, isNew] = places.try_emplace(name.get<std::string>(), result.size());
      if (isNew && find("additionalProperties") && !(find("additionalProperties")->is_boolean() && find("additionalProperties")->get<bool>()))
        return schemaError(path + "/required", "expected a name in properties, got " + describeSchema(name));
      if (isNew)
        result.push_back({name.get<std::string>(), path, nullptr, false});
      result[it->second].required = true;
    }
  }
  return result;
}

} // namespace dsv3::guided
