// A schema, a zero byte, and choices of bytes: whatever compiles can be finished from everywhere, and is JSON.
#include "Fuzz.h"

#include "runtime/guided/Matcher.h"
#include "runtime/guided/SchemaCompiler.h"

#include <nlohmann/json.hpp>

using namespace dsv3::guided;

namespace {

/// A text by the grammar: choices come from the input, and then whatever ends soonest.
void write(const Grammar &grammar, std::string_view choices) {
  Matcher matcher(grammar);
  std::string text;
  SetId at = matcher.start();
  FUZZ_CHECK(at != 0);
  for (int n = 0; n < 300; ++n) {
    std::string allowed;
    for (int byte = 0; byte < 256; ++byte)
      if (matcher.step(at, uint8_t(byte)))
        allowed += char(byte);
    if (matcher.complete(at))
      FUZZ_CHECK(nlohmann::json::accept(text));
    if (allowed.empty()) {
      FUZZ_CHECK(matcher.complete(at));
      return;
    }
    char next = allowed[nextByte(choices) % allowed.size()];
    for (char closing : {'"', '}', ']'})
      if (choices.empty() && allowed.find(closing) != allowed.npos)
        next = closing;
    text += next;
    at = matcher.step(at, uint8_t(next));
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view rest(reinterpret_cast<const char *>(data), size);
  std::string_view schema = nextPart(rest);
  Limits limits;
  limits.states = 5'000; // many cases a second find more than large ones
  dsv3::Result<Grammar> grammar = compileSchema(schema, limits);
  if (grammar)
    write(*grammar, rest);
  else
    FUZZ_CHECK(!grammar.error().message.empty() && grammar.error().message.find('\n') == std::string::npos);
  return 0;
}
