#include "runtime/engine/KvBudget.h"

#include "runtime/engine/Memory.h"

#include <algorithm>

namespace dsv3 {

Result<int64_t> kvPagesFor(const KvBudget &b) {
  uint64_t room = b.usableBytes - std::min(b.usableBytes, b.otherBytes);
  int64_t fit = static_cast<int64_t>(std::min<uint64_t>(room / std::max<uint64_t>(b.pageBytes, 1), 1u << 30));
  int64_t wanted = b.wantedPages();
  int64_t least = b.requestedPages > 0 ? b.requestedPages : b.pagesPerSequence;
  if (fit < least)
    return doesNotFitError(std::string(b.memory) + ": expected " + sizeText(b.otherBytes + least * b.pageBytes) + " (" +
                           sizeText(b.otherBytes) + " for weights and plan, " + std::to_string(least) +
                           " kv pages of " + sizeText(b.pageBytes) + "), got " + sizeText(b.usableBytes) +
                           " usable");
  return std::min(wanted, fit);
}

std::string kvShortage(const KvBudget &b, int64_t pages, int64_t pageTokens) {
  if (pages >= b.wantedPages())
    return "";
  return std::string(b.memory) + " holds " + std::to_string(pages) + " of " + std::to_string(b.wantedPages()) + " kv pages (" +
         std::to_string(pages * pageTokens) + " tokens of cache in all): requests wait for each other sooner than max_batch " +
         std::to_string(b.sequences) + " says";
}

} // namespace dsv3
