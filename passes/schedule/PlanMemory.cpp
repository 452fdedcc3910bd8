#include "passes/schedule/PlanMemory.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace dsv3 {

static int64_t alignUp(int64_t n, int64_t alignment) { return (n + alignment - 1) / alignment * alignment; }

static bool meetInTime(const Lifetime &a, const Lifetime &b) { return a.first <= b.last && b.first <= a.last; }

MemoryPlan planMemory(const std::vector<Lifetime> &buffers, int64_t alignment) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });

  MemoryPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  std::vector<size_t> placed; // by offset
  for (size_t i : order) {
    int64_t at = 0;
    for (size_t j : placed) {
      if (!meetInTime(buffers[i], buffers[j]))
        continue;
      if (plan.offsets[j] >= at + buffers[i].bytes)
        break; // the gap before j is large enough, and all that follow lie higher
      at = std::max(at, alignUp(plan.offsets[j] + buffers[j].bytes, alignment));
    }
    plan.offsets[i] = at;
    plan.bytes = std::max(plan.bytes, alignUp(at + buffers[i].bytes, alignment));
    auto higher = [&](int64_t offset, size_t j) { return offset < plan.offsets[j]; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), at, higher), i);
  }
  return plan;
}

Status checkPlan(const std::vector<Lifetime> &buffers, const MemoryPlan &plan, int64_t alignment) {
  auto name = [&](size_t i) {
    return "buffer " + std::to_string(i) + " at [" + std::to_string(plan.offsets[i]) + ", " +
           std::to_string(plan.offsets[i] + buffers[i].bytes) + ")";
  };
  if (plan.offsets.size() != buffers.size())
    return internalError("memory plan: expected " + std::to_string(buffers.size()) + " offsets, got " +
                         std::to_string(plan.offsets.size()));
  std::map<int64_t, std::pair<std::vector<size_t>, std::vector<size_t>>> events; // time -> starts, ends
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (plan.offsets[i] < 0 || plan.offsets[i] % alignment || plan.offsets[i] + buffers[i].bytes > plan.bytes)
      return internalError("memory plan: expected an aligned place inside " + std::to_string(plan.bytes) + " bytes, got " + name(i));
    events[buffers[i].first].first.push_back(i);
    events[buffers[i].last].second.push_back(i);
  }
  std::map<std::pair<int64_t, size_t>, int64_t> alive; // (offset, buffer) -> end
  for (auto &[time, event] : events) {
    for (size_t i : event.first) {
      if (!buffers[i].bytes)
        continue;
      auto at = alive.insert({{plan.offsets[i], i}, plan.offsets[i] + buffers[i].bytes}).first;
      if (auto next = std::next(at); next != alive.end() && next->first.first < at->second)
        return internalError("memory plan: " + name(i) + " meets " + name(next->first.second) + " at operation " + std::to_string(time));
      if (at != alive.begin() && std::prev(at)->second > at->first.first)
        return internalError("memory plan: " + name(i) + " meets " + name(std::prev(at)->first.second) + " at operation " + std::to_string(time));
    }
    for (size_t i : event.second)
      alive.erase({plan.offsets[i], i});
  }
  return {};
}

int64_t liveSetBound(const std::vector<Lifetime> &buffers, int64_t alignment) {
  std::map<int64_t, int64_t> change;
  for (const Lifetime &b : buffers) {
    change[b.first] += alignUp(b.bytes, alignment);
    change[b.last + 1] -= alignUp(b.bytes, alignment);
  }
  int64_t now = 0, most = 0;
  for (auto [time, delta] : change)
    most = std::max(most, now += delta);
  return most;
}

} // namespace dsv3
