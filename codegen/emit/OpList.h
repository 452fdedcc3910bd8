// What every launch of an artifact computes, and where its operands lie: tools compare steps with the reference by it
// (dsv3-bench slice). Written beside the code when compile-model is asked to (--op-list).
#pragma once

#include "dialects/rt/RtDialect.h"
#include "runtime/core/Json.h"

#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace dsv3 {

/// Place of the list in an artifact, below the code folder of its target.
inline constexpr const char *kOpListFile = "ops.json";

/// {programs: [{name, ops: [op]}]}, an op per launch, in order:
///   {op, site, kernel, rows: "tokens" | "seqs", attributes: {...},
///    buffers: [{name, role: "input" | "weight" | "cache" | "output", elem, shape, at, lanes, pool, offset}]}
/// Names of ops, attributes and buffers are those of kernel packs (tools/dsv3-bench/Pack.h). A weight has `weight`, its name in the
/// manifest, in the place of pool and offset; a quantised value has `scales`, the offset of its scales, and `block`. Pools
/// are DSV3_POOL_*. A launch whose results nobody can compare (plans, partial results) has no buffers: attn_split and
/// attn_combine are one attn_decode, at the latter.
class OpList {
public:
  /// After stage tile: the launches and their operands.
  Status collect(mlir::ModuleOp module);
  /// After stage schedule: their places. Internal error when the launches are not the same.
  Status place(rt::ModuleOp host);

  const OrderedJson &json() const { return list; }

private:
  OrderedJson list = OrderedJson::object();
};

} // namespace dsv3
