// The parts of JSON text (RFC 8259) as rules of a grammar.
//
// The language is cut where a model could go on for ever without saying anything: white space between tokens is nothing, a
// blank, or a line end and at most 32 blanks or 8 tabs; numbers have at most 18 digits, 17 after the point and a
// two-digit exponent. Strings are well-formed UTF-8; \u escapes stand for themselves, never for half of a pair.
#pragma once

#include "runtime/guided/Grammar.h"

#include <optional>
#include <string>
#include <vector>

namespace dsv3::guided {

class JsonGrammar {
public:
  explicit JsonGrammar(Grammar &grammar) : g(grammar) {}

  RuleId whitespace(); ///< between tokens
  RuleId leading();    ///< before the text: up to three blanks or line ends
  RuleId string();     ///< any, with quotes
  RuleId number();
  RuleId integer();
  RuleId value(); ///< any
  RuleId object();
  RuleId array();
  RuleId character(); ///< one of a string: plain, or escaped

  /// A string of `least` to `most` characters (code points; no `most`: any number).
  RuleId boundedString(uint64_t least, std::optional<uint64_t> most);

  /// A string without escapes that is none of `names`: a key that cannot be mistaken for one of them.
  RuleId keyOtherThan(const std::vector<std::string> &names);

  /// An integer from `low` to `high`; absent: as far as `integer` goes. Usage error when there is none.
  Result<RuleId> integerBetween(std::optional<int64_t> low, std::optional<int64_t> high);

  /// One code point of a string, as JSON writes it: quotes, backslashes and control characters escaped.
  void addStringChars(StateId from, CharRange range, StateId to);

private:
  void addPlainOrEscaped(StateId from, StateId to);
  void addDigits(StateId from, int most, StateId to);
  void addDigitsBetween(StateId from, const std::string &low, const std::string &high, StateId to);
  void addMagnitudes(StateId from, uint64_t low, uint64_t high, StateId to);

  Grammar &g;
  std::optional<RuleId> whitespaceRule, leadingRule, stringRule, numberRule, integerRule, valueRule, objectRule, arrayRule,
      characterRule;
};

} // namespace dsv3::guided
