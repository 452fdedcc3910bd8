// Reading a JSON Schema: its keywords and their values, each error with the place it is about.
#pragma once

#include "runtime/core/Json.h"
#include "runtime/core/Result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dsv3::guided {

/// "schema: #/properties/a: expected ..., got ...", a usage error.
Error schemaError(const std::string &path, const std::string &message);

/// A value for an error message, short.
std::string describeSchema(const OrderedJson &value);

/// Usage error when brackets are nested deeper: parsers use the stack for them.
Status checkNesting(std::string_view json, int most);

/// The place a reference "#/a/b" means, or null. "~1" is '/', "~0" is '~' (RFC 6901).
const OrderedJson *resolvePointer(const OrderedJson &document, const std::string &pointer);

/// Whether a value has one of these types; no types: any.
bool hasKind(const OrderedJson &value, const std::vector<std::string> &kinds);

struct Property {
  std::string name, path;
  const OrderedJson *schema; ///< null: required, but not described
  bool required = false;
};

/// One schema object.
class SchemaView {
public:
  SchemaView(const OrderedJson &schema, std::string path) : path(std::move(path)), schema(schema) {}

  const std::string path; ///< "#/properties/a"

  /// Error for a keyword we do not know.
  Status checkKeywords() const;
  /// Error for keywords, beside those that only describe, that are none of these.
  Status expectOnly(const std::vector<std::string> &keywords) const;
  /// Error for keywords that say nothing about any of these types.
  Status expectKeywordsOf(const std::vector<std::string> &kinds) const;
  /// It only describes: anything is allowed.
  bool hasNoRules() const { return firstRule().empty(); }
  /// The name of a keyword that does more than describe; empty: none.
  std::string firstRule() const;

  const OrderedJson *find(const char *keyword) const;

  /// `type`: without doubles, "integer" left out beside "number". Empty without the keyword.
  Result<std::vector<std::string>> kinds() const;
  /// A number of things.
  Result<std::optional<uint64_t>> count(const char *keyword) const;
  /// A bound of integers, which excludes nothing but what it says: 2 for "exclusiveMinimum": 1 and for "minimum": 1.5.
  Result<std::optional<int64_t>> bound(const char *keyword) const;
  /// `properties`, in order, then what `required` adds.
  Result<std::vector<Property>> properties() const;

private:
  Error unsupported(const std::string &keyword, const std::string &expected) const;

  const OrderedJson &schema;
};

} // namespace dsv3::guided
