// Byte-pair encoding of one word.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dsv3::text {

/// The merge table of a byte-level BPE vocabulary. Immutable; thread-safe.
///
/// A word starts as one token per byte; the adjacent pair with the lowest rank is
/// merged, the leftmost first among equals, until no pair has a rank (Sennrich et
/// al. 2016). Pairs wait in a heap, so a word of n bytes costs O(n log n).
class Bpe {
public:
  /// `left right -> result`, ids of tokens; a merge's place in the list is its rank.
  struct Merge {
    int32_t left, right, result;
  };

  Bpe() { byteIds.fill(-1); }

  /// `byteIds[b]` is the token of byte b, or -1 for a byte that no text contains.
  Bpe(const std::array<int32_t, 256> &byteIds, const std::vector<Merge> &merges);

  /// Appends the ids of `word` to `out`.
  void encode(std::string_view word, std::vector<int32_t> &out) const;

private:
  struct Entry {
    uint32_t rank;
    int32_t result;
  };
  struct PairHash {
    size_t operator()(uint64_t key) const {
      key *= 0x9E3779B97F4A7C15ull; // Fibonacci hashing: ids are dense and regular
      return static_cast<size_t>(key ^ key >> 32);
    }
  };
  const Entry *find(int32_t left, int32_t right) const;

  std::array<int32_t, 256> byteIds;
  std::unordered_map<uint64_t, Entry, PairHash> table;
};

} // namespace dsv3::text
