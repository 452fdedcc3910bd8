#include "runtime/engine/KvBudget.h"

#include "runtime/engine/Memory.h"

#include <algorithm>

namespace dsv3 {

Result<int64_t> kvPagesFor(const KvBudget &b) {
  // The rest of the process and of the machine needs a little too.
  uint64_t usable = b.availableBytes / 10 * 9;
  uint64_t room = usable - std::min(usable, b.otherBytes);
  int64_t fit = static_cast<int64_t>(std::min<uint64_t>(room / std::max<uint64_t>(b.pageBytes, 1), 1u << 30));
  int64_t wanted = b.requestedPages > 0 ? b.requestedPages : b.sequences * b.pagesPerSequence;
  int64_t least = b.requestedPages > 0 ? b.requestedPages : b.pagesPerSequence;
  if (fit < least)
    return doesNotFitError("memory: expected " + sizeText(b.otherBytes + least * b.pageBytes) + " (" +
                           sizeText(b.otherBytes) + " for weights and plan, " + std::to_string(least) +
                           " kv pages of " + sizeText(b.pageBytes) + "), got " + sizeText(usable) +
                           " usable");
  return std::min(wanted, fit);
}

} // namespace dsv3
