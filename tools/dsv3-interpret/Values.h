// What SSA values hold while a program is interpreted.
#pragma once

#include "dialects/dsv3/Dsv3Dialect.h"
#include "runtime/reference/Cache.h"
#include "runtime/reference/Quantize.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

#include <memory>
#include <variant>

namespace dsv3::interpret {

using reference::Array;
using reference::Cache;
using reference::Ids;
using reference::Rounding;
using reference::SeqMeta;
using reference::Shape;

/// Numbers, ids, the sequences of the step, or the cache. Shared, since weights and caches are large. A
/// cache is changed in place: the handles that thread it through a program are one object.
template <typename T>
using Held = std::variant<std::monostate, std::shared_ptr<const Array<T>>, std::shared_ptr<const Ids>,
                          std::shared_ptr<const SeqMeta>, std::shared_ptr<Cache<T>>>;

template <typename T> Held<T> hold(Array<T> numbers) {
  return std::make_shared<const Array<T>>(std::move(numbers));
}
template <typename T> Held<T> hold(Ids ids) { return std::make_shared<const Ids>(std::move(ids)); }

/// Unsupported error: a type the reference has no rounding for.
Result<Rounding> roundingOf(mlir::Type elem);

/// The reference's scheme of an attribute. Unsupported error: a storage or blocks that the reference does not have.
Result<reference::QuantScheme> schemeOf(ir::BlockedAttr attr);

/// The shape an array has under `type`: its own row count, the type's other dims. The row count comes from
/// the data because a static first dim is a capacity: padded rows are never computed. Internal error when the
/// numbers do not fit.
Result<Shape> shapeUnder(mlir::RankedTensorType type, const Shape &shape);

/// The values of one program while it runs. Keeps the first error, prefixed by the op's site; after it every
/// operand is absent, which every function of the reference refuses, up to the caller's check.
template <typename T> class Frame {
public:
  const Array<T> &numbers(mlir::Value value) const { return get<const Array<T>>(value); }
  const Ids &ids(mlir::Value value) const { return get<const Ids>(value); }
  const SeqMeta &seq(mlir::Value value) const { return get<const SeqMeta>(value); }
  Cache<T> &cache(mlir::Value value) const { return get<Cache<T>>(value); }
  const Held<T> &held(mlir::Value value) const { return values.find(value)->second; }

  /// Rows of [T, H, D] as [T, H * D]; what a linear reads.
  Array<T> rows(mlir::Value value) const;

  /// Binds a result. Numbers are rounded to the result's element type, and then to the storage of its scheme if it has
  /// one: the only place where they are.
  void set(mlir::Value result, Result<Array<T>> numbers);
  void set(mlir::Value result, Result<Ids> ids);
  void set(mlir::Value result, Held<T> value) { values[result] = std::move(value); }

  /// Rounds to the element type of a value that lies inside an op ("via"), and to the storage of `scheme` if it is not null.
  Array<T> rounded(mlir::Type elem, Array<T> numbers, mlir::Attribute scheme = {});
  /// The value of a step inside an op.
  template <typename R> R take(Result<R> result) {
    if (result)
      return std::move(*result);
    fail(result.error());
    return R();
  }
  void check(const Status &result) {
    if (!result)
      fail(result.error());
  }

  void fail(Error error);
  const Status &status() const { return firstError; }
  void enter(mlir::Operation &op) { current = &op; }

private:
  template <typename V> V &get(mlir::Value value) const {
    static V absent = make<V>();
    auto it = value ? values.find(value) : values.end();
    auto *held = it == values.end() ? nullptr : std::get_if<std::shared_ptr<V>>(&it->second);
    return held ? **held : absent;
  }
  template <typename V> static V make() {
    if constexpr (std::is_same_v<V, Cache<T>>)
      return Cache<T>(0, 0, {0, 0});
    else
      return V();
  }

  llvm::DenseMap<mlir::Value, Held<T>> values;
  mlir::Operation *current = nullptr;
  Status firstError;
};

} // namespace dsv3::interpret
