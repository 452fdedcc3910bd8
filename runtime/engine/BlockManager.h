// The pages of the KV pool: a free list. A page holds the same 64 positions of one
// sequence in every layer, so one table per sequence serves the whole model.
#pragma once

#include <cstdint>
#include <vector>

namespace dsv3 {

class BlockManager {
public:
  BlockManager(int64_t pages, int64_t pageTokens);

  int64_t pageTokens() const { return tokensPerPage; }
  int64_t totalPages() const { return total; }
  int64_t freePages() const { return static_cast<int64_t>(free.size()); }
  int64_t pagesFor(int64_t tokens) const { return (tokens + tokensPerPage - 1) / tokensPerPage; }

  /// Takes `count` pages, at most freePages().
  std::vector<int32_t> allocate(int64_t count);

  /// Gives pages back and empties the list.
  void release(std::vector<int32_t> &pages);

private:
  int64_t total, tokensPerPage;
  std::vector<int32_t> free; // the last freed is taken first: it is still in the cache
};

} // namespace dsv3
