#include "runtime/text/Tokenizer.h"

#include "runtime/text/ByteLevel.h"
#include "runtime/text/TokenizerJson.h"
#include "runtime/text/Utf8.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace dsv3::text {
namespace {

/// A half-open range of bytes.
struct Range {
  size_t begin, end;
};

/// Either plain text (id -1) or one added token.
struct Piece {
  Range range;
  int32_t id;
};

/// Cuts the plain pieces at the names that `matcher` finds inside `trusted` ranges,
/// which are sorted and disjoint.
std::vector<Piece> cutAt(const TokenMatcher &matcher, std::string_view text,
                         const std::vector<Range> &trusted, const std::vector<Piece> &pieces) {
  if (matcher.empty())
    return pieces;
  std::vector<Piece> result;
  size_t next = 0; // the first trusted range that can still matter
  for (const Piece &piece : pieces) {
    size_t done = piece.range.begin;
    while (next < trusted.size() && trusted[next].end <= piece.range.begin)
      ++next;
    for (size_t r = next; piece.id < 0 && r < trusted.size(); ++r) {
      size_t from = std::max(trusted[r].begin, piece.range.begin);
      size_t to = std::min(trusted[r].end, piece.range.end);
      if (from >= piece.range.end)
        break;
      while (from < to) {
        TokenMatcher::Match match = matcher.find(text, from, to);
        if (match.id < 0)
          break;
        if (done < match.begin)
          result.push_back({{done, match.begin}, -1});
        result.push_back({{match.begin, match.end}, match.id});
        done = from = match.end;
      }
    }
    if (piece.id >= 0)
      result.push_back(piece);
    else if (done < piece.range.end)
      result.push_back({{done, piece.range.end}, -1});
  }
  return result;
}

/// Encodes words, remembering those already seen in this text: prose repeats itself.
class WordEncoder {
public:
  WordEncoder(const Bpe &bpe, std::vector<int32_t> &out) : bpe(bpe), out(out) {}

  void encode(std::string_view word) {
    auto [it, isNew] = seen.try_emplace(word, Range{out.size(), 0});
    if (isNew) {
      bpe.encode(word, out);
      it->second.end = out.size();
      return;
    }
    for (size_t i = it->second.begin; i < it->second.end; ++i)
      out.push_back(int32_t(out[i])); // a copy: growing moves what the reference names
  }

private:
  const Bpe &bpe;
  std::vector<int32_t> &out;
  std::unordered_map<std::string_view, Range> seen; ///< word -> its ids in `out`
};

} // namespace

Tokenizer::Tokenizer(TokenizerSpec spec, PreTokenizer preTokenizer)
    : ids(std::move(spec.ids)), preTokenizer(std::move(preTokenizer)),
      bpe(spec.byteIds, spec.merges) {
  int32_t largest = 0;
  for (const auto &entry : ids)
    largest = std::max(largest, entry.second);
  bytes.resize(static_cast<size_t>(largest) + 1);
  special.resize(bytes.size());
  for (const auto &[token, id] : ids)
    bytes[static_cast<size_t>(id)] = bytesOfTokenOrText(token);
  for (const AddedToken &token : spec.added) {
    (token.normalized ? normalized : verbatim).add(token.content, token.id);
    special[static_cast<size_t>(token.id)] = token.special;
  }
}

Result<Tokenizer> Tokenizer::load(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf()))
    return checkpointError(path + ": cannot read the file");
  return loadFromMemory(content.str(), path);
}

Result<Tokenizer> Tokenizer::loadFromMemory(std::string_view json, const std::string &source) {
  Result<TokenizerSpec> spec = parseTokenizerJson(json, source);
  if (!spec)
    return spec.error();
  Result<PreTokenizer> preTokenizer = PreTokenizer::create(spec->regexes, source);
  if (!preTokenizer)
    return preTokenizer.error();
  return Tokenizer(std::move(*spec), std::move(*preTokenizer));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, SpecialTokens policy) const {
  return encode({Segment{std::string(text), policy == SpecialTokens::Parse}});
}

std::vector<int32_t> Tokenizer::encode(const std::vector<Segment> &segments) const {
  std::string text;
  std::vector<Range> trusted;
  for (const Segment &segment : segments) {
    size_t begin = text.size();
    text += toValidUtf8(segment.text);
    if (!segment.trusted)
      continue;
    if (!trusted.empty() && trusted.back().end == begin)
      trusted.back().end = text.size();
    else
      trusted.push_back({begin, text.size()});
  }
  std::vector<Piece> pieces;
  if (!text.empty())
    pieces.push_back({{0, text.size()}, -1});
  pieces = cutAt(verbatim, text, trusted, pieces);
  pieces = cutAt(normalized, text, trusted, pieces);

  std::vector<int32_t> result;
  WordEncoder words(bpe, result);
  for (const Piece &piece : pieces) {
    if (piece.id >= 0) {
      result.push_back(piece.id);
      continue;
    }
    std::string_view plain(text.data() + piece.range.begin, piece.range.end - piece.range.begin);
    for (std::string_view word : preTokenizer.split(plain))
      words.encode(word);
  }
  return result;
}

std::string Tokenizer::decode(const std::vector<int32_t> &tokens, bool skipSpecial) const {
  std::string result;
  for (int32_t id : tokens)
    if (!skipSpecial || !isSpecial(id))
      result += idToBytes(id);
  return toValidUtf8(result);
}

const std::string &Tokenizer::idToBytes(int32_t id) const {
  static const std::string nothing;
  return id >= 0 && id < vocabSize() ? bytes[static_cast<size_t>(id)] : nothing;
}

std::optional<int32_t> Tokenizer::tokenToId(const std::string &token) const {
  auto it = ids.find(token);
  return it == ids.end() ? std::nullopt : std::optional<int32_t>(it->second);
}

bool Tokenizer::isSpecial(int32_t id) const {
  return id >= 0 && id < vocabSize() && special[static_cast<size_t>(id)];
}

} // namespace dsv3::text
