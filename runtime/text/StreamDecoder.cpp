#include "runtime/text/StreamDecoder.h"

#include "runtime/text/Utf8.h"

#include <string_view>
#include <utility>

namespace dsv3::text {

std::string StreamDecoder::push(int32_t id) {
  if (skipSpecial && tokenizer.isSpecial(id))
    return "";
  pending += tokenizer.idToBytes(id);
  size_t ready = completeUtf8Prefix(pending);
  std::string result = toValidUtf8(std::string_view(pending).substr(0, ready));
  pending.erase(0, ready);
  return result;
}

std::string StreamDecoder::flush() { return toValidUtf8(std::exchange(pending, {})); }

} // namespace dsv3::text
