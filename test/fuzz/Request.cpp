// The body of an HTTP request, of a chat or (first byte odd) a completion: refused in one line, or prepared.
#include "Fuzz.h"

#include "runtime/server/Prepared.h"

using namespace dsv3;
using namespace dsv3::server;

namespace {

struct Served {
  TextModel text;
  Manifest manifest;
  std::optional<ServedModel> model;

  Served() {
    std::string folder = DSV3_SOURCE_DIR "/examples/dsv3-tiny";
    Result<text::Tokenizer> tokenizer = text::Tokenizer::load(folder + "/tokenizer.json");
    Result<text::TokenizerConfig> config = text::TokenizerConfig::load(folder);
    FUZZ_CHECK(tokenizer && config);
    manifest.model.vocabSize = tokenizer->vocabSize();
    manifest.model.eosIds = {*tokenizer->tokenToId("<｜end▁of▁sentence｜>")};
    manifest.config.maxModelLen = 4096;
    text = TextModel::create(std::move(*tokenizer), std::move(*config));
    model.emplace(text, manifest, std::vector<std::string>{"m"});
  }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const Served *served = new Served;
  std::string_view body(reinterpret_cast<const char *>(data), size);
  bool completion = nextByte(body) % 2;
  Outcome<Prepared> prepared = completion ? prepareCompletion(body, *served->model) : prepareChat(body, *served->model);
  if (!prepared) {
    FUZZ_CHECK(!prepared.error().message.empty() && prepared.error().message.find('\n') == std::string::npos);
    return 0;
  }
  FUZZ_CHECK(!prepared->prompts.empty());
  for (const Prompt &prompt : prepared->prompts)
    for (int32_t id : prompt.ids)
      FUZZ_CHECK(id >= 0 && id < served->model->limits().vocab);
  if (prepared->makeConstraint) {
    std::vector<float> logits(size_t(served->model->limits().vocab), 0.0f);
    std::shared_ptr<TokenConstraint> constraint = prepared->makeConstraint();
    constraint->mask(logits.data(), int64_t(logits.size()));
    bool any = false;
    for (float x : logits)
      any |= x == 0;
    FUZZ_CHECK(any);
  }
  return 0;
}
