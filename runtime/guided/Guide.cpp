#include "runtime/guided/Guide.h"

#include "runtime/guided/JsonGrammar.h"
#include "runtime/guided/SchemaCompiler.h"

#include <algorithm>
#include <limits>

namespace dsv3::guided {

namespace {

/// Past these the tables start anew: about 20 MB and 4 MB for a vocabulary of 129k.
constexpr size_t kMostTables = 100'000, kMostMasks = 256;
constexpr std::string_view kThinkEnd = "</think>";
constexpr float kForbidden = -std::numeric_limits<float>::infinity();

} // namespace

Guide::Guide(Grammar grammar, std::shared_ptr<const Vocabulary> vocabulary)
    : grammar(std::move(grammar)), tokens(std::move(vocabulary)), matcher(std::make_shared<Matcher>(this->grammar)) {}

Guide::Position Guide::start() {
  Position p;
  p.matcher = matcher;
  p.set = matcher->start();
  return p;
}

/// Brings a position to the matcher in use. The old one goes with the last position in it.
void Guide::refresh(Position &p) {
  if (matcher->size() > kMostTables) {
    matcher = std::make_shared<Matcher>(grammar);
    masks.clear();
  }
  if (p.matcher == matcher)
    return;
  p.set = matcher->adopt(*p.matcher, p.set);
  p.matcher = matcher;
}

bool Guide::advance(Position &p, std::string_view bytes) {
  refresh(p);
  SetId set = p.set;
  for (char c : bytes)
    set = matcher->step(set, uint8_t(c));
  if (set)
    p.set = set;
  return set != 0;
}

const Mask &Guide::allowed(Position &p) {
  refresh(p);
  auto it = masks.find(p.set);
  if (it != masks.end())
    return it->second;
  if (masks.size() >= kMostMasks)
    masks.clear();
  Mask mask(tokens->words(), 0);
  tokens->allow(*matcher, p.set, mask);
  return masks[p.set] = std::move(mask);
}

bool Guide::complete(const Position &p) const { return p.matcher->complete(p.set); }

//===-- One answer --------------------------------------------------------===//

GuidedConstraint::GuidedConstraint(std::shared_ptr<Guide> g, std::vector<int32_t> ids, bool reasoning)
    : guide(std::move(g)), endIds(std::move(ids)), thinking(reasoning) {
  std::lock_guard lock(guide->lock());
  position = guide->start();
}

bool GuidedConstraint::complete() const {
  std::lock_guard lock(guide->lock());
  return !thinking && guide->complete(position);
}

/// How much of "</think>" the text ends with after `bytes`; all of it: `rest` is where what follows begins.
size_t GuidedConstraint::thinkAfter(std::string_view bytes, size_t state, size_t &rest) const {
  for (size_t i = 0; i < bytes.size(); ++i) {
    state = bytes[i] == kThinkEnd[state] ? state + 1 : bytes[i] == '<' ? 1 : 0; // '<' is at its beginning only
    if (state == kThinkEnd.size()) {
      rest = i + 1;
      return state;
    }
  }
  return state;
}

/// Any token but end ids, and those that end the reasoning and go on with what the guide does not take.
void GuidedConstraint::maskThinking(float *logits, int64_t vocab) {
  for (int32_t id : endIds)
    if (id < vocab)
      logits[id] = kForbidden;
  const Vocabulary &tokens = guide->vocabulary();
  for (int32_t id : tokens.pastTag()) {
    const std::string &bytes = tokens.bytesOf(id);
    size_t rest = 0;
    if (id >= vocab || thinkAfter(bytes, matched, rest) != kThinkEnd.size())
      continue;
    Guide::Position p = position;
    if (!guide->advance(p, std::string_view(bytes).substr(rest)))
      logits[id] = kForbidden;
  }
}

void GuidedConstraint::mask(float *logits, int64_t vocab) {
  std::lock_guard lock(guide->lock());
  if (thinking)
    return maskThinking(logits, vocab);
  // An end id can be a token with bytes (a client's own): as text it would cut the value.
  bool mayEnd = ended || guide->complete(position);
  std::vector<std::pair<int32_t, float>> ends;
  for (int32_t id : endIds)
    if (id >= 0 && id < vocab)
      ends.push_back({id, mayEnd ? logits[id] : kForbidden});
  static const Mask none;
  const Mask &mask = ended ? none : guide->allowed(position);
  for (int64_t first = 0; first < vocab; first += 64) {
    uint64_t bits = size_t(first / 64) < mask.size() ? mask[size_t(first / 64)] : 0;
    int64_t last = std::min<int64_t>(first + 64, vocab);
    if (bits == 0)
      std::fill(logits + first, logits + last, kForbidden);
    else if (~bits != 0)
      for (int64_t i = first; i < last; ++i)
        if (!(bits >> (i - first) & 1))
          logits[i] = kForbidden;
  }
  for (auto [id, logit] : ends)
    logits[id] = logit;
}

void GuidedConstraint::accept(int32_t id) {
  std::lock_guard lock(guide->lock());
  if (thinking && id == guide->vocabulary().thinkEnd()) {
    thinking = false;
    return;
  }
  if (std::find(endIds.begin(), endIds.end(), id) != endIds.end() || id < 0 || id >= guide->vocabulary().size()) {
    ended = !thinking;
    return;
  }
  std::string_view bytes = guide->vocabulary().bytesOf(id);
  if (thinking) {
    size_t rest = 0;
    matched = thinkAfter(bytes, matched, rest);
    if (matched != kThinkEnd.size())
      return;
    thinking = false;
    bytes.remove_prefix(rest);
  }
  if (!guide->advance(position, bytes))
    ended = true; // not a token the mask allowed: nothing can follow
}

//===-- All guides --------------------------------------------------------===//

std::shared_ptr<Guide> Guides::find(const std::string &key) {
  std::lock_guard lock(mutex);
  for (auto it = kept.begin(); it != kept.end(); ++it)
    if (it->first == key) {
      kept.splice(kept.begin(), kept, it);
      return it->second;
    }
  return nullptr;
}

std::shared_ptr<Guide> Guides::keep(const std::string &key, Grammar grammar) {
  auto guide = std::make_shared<Guide>(std::move(grammar), tokens);
  std::lock_guard lock(mutex);
  kept.emplace_front(key, guide);
  if (kept.size() > most)
    kept.pop_back();
  return guide;
}

Result<std::shared_ptr<Guide>> Guides::jsonObject() {
  if (std::shared_ptr<Guide> guide = find(""))
    return guide;
  Result<Grammar> grammar = anyObjectGrammar();
  if (!grammar)
    return grammar.error();
  return keep("", std::move(*grammar));
}

Result<std::shared_ptr<Guide>> Guides::schema(const std::string &schema) {
  const std::string key = std::string("schema") + '\0' + schema; // what a client writes is no other guide's key
  if (std::shared_ptr<Guide> guide = find(key))
    return guide;
  Result<Grammar> grammar = compileSchema(schema);
  if (!grammar)
    return grammar.error();
  return keep(key, std::move(*grammar));
}

Result<std::shared_ptr<Guide>> Guides::choice(const std::vector<std::string> &texts) {
  std::string key = "choice"; // a zero byte parts: no text has one
  for (const std::string &text : texts)
    key += '\0' + text;
  if (std::shared_ptr<Guide> guide = find(key))
    return guide;
  Result<Grammar> grammar = choiceGrammar(texts);
  if (!grammar)
    return grammar.error();
  return keep(key, std::move(*grammar));
}

Result<std::shared_ptr<Guide>> Guides::calls(const CallRules &rules, text::ToolFormat format, size_t &failed) {
  std::string key = rules.several ? "calls" : "call";
  key += format == text::ToolFormat::Fenced ? " fenced" : " plain";
  for (const CallRules::Tool &tool : rules.tools)
    key += '\0' + tool.name + '\0' + tool.schema;
  if (std::shared_ptr<Guide> guide = find(key))
    return guide;
  text::ToolSyntax syntax = text::toolSyntaxOf(format);
  for (std::string *part : {&syntax.begin, &syntax.beforeName, &syntax.beforeArguments, &syntax.afterArguments, &syntax.between, &syntax.end})
    *part = tokens->written(std::move(*part));
  Result<Grammar> grammar = callGrammar(rules, syntax, failed);
  if (!grammar)
    return grammar.error();
  return keep(key, std::move(*grammar));
}

} // namespace dsv3::guided
