#include "runtime/text/jinja/Builtins.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <map>

namespace dsv3::text::jinja {
namespace {

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

Error wrongInput(const char *expected, const Value &got) {
  return checkpointError(std::string("expected ") + expected + ", got " + got.typeName());
}

Result<Value> changeCase(const Text &text, bool upper) {
  std::string bytes = text.bytes();
  for (char &c : bytes) {
    if (static_cast<unsigned char>(c) >= 0x80)
      return unsupportedError("changing the case of text that is not ASCII");
    if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z')
      c ^= 0x20;
  }
  return Value(text.withBytes(std::move(bytes)));
}

Result<Value> replaceText(const Text &text, ArgumentReader args) {
  const Text *from = args.takeText("old"), *to = args.takeText("new");
  int64_t limit = args.takeInt("count", -1);
  args.require(from && !from->empty() && to, "two strings to replace by, the first not empty");
  if (Status s = args.finish(); !s)
    return s.error();
  return Value(text.replace(from->bytes(), *to, limit));
}

Result<Value> splitText(const Text &text, ArgumentReader args) {
  const Text *separator = args.takeText("sep");
  int64_t limit = args.takeInt("maxsplit", -1);
  args.require(!separator || !separator->empty(), "a separator that is not empty");
  if (Status s = args.finish(); !s)
    return s.error();
  List parts;
  for (Text &part :
       separator ? text.split(separator->bytes(), limit) : text.splitWhitespace(limit))
    parts.push_back(std::move(part));
  return Value(std::move(parts));
}

Result<Value> stripText(const Text &text, bool left, bool right, ArgumentReader args) {
  const Text *characters = args.takeText("chars");
  if (Status s = args.finish(); !s)
    return s.error();
  return Value(text.strip(left, right, characters));
}

Result<Value> hasAffix(const Text &text, bool atStart, ArgumentReader args) {
  const Text *affix = args.takeText("affix");
  args.require(affix, "a string to compare with");
  if (Status s = args.finish(); !s)
    return s.error();
  if (affix->size() > text.size())
    return Value(false);
  size_t begin = atStart ? 0 : text.size() - affix->size();
  return Value(text.bytes().compare(begin, affix->size(), affix->bytes()) == 0);
}

Result<Value> dictEntries(const Dict &dict, bool keys, bool values, ArgumentReader args) {
  if (Status s = args.finish(); !s)
    return s.error();
  List list;
  for (const auto &[key, value] : dict.entries()) {
    Value name(Text(key, false));
    list.push_back(keys && values ? Value(List{name, value}) : keys ? name : value);
  }
  return Value(std::move(list));
}

Result<Value> dictGet(const Dict &dict, ArgumentReader args) {
  const Text *key = args.takeText("key");
  const Value *fallback = args.take("default");
  args.require(key, "a string as key");
  if (Status s = args.finish(); !s)
    return s.error();
  const Value *found = dict.find(key->bytes());
  return found ? *found : fallback ? *fallback : Value::none();
}

Result<Value> lengthOf(const Value &input) {
  if (input.isUndefined())
    return Value(int64_t(0));
  size_t length;
  if (const Text *t = input.asText())
    length = t->length();
  else if (const List *l = input.asList())
    length = l->size();
  else if (const Dict *d = input.asDict())
    length = d->entries().size();
  else
    return wrongInput("a string, list or dict", input);
  return Value(static_cast<int64_t>(length));
}

Result<Value> defaultFor(const Value &input, ArgumentReader args) {
  const Value *fallback = args.take("default_value");
  const Value *boolean = args.take("boolean");
  if (Status s = args.finish(); !s)
    return s.error();
  bool missing = input.isUndefined() || (boolean && boolean->truthy() && !input.truthy());
  return missing ? (fallback ? *fallback : Value(Text())) : input;
}

Result<Value> joinList(const Value &input, ArgumentReader args) {
  const Text *separator = args.takeText("d");
  if (Status s = args.finish(); !s)
    return s.error();
  Result<List> list = toList(input);
  if (!list)
    return list.error();
  Text joined;
  for (size_t i = 0; i < list->size(); ++i) {
    Result<Text> part = toText((*list)[i]);
    if (!part)
      return part.error();
    if (i > 0 && separator)
      joined += *separator;
    joined += *part;
  }
  return Value(std::move(joined));
}

Result<Value> endOf(const Value &input, bool last) {
  Result<List> list = toList(input);
  if (!list)
    return list.error();
  if (list->empty())
    return Value();
  return last ? list->back() : list->front();
}

Result<Value> jsonOf(const Value &input, ArgumentReader args) {
  int64_t indent = args.takeInt("indent", -1);
  if (Status s = args.finish(); !s)
    return s.error();
  Result<std::string> json = toJson(input, indent);
  if (!json)
    return json.error();
  return Value(Text(std::move(*json), false));
}

using Function = std::function<Result<Value>(const Value &, const ArgumentReader &)>;

/// A filter that takes text (anything printable) and no arguments.
template <typename F> Function onText(F function) {
  return [=](const Value &input, const ArgumentReader &args) -> Result<Value> {
    Result<Text> text = toText(input);
    if (!text)
      return text.error();
    return function(*text, args);
  };
}

Function withoutArguments(std::function<Result<Value>(const Value &)> function) {
  return [=](const Value &input, ArgumentReader args) -> Result<Value> {
    if (Status s = args.finish(); !s)
      return s.error();
    return function(input);
  };
}

Result<Value> listOf(const Value &input) {
  Result<List> list = toList(input);
  if (!list)
    return list.error();
  return Value(std::move(*list));
}

Function caseFilter(bool upper) {
  return onText([=](const Text &t, ArgumentReader args) -> Result<Value> {
    if (Status s = args.finish(); !s)
      return s.error();
    return changeCase(t, upper);
  });
}

const std::map<std::string, Function> &filters() {
  static const std::map<std::string, Function> table = {
      {"trim", onText([](const Text &t, auto args) { return stripText(t, true, true, args); })},
      {"upper", caseFilter(true)},
      {"lower", caseFilter(false)},
      {"replace", onText(replaceText)},
      {"string", onText([](const Text &t, auto) { return Result<Value>(Value(t)); })},
      {"length", withoutArguments(lengthOf)},
      {"count", withoutArguments(lengthOf)},
      {"list", withoutArguments(listOf)},
      {"first", withoutArguments([](const Value &v) { return endOf(v, false); })},
      {"last", withoutArguments([](const Value &v) { return endOf(v, true); })},
      {"items", [](const Value &v, auto args) {
         return v.asDict() ? dictEntries(*v.asDict(), true, true, args)
                           : Result<Value>(wrongInput("a dict", v));
       }},
      {"join", joinList},
      {"tojson", jsonOf},
      {"default", defaultFor},
      {"d", defaultFor},
  };
  return table;
}

using Method = std::function<Result<Value>(const Text &, const ArgumentReader &)>;

const std::map<std::string, Method> &textMethods() {
  static const std::map<std::string, Method> table = {
      {"split", splitText},
      {"replace", replaceText},
      {"strip", [](const Text &t, auto args) { return stripText(t, true, true, args); }},
      {"lstrip", [](const Text &t, auto args) { return stripText(t, true, false, args); }},
      {"rstrip", [](const Text &t, auto args) { return stripText(t, false, true, args); }},
      {"startswith", [](const Text &t, auto args) { return hasAffix(t, true, args); }},
      {"endswith", [](const Text &t, auto args) { return hasAffix(t, false, args); }},
      {"upper", [](const Text &t, auto args) { return caseFilter(true)(Value(t), args); }},
      {"lower", [](const Text &t, auto args) { return caseFilter(false)(Value(t), args); }},
  };
  return table;
}

const std::map<std::string, std::function<bool(const Value &)>> &tests() {
  static const std::map<std::string, std::function<bool(const Value &)>> table = {
      {"defined", [](const Value &v) { return !v.isUndefined(); }},
      {"undefined", [](const Value &v) { return v.isUndefined(); }},
      {"none", [](const Value &v) { return v.isNone(); }},
      {"string", [](const Value &v) { return v.asText() != nullptr; }},
      {"number", [](const Value &v) { double n; return v.toNumber(n); }},
      {"boolean", [](const Value &v) { return v.asBool() != nullptr; }},
      {"true", [](const Value &v) { return v.asBool() && *v.asBool(); }},
      {"false", [](const Value &v) { return v.asBool() && !*v.asBool(); }},
      {"mapping", [](const Value &v) { return v.asDict() != nullptr; }},
      {"iterable", [](const Value &v) {
         return v.asText() || v.asList() || v.asDict() || v.isUndefined();
       }},
      {"sequence", [](const Value &v) {
         return v.asText() || v.asList() || v.asDict() || v.isUndefined();
       }},
  };
  return table;
}

bool isDictMethod(const std::string &name) {
  return name == "get" || name == "items" || name == "keys" || name == "values";
}

} // namespace

bool isFilter(const std::string &name) { return filters().count(name); }
bool isTest(const std::string &name) { return tests().count(name); }
bool isMethod(const std::string &name) { return textMethods().count(name) || isDictMethod(name); }
bool isFunction(const std::string &name) {
  return name == "namespace" || name == "raise_exception";
}

Result<Value> applyFilter(const std::string &name, const Value &input, const Arguments &arguments) {
  return filters().at(name)(input, ArgumentReader(arguments));
}

bool applyTest(const std::string &name, const Value &input) { return tests().at(name)(input); }

Result<Value> callMethod(const std::string &name, const Value &self, const Arguments &arguments) {
  ArgumentReader args(arguments);
  if (const Text *text = self.asText()) {
    auto method = textMethods().find(name);
    if (method != textMethods().end())
      return method->second(*text, args);
  } else if (const Dict *dict = self.asDict(); dict && isDictMethod(name)) {
    return name == "get" ? dictGet(*dict, args)
                         : dictEntries(*dict, name != "values", name != "keys", args);
  }
  return checkpointError("expected a value with method '" + name + "', got " + self.typeName());
}

} // namespace dsv3::text::jinja
