// The pages of the KV pool: who uses them, and which of them hold a prefix that another request may have.
//
// A page holds the same 64 positions of one sequence in every layer, so one table per sequence serves the whole model. Pages are
// reference-counted, because several sequences may begin with the same tokens.
//
// Prefix cache (the idea is vLLM's automatic prefix caching): a page that was filled completely is published under what it holds,
// the 64 tokens and the block before it. It stays findable when nobody uses it any more, until its memory is needed: the page that
// was unused for longest goes first, and of one sequence the last page first, since it is of no use without those before it. A lookup
// compares tokens, not only hashes: a collision can never mix up two prompts.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

namespace dsv3 {

/// A published block: unique for as long as the manager lives. 0: none, where a sequence begins.
using BlockId = uint64_t;

/// Numbers for people; tokens are those of whole pages.
struct PrefixCacheStats {
  int64_t queries = 0;     ///< tokens of prompts that were looked up
  int64_t hits = 0;        ///< of them, tokens whose keys were there
  int64_t evictions = 0;   ///< pages that were found no more because their memory was needed
  int64_t cachedPages = 0; ///< published pages, in use or not
};

class BlockManager {
public:
  BlockManager(int64_t pages, int64_t pageTokens, bool prefixCache = false);

  int64_t pageTokens() const { return tokensPerPage; }
  int64_t totalPages() const { return static_cast<int64_t>(pages.size()); }
  int64_t pagesFor(int64_t tokens) const { return (tokens + tokensPerPage - 1) / tokensPerPage; }

  /// Pages that nobody uses: what allocate() can give.
  int64_t freePages() const { return static_cast<int64_t>(free.size() + unused.size()); }

  /// Of them, those that a later request may find.
  int64_t unusedCachedPages() const { return static_cast<int64_t>(unused.size()); }

  /// Sequences that use a page.
  int64_t references(int32_t page) const { return pages[size_t(page)].references; }

  /// Takes `count` pages, at most freePages(), each with one reference. Published pages go last, the longest unused first.
  std::vector<int32_t> allocate(int64_t count);

  /// Drops one reference of each page and empties the list, which is in the order of a sequence.
  void release(std::vector<int32_t> &list);

  struct Match {
    std::vector<int32_t> pages; ///< a reference was taken of each
    BlockId last = 0;
  };

  /// The longest chain of published blocks at the beginning of `tokens`, at most `most` of them, that was published under the
  /// same `salt`. Nothing without a prefix cache.
  Match match(const std::vector<int32_t> &tokens, int64_t most, const std::string &salt);

  /// Makes a full page findable: `tokens` are its pageTokens() ids, `parent` is the block before it, under `salt`. Gives the
  /// block with this content: this page's, or that of a page that was there before, which then stays the one that is found.
  BlockId publish(int32_t page, BlockId parent, const int32_t *tokens, const std::string &salt);

  /// Makes pages that are in use findable no more: what they hold is not to be trusted. Blocks behind them are no longer found either.
  void forget(const std::vector<int32_t> &list);

  /// A request was admitted whose prompt of `tokens` had `hits` tokens in the cache.
  void count(int64_t tokens, int64_t hits);

  PrefixCacheStats stats() const { return counters; }

private:
  struct Page {
    int64_t references = 0;
    BlockId id = 0; ///< 0: not published
    BlockId parent = 0;
    uint64_t hash = 0;
    std::vector<int32_t> tokens;
    std::string salt;
    std::list<int32_t>::iterator unusedAt; ///< where it is in `unused`: published, and nobody's
  };

  uint64_t hashOf(BlockId parent, const int32_t *tokens, const std::string &salt) const;
  /// The published page with this content, or -1.
  int32_t find(uint64_t hash, BlockId parent, const int32_t *tokens, const std::string &salt) const;
  int32_t take();

  int64_t tokensPerPage;
  bool cachePrefixes;
  std::vector<Page> pages;
  std::vector<int32_t> free;   ///< not published; the last freed is taken first: it is still in the processor's cache
  std::list<int32_t> unused;   ///< published, the longest unused first
  std::unordered_map<uint64_t, int32_t> published; ///< by hash; of two contents with one hash the first is kept
  BlockId nextId = 1;
  PrefixCacheStats counters;
};

} // namespace dsv3
