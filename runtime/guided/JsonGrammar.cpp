#include "runtime/guided/JsonGrammar.h"

#include "runtime/text/Utf8.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace dsv3::guided {

namespace {
constexpr int kMostBlanks = 32, kMostTabs = 8, kMostDigits = 18, kMostFraction = 17;
constexpr int64_t kLargest = 999'999'999'999'999'999; // of kMostDigits
} // namespace

RuleId JsonGrammar::whitespace() {
  if (whitespaceRule)
    return *whitespaceRule;
  RuleId rule = *(whitespaceRule = g.addRule());
  StateId start = g.startOf(rule), blank = g.addState(), line = g.addState();
  for (StateId s : {start, blank, line})
    g.accept(s);
  g.addByte(start, ' ', ' ', blank);
  g.addByte(start, '\n', '\n', line);
  for (auto [c, most] : {std::pair{' ', kMostBlanks}, std::pair{'\t', kMostTabs}})
    for (StateId at = line, i = 0; i < StateId(most); ++i) {
      StateId next = g.addState();
      g.addByte(at, uint8_t(c), uint8_t(c), next);
      g.accept(at = next);
    }
  return rule;
}

RuleId JsonGrammar::leading() {
  if (leadingRule)
    return *leadingRule;
  RuleId rule = *(leadingRule = g.addRule());
  StateId at = g.startOf(rule);
  g.accept(at);
  for (int i = 0; i < 3; ++i) {
    StateId next = g.addState();
    g.addByte(at, ' ', ' ', next);
    g.addByte(at, '\n', '\n', next);
    g.accept(at = next);
  }
  return rule;
}

void JsonGrammar::addPlainOrEscaped(StateId from, StateId to) {
  g.addUtf8(from, {0x20, 0x21}, to);
  g.addUtf8(from, {0x23, 0x5B}, to);
  g.addUtf8(from, {0x5D, 0x10FFFF}, to);
  StateId escape = g.addState(), unicode = g.addState(), pair = g.addState(), last3 = g.addState(), last2 = g.addState(), last = g.addState();
  g.addByte(from, '\\', '\\', escape);
  for (char c : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'})
    g.addByte(escape, uint8_t(c), uint8_t(c), to);
  g.addByte(escape, 'u', 'u', unicode);
  auto hex = [&](StateId a, std::string_view digits, StateId b) {
    for (char c : digits)
      g.addByte(a, uint8_t(c), uint8_t(c), b);
  };
  hex(unicode, "0123456789abcefABCEF", last3);
  hex(unicode, "dD", pair);
  hex(pair, "01234567", last2); // D800 to DFFF are halves of pairs
  hex(last3, "0123456789abcdefABCDEF", last2);
  hex(last2, "0123456789abcdefABCDEF", last);
  hex(last, "0123456789abcdefABCDEF", to);
}

RuleId JsonGrammar::character() {
  if (characterRule)
    return *characterRule;
  RuleId rule = *(characterRule = g.addRule());
  StateId end = g.addState();
  g.accept(end);
  addPlainOrEscaped(g.startOf(rule), end);
  return rule;
}

RuleId JsonGrammar::string() {
  if (!stringRule)
    stringRule = boundedString(0, {});
  return *stringRule;
}

RuleId JsonGrammar::boundedString(uint64_t least, std::optional<uint64_t> most) {
  RuleId rule = g.addRule();
  StateId at = g.addState(), end = g.addState();
  g.accept(end);
  g.addByte(g.startOf(rule), '"', '"', at);
  for (uint64_t i = 0; !g.full(); ++i) {
    if (i >= least)
      g.addByte(at, '"', '"', end);
    g.setPlainRun(at, most ? uint32_t(std::min<uint64_t>(*most - i, Grammar::kNoLimit - 1)) : Grammar::kNoLimit);
    if (most && i >= *most)
      break;
    if (!most && i >= least) {
      addPlainOrEscaped(at, at);
      break;
    }
    StateId next = g.addState();
    g.addCall(at, character(), next);
    at = next;
  }
  return rule;
}

void JsonGrammar::addStringChars(StateId from, CharRange range, StateId to) {
  auto [low, high] = range;
  for (char32_t c = low; c <= high && c <= 0x5C; ++c) {
    if (c >= 0x20 && c != '"' && c != '\\')
      continue;
    constexpr std::string_view special = "\"\\\b\f\n\r\t", names = "\"\\bfnrt";
    size_t i = special.find(char(c));
    char text[8];
    if (i != special.npos)
      std::snprintf(text, sizeof text, "\\%c", names[i]);
    else
      std::snprintf(text, sizeof text, "\\u%04x", unsigned(c));
    g.addLiteral(from, text, to);
  }
  for (CharRange plain : {CharRange{0x20, 0x21}, CharRange{0x23, 0x5B}, CharRange{0x5D, 0x10FFFF}})
    if (std::max(low, plain.first) <= std::min(high, plain.second))
      g.addUtf8(from, {std::max(low, plain.first), std::min(high, plain.second)}, to);
}

RuleId JsonGrammar::keyOtherThan(const std::vector<std::string> &names) {
  RuleId rule = g.addRule();
  StateId other = g.addState(), end = g.addState();
  g.accept(end);
  auto plain = [&](StateId from, char32_t low, char32_t high, StateId to) {
    for (CharRange r : {CharRange{0x20, 0x21}, CharRange{0x23, 0x5B}, CharRange{0x5D, 0x10FFFF}})
      if (std::max(low, r.first) <= std::min(high, r.second))
        g.addUtf8(from, {std::max(low, r.first), std::min(high, r.second)}, to);
  };
  // A tree of the names by code points; text that leaves it can be anything.
  struct Node {
    std::map<char32_t, size_t> next;
    bool isName = false;
  };
  std::vector<Node> tree(1);
  for (const std::string &name : names) {
    size_t at = 0;
    for (size_t i = 0; i < name.size();) {
      text::Utf8Step step = text::decodeUtf8(name, i);
      i += step.length;
      auto [it, isNew] = tree[at].next.try_emplace(step.codePoint, tree.size());
      at = it->second;
      if (isNew)
        tree.emplace_back();
    }
    tree[at].isName = true;
  }
  std::vector<StateId> stateOf;
  for (size_t i = 0; i < tree.size(); ++i)
    stateOf.push_back(g.addState());
  g.addByte(g.startOf(rule), '"', '"', stateOf[0]);
  for (size_t i = 0; i < tree.size() && !g.full(); ++i) {
    char32_t from = 0;
    for (auto [c, child] : tree[i].next) {
      if (c > from)
        plain(stateOf[i], from, c - 1, other);
      plain(stateOf[i], c, c, stateOf[child]);
      from = c + 1;
    }
    plain(stateOf[i], from, 0x10FFFF, other);
    if (!tree[i].isName)
      g.addByte(stateOf[i], '"', '"', end);
  }
  plain(other, 0, 0x10FFFF, other);
  g.setPlainRun(other, Grammar::kNoLimit);
  g.addByte(other, '"', '"', end);
  return rule;
}

/// Up to `most` digits.
void JsonGrammar::addDigits(StateId from, int most, StateId to) {
  g.addEmpty(from, to);
  for (int i = 0; i < most; ++i) {
    StateId next = g.addState();
    g.addByte(from, '0', '9', next);
    g.addEmpty(from = next, to);
  }
}

RuleId JsonGrammar::integer() {
  if (integerRule)
    return *integerRule;
  RuleId rule = *(integerRule = g.addRule());
  StateId start = g.startOf(rule), sign = g.addState(), digits = g.addState(), end = g.addState();
  g.accept(end);
  g.addByte(start, '-', '-', sign);
  for (StateId s : {start, sign})
    g.addByte(s, '1', '9', digits);
  g.addByte(start, '0', '0', end); // -0 is left out
  addDigits(digits, kMostDigits - 1, end);
  return rule;
}

RuleId JsonGrammar::number() {
  if (numberRule)
    return *numberRule;
  RuleId rule = *(numberRule = g.addRule());
  StateId start = g.startOf(rule), digits = g.addState(), whole = g.addState(), point = g.addState(), fraction = g.addState(),
          exponent = g.addState(), mantissa = g.addState(), sign = g.addState(), first = g.addState(), end = g.addState(), unsignedPart = g.addState();
  g.addByte(start, '-', '-', unsignedPart);
  g.addEmpty(start, unsignedPart);
  g.addByte(unsignedPart, '0', '0', whole);
  g.addByte(unsignedPart, '1', '9', digits);
  addDigits(digits, kMostDigits - 1, whole);
  g.addEmpty(whole, mantissa);
  g.addByte(whole, '.', '.', point);
  g.addByte(point, '0', '9', fraction);
  addDigits(fraction, kMostFraction - 1, mantissa);
  g.accept(mantissa);
  g.addByte(mantissa, 'e', 'e', exponent);
  g.addByte(mantissa, 'E', 'E', exponent);
  g.addEmpty(exponent, sign);
  g.addByte(exponent, '+', '+', sign);
  g.addByte(exponent, '-', '-', sign);
  g.addByte(sign, '0', '9', first);
  g.addByte(first, '0', '9', end);
  g.accept(first);
  g.accept(end);
  return rule;
}

/// Digits of equal number from `low` to `high`.
void JsonGrammar::addDigitsBetween(StateId from, const std::string &low, const std::string &high, StateId to) {
  if (low.empty())
    return g.addEmpty(from, to);
  std::string restLow = low.substr(1), restHigh = high.substr(1);
  std::string zeros(restLow.size(), '0'), nines(restLow.size(), '9');
  auto branch = [&](char a, char b, const std::string &l, const std::string &h) {
    if (a > b)
      return;
    StateId next = g.addState();
    g.addByte(from, uint8_t(a), uint8_t(b), next);
    if (l == zeros && h == nines) { // any digits: no need to tell them apart
      for (size_t i = 0; i < l.size(); ++i) {
        StateId after = g.addState();
        g.addByte(next, '0', '9', after);
        next = after;
      }
      g.addEmpty(next, to);
    } else {
      addDigitsBetween(next, l, h, to);
    }
  };
  if (low[0] == high[0])
    return branch(low[0], low[0], restLow, restHigh);
  branch(low[0], low[0], restLow, nines);
  branch(char(low[0] + 1), char(high[0] - 1), zeros, nines);
  branch(high[0], high[0], zeros, restHigh);
}

void JsonGrammar::addMagnitudes(StateId from, uint64_t low, uint64_t high, StateId to) {
  for (uint64_t first = 1; low <= high; first *= 10) { // by number of digits
    uint64_t last = first * 10 - 1, end = std::min(high, last);
    if (low > last)
      continue;
    addDigitsBetween(from, std::to_string(low), std::to_string(end), to);
    low = end + 1;
  }
}

Result<RuleId> JsonGrammar::integerBetween(std::optional<int64_t> low, std::optional<int64_t> high) {
  int64_t a = std::max(low.value_or(-kLargest), -kLargest), b = std::min(high.value_or(kLargest), kLargest);
  if (a > b)
    return usageError("expected a range with an integer of at most " + std::to_string(kMostDigits) + " digits, got none");
  RuleId rule = g.addRule();
  StateId start = g.startOf(rule), end = g.addState();
  g.accept(end);
  if (a <= 0 && b >= 0)
    g.addByte(start, '0', '0', end);
  if (b > 0)
    addMagnitudes(start, uint64_t(std::max<int64_t>(a, 1)), uint64_t(b), end);
  if (a < 0) {
    StateId sign = g.addState();
    g.addByte(start, '-', '-', sign);
    addMagnitudes(sign, uint64_t(-std::min<int64_t>(b, -1)), uint64_t(-a), end);
  }
  return rule;
}

RuleId JsonGrammar::object() {
  if (objectRule)
    return *objectRule;
  RuleId rule = *(objectRule = g.addRule());
  StateId open = g.addState(), first = g.addState(), key = g.addState(), colon = g.addState(), before = g.addState(),
          item = g.addState(), after = g.addState(), comma = g.addState(), next = g.addState(), end = g.addState();
  g.accept(end);
  g.addByte(g.startOf(rule), '{', '{', open);
  g.addCall(open, whitespace(), first);
  g.addByte(first, '}', '}', end);
  for (StateId s : {first, next})
    g.addCall(s, string(), key);
  g.addCall(key, whitespace(), colon);
  g.addByte(colon, ':', ':', before);
  g.addCall(before, whitespace(), item);
  g.addCall(item, value(), after);
  g.addCall(after, whitespace(), comma);
  StateId more = g.addState();
  g.addByte(comma, ',', ',', more);
  g.addByte(comma, '}', '}', end);
  g.addCall(more, whitespace(), next);
  return rule;
}

RuleId JsonGrammar::array() {
  if (arrayRule)
    return *arrayRule;
  RuleId rule = *(arrayRule = g.addRule());
  StateId open = g.addState(), first = g.addState(), after = g.addState(), comma = g.addState(), more = g.addState(),
          next = g.addState(), end = g.addState();
  g.accept(end);
  g.addByte(g.startOf(rule), '[', '[', open);
  g.addCall(open, whitespace(), first);
  g.addByte(first, ']', ']', end);
  for (StateId s : {first, next})
    g.addCall(s, value(), after);
  g.addCall(after, whitespace(), comma);
  g.addByte(comma, ',', ',', more);
  g.addByte(comma, ']', ']', end);
  g.addCall(more, whitespace(), next);
  return rule;
}

RuleId JsonGrammar::value() {
  if (valueRule)
    return *valueRule;
  RuleId rule = *(valueRule = g.addRule());
  StateId start = g.startOf(rule), end = g.addState();
  g.accept(end);
  for (RuleId kind : {string(), number(), object(), array()})
    g.addCall(start, kind, end);
  for (const char *word : {"true", "false", "null"})
    g.addLiteral(start, word, end);
  return rule;
}

} // namespace dsv3::guided
