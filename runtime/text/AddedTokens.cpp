#include "runtime/text/AddedTokens.h"

namespace dsv3::text {

int TokenMatcher::child(int node, unsigned char byte) const {
  for (const auto &[label, target] : nodes[node].children)
    if (label == byte)
      return target;
  return -1;
}

void TokenMatcher::add(std::string_view content, int32_t id) {
  int node = 0;
  for (unsigned char byte : content) {
    int next = child(node, byte);
    if (next < 0) {
      next = static_cast<int>(nodes.size());
      nodes.emplace_back();
      nodes[node].children.emplace_back(byte, next);
      if (node == 0)
        starts[byte] = next;
    }
    node = next;
  }
  if (node != 0)
    nodes[node].id = id;
}

TokenMatcher::Match TokenMatcher::find(std::string_view text, size_t from, size_t to) const {
  for (size_t begin = from; begin < to; ++begin) {
    Match best;
    int node = starts[static_cast<unsigned char>(text[begin])];
    for (size_t end = begin + 1; node >= 0; ++end) {
      if (nodes[node].id >= 0)
        best = {begin, end, nodes[node].id};
      if (end >= to)
        break;
      node = child(node, static_cast<unsigned char>(text[end]));
    }
    if (best.id >= 0)
      return best;
  }
  return {};
}

} // namespace dsv3::text
