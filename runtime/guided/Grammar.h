// A context-free language over bytes: rules, each a nondeterministic automaton that may call others.
//
// This is the pushdown automaton of XGrammar (Dong et al. 2024, "XGrammar: Flexible and Efficient Structured Generation
// Engine for Large Language Models"), without its grammar syntax: a compiler of schemas builds it directly.
#pragma once

#include "runtime/core/Result.h"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace dsv3::guided {

using StateId = uint32_t;
using RuleId = uint32_t;

/// Bounds on what a schema may cost. The defaults hold for requests of strangers.
struct Limits {
  size_t schemaBytes = 64 * 1024;
  int schemaDepth = 64;      ///< nesting of the schema itself
  size_t states = 100'000;   ///< of the grammar; edges: eight times as many
  uint32_t stackDepth = 128; ///< calls of rules, one inside the other, while text is read
};

/// Code points, both ends included.
using CharRange = std::pair<char32_t, char32_t>;

class Grammar {
public:
  struct ByteEdge {
    uint8_t low, high;
    StateId target;
  };
  struct CallEdge {
    RuleId rule;
    StateId target; ///< where to go on when the rule has matched
  };
  struct State {
    std::vector<ByteEdge> bytes;
    std::vector<CallEdge> calls;
    std::vector<StateId> empty;
    bool accepts = false; ///< the rule it belongs to may end here
    /// So many characters of a JSON string, whichever, can be read from here. A hint: tokens of plain text need not be
    /// looked at one by one.
    uint32_t plainRun = 0;
    uint32_t depthToEnd = UINT32_MAX; ///< calls, one inside the other, the cheapest way to the rule's end needs
  };
  static constexpr uint32_t kNoLimit = UINT32_MAX;

  explicit Grammar(const Limits &limits) : limits(limits) {}

  /// A new state. Past the limits it is the same one again and again, no edge is added any more, and `finish` fails.
  StateId addState();
  RuleId addRule();
  StateId startOf(RuleId rule) const { return starts[rule]; }

  void addByte(StateId from, uint8_t low, uint8_t high, StateId to) {
    if (count())
      states[from].bytes.push_back({low, high, to});
  }
  void addEmpty(StateId from, StateId to) {
    if (count())
      states[from].empty.push_back(to);
  }
  void addCall(StateId from, RuleId rule, StateId to) {
    if (count())
      states[from].calls.push_back({rule, to});
  }
  void accept(StateId state) { states[state].accepts = true; }
  void setPlainRun(StateId state, uint32_t characters) { states[state].plainRun = characters; }

  /// `bytes` one after the other.
  void addLiteral(StateId from, std::string_view bytes, StateId to);
  /// One code point of the ranges as UTF-8. Surrogates are left out.
  void addUtf8(StateId from, CharRange range, StateId to);

  /// To be called once, with the rule a text is matched by. Usage error when the grammar is too large or the rule has no
  /// text within the stack depth (a schema that contains itself without an end).
  Status finish(RuleId root);

  const State &state(StateId id) const { return states[id]; }
  size_t stateCount() const { return states.size(); }
  RuleId root() const { return rootRule; }
  uint32_t stackDepth() const { return limits.stackDepth; }
  bool full() const { return overflow; }

private:
  bool count() {
    overflow |= ++edges > 8 * limits.states;
    return !overflow;
  }
  void measureDepths();

  Limits limits;
  std::vector<State> states;
  std::vector<StateId> starts; ///< by rule
  RuleId rootRule = 0;
  size_t edges = 0;
  bool overflow = false;
};

} // namespace dsv3::guided
