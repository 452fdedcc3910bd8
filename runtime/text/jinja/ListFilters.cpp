#include "runtime/text/jinja/ListFilters.h"

#include "runtime/text/jinja/ArgumentReader.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

namespace dsv3::text::jinja {
namespace {

using Handler = Result<Value> (*)(const Value &, const Arguments &);

/// `value.a.b`, or an index; undefined where there is none.
Value lookUp(Value value, const Text &path) {
  for (const Text &part : path.split(".", -1)) {
    const Dict *dict = value.asDict() ? value.asDict() : value.asNamespace();
    const Value *found = dict ? dict->find(part.bytes()) : nullptr;
    const std::string &digits = part.bytes();
    if (!found && value.asList() && !digits.empty() && digits.size() < 9 && digits.find_first_not_of("0123456789") == std::string::npos) {
      size_t index = size_t(std::atol(digits.c_str()));
      found = index < value.asList()->size() ? &(*value.asList())[index] : nullptr;
    }
    value = found ? Value(*found) : Value::undefined(digits);
  }
  return value;
}

Arguments tail(const Arguments &arguments, size_t first) {
  Arguments rest;
  for (size_t i = first; i < arguments.positional.size(); ++i)
    rest.positional.push_back(arguments.positional[i]);
  return rest;
}

Result<Value> mapList(const Value &input, const Arguments &arguments) {
  Result<List> list = toList(input);
  if (!list)
    return list.error();
  const Text *attribute = nullptr;
  const Value *fallback = nullptr;
  for (const auto &[name, value] : arguments.named) {
    if (name == "attribute")
      attribute = value.asText();
    else if (name == "default")
      fallback = &value;
    else
      return checkpointError("expected attribute or a filter's name, got argument '" + name + "'");
  }
  const Text *filter = arguments.positional.empty() ? nullptr : arguments.positional[0].asText();
  if (!attribute == !filter || (filter && !isFilter(filter->bytes())))
    return checkpointError("expected attribute or the name of a known filter");
  for (Value &item : *list) {
    if (attribute) {
      item = lookUp(std::move(item), *attribute);
      if (item.isUndefined() && fallback)
        item = *fallback;
      continue;
    }
    Result<Value> mapped = applyFilter(filter->bytes(), item, tail(arguments, 1));
    if (!mapped)
      return mapped;
    item = std::move(*mapped);
  }
  return Value(std::move(*list));
}

/// select, reject, and by an attribute.
template <bool byAttribute, bool keep> Result<Value> filterList(const Value &input, const Arguments &arguments) {
  Result<List> list = toList(input);
  if (!list)
    return list.error();
  const List &given = arguments.positional;
  const Text *attribute = byAttribute && !given.empty() ? given[0].asText() : nullptr;
  constexpr size_t at = byAttribute ? 1 : 0;
  const Text *test = given.size() > at ? given[at].asText() : nullptr;
  if ((byAttribute && !attribute) || (given.size() > at && (!test || !isTest(test->bytes()))) || !arguments.named.empty())
    return checkpointError(byAttribute ? "expected an attribute and the name of a known test" : "expected the name of a known test");
  List kept;
  for (Value &item : *list) {
    Value looked = byAttribute ? lookUp(item, *attribute) : item;
    Result<bool> ok = test ? applyTest(test->bytes(), looked, tail(arguments, at + 1)) : Result<bool>(looked.truthy());
    if (!ok)
      return ok.error();
    if (*ok == keep)
      kept.push_back(std::move(item));
  }
  return Value(std::move(kept));
}

Result<Value> reverseList(const Value &input, const Arguments &arguments) {
  if (Status s = ArgumentReader(arguments).finish(); !s)
    return s.error();
  Result<List> list = toList(input);
  if (!list)
    return list.error();
  std::reverse(list->begin(), list->end());
  if (!input.asText())
    return Value(std::move(*list));
  Text text;
  for (const Value &c : *list)
    text += *c.asText();
  return Value(std::move(text));
}

/// Text without regard to the case of ASCII letters, unless asked for.
Value sortKey(const Value &value, const Text *attribute, bool caseSensitive) {
  Value key = attribute ? lookUp(value, *attribute) : value;
  if (caseSensitive || !key.asText())
    return key;
  std::string bytes = key.asText()->bytes();
  for (char &c : bytes)
    if (c >= 'A' && c <= 'Z')
      c ^= 0x20;
  return Value(key.asText()->withBytes(std::move(bytes)));
}

Result<Value> sortByKeys(List items, std::vector<Value> keys, bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  for (size_t i = 1; i < keys.size(); ++i) // all of one kind, so that the order below is one
    if (Result<int> c = compareValues(keys[0], keys[i]); !c)
      return c.error();
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    int c = *compareValues(keys[a], keys[b]);
    return reverse ? c > 0 : c < 0;
  });
  List sorted;
  for (size_t i : order)
    sorted.push_back(items[i]);
  return Value(std::move(sorted));
}

bool takeBool(ArgumentReader &args, const char *name, bool fallback) {
  const Value *value = args.take(name);
  return value ? value->truthy() : fallback;
}

Result<Value> sortList(const Value &input, const Arguments &arguments) {
  ArgumentReader args(arguments);
  bool reverse = takeBool(args, "reverse", false), sensitive = takeBool(args, "case_sensitive", false);
  const Text *attribute = args.takeText("attribute");
  if (Status s = args.finish(); !s)
    return s.error();
  Result<List> list = toList(input);
  if (!list)
    return list.error();
  std::vector<Value> keys;
  for (const Value &item : *list)
    keys.push_back(sortKey(item, attribute, sensitive));
  return sortByKeys(std::move(*list), std::move(keys), reverse);
}

Result<Value> sortDict(const Value &input, const Arguments &arguments) {
  ArgumentReader args(arguments);
  bool sensitive = takeBool(args, "case_sensitive", false);
  const Text *by = args.takeText("by");
  bool reverse = takeBool(args, "reverse", false), byValue = by && by->bytes() == "value";
  if (Status s = args.finish(); !s)
    return s.error();
  if (!input.asDict())
    return checkpointError("expected a dict, got " + input.typeName());
  List pairs;
  std::vector<Value> keys;
  for (const auto &[key, value] : input.asDict()->entries()) {
    Value name(Text(key, false));
    keys.push_back(sortKey(byValue ? value : name, nullptr, sensitive));
    pairs.push_back(Value(List{name, value}));
  }
  return sortByKeys(std::move(pairs), std::move(keys), reverse);
}

Result<Value> uniqueList(const Value &input, const Arguments &arguments) {
  ArgumentReader args(arguments);
  bool sensitive = takeBool(args, "case_sensitive", false);
  const Text *attribute = args.takeText("attribute");
  if (Status s = args.finish(); !s)
    return s.error();
  Result<List> list = toList(input);
  if (!list)
    return list.error();
  if (list->size() > 10'000) // compared one by one
    return unsupportedError("unique of more than 10000 values");
  List kept;
  std::vector<Value> keys;
  for (Value &item : *list) {
    Value key = sortKey(item, attribute, sensitive);
    if (std::none_of(keys.begin(), keys.end(), [&](const Value &k) { return equals(k, key); })) {
      keys.push_back(std::move(key));
      kept.push_back(std::move(item));
    }
  }
  return Value(std::move(kept));
}

Result<Value> toInteger(const Value &input, const Arguments &arguments) {
  ArgumentReader args(arguments);
  int64_t fallback = args.takeInt("default", 0);
  if (Status s = args.finish(); !s)
    return s.error();
  double number;
  if (input.asInt())
    return input;
  if (input.toNumber(number))
    return std::fabs(number) < 9e18 ? Result<Value>(Value(int64_t(number))) : Result<Value>(unsupportedError("integer beyond 64 bits"));
  if (const Text *text = input.asText()) {
    std::string digits = text->strip(true, true, nullptr).bytes();
    char *end = nullptr;
    double parsed = std::strtod(digits.c_str(), &end);
    bool plain = digits.find_first_not_of("0123456789+-.eE") == std::string::npos;
    if (plain && !digits.empty() && *end == 0 && std::fabs(parsed) < 9e15)
      return Value(int64_t(parsed));
  }
  return Value(fallback);
}

Result<Value> toFloat(const Value &input, const Arguments &arguments) {
  if (Status s = ArgumentReader(arguments).finish(); !s)
    return s.error();
  double number = 0;
  if (const Text *text = input.asText()) {
    std::string digits = text->strip(true, true, nullptr).bytes();
    char *end = nullptr;
    double parsed = std::strtod(digits.c_str(), &end);
    if (!digits.empty() && *end == 0 && digits.find_first_not_of("0123456789+-.eE") == std::string::npos)
      number = parsed;
  } else {
    input.toNumber(number);
  }
  return Value(number);
}

Result<Value> absolute(const Value &input, const Arguments &arguments) {
  if (Status s = ArgumentReader(arguments).finish(); !s)
    return s.error();
  if (const int64_t *i = input.asInt(); i && *i != INT64_MIN)
    return Value(*i < 0 ? -*i : *i);
  if (const double *d = input.asFloat())
    return Value(std::fabs(*d));
  return checkpointError("expected a number, got " + input.typeName());
}

Result<Value> indentText(const Value &input, const Arguments &arguments) {
  ArgumentReader args(arguments);
  int64_t width = args.takeInt("width", 4);
  bool first = takeBool(args, "first", false), blank = takeBool(args, "blank", false);
  args.require(width >= 0 && width <= 64, "a width from 0 to 64");
  if (Status s = args.finish(); !s)
    return s.error();
  Result<Text> text = toText(input);
  if (!text)
    return text.error();
  Text result;
  std::vector<Text> lines = text->split("\n", -1);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0)
      result += Text("\n", true);
    if ((i > 0 || first) && (blank || !lines[i].empty() || (i == 0 && first)))
      result += Text(std::string(size_t(width), ' '), true);
    result += lines[i];
  }
  return Value(std::move(result));
}

const std::map<std::string, Handler> &handlers() {
  static const std::map<std::string, Handler> table = {
      {"map", mapList},
      {"select", filterList<false, true>},
      {"reject", filterList<false, false>},
      {"selectattr", filterList<true, true>},
      {"rejectattr", filterList<true, false>},
      {"reverse", reverseList},
      {"sort", sortList},
      {"dictsort", sortDict},
      {"unique", uniqueList},
      {"int", toInteger},
      {"float", toFloat},
      {"abs", absolute},
      {"indent", indentText},
  };
  return table;
}

} // namespace

bool isListFilter(const std::string &name) { return handlers().count(name); }

Result<Value> applyListFilter(const std::string &name, const Value &input, const Arguments &arguments) {
  return handlers().at(name)(input, arguments);
}

} // namespace dsv3::text::jinja
