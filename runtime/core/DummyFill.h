// How a part of a packed weight is drawn when the artifact is loaded (`--load-format=dummy`): a box of a weight's indices,
// where each of its elements comes from, and where it goes. The compiler writes it down from recipe and layout; the CPU runs
// it here, a GPU by the kernel `dummy_fill` (codegen/sm90/simt/DummyFill.h), which reads `words`.
#pragma once

#include "runtime/core/Dummy.h"
#include "runtime/core/Json.h"

#include <string>
#include <vector>

namespace dsv3 {

struct DummyFill {
  enum class Kind : int64_t {
    Plain,       ///< numbers of a tensor that is stored plain
    Codes,       ///< FP8 codes as they are
    Dequantised, ///< codes times scales
    Scales,      ///< scales of the blocks that the elements lie in
  };
  static constexpr size_t kMaxDims = 4, kMaxTerms = 16;
  static constexpr int64_t kMostIndex = 0x7fffffff; ///< of a dim, a divisor, a modulus
  static constexpr int64_t kMostMembers = 1 << 20;

  /// Index d runs over first, first + step, ... (`count` of them); it moves `rowStride` rows and `colStride` columns.
  struct Dim {
    int64_t first = 0, step = 1, count = 1, rowStride = 0, colStride = 0;
    int64_t last() const { return first + step * (count - 1); }
  };
  /// A summand of the place in memory: index[dim] / div % mod * stride, in elements.
  struct Term {
    int64_t dim = 0, div = 1, mod = kMostIndex, stride = 0;
  };

  Kind kind = Kind::Plain;
  DType stored = DType::BF16; ///< what numbers are first rounded to: of the tensor, or of what it is dequantised to
  DType elem = DType::BF16;   ///< what is written: F32, BF16, F8E4M3
  std::string tensor, scale;  ///< names in the checkpoint; `{}` stands for a member's number
  int64_t memberDim = -1, memberFirst = 0; ///< the dim that counts members, and the member at index 0; -1: one tensor
  DummyTensor spread;         ///< of the data when plain, else of the scales
  std::vector<Dim> dims;      ///< of the weight, outermost first
  int64_t row = 0, col = 0;   ///< of the element at index 0 of every dim
  int64_t cols = 1;           ///< of the tensor
  int64_t blockRows = 1, blockCols = 1; ///< of its scales
  uint64_t offset = 0;        ///< bytes from the start of the weights
  std::vector<Term> terms;

  /// Runs of the last dim: what work is divided by.
  int64_t rows() const;
  /// What `run` writes in all, in elements; each has a place of its own in a fill that a compiler wrote.
  uint64_t elements() const;
  /// Bytes from the start of the weights that everything written lies before.
  uint64_t end() const;
  /// Writes runs [from, to) into the weights at `pool`. Padding is left alone: it is zero before.
  void run(int64_t from, int64_t to, uint8_t *pool) const;

  //===-- For checks ------------------------------------------------------===//

  /// Element `j` of a run: its place from the start of the weights, and its bytes (as many as `elem` has).
  uint64_t element(int64_t run, int64_t j, uint8_t *bytes) const;
  /// The run in which the elements at `index` (of all dims but the last) lie; -1: in none.
  int64_t runAt(const std::vector<int64_t> &index) const;
  /// What a run's elements mean: numbers, or codes times scales without a rounding.
  void numbers(int64_t run, double *out) const;

  /// What the kernel reads: numbers in a fixed order (DummyFillWord), then keys of tensors, then keys of scales.
  std::vector<int64_t> words() const;

private:
  struct Run;
  Run at(int64_t run) const;
};

/// Places in `DummyFill::words`. Dims are kMaxDims times {first, step, count, rowStride, colStride}, the last one last;
/// those before the weight's are of count 1. Terms of all dims but the last come first, then those of the last.
enum DummyFillWord : int64_t {
  kFillKind,      ///< DummyFill::Kind
  kFillStored,    ///< 0: F32, 1: BF16
  kFillElem,      ///< 0: F32, 1: BF16, 2: F8E4M3
  kFillMean,      ///< bits of a float
  kFillDeviation, ///< bits of a float
  kFillScaleBase, ///< bits of a double
  kFillPowers,    ///< 0 or 1
  kFillMemberDim, ///< of kMaxDims, or -1
  kFillRow,
  kFillCol,
  kFillCols,
  kFillBlockRows,
  kFillBlockCols,
  kFillGridCols,    ///< scales of a row of blocks
  kFillOffset,      ///< bytes
  kFillOuterTerms,  ///< terms of dims before the last
  kFillInnerTerms,  ///< terms of the last dim
  kFillScaleKeys,   ///< word at which keys of scales begin
  kFillDims,
  kFillTerms = kFillDims + 5 * int64_t(DummyFill::kMaxDims), ///< {dim of kMaxDims, div, mod, stride}
  kFillKeys = kFillTerms + 4 * int64_t(DummyFill::kMaxTerms),
};

OrderedJson toJson(const DummyFill &fill);
/// BadCheckpoint errors that name the field. What is returned can be run on a pool of `end()` bytes.
Result<DummyFill> dummyFillFromJson(const JsonFields &fields);

} // namespace dsv3
