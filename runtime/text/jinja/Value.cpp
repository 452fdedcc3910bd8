#include "runtime/text/jinja/Value.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dsv3::text::jinja {

const Value *Dict::find(std::string_view key) const {
  for (const auto &entry : items)
    if (entry.first == key)
      return &entry.second;
  return nullptr;
}

void Dict::set(const std::string &key, Value value) {
  for (auto &entry : items)
    if (entry.first == key) {
      entry.second = std::move(value);
      return;
    }
  items.emplace_back(key, std::move(value));
}

void Dict::append(std::string key, Value value) { items.emplace_back(std::move(key), std::move(value)); }

template <typename T> void Value::Container<T>::note(const Value &element) {
  depth = std::max(depth, element.depth() + 1);
  holdsNamespace = holdsNamespace || element.holdsNamespace();
}

Value::Value(List l) {
  auto list = std::make_shared<Container<List>>(Container<List>{std::move(l)});
  for (const Value &element : list->items)
    list->note(element);
  data = ListPtr(std::move(list));
}

Value::Value(Dict d) {
  auto dict = std::make_shared<Container<Dict>>(Container<Dict>{std::move(d)});
  for (const auto &[key, value] : dict->items.entries())
    dict->note(value);
  data = DictPtr(std::move(dict));
}

const List *Value::asList() const {
  const ListPtr *p = std::get_if<ListPtr>(&data);
  return p ? &(*p)->items : nullptr;
}

const Dict *Value::asDict() const {
  const DictPtr *p = std::get_if<DictPtr>(&data);
  return p ? &(*p)->items : nullptr;
}

int Value::depth() const {
  if (const ListPtr *p = std::get_if<ListPtr>(&data))
    return (*p)->depth;
  if (const DictPtr *p = std::get_if<DictPtr>(&data))
    return (*p)->depth;
  return 0;
}

bool Value::holdsNamespace() const {
  if (const ListPtr *p = std::get_if<ListPtr>(&data))
    return (*p)->holdsNamespace;
  if (const DictPtr *p = std::get_if<DictPtr>(&data))
    return (*p)->holdsNamespace;
  return asNamespace() != nullptr;
}

Dict *Value::asNamespace() const {
  const NamespacePtr *p = std::get_if<NamespacePtr>(&data);
  return p ? p->get() : nullptr;
}

bool Value::toNumber(double &number) const {
  if (const bool *b = asBool())
    number = *b;
  else if (const int64_t *i = asInt())
    number = static_cast<double>(*i);
  else if (const double *d = asFloat())
    number = *d;
  else
    return false;
  return true;
}

std::string Value::typeName() const {
  if (const Undefined *u = std::get_if<Undefined>(&data))
    return u->name.empty() ? "an undefined value" : "undefined '" + u->name + "'";
  constexpr const char *names[] = {"",       "none", "bool", "integer",  "float",
                                   "string", "list", "dict", "namespace"};
  return names[data.index()];
}

bool Value::truthy() const {
  double number;
  if (toNumber(number))
    return number != 0;
  if (const Text *t = asText())
    return !t->empty();
  if (const List *l = asList())
    return !l->empty();
  if (const Dict *d = asDict())
    return !d->entries().empty();
  return asNamespace() != nullptr;
}

bool equals(const Value &a, const Value &b) {
  if (a.asInt() && b.asInt())
    return *a.asInt() == *b.asInt();
  double x, y;
  if (a.toNumber(x) && b.toNumber(y))
    return x == y;
  if (a.asText() && b.asText())
    return a.asText()->bytes() == b.asText()->bytes();
  if (a.asList() && b.asList()) {
    const List &l = *a.asList(), &m = *b.asList();
    return std::equal(l.begin(), l.end(), m.begin(), m.end(), equals);
  }
  if (a.asDict() && b.asDict()) {
    const auto &l = a.asDict()->entries();
    return l.size() == b.asDict()->entries().size() &&
           std::all_of(l.begin(), l.end(), [&](const auto &entry) {
             const Value *other = b.asDict()->find(entry.first);
             return other && equals(entry.second, *other);
           });
  }
  if (a.asNamespace() || b.asNamespace())
    return a.asNamespace() == b.asNamespace();
  return (a.isNone() && b.isNone()) || (a.isUndefined() && b.isUndefined());
}

Result<int> compareValues(const Value &a, const Value &b) {
  double x, y;
  if (a.asText() && b.asText()) // bytes of UTF-8 sort as code points do
    return a.asText()->bytes().compare(b.asText()->bytes());
  if (a.asInt() && b.asInt())
    return *a.asInt() < *b.asInt() ? -1 : *a.asInt() > *b.asInt();
  if (a.toNumber(x) && b.toNumber(y))
    return x < y ? -1 : x > y;
  return checkpointError("expected two numbers or two strings to compare, got " + a.typeName() + " and " + b.typeName());
}

Result<Text> toText(const Value &value) {
  if (const Text *t = value.asText())
    return *t;
  if (value.isUndefined())
    return Text();
  if (value.isNone())
    return Text("None", true);
  if (const bool *b = value.asBool())
    return Text(*b ? "True" : "False", true);
  if (const int64_t *i = value.asInt())
    return Text(std::to_string(*i), true);
  if (const double *d = value.asFloat())
    return Text(nlohmann::json(*d).dump(), true);
  return unsupportedError("printing a " + value.typeName() + " (tojson prints one)");
}

Result<List> toList(const Value &value) {
  if (const List *l = value.asList())
    return *l;
  List result;
  if (value.isUndefined())
    return result;
  if (const Dict *d = value.asDict()) {
    // Keys come from messages unless the template wrote them; nobody needs them trusted.
    for (const auto &entry : d->entries())
      result.push_back(Text(entry.first, false));
    return result;
  }
  if (const Text *t = value.asText()) {
    if (t->size() > (size_t(1) << 20)) // each becomes a value of its own
      return unsupportedError("a list of more than a million characters");
    for (Text &c : t->characters())
      result.push_back(std::move(c));
    return result;
  }
  return checkpointError("expected a list, dict or string, got " + value.typeName());
}

Result<bool> contains(const Value &container, const Value &item) {
  if (const Text *t = container.asText()) {
    if (!item.asText())
      return checkpointError("expected a string on the left of 'in', got " + item.typeName());
    return t->bytes().find(item.asText()->bytes()) != std::string::npos;
  }
  if (const Dict *d = container.asDict())
    return item.asText() && d->find(item.asText()->bytes());
  Result<List> list = toList(container);
  if (!list)
    return list.error();
  for (const Value &element : *list)
    if (equals(element, item))
      return true;
  return false;
}

} // namespace dsv3::text::jinja
