#include "runtime/guided/Vocabulary.h"

#include "runtime/text/Utf8.h"

#include <algorithm>
#include <bitset>
#include <limits>
#include <optional>

namespace dsv3::guided {

namespace {

/// Longer ones are left out: no tokenizer has them, and depth is 16 bits.
constexpr size_t kLongestToken = 4096;
/// In front of a marker's number. UTF-8 has no such byte, so no text needs it, and tokens with it are left out.
constexpr char kMarker = '\xFF';

/// The number of characters of text that a JSON string holds as it is; nothing for other bytes.
std::optional<uint32_t> plainLength(const std::string &token) {
  uint32_t characters = 0;
  for (size_t i = 0; i < token.size(); ++characters) {
    text::Utf8Step step = text::decodeUtf8(token, i);
    if (step.kind != text::Utf8Step::Valid || step.codePoint < 0x20 || step.codePoint == '"' || step.codePoint == '\\')
      return {};
    i += step.length;
  }
  return characters;
}

void setBit(Mask &mask, int32_t id) { mask[size_t(id) / 64] |= uint64_t(1) << (id % 64); }

} // namespace

Result<std::shared_ptr<const Vocabulary>> Vocabulary::create(const text::Tokenizer &tokenizer, const std::vector<int32_t> &endIds,
                                                              const std::vector<std::string> &markers) {
  std::vector<std::string> tokens(size_t(tokenizer.vocabSize()));
  for (int32_t id = 0; id < tokenizer.vocabSize(); ++id)
    if (!tokenizer.isSpecial(id) && std::find(endIds.begin(), endIds.end(), id) == endIds.end())
      tokens[size_t(id)] = tokenizer.idToBytes(id);
  std::vector<Marker> found;
  for (const std::string &marker : markers)
    if (std::optional<int32_t> id = tokenizer.tokenToId(marker))
      found.push_back({marker, *id});
  return create(std::move(tokens), tokenizer.tokenToId("</think>").value_or(-1), std::move(found));
}

Result<std::shared_ptr<const Vocabulary>> Vocabulary::create(std::vector<std::string> tokens, int32_t thinkEnd, std::vector<Marker> markers) {
  auto v = std::make_shared<Vocabulary>();
  v->bytes = std::move(tokens);
  v->thinkEndId = thinkEnd;
  v->markers = std::move(markers);
  for (std::string &token : v->bytes)
    if (token.find(kMarker) != token.npos)
      token.clear();
  for (size_t i = 0; i < v->markers.size(); ++i)
    v->bytes[size_t(v->markers[i].second)] = {kMarker, char(i)};
  v->plainMask.assign(v->words(), 0);
  std::bitset<256> single;
  std::vector<int32_t> plain, other;
  for (int32_t id = 0; id < v->size(); ++id) {
    std::string &token = v->bytes[size_t(id)];
    if (token.size() > kLongestToken)
      token.clear();
    if (token.empty())
      continue;
    if (token.size() == 1)
      single.set(uint8_t(token[0]));
    if (size_t tag = token.rfind('>'); tag != token.npos && tag + 1 < token.size())
      v->pastTagIds.push_back(id);
    std::optional<uint32_t> length = plainLength(token);
    (length ? plain : other).push_back(id);
    if (length) {
      v->longestPlain = std::max(v->longestPlain, *length);
      setBit(v->plainMask, id);
    }
  }
  auto needed = [](int b) { return b == '\n' || b == '\t' || (b >= 0x20 && b != 0x7F && b < 0xC0) || (b >= 0xC2 && b <= 0xF4); };
  for (int b = 0; b < 256; ++b)
    if (needed(b) && !single[size_t(b)])
      return unsupportedError("guided output needs a token for each byte of JSON text: expected one for byte " + std::to_string(b) +
                              ", got none in the vocabulary");
  v->plain = build(v->bytes, std::move(plain));
  v->other = build(v->bytes, std::move(other));
  return std::shared_ptr<const Vocabulary>(std::move(v));
}

std::string Vocabulary::written(std::string text) const {
  for (size_t i = 0; i < markers.size(); ++i)
    for (size_t at; (at = text.find(markers[i].first)) != text.npos;)
      text.replace(at, markers[i].first.size(), {kMarker, char(i)});
  return text;
}

Vocabulary::Tree Vocabulary::build(const std::vector<std::string> &bytes, std::vector<int32_t> ids) {
  std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    int c = bytes[size_t(a)].compare(bytes[size_t(b)]); // as unsigned bytes
    return c != 0 ? c < 0 : a < b;
  });
  Tree tree;
  std::vector<uint32_t> open; // nodes on the way to the last token
  std::string last;
  for (int32_t id : ids) {
    const std::string &token = bytes[size_t(id)];
    size_t same = size_t(std::mismatch(last.begin(), last.begin() + std::min(last.size(), token.size()), token.begin()).first - last.begin());
    for (; open.size() > same; open.pop_back())
      tree.nodes[open.back()].end = uint32_t(tree.nodes.size());
    for (size_t i = same; i < token.size(); ++i) {
      open.push_back(uint32_t(tree.nodes.size()));
      tree.nodes.push_back({uint8_t(token[i]), uint16_t(i + 1), 0, uint32_t(tree.ids.size()), 0});
    }
    ++tree.nodes[open.back()].ids;
    tree.ids.push_back(id);
    tree.depth = std::max(tree.depth, token.size());
    last = token;
  }
  for (; !open.empty(); open.pop_back())
    tree.nodes[open.back()].end = uint32_t(tree.nodes.size());
  return tree;
}

void Vocabulary::walk(const Tree &tree, Matcher &matcher, SetId set, Mask &mask) {
  std::vector<SetId> at(tree.depth + 1); // by depth
  at[0] = set;
  for (uint32_t i = 0; i < tree.nodes.size();) {
    const Node &n = tree.nodes[i];
    SetId next = matcher.step(at[n.depth - 1u], n.byte);
    if (next == 0) {
      i = n.end;
      continue;
    }
    at[n.depth] = next;
    for (uint32_t k = 0; k < n.ids; ++k)
      setBit(mask, tree.ids[n.firstId + k]);
    ++i;
  }
}

void Vocabulary::allow(Matcher &matcher, SetId set, Mask &mask) const {
  if (matcher.plainRun(set) >= longestPlain)
    for (size_t i = 0; i < mask.size(); ++i)
      mask[i] |= plainMask[i];
  else
    walk(plain, matcher, set, mask);
  walk(other, matcher, set, mask);
}

} // namespace dsv3::guided
