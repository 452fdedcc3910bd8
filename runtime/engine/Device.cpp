#include "runtime/engine/Device.h"

namespace dsv3 {

Result<bool> takesTokens(const int32_t *ids, int64_t tokens, const std::vector<bool> &chosen) {
  bool any = false;
  for (int64_t i = 0; i < tokens; ++i) {
    if (ids[i] >= 0)
      continue;
    const int64_t row = -1 - int64_t(ids[i]);
    if (row >= int64_t(chosen.size()) || !chosen[size_t(row)])
      return internalError("token " + std::to_string(i) + " of the step: expected an id or a sequence that the step before chose a token for, got " +
                           std::to_string(ids[i]));
    any = true;
  }
  return any;
}

} // namespace dsv3
