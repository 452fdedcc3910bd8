#include "runtime/kvcache/BlockManager.h"

#include <algorithm>
#include <cassert>

namespace dsv3 {

BlockManager::BlockManager(int64_t count, int64_t pageTokens, bool prefixCache)
    : tokensPerPage(pageTokens), cachePrefixes(prefixCache), pages(size_t(count)) {
  for (int64_t page = count; page-- > 0;)
    free.push_back(static_cast<int32_t>(page));
}

int32_t BlockManager::take() {
  int32_t page;
  if (!free.empty()) {
    page = free.back();
    free.pop_back();
  } else {
    page = unused.front();
    unused.pop_front();
    Page &p = pages[size_t(page)];
    published.erase(p.hash);
    p = Page();
    ++counters.evictions;
    --counters.cachedPages;
  }
  pages[size_t(page)].references = 1;
  return page;
}

std::vector<int32_t> BlockManager::allocate(int64_t count) {
  assert(count <= freePages() && "the scheduler asks before it takes");
  std::vector<int32_t> taken;
  taken.reserve(size_t(count));
  while (count-- > 0)
    taken.push_back(take());
  return taken;
}

void BlockManager::release(std::vector<int32_t> &list) {
  for (auto page = list.rbegin(); page != list.rend(); ++page) {
    Page &p = pages[size_t(*page)];
    assert(p.references > 0 && "a page was given back twice");
    if (--p.references)
      continue;
    if (p.id)
      p.unusedAt = unused.insert(unused.end(), *page);
    else
      free.push_back(*page);
  }
  list.clear();
}

/// Mixes 64 bits (the finaliser of MurmurHash3).
static uint64_t mix(uint64_t h, uint64_t x) {
  h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdu;
  h ^= h >> 33;
  return h;
}

uint64_t BlockManager::hashOf(BlockId parent, const int32_t *tokens, const std::string &salt) const {
  uint64_t h = mix(parent, std::hash<std::string>()(salt));
  for (int64_t i = 0; i < tokensPerPage; ++i)
    h = mix(h, uint32_t(tokens[i]));
  return h;
}

int32_t BlockManager::find(uint64_t hash, BlockId parent, const int32_t *tokens, const std::string &salt) const {
  auto at = published.find(hash);
  if (at == published.end())
    return -1;
  const Page &p = pages[size_t(at->second)];
  bool same = p.parent == parent && p.salt == salt && std::equal(p.tokens.begin(), p.tokens.end(), tokens);
  return same ? at->second : -1;
}

BlockManager::Match BlockManager::match(const std::vector<int32_t> &tokens, int64_t most, const std::string &salt) {
  Match m;
  if (!cachePrefixes)
    return m;
  for (int64_t block = 0; block < most && (block + 1) * tokensPerPage <= int64_t(tokens.size()); ++block) {
    const int32_t *ids = tokens.data() + block * tokensPerPage;
    int32_t page = find(hashOf(m.last, ids, salt), m.last, ids, salt);
    if (page < 0)
      break;
    Page &p = pages[size_t(page)];
    if (p.references++ == 0)
      unused.erase(p.unusedAt);
    m.pages.push_back(page);
    m.last = p.id;
  }
  return m;
}

BlockId BlockManager::publish(int32_t page, BlockId parent, const int32_t *tokens, const std::string &salt) {
  if (!cachePrefixes)
    return 0;
  Page &p = pages[size_t(page)];
  assert(p.references > 0 && !p.id && "a page is published once, by who fills it");
  uint64_t hash = hashOf(parent, tokens, salt);
  if (int32_t other = find(hash, parent, tokens, salt); other >= 0)
    return pages[size_t(other)].id;
  p.id = nextId++;
  if (!published.emplace(hash, page).second) { // another content with this hash: ours cannot be found, and needs an identity only
    BlockId id = p.id;
    p.id = 0;
    return id;
  }
  p.parent = parent;
  p.hash = hash;
  p.tokens.assign(tokens, tokens + tokensPerPage);
  p.salt = salt;
  ++counters.cachedPages;
  return p.id;
}

void BlockManager::forget(const std::vector<int32_t> &list) {
  for (int32_t page : list) {
    Page &p = pages[size_t(page)];
    assert(p.references > 0 && "only who uses a page knows that it is bad");
    if (!p.id)
      continue;
    published.erase(p.hash);
    Page unpublished;
    unpublished.references = p.references;
    p = std::move(unpublished);
    --counters.cachedPages;
  }
}

void BlockManager::count(int64_t tokens, int64_t hits) {
  if (!cachePrefixes)
    return;
  counters.queries += tokens;
  counters.hits += hits;
}

} // namespace dsv3
