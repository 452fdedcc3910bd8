// The values of the template language.
#pragma once

#include "runtime/core/Result.h"
#include "runtime/text/jinja/Text.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dsv3::text::jinja {

class Value;
using List = std::vector<Value>;

/// Keys are strings and keep their order. Small, so lookup is a linear search.
class Dict {
public:
  const Value *find(std::string_view key) const;
  void set(const std::string &key, Value value);
  /// `set` without the search: `key` is not here yet.
  void append(std::string key, Value value);
  const std::vector<std::pair<std::string, Value>> &entries() const { return items; }

private:
  std::vector<std::pair<std::string, Value>> items;
};

/// A Python-like value. Lists and dicts are shared and never change; a namespace is
/// shared and can be assigned to, which is its whole purpose.
class Value {
public:
  struct Undefined {
    std::string name; ///< what was looked up, for messages
  };
  struct None {};
  using ListPtr = std::shared_ptr<const List>;
  using DictPtr = std::shared_ptr<const Dict>;
  using NamespacePtr = std::shared_ptr<Dict>;

  Value() : data(Undefined{}) {}
  Value(bool b) : data(b) {}
  Value(int64_t i) : data(i) {}
  Value(double d) : data(d) {}
  Value(Text t) : data(std::move(t)) {}
  Value(List l) : data(std::make_shared<const List>(std::move(l))) {}
  Value(Dict d) : data(std::make_shared<const Dict>(std::move(d))) {}
  Value(const char *) = delete; // would become a bool; say Text and whether it is trusted

  static Value none() { return Value(Storage(None{})); }
  static Value undefined(std::string name) { return Value(Storage(Undefined{std::move(name)})); }
  static Value makeNamespace(Dict d) {
    return Value(Storage(std::make_shared<Dict>(std::move(d))));
  }

  bool isUndefined() const { return std::holds_alternative<Undefined>(data); }
  bool isNone() const { return std::holds_alternative<None>(data); }
  const bool *asBool() const { return std::get_if<bool>(&data); }
  const int64_t *asInt() const { return std::get_if<int64_t>(&data); }
  const double *asFloat() const { return std::get_if<double>(&data); }
  const Text *asText() const { return std::get_if<Text>(&data); }
  const List *asList() const;
  const Dict *asDict() const;
  Dict *asNamespace() const; ///< shared, so constness of the handle does not matter

  /// The number behind a bool, int or float; false when it is none of them.
  bool toNumber(double &number) const;

  /// "string", "none", ... ; for an undefined value its name too.
  std::string typeName() const;

  /// Python's truth value.
  bool truthy() const;

private:
  using Storage = std::variant<Undefined, None, bool, int64_t, double, Text, ListPtr, DictPtr,
                               NamespacePtr>;
  explicit Value(Storage s) : data(std::move(s)) {}
  Storage data;
};

/// Python's ==.
bool equals(const Value &a, const Value &b);

/// Python's order of numbers and of strings: negative, 0 or positive. Error for other types.
Result<int> compareValues(const Value &a, const Value &b);

/// What `{{ value }}` prints. Unsupported error for lists and dicts, whose Python form
/// no template should rely on.
Result<Text> toText(const Value &value);

/// What a `for` runs over: elements, keys or characters; nothing when undefined.
Result<List> toList(const Value &value);

/// Python's `item in container`.
Result<bool> contains(const Value &container, const Value &item);

} // namespace dsv3::text::jinja
