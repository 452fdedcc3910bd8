// Rows of codes with scales, made by the threads that hold them: shared by every kernel that quantises.
#pragma once

#include "codegen/sm90/simt/RowNorm.h"

namespace dsv3::codegen {

/// Stores rows in `#dsv3.blocked<S, 1x128, f32>` or `<S, 1x?, f32>`, S being f8E4M3FN or i8: codes and scales are those of
/// runtime/reference/Quantize.h, bit for bit. A thread holds vectors of `width` channels; the vectors of a group of 128 lie in
/// neighbouring lanes of one warp, those of a row with one scale in one block.
class QuantGroup {
public:
  static constexpr int64_t kGroup = 128, kMaxThreads = 1024;

  /// The scheme if it is one of those above (maybe with scales that are powers of two), else null.
  static ir::BlockedAttr schemeOf(mlir::Value v);
  /// Whether a row has one scale.
  static bool perToken(mlir::Value v);
  /// Why rows in vectors of `width` cannot be stored in the scheme of `out`; empty if they can.
  static std::string whyIllegal(mlir::Value out, int64_t width);
  /// Bytes between the codes and the scales of a value: depends on the capacity of rows, so it is a constant of the launch.
  static int64_t scaleOffset(mlir::Value v);

  /// `codes`: address of row 0; `scaleOffset`: i64.
  QuantGroup(SimtBuilder &k, mlir::Value out, Value codes, Value scaleOffset, int64_t width);

  /// Groups of 128: values become numbers of the storage's range, not rounded yet; returns the scale. All threads of the warp
  /// come here, those past the end of a row with zeros.
  Value scale(Lanes &values) const;
  /// Stores what `scale` made of channels [lane, lane + width) of a row.
  void store(const Lanes &values, Value scale, Value row, Value lane) const;
  /// Quantises and stores a row that a block holds, in groups or with one scale. What lies past its end is zero.
  void storeRow(const RowVectors &vectors, Value row, SmallVector<Lanes> values) const;

private:
  /// A scale and what values are multiplied by and divided by instead of it, so that nothing leaves the normal numbers.
  struct Scale {
    Value stored, power, divisor;
  };
  Value most(const Lanes &values) const;
  Scale scaleOf(Value most) const;
  void divide(Lanes &values, const Scale &scale) const;

  SimtBuilder &k;
  int64_t width, columns;
  bool integer, oneScale, pow2;
  Value codes, scales;
};

/// A grid whose threads hold one vector of a row each, whole groups a row: nothing else is shared between threads.
struct GroupWalk {
  static constexpr int64_t kThreads = 128;
  int64_t rows, columns, width;

  /// Threads of a row: whole groups, so that a warp holds no part of one.
  int64_t items() const { return llvm::divideCeil(columns, QuantGroup::kGroup) * (QuantGroup::kGroup / width); }
  int64_t blocks() const { return llvm::divideCeil(rows * items(), kThreads); }
  std::string whyIllegal() const;
  /// Quantises what `values` makes of channels [lane, lane + width) of a row. Lanes past the end get a place to read from, and
  /// store nothing.
  void quantise(SimtBuilder &k, Value count, const QuantGroup &group, llvm::function_ref<Lanes(Value row, Value lane)> values) const;
};

/// A launch that makes the rows of its last operand as codes from those of the others, one by one: kernel.quantize, kernel.swiglu.
/// A thread a vector for groups of 128, a block a row for one scale.
class RowsToCodesEmitter : public SimtEmitter {
public:
  using SimtEmitter::SimtEmitter;
  std::string whyIllegal(mlir::Operation *op) const override;
  LaunchSignature signature(mlir::Operation *op) const final;

protected:
  /// Channels [lane, lane + width) of a row as they would be stored plain.
  using Source = std::function<Lanes(Value row, Value lane, int64_t width)>;
  virtual Source source(mlir::Operation *op, SimtBuilder &k, const RefMap &refs) const = 0;

  int64_t threads(mlir::Operation *op) const final;
  int64_t blocks(mlir::Operation *op) const final;
  void body(mlir::Operation *op, SimtBuilder &k, const RefMap &refs) const final;

private:
  static Value out(mlir::Operation *op) { return op->getOperands().back(); }
  static int64_t width(mlir::Operation *op);
  static GroupWalk walk(mlir::Operation *op);
  static RowVectors vectors(mlir::Operation *op);
};

} // namespace dsv3::codegen
