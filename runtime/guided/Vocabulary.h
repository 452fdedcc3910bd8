// A tokenizer's tokens in the order masks are made in.
#pragma once

#include "runtime/core/Result.h"
#include "runtime/guided/Matcher.h"
#include "runtime/text/Tokenizer.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dsv3::guided {

/// One bit per token id.
using Mask = std::vector<uint64_t>;

/// The tokens as two trees by their bytes: tokens of plain text (whole characters that need no escape in a JSON string), and
/// all others. Where any plain text is allowed, a mask takes all of the first kind at once; llguidance ("slices") and XGrammar
/// ("context-independent tokens") do the same for the same reason: most of a vocabulary is plain text. Immutable.
class Vocabulary {
public:
  /// Special tokens, end ids and tokens without bytes are no text and never allowed. Unsupported error when a byte that JSON
  /// text may need has no token of its own: then there would be texts no token leads on from.
  /// `markers` that are tokens are no text either: a grammar asks for one by what `written` makes of it.
  static Result<std::shared_ptr<const Vocabulary>> create(const text::Tokenizer &tokenizer, const std::vector<int32_t> &endIds,
                                                          const std::vector<std::string> &markers = {});

  /// A marker and its token.
  using Marker = std::pair<std::string, int32_t>;
  /// The same for tokens as they are, empty ones left out.
  static Result<std::shared_ptr<const Vocabulary>> create(std::vector<std::string> tokens, int32_t thinkEnd = -1, std::vector<Marker> markers = {});

  /// `text` for a grammar, its markers by bytes that only their tokens have: no text of a model can be taken for one.
  std::string written(std::string text) const;

  /// Adds to `mask` (of `words` words) the tokens that can be read from `set`.
  void allow(Matcher &matcher, SetId set, Mask &mask) const;

  /// The id of the token "</think>", whether or not it is special; -1: none.
  int32_t thinkEnd() const { return thinkEndId; }
  /// Tokens with a '>' that is not their last byte: those that may end a tag and go on.
  const std::vector<int32_t> &pastTag() const { return pastTagIds; }

  size_t words() const { return (bytes.size() + 63) / 64; }
  int32_t size() const { return int32_t(bytes.size()); }
  const std::string &bytesOf(int32_t id) const { return bytes[size_t(id)]; }

private:
  /// A node in depth-first order.
  struct Node {
    uint8_t byte;
    uint16_t depth;          ///< 1 for the first byte
    uint32_t end;            ///< the node behind its children
    uint32_t firstId, ids;   ///< in `Tree::ids`: tokens that end here
  };
  struct Tree {
    std::vector<Node> nodes;
    std::vector<int32_t> ids;
    size_t depth = 0;
  };

  static Tree build(const std::vector<std::string> &bytes, std::vector<int32_t> ids);
  static void walk(const Tree &tree, Matcher &matcher, SetId set, Mask &mask);

  std::vector<std::string> bytes; ///< by id; empty: never allowed
  Tree plain, other;
  std::vector<int32_t> pastTagIds;
  std::vector<Marker> markers;
  int32_t thinkEndId = -1;
  Mask plainMask;
  uint32_t longestPlain = 0; ///< in characters
};

} // namespace dsv3::guided
