// Rows in FP8 with a scale per 128 channels, made by the threads that hold them: shared by every kernel that quantises.
#pragma once

#include "codegen/sm90/simt/SimtEmitter.h"

namespace dsv3::codegen {

/// Stores rows in `#dsv3.blocked<f8E4M3FN, 1x128, f32>`: codes and scales are those of runtime/reference/Quantize.h, bit for
/// bit. A thread holds vectors of `width` channels, and the vectors of a group lie in neighbouring lanes of one warp.
class QuantGroup {
public:
  static constexpr int64_t kGroup = 128;

  /// The scheme if it is the one above (maybe with scales that are powers of two), else null.
  static ir::BlockedAttr schemeOf(mlir::Value v);
  /// Why rows in vectors of `width` cannot be stored in the scheme of `out`; empty if they can.
  static std::string whyIllegal(mlir::Value out, int64_t width);
  /// Bytes between the codes and the scales of a value: depends on the capacity of rows, so it is a constant of the launch.
  static int64_t scaleOffset(mlir::Value v);

  /// `codes`: address of row 0; `scaleOffset`: i64.
  QuantGroup(SimtBuilder &k, mlir::Value out, Value codes, Value scaleOffset, int64_t width);

  /// Values become numbers of the storage's range, not rounded yet; returns the scale. All threads of the warp come here, those
  /// past the end of a row with zeros.
  Value scale(Lanes &values) const;
  /// Stores what `scale` made of channels [lane, lane + width) of a row.
  void store(const Lanes &values, Value scale, Value row, Value lane) const;

private:
  SimtBuilder &k;
  int64_t width, columns;
  bool pow2;
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

} // namespace dsv3::codegen
