#include "runtime/guided/Matcher.h"

#include <algorithm>

namespace dsv3::guided {

namespace {
/// A grammar can be read in many ways at once. What is beyond this is dropped, which takes texts away but never lets one
/// in, and whatever stays can come to an end.
constexpr size_t kMostConfigs = 2048;
/// Most sets are looked at a few times only; a row of all bytes is for the others.
constexpr uint32_t kStepsBeforeRow = 6;
/// Up to this many configurations are compared one by one.
constexpr size_t kShort = 24;
} // namespace

Matcher::Matcher(const Grammar &grammar) : grammar(grammar) {
  stacks.push_back({0, 0, 0});
  sets.emplace_back(); // the empty one
  reach({grammar.startOf(grammar.root()), 0});
  first = collect();
}

Matcher::StackId Matcher::push(StateId returnTo, StackId below) {
  auto [it, isNew] = stackIds.try_emplace(uint64_t(returnTo) << 32 | below, StackId(stacks.size()));
  if (isNew)
    stacks.push_back({returnTo, below, stacks[below].depth + 1});
  return it->second;
}

/// Adds a configuration and, by `collect`, what it leads to without reading; unless it cannot end within the depth.
void Matcher::reach(Config config) {
  uint32_t need = grammar.state(config.state).depthToEnd;
  if (need == UINT32_MAX || stacks[config.stack].depth + need > grammar.stackDepth())
    return;
  auto key = [](Config c) { return uint64_t(c.state) << 32 | c.stack; };
  if (reached.size() < kShort) {
    if (std::find(reached.begin(), reached.end(), config) != reached.end())
      return;
  } else {
    if (marks.empty())
      for (Config c : reached)
        marks.insert(key(c));
    if (reached.size() >= 4 * kMostConfigs || !marks.insert(key(config)).second)
      return;
  }
  reached.push_back(config);
  work.push_back(config);
}

SetId Matcher::collect() {
  kept.clear();
  bool complete = false;
  uint32_t plain = 0;
  while (!work.empty()) {
    Config c = work.back();
    work.pop_back();
    const Grammar::State &state = grammar.state(c.state);
    plain = std::max(plain, state.plainRun);
    bool ends = state.accepts && c.stack == 0;
    complete |= ends;
    if (!state.bytes.empty() || ends || state.plainRun)
      kept.push_back(c);
    if (state.accepts && c.stack)
      reach({stacks[c.stack].returnTo, stacks[c.stack].below});
    for (StateId next : state.empty)
      reach({next, c.stack});
    for (const Grammar::CallEdge &call : state.calls) {
      // Both the rule and what comes after it must be able to end.
      uint32_t after = grammar.state(call.target).depthToEnd, depth = stacks[c.stack].depth;
      uint32_t inside = grammar.state(grammar.startOf(call.rule)).depthToEnd;
      if (after != UINT32_MAX && inside != UINT32_MAX && depth + after <= grammar.stackDepth() && depth + 1 + inside <= grammar.stackDepth())
        reach({grammar.startOf(call.rule), push(call.target, c.stack)});
    }
  }
  marks.clear();
  reached.clear();
  if (kept.empty())
    return 0;
  std::sort(kept.begin(), kept.end());
  uint64_t hash = 0;
  for (const Config &c : kept) {
    hash = (hash ^ (uint64_t(c.state) << 32 | c.stack)) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  }
  auto [begin, end] = setIds.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (sets[it->second].configs == kept)
      return it->second;
  sets.emplace_back();
  sets.back().configs = kept;
  sets.back().complete = complete;
  sets.back().plainRun = plain;
  setIds.emplace(hash, SetId(sets.size() - 1));
  return SetId(sets.size() - 1);
}

SetId Matcher::compute(SetId set, uint8_t byte) {
  for (const Config &c : sets[set].configs)
    for (const Grammar::ByteEdge &e : grammar.state(c.state).bytes)
      if (e.low <= byte && byte <= e.high)
        reach({e.target, c.stack});
  return collect();
}

SetId Matcher::step(SetId set, uint8_t byte) {
  if (set == 0)
    return 0;
  if (int32_t row = sets[set].row; row >= 0) {
    SetId next = rows[row][byte];
    if (next < 0)
      rows[row][byte] = next = compute(set, byte); // `rows` does not grow in between
    return next;
  }
  if (++sets[set].steps > kStepsBeforeRow) {
    sets[set].row = int32_t(rows.size());
    rows.emplace_back().fill(-1);
  }
  return compute(set, byte);
}

SetId Matcher::adopt(const Matcher &other, SetId set) {
  for (Config c : other.sets[set].configs) {
    std::vector<StateId> returns;
    for (StackId s = c.stack; s; s = other.stacks[s].below)
      returns.push_back(other.stacks[s].returnTo);
    StackId stack = 0;
    for (auto it = returns.rbegin(); it != returns.rend(); ++it)
      stack = push(*it, stack);
    reach({c.state, stack});
  }
  return collect();
}

} // namespace dsv3::guided
