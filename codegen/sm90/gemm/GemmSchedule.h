// Which tile a GEMM uses: candidates, their cost on the device, the least one. Numbers only, no IR.
//
// Two families. *Tokens as M* (V1): a tile of tokens times a tile of weight rows, for many tokens, limited by the tensor
// cores. *Weights as M* (V2): 64 weight rows a warpgroup times a narrow tile of tokens, for few tokens, limited by
// memory; weights that are expanded in registers (FP8) use it for any number of tokens.
#pragma once

#include <cstdint>

namespace dsv3::codegen {

/// How operands are stored, and how their products are summed.
enum class Operands {
  Bf16,        ///< f32 sums over K
  ExpandedFp8, ///< weights of FP8 codes, rows of bf16: sums of 128 k, scaled, added in f32
  Fp8,         ///< both of FP8 codes: likewise
  Int8,        ///< both of int8, a scale per row of each: int32 sums over K, scaled once
  Int8Groups,  ///< rows of x with a scale per 128 k: int32 sums of 128 k, scaled, added in f32
};
constexpr bool isInteger(Operands o) { return o == Operands::Int8 || o == Operands::Int8Groups; }
/// Whether sums of 128 k are scaled and added.
constexpr bool promotes(Operands o) { return o != Operands::Bf16 && o != Operands::Int8; }
/// Whether rows of x are codes with scales, as weights are in everything but bf16.
constexpr bool scalesRows(Operands o) { return o == Operands::Fp8 || isInteger(o); }
constexpr int64_t bytesOfX(Operands o) { return scalesRows(o) ? 1 : 2; }
constexpr int64_t bytesOfWeight(Operands o) { return o == Operands::Bf16 ? 2 : 1; }

/// int8: scales of a weight's rows are padded to a multiple of this, so that whole tiles can read them.
constexpr int64_t kScalePad = 256;

/// What a cost depends on. The figures are those of an H200; they rank candidates, they promise nothing.
struct GpuModel {
  int64_t sms = 132;
  int64_t sharedBytes = 232448;  ///< dynamic shared memory of a block
  double clock = 1.70e9;         ///< Hz, under load
  double macs = 2048;            ///< bf16 multiply-adds per clock and SM
  double memory = 4.2e12;        ///< bytes/s
  double l2 = 8.5e12;            ///< bytes/s
  double smLoad = 95e9;          ///< bytes/s that one SM's copies reach
  /// Clusters that run at once with a block per SM. A cluster stays inside one of the processor groups, which have up to 18
  /// SMs, some fewer: what is left over by fours and eights is lost. Measured (cuOccupancyMaxActiveClusters); a cluster too
  /// many runs after all others, and the launch takes twice as long.
  int64_t clusters(int64_t size) const { return size <= 2 ? sms / size : size <= 4 ? 30 : 15; }
};

/// The numbers of a product y[rows, n] = x[rows, k] w[n, k]^T.
struct GemmShape {
  int64_t rows = 0;        ///< capacity of token rows
  int64_t n = 0, k = 0;    ///< of one weight matrix
  int64_t batch = 1;       ///< independent products: heads, experts
  int64_t weights = 1;     ///< matrices that share x: 2 for gate and up
  Operands operands = Operands::Bf16;
  int64_t outBytes = 2;    ///< of an element
  int64_t outGroup = 0;    ///< columns of y that share a scale, where y is quantised: no tile parts them
  bool grouped = false;    ///< `rows` is the sum over the products (experts), each of which may have any share of them
  bool gathers = false;    ///< rows of x are picked by the copying warpgroup; their scales, if any, too

  int64_t weightBytes() const { return bytesOfWeight(operands); }
  int64_t xBytes() const { return bytesOfX(operands); }
  /// Elements of K in the 128 bytes of a swizzle atom.
  int64_t atom() const { return 128 / xBytes(); }
  /// Products with rows: experts without touch no weight.
  int64_t active() const { return grouped && rows < batch ? rows : batch; }
};

/// Tokens as M: 64 rows a warpgroup. `bn` weight rows, half of them of each weight of a pair.
struct RowsSchedule {
  int64_t warpgroups = 2, bn = 256, bk = 64, stages = 4, group = 8;
  int64_t narrow = 0; ///< last columns of y (one weight), whose tiles are half as wide: of whole ones a round would be mostly idle
  // How a tile ends, for which its tensor cores wait. Of bf16 and int8 per token, dense.
  int64_t staged = 0; ///< 1: results reach memory as whole rows, through shared memory; 0: as half lines, by shuffles
  int64_t ahead = 0;  ///< 1: int8: scales of columns are in shared memory before they are needed; 0: threads read them
  int64_t parts = 1;  ///< accumulators, each of columns of its own: one is stored while the next is still multiplied
  int64_t later = 0;  ///< 1: the last one is stored while the next tile's first k-block is multiplied
  int64_t bm() const { return 64 * warpgroups; }
  /// Columns that are stored together, of as many as a tile makes of y: int8 and FP8 are scaled so many at a time.
  static constexpr int64_t piece(int64_t columns) { return columns % 64 == 0 ? 64 : 32; }
  /// Room to turn bf16 results to whole rows: 16 rows a warp.
  int64_t stagingBytes(int64_t columns) const { return staged * 4 * warpgroups * 16 * piece(columns) * 2; }
  /// Scales of columns, of this item and the next, and their barriers.
  int64_t aheadBytes() const { return ahead * kScaleItems * (4 * bn + 16); }
  static constexpr int64_t kScaleItems = 2;
};

/// Weights as M: 64 weight rows a warpgroup, `tokens` columns.
struct ColsSchedule {
  int64_t warpgroups = 4, tokens = 64, bk = 64, stages = 4;
  int64_t split = 1; ///< CTAs of a cluster that share K
  int64_t apart = 0; ///< 1: the two CTAs of a cluster have a weight of a pair each, and all of K
  int64_t once = 0;   ///< 1: weights go first out of L2, so that rows of x stay
  int64_t beside = 0; ///< 1: the two warpgroups have a weight of a pair each, for the same 64 rows, and store half of the columns each
  int64_t turns = 0;  ///< 1: two warpgroups issue their products in turn: one multiplies while the other promotes
  bool ownRoles() const { return beside || turns; } ///< each of the two warpgroups has code of its own
  int64_t bm() const { return beside ? 64 : 64 * warpgroups; }
  /// Columns that a rank of the cluster sums: ranks beyond `tokens / summed()` have nothing to do.
  int64_t summed() const { return tokens / split < 8 ? 8 : tokens / split; }
  /// That a warpgroup stores: the first one, or that of index `g` where they are beside each other.
  int64_t columns(int64_t g = 0) const {
    const int64_t first = (tokens / 2 + 7) / 8 * 8;
    return split > 1 ? summed() : !beside ? tokens : g ? tokens - first : first;
  }
  int64_t stagedTokens(int64_t g = 0) const { // at a time
    int64_t most = 32;
    while (columns(g) % most) // words of the staging buffer lie in powers of two
      most /= 2;
    return most;
  }
  /// Room to turn results to rows of bf16: 16 weight rows a warp.
  int64_t stagingBytes() const { return 2 * warpgroups * (stagedTokens() + stagedTokens(1)) * 32; }
  /// int8: sums of a pair that leave no registers beside them for scales of all columns.
  static constexpr bool inPieces(Operands o, int64_t weights, int64_t columns) { return o == Operands::Int8 && weights * columns / 2 > 128; }
  /// Where warps meet for the greatest magnitude of a row of y that is stored as codes.
  int64_t maximaBytes() const { return 4 * warpgroups * columns() * 4; }
  int64_t held(int64_t weights) const { return apart || beside ? 1 : weights; } ///< matrices of which a warpgroup multiplies rows
  int64_t stageRows(int64_t weights) const { return (apart ? 1 : weights) * bm(); }  ///< of weights in a stage
  /// Sums that two warpgroups hand each other, and the barrier at which they do.
  int64_t handedBytes() const { return beside ? 64 * tokens * 4 + 8 : 0; }
  /// Partial sums of a split, and the barriers of their exchange.
  int64_t exchangeBytes(int64_t weights) const { return split > 1 ? weights * (bm() * summed() * split * 4 + 80 * warpgroups) : 0; }
};

constexpr int64_t kMostTokens = 256; ///< wgmma's N

/// Seconds of a launch with this schedule.
double estimate(const GemmShape &, const RowsSchedule &, const GpuModel & = {});
double estimate(const GemmShape &, const ColsSchedule &, const GpuModel & = {});

RowsSchedule chooseRows(const GemmShape &, const GpuModel & = {});
/// Whether decode multiplies so many rows with tokens as M, if the weight's K is not split: FP8 x FP8 does, from 33 rows on, and
/// int8 where it is faster. The bits are those of weights as M: the same products, scaled alike.
bool takesRows(const GemmShape &, const GpuModel & = {});

/// CTAs that share K: a function of the weight alone, so that the bits of a result do not depend on how many tokens
/// there are. Sums of int8 have the same bits in any order: there the fastest for these rows.
int64_t splitOfWeight(const GemmShape &, const GpuModel & = {});
/// The token tile follows from the capacity (at most `maxTokens`), the rest from the cost.
ColsSchedule chooseCols(const GemmShape &, int64_t split, int64_t maxTokens, const GpuModel & = {});

/// Tiles of `tokens` rows over all products. Rows of experts are uneven: taken as spread from 0 to twice the mean.
int64_t likelyRowTiles(const GemmShape &, int64_t tokens);
/// The same for codes of experts: how many of them drawn rows touch, and tiles of their rows, spread a quarter of the mean to either
/// side, as measured ones are.
double drawnExperts(const GemmShape &);
double drawnRowTiles(const GemmShape &, int64_t tokens);
/// Tiles of `tokens` rows that grouped rows have at most, however they are shared out.
int64_t mostRowTiles(const GemmShape &, int64_t tokens);

/// Bytes of a stage of each family.
int64_t stageBytes(const GemmShape &, const RowsSchedule &);
int64_t stageBytes(const GemmShape &, const ColsSchedule &);

} // namespace dsv3::codegen
