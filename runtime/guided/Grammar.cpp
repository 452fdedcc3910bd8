#include "runtime/guided/Grammar.h"

#include "runtime/text/Utf8.h"

#include <algorithm>
#include <string>

namespace dsv3::guided {

StateId Grammar::addState() {
  if (states.size() >= limits.states && !states.empty()) {
    overflow = true;
    return StateId(states.size() - 1);
  }
  states.emplace_back();
  return StateId(states.size() - 1);
}

RuleId Grammar::addRule() {
  starts.push_back(addState());
  return RuleId(starts.size() - 1);
}

void Grammar::addLiteral(StateId from, std::string_view bytes, StateId to) {
  if (bytes.empty())
    return addEmpty(from, to);
  for (size_t i = 0; i < bytes.size() && !overflow; ++i) {
    StateId next = i + 1 == bytes.size() ? to : addState();
    addByte(from, uint8_t(bytes[i]), uint8_t(bytes[i]), next);
    from = next;
  }
}

/// Ranges of code points become products of byte ranges: where both ends differ in a byte and the rest is not all of its
/// range, the range is cut (as Rust's utf8-ranges and RE2 do).
void Grammar::addUtf8(StateId from, CharRange range, StateId to) {
  constexpr CharRange byLength[] = {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}};
  for (auto [first, last] : byLength) {
    char32_t low = std::max(first, range.first), high = std::min(last, range.second);
    if (low > high)
      continue;
    // Cut at multiples of 64^i, so that all bytes behind the one that differs have their whole range.
    for (int shift = 6; low >= 0x80 && shift <= 18; shift += 6) {
      char32_t mask = (char32_t(1) << shift) - 1;
      if ((low & ~mask) == (high & ~mask))
        continue;
      if (low & mask) {
        addUtf8(from, {low, low | mask}, to);
        return addUtf8(from, {(low | mask) + 1, range.second}, to);
      }
      if ((high & mask) != mask) {
        addUtf8(from, {low, (high & ~mask) - 1}, to);
        return addUtf8(from, {high & ~mask, range.second}, to);
      }
    }
    std::string a, b;
    text::appendUtf8(a, low);
    text::appendUtf8(b, high);
    StateId at = from;
    for (size_t i = 0; i < a.size(); ++i) {
      StateId next = i + 1 == a.size() ? to : addState();
      addByte(at, uint8_t(a[i]), uint8_t(b[i]), next);
      at = next;
    }
  }
}

/// Knuth 1977, "A generalization of Dijkstra's algorithm": states in order of their depth.
void Grammar::measureDepths() {
  std::vector<std::vector<StateId>> before(states.size());
  for (StateId s = 0; s < states.size(); ++s) {
    for (const ByteEdge &e : states[s].bytes)
      before[e.target].push_back(s);
    for (StateId e : states[s].empty)
      before[e].push_back(s);
    for (const CallEdge &e : states[s].calls) {
      before[e.target].push_back(s);
      before[starts[e.rule]].push_back(s);
    }
  }
  std::vector<std::vector<StateId>> queue(limits.stackDepth + 2);
  for (StateId s = 0; s < states.size(); ++s)
    if (states[s].accepts)
      queue[0].push_back(s);
  for (uint32_t depth = 0; depth <= limits.stackDepth; ++depth)
    for (size_t i = 0; i < queue[depth].size(); ++i) {
      StateId done = queue[depth][i];
      if (states[done].depthToEnd != UINT32_MAX)
        continue;
      states[done].depthToEnd = depth;
      for (StateId s : before[done]) {
        if (states[s].depthToEnd != UINT32_MAX)
          continue;
        bool plain = std::any_of(states[s].bytes.begin(), states[s].bytes.end(), [&](auto &e) { return e.target == done; }) ||
                     std::find(states[s].empty.begin(), states[s].empty.end(), done) != states[s].empty.end();
        uint32_t best = plain ? depth : UINT32_MAX;
        for (const CallEdge &e : states[s].calls) {
          uint32_t inside = states[starts[e.rule]].depthToEnd, after = states[e.target].depthToEnd;
          if (inside != UINT32_MAX && after != UINT32_MAX)
            best = std::min(best, std::max(inside + 1, after));
        }
        if (best <= limits.stackDepth)
          queue[std::max(best, depth)].push_back(s);
      }
    }
}

Status Grammar::finish(RuleId root) {
  if (overflow)
    return usageError("the schema is too large: expected at most " + std::to_string(limits.states) + " states");
  rootRule = root;
  measureDepths();
  if (states[starts[root]].depthToEnd == UINT32_MAX)
    return usageError("no finite value satisfies the schema: it contains itself without an end");
  return {};
}

} // namespace dsv3::guided
