#include "runtime/kvcache/BlockManager.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

using namespace dsv3;

namespace {

using Pages = std::vector<int32_t>;
using Ids = std::vector<int32_t>;

/// `n` ids from `first` on.
Ids idsFrom(int32_t first, int64_t n) {
  Ids ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

/// Publishes the full pages of `ids`, which lie in `pages`.
void publishAll(BlockManager &blocks, const Ids &ids, const Pages &pages, const std::string &salt = "") {
  BlockId last = 0;
  for (size_t i = 0; (i + 1) * size_t(blocks.pageTokens()) <= ids.size(); ++i)
    last = blocks.publish(pages[i], last, ids.data() + i * size_t(blocks.pageTokens()), salt);
}

TEST(BlockManager, HandsOutEachPageOnce) {
  BlockManager blocks(10, 64);
  EXPECT_EQ(blocks.pagesFor(1), 1);
  EXPECT_EQ(blocks.pagesFor(64), 1);
  EXPECT_EQ(blocks.pagesFor(65), 2);
  std::vector<int32_t> a = blocks.allocate(4), b = blocks.allocate(6), all = a;
  EXPECT_EQ(blocks.freePages(), 0);
  all.insert(all.end(), b.begin(), b.end());
  std::sort(all.begin(), all.end());
  std::vector<int32_t> expected(10);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
  blocks.release(a);
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(blocks.freePages(), 4);
}

TEST(BlockManager, APageIsFreeWhenItsLastUserGivesItBack) {
  BlockManager blocks(4, 4, true);
  Ids ids = idsFrom(0, 8);
  Pages a = blocks.allocate(2), first = a;
  publishAll(blocks, ids, a);
  BlockManager::Match m = blocks.match(ids, 2, "");
  EXPECT_EQ(m.pages, first);
  EXPECT_EQ(blocks.references(first[0]), 2);
  blocks.release(a);
  EXPECT_EQ(blocks.freePages(), 2) << "the other one still reads them";
  blocks.release(m.pages);
  EXPECT_EQ(blocks.freePages(), 4);
  EXPECT_EQ(blocks.unusedCachedPages(), 2);
}

TEST(BlockManager, FindsTheLongestPrefixAndNothingElse) {
  BlockManager blocks(8, 4, true);
  Ids ids = idsFrom(0, 12);
  Pages a = blocks.allocate(3), kept = a;
  publishAll(blocks, ids, a);
  auto found = [&](const Ids &prompt, int64_t most, const std::string &salt = "") {
    BlockManager::Match m = blocks.match(prompt, most, salt);
    Pages pages = m.pages;
    blocks.release(m.pages);
    return pages;
  };
  EXPECT_EQ(found(ids, 3), kept);
  EXPECT_EQ(found(ids, 2), Pages({kept[0], kept[1]}));
  EXPECT_EQ(found(idsFrom(0, 11), 3), Pages({kept[0], kept[1]})) << "of a page that is not whole nothing is known";
  Ids other = ids;
  other[5] = 99;
  EXPECT_EQ(found(other, 3), Pages({kept[0]})) << "the third page is the same, but what is before it is not";
  EXPECT_EQ(found(idsFrom(4, 8), 2), Pages()) << "the same tokens at another place";
  EXPECT_EQ(found(ids, 3, "salt"), Pages());
  blocks.release(a);
  EXPECT_EQ(found(ids, 3), kept) << "still there when nobody uses them";
}

TEST(BlockManager, MemoryIsTakenFromTheLongestUnusedFromTheEnd) {
  BlockManager blocks(4, 4, true);
  Ids old = idsFrom(0, 8), young = idsFrom(100, 8);
  Pages a = blocks.allocate(2), b = blocks.allocate(2), firstOld = {a[0]}, allYoung = b;
  publishAll(blocks, old, a);
  publishAll(blocks, young, b);
  blocks.release(a);
  blocks.release(b);
  EXPECT_EQ(blocks.freePages(), 4);
  Pages c = blocks.allocate(1);
  EXPECT_EQ(blocks.stats().evictions, 1);
  EXPECT_EQ(blocks.stats().cachedPages, 3);
  BlockManager::Match m = blocks.match(old, 2, ""), n = blocks.match(young, 2, "");
  EXPECT_EQ(m.pages, firstOld);
  EXPECT_EQ(n.pages, allYoung);
  blocks.release(c);
  blocks.release(m.pages);
  blocks.release(n.pages);
  EXPECT_EQ(blocks.freePages(), 4);
}

TEST(BlockManager, TwoThatComputeTheSameShareTheFirst) {
  BlockManager blocks(4, 4, true);
  Ids ids = idsFrom(0, 8);
  Pages a = blocks.allocate(2), b = blocks.allocate(2), first = a;
  publishAll(blocks, ids, a);
  publishAll(blocks, ids, b);
  EXPECT_EQ(blocks.stats().cachedPages, 2);
  blocks.release(b);
  EXPECT_EQ(blocks.unusedCachedPages(), 0) << "the second copy is not kept";
  BlockManager::Match m = blocks.match(ids, 2, "");
  EXPECT_EQ(m.pages, first);
  blocks.release(a);
  blocks.release(m.pages);
}

TEST(BlockManager, WithoutPrefixCacheNothingIsFound) {
  BlockManager blocks(4, 4);
  Ids ids = idsFrom(0, 8);
  Pages a = blocks.allocate(2);
  publishAll(blocks, ids, a);
  EXPECT_TRUE(blocks.match(ids, 2, "").pages.empty());
  blocks.release(a);
  EXPECT_EQ(blocks.unusedCachedPages(), 0);
}

TEST(BlockManager, WhatIsForgottenIsNotFound) {
  BlockManager blocks(6, 4, true);
  Ids ids = idsFrom(0, 12);
  Pages a = blocks.allocate(3);
  publishAll(blocks, ids, a);
  BlockManager::Match shared = blocks.match(ids, 2, "");
  Pages middle = {a[1]};
  blocks.forget(middle);
  blocks.forget(middle); // nothing more happens
  EXPECT_EQ(blocks.stats().cachedPages, 2);
  EXPECT_EQ(blocks.references(a[1]), 2) << "its users keep it";
  BlockManager::Match m = blocks.match(ids, 3, "");
  EXPECT_EQ(m.pages.size(), 1u) << "nor is the block behind it";
  for (Pages *pages : {&m.pages, &shared.pages, &a})
    blocks.release(*pages);
  EXPECT_EQ(blocks.freePages(), 6);
  EXPECT_EQ(blocks.unusedCachedPages(), 2);
  // The same content again gets an identity of its own, and all pages can still be taken.
  a = blocks.allocate(3);
  publishAll(blocks, ids, a);
  blocks.release(a);
  Pages all = blocks.allocate(6);
  EXPECT_EQ(blocks.stats().cachedPages, 0);
}

} // namespace
