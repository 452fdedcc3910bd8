// A GEMM whose weight rows are wgmma's M (64 a warpgroup) and whose tokens are its N (8 to 256), for few tokens, for
// experts' groups of rows, and for weights that are expanded in registers.
//
// What an item is (a tile of a dense or a batched product, of a group of rows) is apart from how it is multiplied and
// stored: `ColsSource` makes the work and says where an item lies.
#pragma once

#include "codegen/sm90/TileBuilder.h"
#include "codegen/sm90/gemm/GemmSchedule.h"

#include <functional>

namespace dsv3::codegen {

struct ColsSpec {
  ColsSchedule schedule;
  int64_t n = 0, k = 0;
  int64_t weights = 1;      ///< 2: y = silu(x w0^T) * (x w1^T)
  Operands operands = Operands::Bf16;
  bool stacked = false;     ///< w has a leading dim (heads, experts)
  bool xHeads = false;      ///< x has a leading dim of heads
  bool gathers = false;     ///< rows of x are tokens', picked by row
  mlir::Type outElem;
  mlir::Type via;           ///< gated: what both products are rounded to first
  int64_t outPitch = 0;     ///< elements
  bool pieces = false;      ///< the epilogue works on 32 columns at a time: sums leave no registers for scales of all
  int64_t rowTiles = 0;     ///< rows of experts: tiles at most; else 0
  bool codesOut = false;    ///< y, rounded to outElem, is stored as codes with a scale per row and 128 columns: those of two warpgroups
  bool e4m3Out = false;     ///< as E4M3, else as int8

  int64_t kBlocks() const { return (k + 127) / 128; } ///< of 128 k
  int64_t nBlocks() const { return (n + 63) / 64; }
  int64_t paddedScales() const { return (n + kScalePad - 1) / kScalePad * kScalePad; } ///< int8: of a matrix
  bool weightsScaled() const { return operands != Operands::Bf16; }
  bool rowsScaled() const { return scalesRows(operands); }
  mlir::Type codes(const TileBuilder &k) const { return e4m3Out ? k.f8 : k.i8; } ///< of y
  /// Scales of a row of x.
  int64_t rowScales() const { return promotes(operands) ? kBlocks() : 1; }
  /// Results go through shared memory, for 16-byte stores: rows of bf16 that no edge of N cuts.
  bool staged() const;
  /// Shared memory of the epilogue.
  int64_t epilogueBytes() const { return codesOut ? 16 * schedule.warpgroups * piece() : staged() ? schedule.stagingBytes() : 0; }
  int64_t piece() const { return pieces ? 32 : schedule.columns(); } ///< columns
};

/// An item: 64 * warpgroups weight rows times `tokens` rows of x.
struct ColsItem {
  mlir::Value stack; ///< entry of stacked weights (and of x with heads); null when there is one
  mlir::Value n;     ///< first weight row
  mlir::Value row;   ///< first row of x and y
  mlir::Value rows;  ///< rows from `row` that exist
  mlir::Value column; ///< of y, for weight row 0: null for 0
  mlir::Value part;  ///< of the cluster's split; null when there is one
};

/// Writes the kernel: what is read, multiplied and stored of an item. Kernels whose operands lie otherwise override steps.
class ColsKernel {
public:
  ColsKernel(TileBuilder &k, const ColsSpec &spec);
  virtual ~ColsKernel() = default;
  void build(llvm::StringRef symbol);

protected:
  using Value = mlir::Value;
  using Type = mlir::Type;

  // Parameters behind the step's scalars, and where items come from.
  virtual Type scalarsType() const { return k.scalars; }
  virtual llvm::SmallVector<Type> params() = 0;
  virtual void takeParams(llvm::ArrayRef<Value> args) = 0;
  virtual Value makeWork(Value scalars) = 0;
  virtual ColsItem item(llvm::ArrayRef<Value> fields) = 0;
  /// What a stage holds behind the weights and x.
  virtual llvm::SmallVector<Type> moreBuffers() { return {}; }
  /// Whether consumers load weights to registers: then every warp frees a stage, else wgmma alone reads it.
  virtual bool loadsWeights() const { return expands(); }

  // The copying thread. `prepare` is called once an item, in front of its loop over K.
  virtual void prepare(const ColsItem &item);
  virtual void copyRows(const ColsItem &item, Value kk, Value dest) = 0;
  virtual void copyWeight(int64_t i, const ColsItem &item, Value kk, Value dest) = 0;
  virtual void copyMore(const ColsItem &, Value /*kk*/, llvm::ArrayRef<Value> /*dest*/) {}
  /// Fills the ring with K of an item, from `slot` on; returns the next slot.
  virtual Value loadItem(const ColsItem &item, Value slot);

  // A consumer. `begin` is called once an item, in front of the product.
  virtual void begin(const ColsItem &, Value /*g*/) {}
  /// The next slot and the sums of every weight.
  virtual Values multiplyItem(const ColsItem &item, Value g, Value slot);
  /// What blocks of a cluster exchange.
  virtual Type exchangeElem() const { return spec.operands == Operands::Int8 ? k.i32 : k.f32; }
  /// What a sum over all of K stands for; `row` and `rows` are those of its columns.
  virtual Value scaled(Value sum, int64_t /*weight*/, Value /*row*/, Value /*rows*/) { return sum; }
  /// The scale of a warpgroup's weight rows and 128 k; of int8 a `row` fragment for all of K.
  virtual Value readScale(int64_t /*i*/, const ColsItem &, Value /*g*/, Value /*kBlock*/) { return {}; }
  /// The scales of x's rows [row, row + rows) and 128 k, a `col` fragment of `tokens`, where x is scaled.
  virtual Value readRowScales(Value row, Value rows, int64_t tokens, Value kBlock) { return {}; }
  /// Stores a tile: rows of y are columns of `value`, `rows` of them exist.
  virtual void store(Value value, const ColsItem &item, Value g, Value row, Value rows) = 0;

  // What overriding steps are made of.
  std::pair<Num, Num> range(const ColsItem &item);
  std::pair<Num, Num> rangeOfPart(Value part, int64_t parts);
  /// Parts of a split begin at multiples of it.
  virtual int64_t unit() const;
  /// An item's rows of x: those that `tokenOf` picks, where a kernel has it, else by tensor map.
  void copyRowsOf(Value x, Value stack, const ColsItem &item, Value kk, Value dest);
  /// bf16 rows by tensor map, with the item's entry of stacked ones.
  void copyTile(Value map, Value stack, Value row, Value kk, Value dest, tile::Hint hint = tile::Hint::Normal);
  /// Expanded FP8: the blocks of all warpgroups.
  void copyBlocks(Value data, const ColsItem &item, Value kk, Value dest);
  Value weightBlock(const ColsItem &item, Value g);
  Type mapType(int64_t rows, bool stacked);
  int64_t held() const { return s.held(spec.weights); } ///< weights of a stage
  bool expands() const { return spec.operands == Operands::ExpandedFp8; } ///< weights become a register operand
  /// In front of a stage's first product and behind its last one, of warpgroups that take turns: waits for its own, passes it on.
  void takeTurn();
  void passTurn();
  /// A warpgroup's 64 rows of the item's.
  Value rowsOf(Value g) { return s.beside ? k.ci(0) : g; }
  Type elem() const; ///< that wgmma reads from shared memory
  /// Types of a weight's parameters: a map, or the addresses of data and scales.
  void addWeightParams(llvm::SmallVectorImpl<Type> &types, bool stacked);
  /// Writes columns [0, n) of `value` as rows of `out`, 16 bytes at a time if `spec.staged()`.
  void writeRows(Value value, Value out, Value row, Value column, Value rows, Value cols);
  /// The same where y's columns are the item's weight rows: what lies past the last of them is left out.
  void writeItem(Value value, Value out, const ColsItem &item, Value g, Value row, Value rows);
  /// The same as codes, with their scales.
  void writeCodes(Value value, Value out, Value scales, const ColsItem &item, Value g, Value row, Value rows);
  /// `rows`, or none for a warpgroup past the last weight row.
  Value presentRows(const ColsItem &item, Value g, Value rows);

  TileBuilder &k;
  const ColsSpec &spec;
  const ColsSchedule &s;
  tile::BufType xBuf, wBuf;
  Value tokenOf; ///< of experts that gather: the row of x for each row of theirs; none: rows lie in order

private:
  Value tokens; ///< the producer's, of an item
  void load();
  void consume(Value g);
  /// Names of the consumers' roles; what each of them has in shared memory; their code.
  llvm::ArrayRef<llvm::StringRef> roles() const;
  void allocateForRoles();
  void addConsumers();
  void consumeAlone();
  Values swapped(Value sum);
  Values multiply(const ColsItem &item, Value g, Value slot);
  Values multiplyScaled(const ColsItem &item, Value g, Value slot);
  /// Rows of x and y that this block stores of an item: all, or its rank's share of a split.
  struct Share {
    Value row, rows;
  };
  Share shareOf(const ColsItem &item);
  /// int8: what sums over K are multiplied by, a fragment per weight, then, if `rows`, that of x's rows.
  Values readScales(const ColsItem &item, Value g, bool rows);
  void finish(const ColsItem &item, Value g, Values sums, llvm::ArrayRef<Value> scales);
  /// A warpgroup's rows of a weight: a view, or for the register operand a fragment.
  Value operandA(Value buffer, Value g);

  Value ring, work, maxima, swap;
  llvm::SmallVector<Value, 2> exchange;
  llvm::SmallVector<Value, 2> stages, handed, turns; ///< of each role; `handed`: to it; `turns`: what it passes on
  int64_t side = 0; ///< the role whose code is written
};

/// Dynamic shared memory of such a kernel.
int64_t sharedBytes(const ColsSpec &spec);

/// The registers of a role, 0 as the launch has them.
int64_t producerRegs(const ColsSchedule &, bool gathers = false);
int64_t consumerRegs(const ColsSchedule &);

/// Where items of products over plain rows come from: a source for dense and batched products, another for groups.
struct ColsSource {
  llvm::SmallVector<mlir::Type> params; ///< appended to the kernel's
  std::function<mlir::Value(TileBuilder &, mlir::Value scalars, mlir::ValueRange params)> work;
  std::function<ColsItem(TileBuilder &, mlir::ValueRange fields)> item;
};

/// Dense and batched products: rows are counted by `rowFactor` times a scalar of the step.
ColsSource denseColsSource(const ColsSpec &spec, int64_t batch, int64_t rowScalar, int64_t rowFactor);
/// Rows of experts. Parameter: the address of their offsets, i32 [experts + 1].
ColsSource groupedColsSource(TileBuilder &k, const ColsSpec &spec, int64_t experts);

/// Parameters: the step's scalars; tensor map of x ([heads,] rows, K; box tokens x 64 bf16 or 128 codes), for codes also the
/// address of its scales [rows, `rowScales`]; per weight a tensor map ([stack,] N, K; box bm x 64 or 128), or the address of
/// expanded FP8's blocks, and for codes the address of scales; address of y, where quantised also of its scales [rows, N / 128];
/// the source's own. One that gathers has the address of x instead of a map and, as its last, that of the tokens of rows, i32 [rows].
void buildColsKernel(TileBuilder &k, llvm::StringRef symbol, const ColsSpec &spec, const ColsSource &source);

} // namespace dsv3::codegen
