// Reads text by a grammar, a byte at a time: a deterministic automaton that is built as it is used.
#pragma once

#include "runtime/guided/Grammar.h"

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace dsv3::guided {

/// A set of configurations: all ways the text so far can be read. 0 is the empty one.
using SetId = int32_t;

/// A configuration is a state of the grammar and a stack of states to return to. Stacks share their lower parts, as in
/// XGrammar's persistent stack; stacks and sets of configurations are numbered, equal ones alike, so that a step from a set
/// by a byte is looked up once it was made (the lazy automaton of RE2, over a pushdown automaton).
///
/// Configurations that cannot come to an end within the stack depth are never made: from every set that is not empty a
/// complete text can be reached. Not thread-safe.
class Matcher {
public:
  /// `grammar` is finished and outlives this.
  explicit Matcher(const Grammar &grammar);

  SetId start() const { return first; }
  SetId step(SetId set, uint8_t byte);

  /// The text is complete, though it may go on.
  bool complete(SetId set) const { return sets[set].complete; }
  /// Any character of a string can come next, this many times.
  uint32_t plainRun(SetId set) const { return sets[set].plainRun; }

  /// How much was made so far: tables grow with use.
  size_t size() const { return sets.size() + stacks.size(); }

  /// The set of another matcher of the same grammar, here.
  SetId adopt(const Matcher &other, SetId set);

private:
  using StackId = uint32_t; ///< 0: empty
  struct Config {
    StateId state;
    StackId stack;
    bool operator==(const Config &o) const { return state == o.state && stack == o.stack; }
    bool operator<(const Config &o) const { return state != o.state ? state < o.state : stack < o.stack; }
  };
  struct Stack {
    StateId returnTo;
    StackId below;
    uint32_t depth;
  };
  struct Set {
    std::vector<Config> configs; ///< those that read a byte, end the text or have a plain run; the others follow from them
    bool complete = false;
    uint32_t plainRun = 0;
    int32_t row = -1;   ///< of `rows`
    uint32_t steps = 0; ///< made without a row
  };

  StackId push(StateId returnTo, StackId below);
  void reach(Config config);
  SetId collect();
  SetId compute(SetId set, uint8_t byte);

  const Grammar &grammar;
  std::vector<Stack> stacks;
  std::unordered_map<uint64_t, StackId> stackIds;
  std::vector<Set> sets;
  std::unordered_multimap<uint64_t, SetId> setIds; ///< by hash
  std::vector<std::array<SetId, 256>> rows;        ///< -1: not made yet
  SetId first;

  // What is being collected.
  std::vector<Config> work, reached, kept;
  std::unordered_set<uint64_t> marks; ///< of `reached`, once it is long
};

} // namespace dsv3::guided
