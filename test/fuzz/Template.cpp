// A chat template, a zero byte, and what a user says: rendering ends, and nothing the user wrote becomes trusted.
#include "Fuzz.h"

#include "runtime/text/ChatTemplate.h"
#include "runtime/text/Utf8.h"
#include "runtime/text/jinja/Json.h"

#include <algorithm>

using namespace dsv3;
using namespace dsv3::text;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view rest(reinterpret_cast<const char *>(data), size);
  TokenizerConfig config;
  config.chatTemplate = toValidUtf8(nextPart(rest));
  config.specialTokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  Result<ChatTemplate> chat = ChatTemplate::create(config);
  if (!chat) {
    FUZZ_CHECK(!chat.error().message.empty());
    return 0;
  }
  // A character that no template of the corpus has: where it is trusted, trust was lost track of.
  const std::string mark = "\U0001F9FF";
  if (config.chatTemplate->find(mark) != std::string::npos || config.chatTemplate->find('\\') != std::string::npos)
    return 0;
  nlohmann::ordered_json messages = {{{"role", "system"}, {"content", "s" + mark}},
                                     {{"role", "user"}, {"content", toValidUtf8(rest) + mark}},
                                     {{"role", "assistant"}, {"content", nullptr},
                                      {"tool_calls", {{{"type", "function"}, {"function", {{"name", "f"}, {"arguments", {{"a", 1.5}}}}}}}}}};
  ChatOptions options;
  options.variables["tools"] = *jinja::fromJson({{{"type", "function"}, {"function", {{"name", "f" + mark}, {"parameters", nullptr}}}}});
  Result<std::vector<Segment>> segments = chat->render(*jinja::fromJson(messages), options);
  if (!segments)
    return 0;
  for (const Segment &segment : *segments)
    FUZZ_CHECK(!segment.trusted || segment.text.find(mark) == std::string::npos);
  FUZZ_CHECK(toValidUtf8(joinSegments(*segments)) == joinSegments(*segments));
  return 0;
}
