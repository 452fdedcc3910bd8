#include "runtime/guided/Pattern.h"

#include "runtime/core/Json.h"
#include "runtime/text/Utf8.h"

#include <algorithm>
#include <map>
#include <vector>

namespace dsv3::guided {

namespace {

using Ranges = std::vector<CharRange>;

constexpr char32_t kLast = 0x10FFFF;
constexpr int kMostRepeats = 1000, kMostGroups = 32;

Ranges complement(Ranges ranges, char32_t last) {
  std::sort(ranges.begin(), ranges.end());
  Ranges result;
  char32_t from = 0;
  for (auto [low, high] : ranges) {
    if (low > from && from <= last)
      result.push_back({from, std::min<char32_t>(low - 1, last)});
    from = std::max<char32_t>(from, high + 1);
  }
  if (from <= last)
    result.push_back({from, last});
  return result;
}

class PatternCompiler {
public:
  PatternCompiler(const std::string &pattern, Grammar &g, JsonGrammar &json) : g(g), json(json) {
    for (size_t i = 0; i < pattern.size();) {
      text::Utf8Step step = text::decodeUtf8(pattern, i);
      input.push_back(step.codePoint);
      i += step.length;
    }
  }

  Result<RuleId> run() {
    RuleId rule = g.addRule();
    StateId begin = g.addState(), quote = g.addState(), end = g.addState();
    g.accept(end);
    g.addByte(g.startOf(rule), '"', '"', begin);
    g.addByte(quote, '"', '"', end);
    do
      outerAlternative(begin, quote);
    while (take('|'));
    if (!failure && at < input.size())
      fail("the end");
    if (failure)
      return *failure;
    return rule;
  }

private:
  bool more() const { return !failure && at < input.size(); }
  bool is(char32_t c) const { return more() && input[at] == c; }
  bool take(char32_t c) {
    bool found = is(c);
    at += found;
    return found;
  }

  void fail(const std::string &expected) {
    if (failure)
      return;
    std::string got = "the end";
    if (at < input.size()) {
      got.clear();
      text::appendUtf8(got, input[at]);
      got = "'" + printable(got) + "'";
    }
    failure = usageError("expected " + expected + ", got " + got + " at " + std::to_string(at));
  }

  /// Any text.
  StateId anything(StateId from) {
    StateId loop = g.addState();
    g.addEmpty(from, loop);
    json.addStringChars(loop, {0, kLast}, loop);
    g.setPlainRun(loop, Grammar::kNoLimit);
    return loop;
  }

  void outerAlternative(StateId from, StateId to) {
    bool anchored = take('^');
    while (take('^')) {
    }
    StateId end = sequence(anchored ? from : anything(from));
    bool ends = false;
    while (take('$'))
      ends = true;
    g.addEmpty(ends ? end : anything(end), to);
  }

  /// Returns where it ends.
  StateId sequence(StateId from) {
    while (more() && !is('|') && !is(')') && !is('$'))
      from = repeated(from);
    return from;
  }

  /// One atom, as often as what follows it says. The atom is read anew for each copy.
  StateId repeated(StateId from) {
    size_t begin = at;
    StateId first = g.addState(); // so that nothing else leads into a loop
    g.addEmpty(from, first);
    StateId end = atom(first);
    int least = 1, most = 1;
    if (failure || !quantifier(least, most))
      return end;
    size_t after = at;
    if (is('*') || is('+') || is('?') || is('{'))
      fail("one quantifier");
    StateId current = first;
    StateId result = g.addState();
    // The copy that was made serves as the first; a copy that may not be there can be left out.
    for (int i = 0; i < std::max(least, most < 0 ? least + 1 : most) && !failure && !g.full(); ++i) {
      if (i >= least)
        g.addEmpty(current, result);
      StateId next = i == 0 ? end : again(current, begin);
      if (most < 0 && i >= least) { // the last copy loops
        g.addEmpty(next, current);
        g.addEmpty(current, result);
      }
      current = next;
    }
    g.addEmpty(current, result);
    at = after;
    return result;
  }

  StateId again(StateId from, size_t begin) {
    at = begin;
    return atom(from);
  }

  /// True when there is one; `most` -1: no limit.
  bool quantifier(int &least, int &most) {
    if (take('*'))
      least = 0, most = -1;
    else if (take('+'))
      least = 1, most = -1;
    else if (take('?'))
      least = 0, most = 1;
    else if (take('{')) {
      least = most = number();
      if (take(','))
        most = is('}') ? -1 : number();
      if (!take('}'))
        fail("'}'");
      if (!failure && most >= 0 && most < least)
        fail("a range {m,n} with m up to n");
    } else
      return false;
    take('?'); // lazy: the same language
    return !failure;
  }

  int number() {
    if (!more() || input[at] < '0' || input[at] > '9')
      fail("a number");
    int value = 0;
    while (more() && input[at] >= '0' && input[at] <= '9') {
      value = value * 10 + int(input[at] - '0');
      if (value > kMostRepeats)
        fail("at most " + std::to_string(kMostRepeats) + " repeats");
      else
        ++at;
    }
    return value;
  }

  StateId atom(StateId from) {
    if (take('('))
      return group(from);
    Ranges ranges;
    bool ascii = false;
    if (take('['))
      ranges = charClass();
    else if (take('.'))
      ranges = complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}, kLast);
    else if (take('\\'))
      ranges = escape(ascii, false);
    else if (is('*') || is('+') || is('?') || is('{') || is('^') || is('}') || is(']'))
      fail("a character, class or group");
    else if (more())
      ranges = {{input[at], input[at]}}, ++at;
    StateId to = g.addState();
    for (CharRange r : ranges)
      if (!g.full())
        json.addStringChars(from, r, to);
    return to;
  }

  StateId group(StateId from) {
    if (take('?') && !take(':'))
      fail("a group '(...)' or '(?:...)'");
    if (++groups > kMostGroups)
      fail("at most " + std::to_string(kMostGroups) + " groups, one inside the other");
    StateId end = g.addState();
    if (!failure)
      do
        g.addEmpty(sequence(from), end);
      while (take('|'));
    if (is('$'))
      fail("'$' at the end of the expression only");
    if (!take(')'))
      fail("')'");
    --groups;
    return end;
  }

  char32_t hex(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits && !failure; ++i, ++at) {
      char32_t c = at < input.size() ? input[at] : 0;
      if (c >= '0' && c <= '9')
        value = value * 16 + (c - '0');
      else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        value = value * 16 + ((c | 0x20) - 'a' + 10);
      else
        fail("a hexadecimal digit");
    }
    return value;
  }

  /// Behind the backslash. `ascii` is set for classes whose complement is one within ASCII.
  Ranges escape(bool &ascii, bool inClass) {
    const Ranges digit = {{'0', '9'}}, word = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                 space = {{'\t', '\r'}, {' ', ' '}};
    if (!more()) {
      fail("an escape");
      return {};
    }
    char32_t c = input[at++];
    switch (c) {
    case 'd': ascii = true; return digit;
    case 'w': ascii = true; return word;
    case 's': ascii = true; return space;
    case 'D': ascii = true; return complement(digit, 0x7F);
    case 'W': ascii = true; return complement(word, 0x7F);
    case 'S': ascii = true; return complement({{0, ' '}}, 0x7F);
    case 'n': return {{'\n', '\n'}};
    case 't': return {{'\t', '\t'}};
    case 'r': return {{'\r', '\r'}};
    case 'f': return {{'\f', '\f'}};
    case 'v': return {{'\v', '\v'}};
    case 'x': c = hex(2); return {{c, c}};
    case 'u': c = hex(4); return {{c, c}};
    default: break;
    }
    bool punctuation = c > ' ' && c < 0x7F && !(c >= '0' && c <= '9') && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    if (!punctuation || (inClass && c == 'b')) {
      --at;
      fail("an escape that is supported");
    }
    return {{c, c}};
  }

  Ranges charClass() {
    bool negated = take('^'), ascii = false;
    Ranges ranges;
    while (more() && !is(']')) {
      Ranges low = classItem(ascii);
      bool single = low.size() == 1 && low[0].first == low[0].second;
      if (is('-') && at + 1 < input.size() && input[at + 1] != ']') {
        ++at;
        Ranges high = classItem(ascii);
        if (failure || !single || high.size() != 1 || high[0].first != high[0].second || high[0].first < low[0].first) {
          fail("a range of characters");
          return {};
        }
        low[0].second = high[0].first;
      }
      ranges.insert(ranges.end(), low.begin(), low.end());
    }
    if (!take(']'))
      fail("']'");
    if (ranges.empty() && !negated)
      fail("a class that is not empty");
    return negated ? complement(ranges, ascii ? 0x7F : kLast) : complement(complement(ranges, kLast), kLast);
  }

  Ranges classItem(bool &ascii) {
    if (take('\\'))
      return escape(ascii, true);
    char32_t c = more() ? input[at++] : 0;
    return {{c, c}};
  }

  Grammar &g;
  JsonGrammar &json;
  std::u32string input;
  size_t at = 0;
  int groups = 0;
  std::optional<Error> failure;
};

const std::map<std::string, std::string> &formats() {
  static const std::string day = R"(\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8]))"; // every month has these
  static const std::string clock = R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))";
  static const std::string byte = R"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
  static const std::map<std::string, std::string> table = {
      {"date", "^" + day + "$"},
      {"time", "^" + clock + "$"},
      {"date-time", "^" + day + "T" + clock + "$"},
      {"uuid", R"(^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$)"},
      {"ipv4", "^" + byte + R"((\.)" + byte + "){3}$"},
      {"email", R"(^[A-Za-z0-9_%+-]{1,32}(\.[A-Za-z0-9_%+-]{1,32}){0,3}@[A-Za-z0-9]{1,32}(\.[A-Za-z0-9]{1,32}){0,3}\.[A-Za-z]{2,16}$)"},
  };
  return table;
}

} // namespace

Result<RuleId> compilePattern(const std::string &pattern, Grammar &grammar, JsonGrammar &json) {
  return PatternCompiler(pattern, grammar, json).run();
}

std::optional<std::string> patternOfFormat(const std::string &format) {
  auto it = formats().find(format);
  return it == formats().end() ? std::nullopt : std::optional(it->second);
}

std::string knownFormats() {
  std::string names;
  for (const auto &[name, pattern] : formats())
    names += (names.empty() ? "" : ", ") + name;
  return "one of the formats " + names;
}

} // namespace dsv3::guided
