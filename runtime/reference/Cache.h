// The tokens of one step and the paged cache they read and write.
#pragma once

#include "runtime/reference/Quantize.h"

#include <optional>

namespace dsv3::reference {

/// Tokens per page: one page id holds 64 tokens in every layer.
constexpr int64_t kPageTokens = 64;

/// Which token belongs to which sequence, as the step buffer says it. T rows
/// may be a bucket's capacity: padded rows have sequence and position -1.
struct SeqMeta {
  std::vector<int32_t> tokenSeq; ///< [T] sequence of the row, or -1
  std::vector<int32_t> tokenPos; ///< [T] absolute position in it, or -1
  std::vector<int32_t> ctxLen;   ///< [S] cached tokens including this step's
  std::vector<int32_t> qStart;   ///< [S+1] rows of sequence s: qStart[s] .. qStart[s+1]-1
  std::vector<std::vector<int32_t>> blockTable; ///< [S] page ids in order of position

  int64_t tokens() const { return int64_t(tokenSeq.size()); }
  int64_t seqs() const { return int64_t(ctxLen.size()); }
  Ids positions() const { return Ids({tokens()}, tokenPos); }

  /// Adds the next `count` tokens of a new sequence of this step, which has
  /// `past` cached tokens, in `pages`.
  void addSequence(int64_t past, int64_t count, std::vector<int32_t> pages);

  /// Errors name the sequence: rows that do not follow each other, a position
  /// at or above ctxLen, a block table too short, a page outside the pool, or
  /// one page under two sequences that write to it.
  Status verify(int64_t pagesInPool) const;
};

/// How the cache stores a row: its fields are rounded to `element`. With a scheme the first field (MLA's latent) is
/// then quantised, one scale per row when it is appended; as numbers it is code * scale rounded to `element`, as the
/// weight of a linear over plain x is.
struct CacheStorage {
  Rounding element = Rounding::Exact;
  std::optional<QuantScheme> scheme;
};

/// What a reader takes a quantised field for: numbers, or the exact product of code and scale, where the kernel
/// multiplies codes with codes and scales afterwards.
enum class CacheReader { Numbers, Codes };

/// `[layer][page][64][width]`; width = kv_lora_rank + rope dims for MLA, whose
/// row is [latent | rotated rope key], shared by all heads.
template <typename T> class Cache {
public:
  Cache(int64_t layers, int64_t pages, std::vector<int64_t> fields, CacheStorage storage = {});

  int64_t layers() const { return numLayers; }
  int64_t pages() const { return numPages; }
  int64_t width() const { return rowWidth; }
  const std::vector<int64_t> &fields() const { return fieldWidths; }

  /// Codes times scale where the storage has a scheme.
  T *row(int64_t layer, int64_t page, int64_t slot);
  const T *row(int64_t layer, int64_t page, int64_t slot) const;
  const CacheStorage &storage() const { return rowStorage; }

private:
  int64_t numLayers, numPages, rowWidth;
  std::vector<int64_t> fieldWidths;
  CacheStorage rowStorage;
  std::vector<T> data;
};

/// Writes row t of each field ([T, width of the field]) at tokenPos[t] of its
/// sequence; padded rows write nothing.
template <typename T>
Status kvAppend(Cache<T> &cache, int64_t layer, const std::vector<Array<T>> &fields,
                const SeqMeta &seq);

/// The first ctxLen[s] rows of sequence s in order of position -> [ctxLen, width].
template <typename T>
Result<Array<T>> gatherRows(const Cache<T> &cache, int64_t layer, const SeqMeta &seq, int64_t s,
                            CacheReader reader = CacheReader::Numbers);

} // namespace dsv3::reference
