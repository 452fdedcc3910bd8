#include "runtime/engine/BlockManager.h"

#include <cassert>

namespace dsv3 {

BlockManager::BlockManager(int64_t pages, int64_t pageTokens) : total(pages), tokensPerPage(pageTokens) {
  for (int64_t page = pages; page-- > 0;)
    free.push_back(static_cast<int32_t>(page));
}

std::vector<int32_t> BlockManager::allocate(int64_t count) {
  assert(count <= freePages() && "the scheduler asks before it takes");
  std::vector<int32_t> pages(free.rbegin(), free.rbegin() + count);
  free.resize(free.size() - count);
  return pages;
}

void BlockManager::release(std::vector<int32_t> &pages) {
  free.insert(free.end(), pages.rbegin(), pages.rend());
  pages.clear();
}

} // namespace dsv3
