// Finds added (special) tokens in text.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dsv3::text {

/// An entry of tokenizer.json's `added_tokens`.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;    ///< left out by decode(skipSpecial)
  bool normalized = false; ///< searched in what the other tokens leave over
};

/// A set of strings, matched leftmost-longest by a trie over bytes.
class TokenMatcher {
public:
  struct Match {
    size_t begin = 0, end = 0;
    int32_t id = -1;
  };

  TokenMatcher() : nodes(1) { starts.fill(-1); }
  void add(std::string_view content, int32_t id);
  bool empty() const { return nodes.size() == 1; }

  /// The first match at or after `from` that ends at or before `to`; id -1 if none.
  Match find(std::string_view text, size_t from, size_t to) const;

private:
  struct Node {
    std::vector<std::pair<unsigned char, int>> children;
    int32_t id = -1;
  };
  int child(int node, unsigned char byte) const;

  std::vector<Node> nodes;
  std::array<int, 256> starts; ///< the root's children: most bytes start no token
};

} // namespace dsv3::text
