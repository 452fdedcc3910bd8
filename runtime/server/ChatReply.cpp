#include "runtime/server/Logprobs.h"
#include "runtime/server/Reply.h"

namespace dsv3::server {

namespace {

OrderedJson callJson(const text::ToolCallDelta &call, bool whole) {
  OrderedJson out;
  if (!whole)
    out["index"] = call.index;
  if (!call.id.empty()) {
    out["id"] = call.id;
    out["type"] = "function";
  }
  OrderedJson function;
  if (!call.name.empty())
    function["name"] = call.name;
  function["arguments"] = call.arguments;
  out["function"] = std::move(function);
  return out;
}

/// The two names that clients look for reasoning under.
void addReasoning(OrderedJson &to, const OrderedJson &reasoning) {
  to["reasoning_content"] = reasoning;
  to["reasoning"] = reasoning;
}

class ChatReply final : public Reply {
public:
  ChatReply(ReplyHead head, const Prepared &request, const ServedModel &model)
      : Reply(std::move(head), "chat.completion", "chat.completion.chunk", request, model) {
    for (int64_t i = 0; i < request.params.n; ++i) {
      text::ChatOutput::Options options = request.chat;
      options.idSeed = headFields.id + "/" + std::to_string(i);
      choices.push_back(Choice(options));
    }
  }

  void chunks(const Event &event, std::vector<OrderedJson> &out) override {
    Choice &c = choices[event.choice];
    if (!std::exchange(c.begun, true))
      out.push_back(deltaChunk(event.choice, {{"role", "assistant"}, {"content", ""}}));
    take(event);
    OrderedJson delta = OrderedJson::object();
    if (!c.joined.reasoning.empty())
      addReasoning(delta, c.joined.reasoning);
    if (!c.joined.content.empty())
      delta["content"] = c.joined.content;
    for (const text::ToolCallDelta &call : c.joined.toolCalls)
      delta["tool_calls"].push_back(callJson(call, false));
    if (!delta.empty() || !c.logprobs.empty() || event.end)
      out.push_back(deltaChunk(event.choice, std::move(delta)));
    c.joined = {};
    c.logprobs = OrderedJson::array();
  }

  void add(const Event &event) override { take(event); }

  OrderedJson whole() override {
    OrderedJson out = head(object);
    out["choices"] = OrderedJson::array();
    for (size_t i = 0; i < choices.size(); ++i)
      out["choices"].push_back(wholeChoice(i));
    if (request.params.returnPromptLogprobs)
      out["prompt_logprobs"] = ofPrompt;
    return out;
  }

private:
  struct Choice {
    explicit Choice(const text::ChatOutput::Options &options) : output(options) {}
    text::ChatOutput output;
    text::ChatDelta joined;
    OrderedJson logprobs = OrderedJson::array();
    std::optional<FinishReason> end;
    bool begun = false;
  };

  void take(const Event &event) {
    Choice &c = choices[event.choice];
    if (!event.text.empty())
      c.joined.append(wanted(c.output.push(event.text)));
    if (event.prompt && request.params.returnPromptLogprobs)
      ofPrompt = promptLogprobsJson(model, *event.prompt, *request.params.promptLogprobs);
    if (event.token && request.params.topLogprobs >= 0)
      c.logprobs.push_back(chatLogprob(model, *event.token, request.params.topLogprobs));
    if (event.end) {
      c.end = event.end;
      c.joined.append(wanted(c.output.flush()));
    }
  }

  text::ChatDelta wanted(text::ChatDelta delta) const {
    if (!request.params.includeReasoning)
      delta.reasoning.clear();
    return delta;
  }

  OrderedJson reasonJson(const Choice &c) const {
    if (!c.end)
      return nullptr;
    const bool calls = *c.end == FinishReason::Stop && c.output.toolCalls() > 0 && !request.namedTool; // as OpenAI and vLLM
    return calls ? OrderedJson("tool_calls") : finishReasonJson(*c.end);
  }

  OrderedJson logprobsJson(const Choice &c) const {
    return c.logprobs.empty() ? OrderedJson(nullptr) : OrderedJson({{"content", c.logprobs}});
  }

  OrderedJson deltaChunk(size_t index, OrderedJson delta) const {
    const Choice &c = choices[index];
    return chunk({{"index", index}, {"delta", std::move(delta)}, {"logprobs", logprobsJson(c)}, {"finish_reason", reasonJson(c)}});
  }

  OrderedJson wholeChoice(size_t index) const {
    const Choice &c = choices[index];
    OrderedJson message = {{"role", "assistant"}};
    message["content"] = c.joined.content.empty() && !c.joined.toolCalls.empty() ? OrderedJson(nullptr) : OrderedJson(c.joined.content);
    message["refusal"] = nullptr;
    if (request.chat.reasoning != text::ReasoningStart::None)
      addReasoning(message, c.joined.reasoning.empty() ? OrderedJson(nullptr) : OrderedJson(c.joined.reasoning));
    for (const text::ToolCallDelta &call : c.joined.toolCalls)
      message["tool_calls"].push_back(callJson(call, true));
    return {{"index", index}, {"message", std::move(message)}, {"logprobs", logprobsJson(c)}, {"finish_reason", reasonJson(c)}};
  }

  std::vector<Choice> choices;
  OrderedJson ofPrompt;
};

} // namespace

std::unique_ptr<Reply> makeChatReply(ReplyHead head, const Prepared &request, const ServedModel &model) {
  return std::make_unique<ChatReply>(std::move(head), request, model);
}

} // namespace dsv3::server
