// Products of two operands in codes: int8 rows times int8 or int4 panels, and E4M3 rows times E4M3, int8 or int4 panels.
//
// K is cut into pieces in which neither operand changes its scale. A piece's sum of integers is exact in int32 and no order
// of additions changes it; one with E4M3 rows, whose products are exact in f32, has one chain of additions, k ascending.
// Pieces are added up as f32, k ascending: acc += f32(sum) * (sx * sw), each step rounded. So results are those of
// runtime/reference/Quantize.h to the bit, in every variant.
//
// With vpdpbusd, which multiplies unsigned by signed bytes, a code of the weight is moved up by half its range (a bit
// flipped), and the sum starts at minus that times the sum of x, which is made once per tile. Without it, bytes become
// pairs of 16 bits for vpmaddwd, which is exact, and nothing is moved.
#pragma once

#include "codegen/x86/PanelGemm.h"
#include "codegen/x86/QuantRows.h"

namespace dsv3::codegen {

/// One tile: the counterpart of PanelGemm for rows in codes.
struct CodeGemm {
  using RowIndex = std::function<Value(Value row)>;
  /// `xRow` gives the row of x of a row of the tile. `epilogue` is called for each row and each panel of the first weight,
  /// with one vector per weight: `panelsPerWeight` is 1 if there is more than one.
  CodeGemm(KernelBuilder &k, const QuantOperand &x, SmallVector<WeightPanels> weights, int64_t panelsPerWeight, Value rows, RowIndex xRow,
           PanelGemm::Epilogue epilogue);

  void emit();
  /// Empty, or why rows of `x` do not meet a weight of logical type `w`.
  static std::string why(mlir::RankedTensorType x, mlir::RankedTensorType w);
  /// Values of K between changes of scales.
  static int64_t piece(const RowScheme &x, const WeightShape &w);
  static int64_t scratchBytes(mlir::RankedTensorType x, mlir::RankedTensorType w, int64_t rowBlock);

private:
  struct Slot {
    Value data, scale;
  };
  int64_t pieces() const { return llvm::divideCeil(shape.k, pieceK); }
  SmallVector<Value, 8> weightUnit(Value vector) const;
  SmallVector<Value, 8> xUnit(Value at, int64_t n) const;
  Value xWord(Value at, int64_t n) const;
  Value dot(Value acc, Value w, Value x) const;
  Value movedSum(Value codes, Value first, int64_t n) const;
  void sumRows();
  void decodeRows();
  Value xRowAt(Value row);
  SmallVector<Value> sums(ArrayRef<Slot> slots, ArrayRef<Value> codes, Value row, Value g, int64_t n);
  SmallVector<Value> promote(ArrayRef<Slot> slots, ArrayRef<Value> scales, ValueRange acc, ArrayRef<Value> sums, Value g);
  SmallVector<Value> rowGroup(ArrayRef<Slot> slots, Value row, int64_t mr);

  KernelBuilder &k;
  QuantOperand x;
  SmallVector<WeightPanels> weights;
  int64_t panelsPerWeight;
  Value rows;
  RowIndex xRow;
  PanelGemm::Epilogue epilogue;
  WeightShape shape;
  int64_t pieceK;
  bool nibbles; ///< the weight is int4
  bool fp8;     ///< rows are E4M3, in f32 in scratch
};

} // namespace dsv3::codegen
