#include "runtime/reference/Array.h"

namespace dsv3::reference {

std::string toString(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + (shape[i] < 0 ? std::string("?") : std::to_string(shape[i]));
  return text + "]";
}

Status expectShape(const char *op, const char *operand, const Shape &want, const Shape &got) {
  bool same = want.size() == got.size();
  for (size_t i = 0; same && i < want.size(); ++i)
    same = want[i] < 0 || want[i] == got[i];
  if (same)
    return {};
  return usageError(std::string(op) + ": expected " + operand + " of shape " + toString(want) +
                    ", got " + toString(got));
}

Status expectCols(const char *op, const char *operand, int64_t want, const Shape &got) {
  if (!got.empty() && got.back() == want)
    return {};
  return usageError(std::string(op) + ": expected last dimension of " + operand + " to be " +
                    std::to_string(want) + ", got shape " + toString(got));
}

} // namespace dsv3::reference
