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
  using NamespacePtr = std::shared_ptr<Dict>;

  Value() : data(Undefined{}) {}
  Value(bool b) : data(b) {}
  Value(int64_t i) : data(i) {}
  Value(double d) : data(d) {}
  Value(Text t) : data(std::move(t)) {}
  Value(List l);
  Value(Dict d);
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

  /// Levels of lists and dicts: 0 of a scalar or a namespace, 1 of a list of scalars. What walks a value recurses this deep.
  int depth() const;
  /// It is a namespace, or one is inside. Assigned to a namespace it could make a circle, which nobody would free.
  bool holdsNamespace() const;

  /// The number behind a bool, int or float; false when it is none of them.
  bool toNumber(double &number) const;

  /// "string", "none", ... ; for an undefined value its name too.
  std::string typeName() const;

  /// Python's truth value.
  bool truthy() const;

private:
  /// A list or dict, and what is known of it since it was made.
  template <typename T> struct Container {
    T items;
    int depth = 1;
    bool holdsNamespace = false;

    void note(const Value &element);
  };
  using ListPtr = std::shared_ptr<const Container<List>>;
  using DictPtr = std::shared_ptr<const Container<Dict>>;
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
