// The GEMM core: rows of x times panels of 16 columns of a packed weight.
//
// A tile is up to `rowBlock` rows and `panels` panels. For each chunk of K the weight panels are brought to the
// multiply type in scratch (dequantised once for all rows of the tile; a weight already stored in that type is read
// in place, and one or two rows decode as they multiply), then register blocks of rows run over it. Each result has one chain
// of additions, k ascending, whatever the number of rows: the bits of a row never depend on its neighbours.
//
// Where the variant has bf16 tiles, they do every multiplication of bf16, of a single row too: a tile instruction adds
// 16 pairs before it adds to the accumulator, so its bits are not those of vdpbf16ps (see PanelTiles.cpp).
#pragma once

#include "codegen/x86/KernelBuilder.h"

namespace dsv3::codegen {

/// How a packed weight operand is read. Pointers are values of the kernel being built.
struct WeightPanels {
  mlir::RankedTensorType type; ///< packed; the last two dims are [N, K]
  Value data, scale, zero;     ///< first byte of this matrix's data, scales and zero points; null if there are none
  Value firstPanel;            ///< index of the panel of column 0 of the tile
};

/// Static facts of a packed weight.
struct WeightShape {
  explicit WeightShape(mlir::RankedTensorType packedType);
  int64_t n, k;
  mlir::Type storage;   ///< f32, bf16, f8E4M3FN, i8 or i4
  mlir::Type expressed; ///< element type the dequantised value is rounded to
  int64_t kp;           ///< consecutive k of one column in memory: 4 bytes
  int64_t scaleBlock;   ///< k values per scale; 0 without scales
  bool zeroPoints;
  int64_t panels() const { return llvm::divideCeil(n, kLanes); }
  int64_t paddedK() const { return llvm::alignTo(k, kp); }
  int64_t bytesPerK() const { return kLanes * 4 / kp; } ///< of a panel
  int64_t panelBytes() const { return paddedK() * bytesPerK(); }
  int64_t scaleBlocks() const { return scaleBlock ? llvm::divideCeil(k, scaleBlock) : 0; }
};

/// The packing every GEMM weight of the x86 target has: panels of 16 rows, kp = 1 (f32), 2 (bf16), 4 (fp8, int8), 8 (int4). A
/// byte of int4 holds k and k + 4 of a column, so that a mask and a shift give the layout of int8 twice.
kernel::PackedAttr panelEncoding(mlir::RankedTensorType logical);
/// Empty, or why `type` cannot be a GEMM weight.
std::string whyNotPanels(mlir::RankedTensorType logical);
/// 16 columns x 4 consecutive k of E4M3 codes as four vectors of f32, times 2^-8, which is what `kE4M3Scale` takes away.
SmallVector<Value, 4> decodeE4M3(KernelBuilder &k, Value lanes);
inline constexpr double kE4M3Scale = 256;

/// 16 columns of int8 (4 k) or int4 (8 k) as vectors of i32, k ascending. Byte j of a lane is k = j; of int4 its halves are k = j
/// and j + 4.
SmallVector<Value, 8> decodeIntegers(KernelBuilder &k, Value lanes, int64_t bits);
/// bf16 when x and the weight's numbers both are bf16, else f32.
mlir::Type multiplyType(mlir::Type x, mlir::RankedTensorType weight);

/// One tile.
struct PanelGemm {
  using RowAddress = std::function<Value(Value row)>;
  using Epilogue = std::function<void(Value row, int64_t panel, ArrayRef<Value> acc)>;
  PanelGemm(KernelBuilder &k, mlir::Type xElem, SmallVector<WeightPanels> weights, int64_t panelsPerWeight, int64_t rowBlock,
            Value rows, RowAddress rowAddress, int64_t rowStride, Epilogue epilogue)
      : k(k), xElem(xElem), weights(std::move(weights)), panelsPerWeight(panelsPerWeight), rowBlock(rowBlock), rows(rows),
        rowAddress(std::move(rowAddress)), rowStride(rowStride), epilogue(std::move(epilogue)) {}

  KernelBuilder &k;
  mlir::Type xElem;
  SmallVector<WeightPanels> weights; ///< one entry per operand; each contributes `panelsPerWeight` panels
  int64_t panelsPerWeight;
  int64_t rowBlock;                  ///< most rows of a tile, a multiple of 16
  Value rows;                        ///< rows of this tile, 1 to rowBlock
  RowAddress rowAddress; ///< address of x's row (0-based in the tile)
  int64_t rowStride;     ///< bytes from a row's address to the next row's; 0 where rows are gathered
  /// Called for each row and each panel of the first weight: `acc` holds one vector per weight.
  Epilogue epilogue;

  void emit();
  /// Scratch for a tile of this kind.
  static int64_t scratchBytes(int64_t rowBlock, int64_t panelsInAll);

  /// K values per chunk: panels of one tile stay in the second-level cache (4 x 64 KiB) and accumulators are
  /// spilled once per chunk. A multiple of every supported scale block.
  static constexpr int64_t kChunk = 512;

private:
  /// Where a panel's values are read: as stored (scales and zero points are those of this chunk), or ready in the multiply type.
  struct Source {
    Value base, scale, zero;
    bool ready;
  };
  /// What the codes of a block of k have in common, by column: f32 and i32. Null where there is none.
  struct Group {
    Value scale, zero;
  };
  using UnitBody = llvm::function_ref<SmallVector<Value>(Value kk, int64_t n, ArrayRef<Group> groups, ValueRange carried)>;
  Group groupAt(const Source &source, Value index);
  SmallVector<Value, 8> decoded(const Group &group, Value codes);
  SmallVector<Value, 8> unit(const Source &source, const Group &group, Value kk, int64_t n);
  SmallVector<Value> forUnits(ArrayRef<Source> sources, int64_t count, ValueRange init, UnitBody body);
  SmallVector<Value, 8> broadcasts(Value x, int64_t n);
  void prepare(const Source &from, Value to, int64_t count);
  void multiply(ArrayRef<Source> sources, int64_t mr, Value k0, int64_t count);
  void rowGroup(ArrayRef<Source> sources, ArrayRef<int64_t> slotsOfGroup, Value row, int64_t mr, Value k0, int64_t count);
  Value accAddress(Value row, int64_t slot);
  Value preparedAddress(int64_t slot);

  /// Where 16 rows of x can be loaded as tiles.
  struct TileRows {
    Value base, stride;
  };
  void multiplyTiles(ArrayRef<Source> sources, Value k0, int64_t count);
  void tileGroup(ArrayRef<Source> sources, ArrayRef<int64_t> slotsOfGroup, Value row, int64_t groups, Value k0, int64_t count);
  TileRows tileRows(Value row, Value copy, Value k0, int64_t count);
  void copyRow(Value from, Value to, int64_t count);

  int64_t slots() const { return int64_t(weights.size()) * panelsPerWeight; }
  mlir::Type mulType;
};

} // namespace dsv3::codegen
