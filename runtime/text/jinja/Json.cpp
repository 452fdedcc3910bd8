#include "runtime/text/jinja/Json.h"

#include "runtime/text/Utf8.h"
#include "runtime/text/jinja/Builtins.h"

#include <limits>

namespace dsv3::text::jinja {
namespace {

using OrderedJson = nlohmann::ordered_json;
constexpr int kMaxJsonDepth = 100;

Result<Value> convert(const OrderedJson &json, int depth) {
  if (depth > kMaxJsonDepth)
    return usageError("expected JSON nested at most 100 deep");
  switch (json.type()) {
  case OrderedJson::value_t::boolean:
    return Value(json.get<bool>());
  case OrderedJson::value_t::number_unsigned:
    if (json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return usageError("expected an integer below 2^63, got " + json.dump());
    return Value(json.get<int64_t>());
  case OrderedJson::value_t::number_integer:
    return Value(json.get<int64_t>());
  case OrderedJson::value_t::number_float:
    return Value(json.get<double>());
  case OrderedJson::value_t::string:
    return Value(Text(toValidUtf8(json.get_ref<const std::string &>()), false));
  case OrderedJson::value_t::array: {
    List list;
    for (const OrderedJson &element : json) {
      Result<Value> value = convert(element, depth + 1);
      if (!value)
        return value;
      list.push_back(std::move(*value));
    }
    return Value(std::move(list));
  }
  case OrderedJson::value_t::object: {
    Dict dict;
    for (auto it = json.begin(); it != json.end(); ++it) {
      Result<Value> value = convert(it.value(), depth + 1);
      if (!value)
        return value;
      dict.append(toValidUtf8(it.key()), std::move(*value));
    }
    return Value(std::move(dict));
  }
  default:
    return Value::none();
  }
}

std::string quote(const std::string &text) { return nlohmann::json(text).dump(); }

/// Writes Python's layout: ", " and ": " on one line, or one element a line.
class Writer {
public:
  explicit Writer(int64_t indent) : indent(indent) {}

  Status write(const Value &value, int64_t depth) {
    if (const Text *t = value.asText())
      out += quote(t->bytes());
    else if (value.isNone())
      out += "null";
    else if (const bool *b = value.asBool())
      out += *b ? "true" : "false";
    else if (const int64_t *i = value.asInt())
      out += std::to_string(*i);
    else if (const double *d = value.asFloat())
      out += nlohmann::json(*d).dump();
    else if (const List *l = value.asList())
      return writeList(*l, depth);
    else if (const Dict *d = value.asDict())
      return writeDict(*d, depth);
    else
      return checkpointError("expected a value that JSON has, got " + value.typeName());
    return {};
  }

  std::string out;

private:
  Status writeList(const List &list, int64_t depth) {
    out += '[';
    for (size_t i = 0; i < list.size(); ++i) {
      separate(i == 0, depth + 1);
      if (Status s = write(list[i], depth + 1); !s)
        return s;
    }
    close(list.empty(), depth, ']');
    return {};
  }

  Status writeDict(const Dict &dict, int64_t depth) {
    out += '{';
    bool first = true;
    for (const auto &[key, value] : dict.entries()) {
      separate(first, depth + 1);
      out += quote(key) + ": ";
      if (Status s = write(value, depth + 1); !s)
        return s;
      first = false;
    }
    close(first, depth, '}');
    return {};
  }

  void newLine(int64_t depth) {
    out += '\n';
    out.append(static_cast<size_t>(indent * depth), ' ');
  }
  void separate(bool first, int64_t depth) {
    if (!first)
      out += indent < 0 ? ", " : ",";
    if (indent >= 0)
      newLine(depth);
  }
  void close(bool isEmpty, int64_t depth, char bracket) {
    if (!isEmpty && indent >= 0)
      newLine(depth);
    out += bracket;
  }

  int64_t indent;
};

} // namespace

Result<Value> fromJson(const OrderedJson &json) { return convert(json, 0); }

Result<std::string> toJson(const Value &value, int64_t indent) {
  if (indent > 16)
    return unsupportedError("tojson with an indent above 16");
  Writer writer(indent);
  if (Status s = writer.write(value, 0); !s)
    return s.error();
  return std::move(writer.out);
}

} // namespace dsv3::text::jinja
