// Rows of activations as codes and scales: how they lie in memory, and how a row is quantised.
#pragma once

#include "codegen/x86/EmitterBase.h"

namespace dsv3::codegen {

/// How the rows of a value [T, ...] are stored: a row is all of its values but the first dim's.
struct RowScheme {
  /// The scheme of `type`, whose `why` must be empty.
  explicit RowScheme(mlir::RankedTensorType type);
  /// Empty, or why rows of `type`, which has a scheme, are not stored by x86-64: "scales of a value are bf16, not f32".
  static std::string why(mlir::RankedTensorType type);

  mlir::Type storage; ///< i8 or f8E4M3FN
  int64_t row;        ///< values of a row
  int64_t group;      ///< consecutive values that share a scale; the last group may be shorter
  bool pow2;          ///< scales are powers of two
  int64_t groups() const { return llvm::divideCeil(row, group); }
};

/// A quantised operand inside a kernel. Its codes and scales are one buffer; the place of the scales depends on the capacity of
/// rows, so it is a constant of the launch: `offset` goes into the signature, and comes back as argument of the constructor.
struct QuantOperand {
  QuantOperand(KernelBuilder &k, mlir::RankedTensorType type, Value buffer, Value scaleOffset);
  static int64_t offset(Value v) { return kernel::getValueParts(llvm::cast<mlir::RankedTensorType>(v.getType()))[1].offset; }

  RowScheme scheme;
  Value codes, scales; ///< addresses of row 0
  Value codesOf(KernelBuilder &k, Value row) const { return k.at(codes, k.mul(row, scheme.row)); }
  Value scalesOf(KernelBuilder &k, Value row) const { return k.at(scales, k.mul(row, scheme.groups() * 4)); }
};

/// Quantises `n` values, `first` of a row on, which share one scale: codes and scales are those of
/// runtime/reference/Quantize.h, bit for bit. `load(lane, count)` gives 16 values of the row as f32 (zero beyond `count`),
/// `codes` is the address of the row's first code, `scale` that of the group's scale.
void quantizeGroup(KernelBuilder &k, const RowScheme &scheme, Value first, int64_t n,
                   llvm::function_ref<Value(Value lane, int64_t count)> load, Value codes, Value scale);
/// All groups of a row.
void quantizeRow(KernelBuilder &k, const QuantOperand &out, Value row, llvm::function_ref<Value(Value lane, int64_t count)> load);

} // namespace dsv3::codegen
