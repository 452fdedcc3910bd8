// An answer as it comes: decoder, stop strings, reasoning and calls. However it is cut, the parts join to the same.
#include "Fuzz.h"

#include "runtime/text/StopMatcher.h"
#include "runtime/text/StreamDecoder.h"
#include "runtime/text/Utf8.h"
#include "runtime/text/chat/ChatOutput.h"

using namespace dsv3;
using namespace dsv3::text;

namespace {

const Tokenizer &tokenizer() {
  static auto *loaded = new Result<Tokenizer>(Tokenizer::load(DSV3_SOURCE_DIR "/examples/dsv3-tiny/tokenizer.json"));
  FUZZ_CHECK(bool(*loaded));
  return **loaded;
}

/// Ids of two kinds: markers and tags as text, and any others.
std::vector<int32_t> idsOf(std::string_view input) {
  static const char *parts[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>",
                                "\n```json\n", "\n```", "<think>", "</think>", "function"};
  std::vector<int32_t> ids;
  while (!input.empty()) {
    unsigned choice = nextByte(input);
    if (choice < 10) {
      for (int32_t id : tokenizer().encode(parts[choice], SpecialTokens::AsText))
        ids.push_back(id);
    } else {
      ids.push_back(int32_t((choice % 16 * 256 + nextByte(input)) % unsigned(tokenizer().vocabSize())));
    }
  }
  return ids;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view rest(reinterpret_cast<const char *>(data), size);
  unsigned flags = nextByte(rest), passes = nextByte(rest) % 8; // as many tokens may not end the answer (min_tokens)
  std::vector<std::string> stops;
  for (unsigned i = 0; i < flags % 4; ++i)
    if (std::string stop(nextPart(rest)); !stop.empty())
      stops.push_back(stop);
  std::vector<int32_t> ids = idsOf(rest);

  ChatOutput::Options options{ReasoningStart(flags / 4 % 3), ToolFormat(flags / 16 % 3), "id", bool(flags & 64), bool(flags & 32)};
  StreamDecoder decoder(tokenizer(), flags & 128);
  StopMatcher matcher = *StopMatcher::create(stops);
  ChatOutput output(options), whole(options);
  std::string text;
  ChatDelta all;
  auto take = [&](const std::string &piece) {
    FUZZ_CHECK(toValidUtf8(piece) == piece);
    text += piece;
    ChatDelta delta = output.push(piece);
    FUZZ_CHECK(toValidUtf8(delta.content) == delta.content && toValidUtf8(delta.reasoning) == delta.reasoning);
    all.append(delta);
  };
  size_t passed = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    std::string piece = decoder.push(ids[i]);
    passed += i < passes ? piece.size() : 0;
    take(i < passes ? matcher.pass(piece) : matcher.push(piece));
  }
  take(matcher.push(decoder.flush()));
  take(matcher.flush());
  all.append(output.flush());

  std::string decoded = tokenizer().decode(ids, flags & 128);
  FUZZ_CHECK(decoded.compare(0, text.size(), text) == 0);
  FUZZ_CHECK(matcher.stopped() || text == decoded);
  for (const std::string &stop : stops) { // none ends in what was not passed
    const std::string valid = toValidUtf8(stop);
    for (size_t at = 0; (at = text.find(valid, at)) != std::string::npos; ++at)
      FUZZ_CHECK(at + valid.size() <= passed);
  }
  ChatDelta once = whole.push(text);
  once.append(whole.flush());
  FUZZ_CHECK(once.reasoning == all.reasoning && once.content == all.content && once.toolCalls.size() == all.toolCalls.size());
  for (size_t i = 0; i < once.toolCalls.size(); ++i)
    FUZZ_CHECK(once.toolCalls[i].name == all.toolCalls[i].name && once.toolCalls[i].arguments == all.toolCalls[i].arguments &&
               once.toolCalls[i].id == all.toolCalls[i].id);
  return 0;
}
