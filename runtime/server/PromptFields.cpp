#include "runtime/server/Prepared.h"

namespace dsv3::server {

namespace {

/// Reads the field `prompt`.
class PromptReader {
public:
  PromptReader(const ServedModel &model, bool addSpecial, std::optional<int64_t> most) : model(model), addSpecial(addSpecial), most(most) {}

  Outcome<std::vector<Prompt>> read(const OrderedJson &value) {
    if (value.is_string() || isIds(value)) {
      addOne(value, "prompt");
    } else if (value.is_array() && !value.empty() && int64_t(value.size()) <= kMaxChoices) {
      for (size_t i = 0; i < value.size() && !error; ++i)
        addOne(value[i], "prompt[" + std::to_string(i) + "]");
    } else {
      error = badField("prompt", "expected a text, token ids, or a list of up to " + std::to_string(kMaxChoices) +
                                     " of them, got " + describe(value));
    }
    if (error)
      return *error;
    return std::move(prompts);
  }

private:
  static bool isIds(const OrderedJson &value) { return value.is_array() && !value.empty() && value[0].is_number(); }

  void addOne(const OrderedJson &value, const std::string &field) {
    if (value.is_string())
      addText(value.get_ref<const std::string &>(), field);
    else if (value.is_array())
      addIds(value, field);
    else
      error = badField(field, "expected a text or a list of token ids, got " + describe(value));
  }

  void addText(const std::string &text, const std::string &field) {
    if ((error = model.checkBytes(text.size(), field)))
      return;
    if (!model.tokenizer()) {
      error = badField(field, "expected token ids: the model has no tokenizer");
      return;
    }
    Result<std::vector<int32_t>> ids =
        addSpecial ? model.text().encodePrompt(text, field) : model.tokenizer()->encode(text, text::SpecialTokens::Parse);
    if (!ids)
      error = fromEngine(ids.error(), field);
    else if (ids->empty())
      error = badField(field, "expected at least one token, got an empty text");
    if (error)
      return;
    const bool keepFirst = addSpecial && ids->front() == model.text().bosId();
    addPrompt({std::move(*ids), text}, keepFirst);
  }

  void addPrompt(Prompt prompt, bool keepFirst) {
    const auto tokens = int64_t(prompt.ids.size());
    if (most && tokens > *most) {
      keepFirst = keepFirst && *most > 1;
      prompt.ids.erase(prompt.ids.begin() + keepFirst, prompt.ids.begin() + keepFirst + (tokens - *most));
      prompt.text = model.tokenizer() ? model.tokenizer()->decode(prompt.ids) : "";
    }
    prompts.push_back(std::move(prompt));
  }

  void addIds(const OrderedJson &list, const std::string &field) {
    Prompt prompt;
    prompt.ids.reserve(list.size());
    for (const OrderedJson &id : list) {
      if (!id.is_number_integer() || id < 0 || id >= model.limits().vocab) {
        error = badField(field, "expected token ids from 0 to " + std::to_string(model.limits().vocab - 1) + ", got " +
                                    describe(id));
        return;
      }
      prompt.ids.push_back(id.get<int32_t>());
    }
    if (prompt.ids.empty()) {
      error = badField(field, "expected at least one token id, got an empty list");
      return;
    }
    if (model.tokenizer())
      prompt.text = model.tokenizer()->decode(prompt.ids);
    addPrompt(std::move(prompt), false);
  }

  const ServedModel &model;
  bool addSpecial;
  std::optional<int64_t> most;
  std::vector<Prompt> prompts;
  std::optional<ApiError> error;
};

} // namespace

Outcome<std::vector<Prompt>> readPrompts(const OrderedJson &body, const ServedModel &model, bool addSpecial, std::optional<int64_t> most) {
  const OrderedJson *prompt = Fields(body).find("prompt");
  if (!prompt)
    return badField("prompt", "expected a text or token ids, got nothing");
  return PromptReader(model, addSpecial, most).read(*prompt);
}

} // namespace dsv3::server
