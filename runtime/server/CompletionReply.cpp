#include "runtime/server/Logprobs.h"
#include "runtime/server/Reply.h"

namespace dsv3::server {

namespace {

class CompletionReply final : public Reply {
public:
  CompletionReply(ReplyHead head, const Prepared &request, const ServedModel &model)
      : Reply(std::move(head), "text_completion", "text_completion", request, model) {
    for (size_t i = 0; i < request.prompts.size() * size_t(request.params.n); ++i)
      choices.push_back(Choice{"", CompletionLogprobs(model, request.params.topLogprobs), nullptr, std::nullopt, false});
  }

  void chunks(const Event &event, std::vector<OrderedJson> &out) override {
    take(event);
    Choice &c = choices[event.choice];
    const bool withLogprobs = request.params.topLogprobs >= 0 && !c.logprobs.empty();
    if (c.text.empty() && !withLogprobs && !event.end)
      return;
    out.push_back(chunk(choiceJson(event.choice)));
    c.text.clear();
    c.logprobs.restart();
  }

  void add(const Event &event) override { take(event); }

  OrderedJson whole() override {
    OrderedJson out = head(object);
    out["choices"] = OrderedJson::array();
    for (size_t i = 0; i < choices.size(); ++i)
      out["choices"].push_back(choiceJson(i));
    return out;
  }

private:
  struct Choice {
    std::string text;
    CompletionLogprobs logprobs;
    OrderedJson ofPrompt;
    std::optional<FinishReason> end;
    bool echoed;
  };

  const Prompt &promptOf(size_t choice) const { return request.prompts[choice / size_t(request.params.n)]; }

  void take(const Event &event) {
    Choice &c = choices[event.choice];
    if (event.prompt && request.params.topLogprobs >= 0 && request.params.echo)
      c.logprobs.addPrompt(promptOf(event.choice).ids, *event.prompt);
    if (event.prompt && request.params.returnPromptLogprobs)
      c.ofPrompt = promptLogprobsJson(model, *event.prompt, *request.params.promptLogprobs);
    if (request.params.echo && !event.prompt && !std::exchange(c.echoed, true))
      c.text += promptOf(event.choice).text;
    if (event.token && request.params.completion.maxTokens > 0)
      c.logprobs.add(*event.token);
    c.text += event.text;
    if (event.end)
      c.end = event.end;
  }

  OrderedJson choiceJson(size_t index) {
    Choice &c = choices[index];
    OrderedJson out = {{"index", index},
                       {"text", c.text},
                       {"logprobs", c.logprobs.empty() ? OrderedJson(nullptr) : c.logprobs.json()},
                       {"finish_reason", c.end ? finishReasonJson(*c.end) : OrderedJson(nullptr)}};
    if (request.params.returnPromptLogprobs)
      out["prompt_logprobs"] = c.ofPrompt;
    return out;
  }

  std::vector<Choice> choices;
};

} // namespace

std::unique_ptr<Reply> makeCompletionReply(ReplyHead head, const Prepared &request, const ServedModel &model) {
  return std::make_unique<CompletionReply>(std::move(head), request, model);
}

} // namespace dsv3::server
