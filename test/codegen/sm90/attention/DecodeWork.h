// What tests of kernel.attn_split share: sequences in a pool of pages, the work list over them, what comes out of it.
#pragma once

#include "test/codegen/sm90/attention/Fixture.h"

namespace dsv3::codegen {

/// A decode step over sequences of these lengths in a shuffled pool, two pages larger than they need. Who derives from it has the
/// rows and says what is expected.
struct DecodeWork {
  static constexpr int64_t kLayers = 2, kLayer = 1, kTablePages = 16, kPageTokens = 64, kLatent = 512;

  int64_t heads, seqs, poolPages;
  std::vector<int32_t> lens, table; ///< `table`: [seqs, kTablePages]
  std::vector<int32_t> items, parts; ///< five numbers an item; where each part ends
  Bf16 out;                          ///< [seqs, heads, kLatent], NaN at first
  std::vector<float> partial, lse;   ///< [slots, heads, kLatent], [slots, heads]
  std::vector<int64_t> scalars;

  /// `pageBytes`: of one page in one layer.
  DecodeWork(int64_t heads, std::vector<int32_t> lengths, int64_t pageBytes);
  virtual ~DecodeWork() = default;

  static int64_t pagesOf(int64_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }
  /// Calls for every row of every page of a sequence: (sequence, page of the pool, row, whether a token is there).
  void eachRow(const std::function<void(int64_t, int64_t, int64_t, bool)> &visit) const;

  /// An item: pages [begin, end) of a sequence; `slot` -1 writes `out`. Items are added part by part.
  void add(int32_t seq, int32_t begin, int32_t end, int32_t slot);
  void endPart() { parts.push_back(items.size() / 5); }
  void clear() { items.clear(), parts.clear(); }
  int64_t partCount() const { return int64_t(parts.size()); }

  /// The kernel's arguments from the block table on.
  std::vector<tile::SimArgument> workArguments();

  /// Pages [begin, end) of a sequence, one head.
  virtual Attended want(int64_t seq, int64_t head, int64_t begin, int64_t end) const = 0;
  void checkWhole(int64_t seq);
  void checkPart(int64_t seq, int64_t begin, int64_t end, int64_t slot);
  /// Rows of `seq` have the same bits in both.
  void checkSame(DecodeWork &other, int64_t seq);

private:
  std::vector<int32_t> starts; ///< of parts, as the kernel reads them
};

} // namespace dsv3::codegen
