// The numbers of weights: evaluates recipes (`WeightSource`) over a checkpoint.
//
// A recipe becomes a tree of readers, one per source, in which every element can be asked for alone. Nothing is
// copied but what is asked for, so packing streams, and slices, transposes and joins of encoded weights need no
// arithmetic on scale grids: the scale of an element is the scale of the element it came from.
#pragma once

#include "dialects/dsv3/Dsv3Dialect.h"
#include "frontends/huggingface/Checkpoint.h"
#include "runtime/core/Result.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <optional>
#include <vector>

namespace dsv3 {

/// Reads one weight as rows: all dims but the last are joined in row-major order.
class WeightReader {
public:
  virtual ~WeightReader() = default;

  const std::vector<int64_t> &shape() const { return dims; }
  int64_t rows() const;
  int64_t cols() const { return dims.back(); }

  /// Elements [col, col + n) of `row`. An encoded element is its stored number, less its zero point, times its scale,
  /// in float32.
  virtual Status values(int64_t row, int64_t col, int64_t n, float *out) const = 0;

  /// Whether stored codes and scales exist: FP8 (E4M3) or integers with a scale per block.
  virtual bool encoded() const { return false; }
  /// Stored codes, a byte each; those of integers are signed, int4 too. Internal error unless `encoded`.
  virtual Status codes(int64_t row, int64_t col, int64_t n, uint8_t *out) const;
  /// The scale of each element; internal error unless `encoded`.
  virtual Status scales(int64_t row, int64_t col, int64_t n, float *out) const;
  /// Whether codes have zero points: an element is (code - zero) * scale.
  virtual bool hasZeros() const { return false; }
  /// The zero point of each element; internal error unless `hasZeros`.
  virtual Status zeros(int64_t row, int64_t col, int64_t n, int8_t *out) const;

protected:
  explicit WeightReader(std::vector<int64_t> dims) : dims(std::move(dims)) {}

private:
  std::vector<int64_t> dims;
};

/// A weight in memory, or one entry of its leading dim.
struct WeightValues {
  std::vector<int64_t> shape;
  std::vector<float> values; ///< plain: rounded to the type's element type. Empty when encoded.
  std::vector<uint8_t> codes; ///< encoded: E4M3 or signed bytes, row-major
  std::vector<float> scales;  ///< encoded: one per block, in the shape of the scheme's part "scale"
  std::vector<int8_t> zeros;  ///< encoded with zero points: one per scale
};

/// Weights of one module. Thread-safe: readers only read.
class WeightData {
public:
  /// `checkpoint` may be null when no recipe names a tensor. Both must outlive this.
  WeightData(mlir::ModuleOp module, const hf::Checkpoint *checkpoint);

  /// The reader of weight `symbol`, its shape and encoding checked against the weight's type. Values are rounded to the
  /// type's element type. BadCheckpoint: a tensor is missing, or has another shape or dtype than the recipe
  /// needs. While reading, BadCheckpoint names tensor and element of a NaN code or a value that is not finite.
  Result<std::unique_ptr<WeightReader>> open(llvm::StringRef symbol) const;

  /// All of a weight, or entry `lead` of its leading dim.
  Result<WeightValues> load(llvm::StringRef symbol, std::optional<int64_t> lead = std::nullopt) const;

private:
  mlir::ModuleOp module;
  const hf::Checkpoint *checkpoint;
};

} // namespace dsv3
