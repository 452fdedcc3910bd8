// A tokenizer.json: refused in one line, or a tokenizer that encodes and decodes.
#include "Fuzz.h"

#include "runtime/text/Tokenizer.h"
#include "runtime/text/Utf8.h"

using namespace dsv3;
using namespace dsv3::text;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view input(reinterpret_cast<const char *>(data), size);
  Result<Tokenizer> tokenizer = Tokenizer::loadFromMemory(input, "tokenizer.json");
  if (!tokenizer) {
    FUZZ_CHECK(!tokenizer.error().message.empty() && tokenizer.error().message.find('\n') == std::string::npos);
    return 0;
  }
  for (std::string_view text : {std::string_view("Hello, wörld 12345\n\n\t<｜User｜>"), input.substr(0, 200)}) {
    std::vector<int32_t> ids = tokenizer->encode(text, SpecialTokens::Parse);
    for (int32_t id : ids)
      FUZZ_CHECK(id >= 0 && id < tokenizer->vocabSize());
    std::string decoded = tokenizer->decode(ids);
    FUZZ_CHECK(toValidUtf8(decoded) == decoded);
    tokenizer->encode(text, SpecialTokens::AsText);
  }
  return 0;
}
