#include "runtime/guided/SchemaCompiler.h"

#include "runtime/core/Json.h"
#include "runtime/guided/JsonGrammar.h"
#include "runtime/guided/Pattern.h"
#include "runtime/guided/SchemaParts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace dsv3::guided {

namespace {

class Compiler {
public:
  Compiler(const OrderedJson &document, const Limits &limits, Grammar &g, JsonGrammar &json) : document(document), limits(limits), g(g), json(json) {}

  Result<RuleId> run() { return compile(document, "#", 0); }

private:
  using Schema = OrderedJson;

  Result<RuleId> compile(const Schema &schema, const std::string &path, int depth);
  Result<RuleId> compileKinds(const SchemaView &view, int depth);
  Result<RuleId> compileKind(const std::string &kind, const SchemaView &view, int depth);
  Result<RuleId> compileReference(const SchemaView &view, int depth);
  Result<RuleId> compileAnyOf(const SchemaView &view, int depth);
  Result<RuleId> compileConstants(const SchemaView &view);
  Result<RuleId> compileString(const SchemaView &view);
  Result<RuleId> compileInteger(const SchemaView &view);
  Result<RuleId> compileArray(const SchemaView &view, int depth);
  Result<RuleId> compileObject(const SchemaView &view, int depth);
  Result<RuleId> additional(const SchemaView &view, int depth, bool &any);

  /// A rule that is any of these.
  RuleId oneOf(const std::vector<RuleId> &rules);

  const OrderedJson &document;
  const Limits &limits;
  Grammar &g;
  JsonGrammar &json;
  std::map<std::string, RuleId> references; ///< by pointer, also those still being compiled
};

RuleId Compiler::oneOf(const std::vector<RuleId> &rules) {
  if (rules.size() == 1)
    return rules[0];
  RuleId rule = g.addRule();
  StateId end = g.addState();
  g.accept(end);
  for (RuleId r : rules)
    g.addCall(g.startOf(rule), r, end);
  return rule;
}

Result<RuleId> Compiler::compile(const Schema &schema, const std::string &path, int depth) {
  if (depth > limits.schemaDepth)
    return schemaError(path, "expected at most " + std::to_string(limits.schemaDepth) + " levels of schemas, got more");
  if (g.full())
    return usageError("schema: expected one of at most " + std::to_string(limits.states) + " states, got more");
  if (schema.is_boolean() && schema.get<bool>())
    return json.value();
  if (!schema.is_object())
    return schemaError(path, "expected an object or true, got " + describeSchema(schema));
  SchemaView view(schema, path);
  if (Status s = view.checkKeywords(); !s)
    return s.error();
  if (view.find("$ref"))
    return compileReference(view, depth);
  if (view.find("anyOf") || view.find("allOf"))
    return compileAnyOf(view, depth);
  if (view.find("enum") || view.find("const"))
    return compileConstants(view);
  return compileKinds(view, depth);
}

Result<RuleId> Compiler::compileReference(const SchemaView &view, int depth) {
  if (Status s = view.expectOnly({"$ref"}); !s)
    return s.error();
  const Schema &name = *view.find("$ref");
  if (!name.is_string() || name.get_ref<const std::string &>().substr(0, 1) != "#")
    return schemaError(view.path + "/$ref", "expected a reference into this schema (\"#/$defs/...\"), got " + describeSchema(name));
  std::string pointer = name.get<std::string>();
  if (auto known = references.find(pointer); known != references.end())
    return known->second;
  const Schema *target = resolvePointer(document, pointer);
  if (!target)
    return schemaError(view.path + "/$ref", "expected a place in this schema, got " + describeSchema(name));
  // The rule exists before its contents, so that it can contain itself.
  RuleId rule = references[pointer] = g.addRule();
  Result<RuleId> inner = compile(*target, pointer, depth + 1);
  if (!inner)
    return inner;
  StateId end = g.addState();
  g.accept(end);
  g.addCall(g.startOf(rule), *inner, end);
  return rule;
}

Result<RuleId> Compiler::compileAnyOf(const SchemaView &view, int depth) {
  const char *keyword = view.find("anyOf") ? "anyOf" : "allOf";
  if (Status s = view.expectOnly({keyword}); !s)
    return s.error();
  const Schema &list = *view.find(keyword);
  std::string path = view.path + "/" + keyword;
  if (!list.is_array() || list.empty())
    return schemaError(path, "expected a list of schemas, got " + describeSchema(list));
  if (std::string(keyword) == "allOf" && list.size() != 1)
    return schemaError(path, "expected one schema, got " + std::to_string(list.size()));
  std::vector<RuleId> rules;
  for (size_t i = 0; i < list.size(); ++i) {
    Result<RuleId> rule = compile(list[i], path + "/" + std::to_string(i), depth + 1);
    if (!rule)
      return rule;
    rules.push_back(*rule);
  }
  return oneOf(rules);
}

Result<RuleId> Compiler::compileConstants(const SchemaView &view) {
  if (Status s = view.expectOnly({"enum", "const", "type"}); !s)
    return s.error();
  Result<std::vector<std::string>> kinds = view.kinds();
  if (!kinds)
    return kinds.error();
  const Schema *list = view.find("enum"), *constant = view.find("const");
  if (list && (!list->is_array() || list->empty()))
    return schemaError(view.path + "/enum", "expected a list of values, got " + describeSchema(*list));
  RuleId rule = g.addRule();
  StateId end = g.addState();
  g.accept(end);
  size_t count = 0;
  for (size_t i = 0; i < (list ? list->size() : 1) && !g.full(); ++i) {
    const Schema &value = list ? (*list)[i] : *constant;
    if ((list && constant && value != *constant) || !hasKind(value, *kinds))
      continue;
    g.addLiteral(g.startOf(rule), value.dump(-1, ' ', false, Schema::error_handler_t::replace), end);
    ++count;
  }
  if (!count)
    return schemaError(view.path, "expected a value that agrees with all keywords, got none");
  return rule;
}

Result<RuleId> Compiler::compileKinds(const SchemaView &view, int depth) {
  Result<std::vector<std::string>> kinds = view.kinds();
  if (!kinds)
    return kinds.error();
  if (kinds->empty())
    return view.hasNoRules() ? Result<RuleId>(json.value())
                             : Result<RuleId>(schemaError(view.path, "expected a type beside " + view.firstRule()));
  if (Status s = view.expectKeywordsOf(*kinds); !s)
    return s.error();
  std::vector<RuleId> rules;
  for (const std::string &kind : *kinds) {
    Result<RuleId> rule = compileKind(kind, view, depth);
    if (!rule)
      return rule;
    rules.push_back(*rule);
  }
  return oneOf(rules);
}

Result<RuleId> Compiler::compileKind(const std::string &kind, const SchemaView &view, int depth) {
  if (kind == "object")
    return compileObject(view, depth);
  if (kind == "array")
    return compileArray(view, depth);
  if (kind == "string")
    return compileString(view);
  if (kind == "integer")
    return compileInteger(view);
  if (kind == "number")
    return json.number();
  RuleId rule = g.addRule();
  StateId end = g.addState();
  g.accept(end);
  for (const char *word : {"true", "false", "null"})
    if ((kind == "null") == (std::string(word) == "null"))
      g.addLiteral(g.startOf(rule), word, end);
  return rule;
}

Result<RuleId> Compiler::compileString(const SchemaView &view) {
  const Schema *pattern = view.find("pattern"), *format = view.find("format");
  Result<std::optional<uint64_t>> least = view.count("minLength"), most = view.count("maxLength");
  for (auto *r : {&least, &most})
    if (!*r)
      return r->error();
  if ((pattern || format) && (*least || *most || (pattern && format)))
    return schemaError(view.path, "expected one of pattern, format and lengths, got several");
  if (pattern || format) {
    std::string path = view.path + (pattern ? "/pattern" : "/format");
    const Schema &text = pattern ? *pattern : *format;
    if (!text.is_string())
      return schemaError(path, "expected a string, got " + describeSchema(text));
    std::optional<std::string> regex = pattern ? text.get<std::string>() : patternOfFormat(text.get<std::string>());
    if (!regex)
      return schemaError(path, "expected " + knownFormats() + ", got " + describeSchema(text));
    Result<RuleId> rule = compilePattern(*regex, g, json);
    return rule ? rule : Result<RuleId>(schemaError(path, rule.error().message));
  }
  if (!*least && !*most)
    return json.string();
  if (*most && **most < least->value_or(0))
    return schemaError(view.path, "expected minLength up to maxLength, got more");
  return json.boundedString(least->value_or(0), *most);
}

Result<RuleId> Compiler::compileInteger(const SchemaView &view) {
  std::optional<int64_t> low, high;
  for (const char *keyword : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}) {
    Result<std::optional<int64_t>> bound = view.bound(keyword);
    if (!bound)
      return bound.error();
    if (!*bound)
      continue;
    if (std::string(keyword).find("inimum") != std::string::npos)
      low = std::max(low.value_or(**bound), **bound);
    else
      high = std::min(high.value_or(**bound), **bound);
  }
  if (!low && !high)
    return json.integer();
  Result<RuleId> rule = json.integerBetween(low, high);
  return rule ? rule : Result<RuleId>(schemaError(view.path, rule.error().message));
}

Result<RuleId> Compiler::compileArray(const SchemaView &view, int depth) {
  Result<std::optional<uint64_t>> least = view.count("minItems"), most = view.count("maxItems");
  for (auto *r : {&least, &most})
    if (!*r)
      return r->error();
  std::vector<RuleId> prefix;
  if (const Schema *list = view.find("prefixItems")) {
    if (!list->is_array())
      return schemaError(view.path + "/prefixItems", "expected a list of schemas, got " + describeSchema(*list));
    for (size_t i = 0; i < list->size(); ++i) {
      Result<RuleId> rule = compile((*list)[i], view.path + "/prefixItems/" + std::to_string(i), depth + 1);
      if (!rule)
        return rule;
      prefix.push_back(*rule);
    }
  }
  // Without `items`, what follows a prefix is left out: no more is asked for.
  std::optional<RuleId> rest;
  const Schema *items = view.find("items");
  bool none = items ? items->is_boolean() && !items->get<bool>() : !prefix.empty();
  if (!none) {
    Result<RuleId> rule = items ? compile(*items, view.path + "/items", depth + 1) : Result<RuleId>(json.value());
    if (!rule)
      return rule;
    rest = *rule;
  }
  uint64_t low = least->value_or(0), high = most->value_or(UINT64_MAX);
  if (!rest)
    high = std::min<uint64_t>(high, prefix.size());
  if (low > high)
    return schemaError(view.path, "expected minItems up to the most items, got " + std::to_string(low));
  RuleId rule = g.addRule();
  StateId at = g.addState(), end = g.addState();
  g.accept(end);
  StateId open = g.addState();
  g.addByte(g.startOf(rule), '[', '[', open);
  g.addCall(open, json.whitespace(), at);
  for (uint64_t i = 0; !g.full(); ++i) { // `at`: behind i items and white space
    if (i >= low)
      g.addByte(at, ']', ']', end);
    if (i >= high)
      break;
    StateId before = at;
    if (i > 0) {
      StateId comma = g.addState();
      before = g.addState();
      g.addByte(at, ',', ',', comma);
      g.addCall(comma, json.whitespace(), before);
    }
    bool loops = i > 0 && i >= prefix.size() && i >= low && high == UINT64_MAX;
    StateId after = g.addState(), next = loops ? at : g.addState();
    g.addCall(before, i < prefix.size() ? prefix[i] : *rest, after);
    g.addCall(after, json.whitespace(), next);
    if (loops)
      break;
    at = next;
  }
  return rule;
}

/// The rule for values of properties nobody named; `any` false: there are none.
Result<RuleId> Compiler::additional(const SchemaView &view, int depth, bool &any) {
  const Schema *schema = view.find("additionalProperties");
  any = schema ? !(schema->is_boolean() && !schema->get<bool>()) : !view.find("properties") && !view.find("required");
  return any && schema ? compile(*schema, view.path + "/additionalProperties", depth + 1) : Result<RuleId>(json.value());
}

Result<RuleId> Compiler::compileObject(const SchemaView &view, int depth) {
  Result<std::vector<Property>> properties = view.properties();
  if (!properties)
    return properties.error();
  bool more = false;
  Result<RuleId> rest = additional(view, depth, more);
  if (!rest)
    return rest;
  RuleId rule = g.addRule();
  StateId open = g.addState(), end = g.addState();
  g.accept(end);
  g.addByte(g.startOf(rule), '{', '{', open);
  // Where property i may begin: as the first, or behind others (and white space).
  StateId first = g.addState(), later = g.addState();
  g.addCall(open, json.whitespace(), first);
  auto member = [&](StateId keyEnd, RuleId value, StateId to) {
    StateId colon = g.addState(), before = g.addState(), item = g.addState(), after = g.addState();
    g.addCall(keyEnd, json.whitespace(), colon);
    g.addByte(colon, ':', ':', before);
    g.addCall(before, json.whitespace(), item);
    g.addCall(item, value, after);
    g.addCall(after, json.whitespace(), to);
  };
  auto afterComma = [&](StateId from) {
    StateId comma = g.addState(), next = g.addState();
    g.addByte(from, ',', ',', comma);
    g.addCall(comma, json.whitespace(), next);
    return next;
  };
  std::vector<std::string> names;
  for (const Property &p : *properties) {
    Result<RuleId> value = p.schema ? compile(*p.schema, p.path, depth + 1) : Result<RuleId>(json.value());
    if (!value)
      return value;
    StateId nextFirst = g.addState(), nextLater = g.addState(), keyEnd = g.addState();
    std::string key = OrderedJson(p.name).dump(-1, ' ', false, Schema::error_handler_t::replace);
    g.addLiteral(first, key, keyEnd);
    g.addLiteral(afterComma(later), key, keyEnd);
    member(keyEnd, *value, nextLater);
    if (!p.required) {
      g.addEmpty(first, nextFirst);
      g.addEmpty(later, nextLater);
    }
    first = nextFirst;
    later = nextLater;
    names.push_back(p.name);
  }
  if (more) {
    RuleId key = names.empty() ? json.string() : json.keyOtherThan(names);
    StateId keyEnd = g.addState();
    g.addCall(first, key, keyEnd);
    g.addCall(afterComma(later), key, keyEnd);
    member(keyEnd, *rest, later);
  }
  g.addByte(first, '}', '}', end);
  g.addByte(later, '}', '}', end);
  return rule;
}

} // namespace

Result<RuleId> addSchema(std::string_view schema, Grammar &grammar, JsonGrammar &json, const Limits &limits) {
  if (schema.size() > limits.schemaBytes)
    return usageError("schema: expected at most " + std::to_string(limits.schemaBytes) + " bytes, got " + std::to_string(schema.size()));
  if (Status s = checkNesting(schema, 2 * limits.schemaDepth + 8); !s)
    return s.error();
  Result<OrderedJson> document = parseOrderedJson(schema, "schema");
  if (!document)
    return usageError(document.error().message);
  return Compiler(*document, limits, grammar, json).run();
}

Result<Grammar> compileSchema(std::string_view schema, const Limits &limits) {
  Grammar g(limits);
  JsonGrammar json(g);
  RuleId root = g.addRule();
  StateId value = g.addState(), end = g.addState();
  g.accept(end);
  g.addCall(g.startOf(root), json.leading(), value);
  Result<RuleId> rule = addSchema(schema, g, json, limits);
  if (!rule)
    return rule.error();
  g.addCall(value, *rule, end);
  if (Status s = g.finish(root); !s)
    return Error{s.error().code, "schema: " + s.error().message};
  return std::move(g);
}

Result<Grammar> choiceGrammar(const std::vector<std::string> &texts, const Limits &limits) {
  Grammar g(limits);
  RuleId root = g.addRule();
  StateId end = g.addState();
  g.accept(end);
  for (const std::string &text : texts)
    g.addLiteral(g.startOf(root), text, end);
  if (Status s = g.finish(root); !s)
    return Error{s.error().code, "choices: " + s.error().message};
  return std::move(g);
}

Result<Grammar> anyObjectGrammar(const Limits &limits) { return compileSchema(R"({"type": "object"})", limits); }

} // namespace dsv3::guided
