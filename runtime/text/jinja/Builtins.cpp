#include "runtime/text/jinja/Builtins.h"

#include "runtime/text/jinja/ArgumentReader.h"
#include "runtime/text/jinja/ListFilters.h"

#include <algorithm>
#include <functional>
#include <map>

namespace dsv3::text::jinja {
namespace {

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

Result<Value> findText(const Text &text, ArgumentReader args) {
  const Text *part = args.takeText("sub");
  args.require(part, "a string to look for");
  if (Status s = args.finish(); !s)
    return s.error();
  size_t at = text.bytes().find(part->bytes());
  return Value(at == std::string::npos ? int64_t(-1) : int64_t(text.sub(0, at).length()));
}

Result<Value> countText(const Text &text, ArgumentReader args) {
  const Text *part = args.takeText("sub");
  args.require(part && !part->empty(), "a string to count that is not empty");
  if (Status s = args.finish(); !s)
    return s.error();
  return Value(int64_t(text.split(part->bytes(), -1).size()) - 1);
}

Result<Value> splitLines(const Text &text, ArgumentReader args) {
  if (Status s = args.finish(); !s)
    return s.error();
  for (char c : text.bytes())
    if (c != '\n' && c >= 0x0A && c <= 0x1E && c != 0x0F && (c <= 0x0D || c >= 0x1C))
      return unsupportedError("splitlines of text with line ends other than \\n");
  List lines;
  for (Text &line : text.split("\n", -1))
    lines.push_back(std::move(line));
  if (lines.back().asText()->empty())
    lines.pop_back();
  return Value(std::move(lines));
}

/// The first letter, of each word or of the whole, upper case and all others lower case.
std::function<Result<Value>(const Text &, ArgumentReader)> onAscii(bool eachWord) {
  return [=](const Text &text, ArgumentReader args) -> Result<Value> {
    if (Status s = args.finish(); !s)
      return s.error();
    std::string bytes = text.bytes();
    bool first = true;
    for (char &c : bytes) {
      if (static_cast<unsigned char>(c) >= 0x80)
        return unsupportedError("changing the case of text that is not ASCII");
      bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (letter && first != (c <= 'Z'))
        c ^= 0x20;
      first = eachWord && !letter;
    }
    return Value(text.withBytes(std::move(bytes)));
  };
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
      {"capitalize", onText(onAscii(false))},
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
      {"find", findText},
      {"count", countText},
      {"splitlines", splitLines},
      {"capitalize", onAscii(false)},
      {"title", onAscii(true)},
      {"join", [](const Text &t, ArgumentReader args) -> Result<Value> {
         const Value *list = args.take("iterable");
         args.require(list, "a list to join");
         if (Status s = args.finish(); !s)
           return s.error();
         return applyFilter("join", *list, {{Value(t)}, {}});
       }},
      {"upper", [](const Text &t, auto args) { return caseFilter(true)(Value(t), args); }},
      {"lower", [](const Text &t, auto args) { return caseFilter(false)(Value(t), args); }},
  };
  return table;
}

using Test = std::function<Result<bool>(const Value &, ArgumentReader)>;

Test plain(std::function<bool(const Value &)> test) {
  return [=](const Value &input, ArgumentReader args) -> Result<bool> {
    if (Status s = args.finish(); !s)
      return s.error();
    return test(input);
  };
}

/// A test that compares with its argument.
Test withOther(std::function<Result<bool>(const Value &, const Value &)> test) {
  return [=](const Value &input, ArgumentReader args) -> Result<bool> {
    const Value *other = args.take("other");
    args.require(other, "a value to compare with");
    if (Status s = args.finish(); !s)
      return s.error();
    return test(input, *other);
  };
}

Test ordered(bool less, bool equal) {
  return withOther([=](const Value &a, const Value &b) -> Result<bool> {
    Result<int> order = compareValues(a, b);
    if (!order)
      return order.error();
    return (*order == 0 && equal) || (*order != 0 && (*order < 0) == less);
  });
}

Test divides(int64_t by, int64_t rest) {
  return [=](const Value &v, ArgumentReader args) -> Result<bool> {
    if (Status s = args.finish(); !s)
      return s.error();
    if (!v.asInt())
      return wrongInput("an integer", v);
    return ((*v.asInt() % by) + by) % by == rest;
  };
}

const std::map<std::string, Test> &tests() {
  static const Test equal = withOther([](auto &a, auto &b) -> Result<bool> { return equals(a, b); });
  static const Test unequal = withOther([](auto &a, auto &b) -> Result<bool> { return !equals(a, b); });
  static const std::map<std::string, Test> table = {
      {"defined", plain([](const Value &v) { return !v.isUndefined(); })},
      {"undefined", plain([](const Value &v) { return v.isUndefined(); })},
      {"none", plain([](const Value &v) { return v.isNone(); })},
      {"string", plain([](const Value &v) { return v.asText() != nullptr; })},
      {"number", plain([](const Value &v) { double n; return v.toNumber(n); })},
      {"integer", plain([](const Value &v) { return v.asInt() != nullptr; })},
      {"float", plain([](const Value &v) { return v.asFloat() != nullptr; })},
      {"boolean", plain([](const Value &v) { return v.asBool() != nullptr; })},
      {"true", plain([](const Value &v) { return v.asBool() && *v.asBool(); })},
      {"false", plain([](const Value &v) { return v.asBool() && !*v.asBool(); })},
      {"mapping", plain([](const Value &v) { return v.asDict() != nullptr; })},
      {"iterable", plain([](const Value &v) { return v.asText() || v.asList() || v.asDict() || v.isUndefined(); })},
      {"sequence", plain([](const Value &v) { return v.asText() || v.asList() || v.asDict() || v.isUndefined(); })},
      {"odd", divides(2, 1)},
      {"even", divides(2, 0)},
      {"eq", equal}, {"equalto", equal}, {"==", equal}, {"ne", unequal}, {"!=", unequal},
      {"lt", ordered(true, false)}, {"lessthan", ordered(true, false)}, {"<", ordered(true, false)}, {"le", ordered(true, true)},
      {"<=", ordered(true, true)}, {"gt", ordered(false, false)}, {"greaterthan", ordered(false, false)},
      {">", ordered(false, false)}, {"ge", ordered(false, true)}, {">=", ordered(false, true)},
      {"in", withOther([](const Value &item, const Value &container) { return contains(container, item); })},
  };
  return table;
}

bool isDictMethod(const std::string &name) {
  return name == "get" || name == "items" || name == "keys" || name == "values";
}

} // namespace

bool isFilter(const std::string &name) { return filters().count(name) || isListFilter(name); }
bool isTest(const std::string &name) { return tests().count(name); }
bool isMethod(const std::string &name) { return textMethods().count(name) || isDictMethod(name); }
bool isFunction(const std::string &name) {
  return name == "namespace" || name == "raise_exception" || name == "range";
}

Result<Value> applyFilter(const std::string &name, const Value &input, const Arguments &arguments) {
  if (isListFilter(name))
    return applyListFilter(name, input, arguments);
  return filters().at(name)(input, ArgumentReader(arguments));
}

Result<bool> applyTest(const std::string &name, const Value &input, const Arguments &arguments) {
  return tests().at(name)(input, ArgumentReader(arguments));
}

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
