#include "runtime/text/Bpe.h"

#include <queue>

namespace dsv3::text {
namespace {

uint64_t pairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

/// A token of the word under construction, in a doubly linked list by index.
struct Symbol {
  int32_t id; ///< -1 once merged into its left neighbour
  int prev, next;
};

/// A pair seen at some moment. It is stale when either side has changed since.
struct Candidate {
  uint32_t rank;
  int position;
  int32_t left, right, result;
  bool operator>(const Candidate &o) const {
    return rank != o.rank ? rank > o.rank : position > o.position;
  }
};

} // namespace

Bpe::Bpe(const std::array<int32_t, 256> &byteIds, const std::vector<Merge> &merges)
    : byteIds(byteIds) {
  table.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank)
    table.insert_or_assign(pairKey(merges[rank].left, merges[rank].right),
                           Entry{static_cast<uint32_t>(rank), merges[rank].result});
}

const Bpe::Entry *Bpe::find(int32_t left, int32_t right) const {
  auto it = table.find(pairKey(left, right));
  return it == table.end() ? nullptr : &it->second;
}

void Bpe::encode(std::string_view word, std::vector<int32_t> &out) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  for (unsigned char byte : word)
    if (int32_t id = byteIds[byte]; id >= 0) {
      int index = static_cast<int>(symbols.size());
      symbols.push_back({id, index - 1, index + 1});
    }
  if (symbols.empty())
    return;
  symbols.back().next = -1;

  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<Candidate>> queue;
  auto consider = [&](int left) {
    if (left < 0 || symbols[left].next < 0)
      return;
    int32_t a = symbols[left].id, b = symbols[symbols[left].next].id;
    if (const Entry *e = find(a, b))
      queue.push({e->rank, left, a, b, e->result});
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i)
    consider(static_cast<int>(i));

  while (!queue.empty()) {
    Candidate c = queue.top();
    queue.pop();
    Symbol &left = symbols[c.position];
    if (left.id != c.left || left.next < 0 || symbols[left.next].id != c.right)
      continue;
    Symbol &right = symbols[left.next];
    left.id = c.result;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0)
      symbols[left.next].prev = c.position;
    consider(left.prev);
    consider(c.position);
  }
  for (int i = 0; i >= 0; i = symbols[i].next)
    out.push_back(symbols[i].id);
}

} // namespace dsv3::text
