// Typed access to the fields of a request's JSON object.
//
// Each reader leaves its variable alone when the field is absent or null (clients send nulls for what they do not set) and
// keeps the first error, so that a parser reads as a list of fields and asks once at the end.
#pragma once

#include "runtime/core/Json.h"
#include "runtime/server/ApiError.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dsv3::server {

class Fields {
public:
  /// `object` must outlive this. `prefix` is the path of the object in the body: "stream_options.".
  explicit Fields(const OrderedJson &object, std::string prefix = "") : object(object), prefix(std::move(prefix)) {}

  /// The value, or nullptr when absent or null.
  const OrderedJson *find(const char *key) const;

  /// An integer in [low, high]; 3.0 is not one.
  void integer(const char *key, int64_t &out, int64_t low, int64_t high);
  void integer(const char *key, std::optional<int64_t> &out, int64_t low, int64_t high);
  void number(const char *key, double &out, double low, double high);
  void boolean(const char *key, bool &out);
  void string(const char *key, std::string &out);
  /// A child object; nullptr when absent.
  const OrderedJson *child(const char *key);

  /// "KEY: expected EXPECTED, got VALUE"
  void refuse(const char *key, const std::string &expected);
  /// "KEY: MESSAGE"
  void fail(const char *key, const std::string &message);
  void take(const std::optional<ApiError> &other);

  const std::optional<ApiError> &error() const { return first; }

private:
  const OrderedJson &object;
  std::string prefix;
  std::optional<ApiError> first;
};

/// How a value looks in a message: `"gelu"`, `8`, `null`, `an object`.
std::string describe(const OrderedJson &value);

constexpr int kMaxDepth = 100, kMaxKeys = 1024;

/// Parses a body: an object, nested at most `kMaxDepth` deep, with at most `kMaxKeys` keys in one object and no key twice.
/// The time is linear in its size.
Outcome<OrderedJson> parseBody(std::string_view body);

} // namespace dsv3::server
