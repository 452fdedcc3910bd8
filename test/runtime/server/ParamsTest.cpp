// Fields of requests: what is read, and which field an error names.
#include "runtime/server/Params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace dsv3;
using namespace dsv3::server;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

const ModelLimits kLimits{100, 64};

struct Parsed {
  Params params;
  std::optional<ApiError> error;
};

Parsed parse(const char *text, bool chat = false) {
  Outcome<OrderedJson> body = parseBody(text);
  EXPECT_TRUE(body) << text;
  Fields fields(*body);
  Parsed p;
  readDelivery(fields, p.params);
  readSampling(fields, kLimits, p.params);
  readLength(fields, kLimits, p.params);
  if (chat)
    readChatLogprobs(fields, p.params);
  else
    readCompletionLogprobs(fields, p.params);
  p.error = fields.error();
  return p;
}

TEST(Params, DefaultsAreThoseOfTheApi) {
  Parsed p = parse("{}");
  ASSERT_FALSE(p.error);
  EXPECT_EQ(p.params.completion.sampling.temperature, 1);
  EXPECT_EQ(p.params.n, 1);
  EXPECT_FALSE(p.params.maxTokens);
  EXPECT_FALSE(p.params.stream);
  EXPECT_EQ(p.params.topLogprobs, -1);
  EXPECT_FALSE(p.params.seeded);
}

TEST(Params, NullIsAbsent) {
  EXPECT_FALSE(parse(R"({"temperature":null,"max_tokens":null,"stop":null,"seed":null,"logit_bias":null,"stream_options":null,"logprobs":null})").error);
}

TEST(Params, Sampling) {
  Parsed p = parse(R"({"temperature":0,"top_p":0.5,"top_k":-1,"min_p":0.1,"seed":-3,"presence_penalty":-2,"frequency_penalty":2,
                       "repetition_penalty":1.1,"logit_bias":{"7":-100,"99":2.5}})");
  ASSERT_FALSE(p.error) << p.error->message;
  const SamplingParams &s = p.params.completion.sampling;
  EXPECT_EQ(s.topK, 0);
  EXPECT_TRUE(p.params.seeded);
  EXPECT_EQ(s.seed, uint64_t(-3));
  EXPECT_THAT(s.logitBias, ElementsAre(std::pair(7, -100.0f), std::pair(99, 2.5f)));
}

TEST(Params, TheNewerNameOfMaxTokensWins) {
  Parsed p = parse(R"({"max_tokens":5,"max_completion_tokens":6})");
  EXPECT_EQ(p.params.maxTokens, 6);
  EXPECT_STREQ(p.params.maxTokensField, "max_completion_tokens");
}

TEST(Params, Stops) {
  EXPECT_THAT(parse(R"({"stop":"a"})").params.completion.stops, ElementsAre("a"));
  EXPECT_THAT(parse(R"({"stop":["a","b"]})").params.completion.stops, ElementsAre("a", "b"));
  EXPECT_TRUE(parse(R"({"stop":[]})").params.completion.stops.empty());
}

TEST(Params, EchoAsksForTheProbabilitiesOfThePrompt) {
  EXPECT_EQ(parse(R"({"echo":true,"logprobs":2})").params.promptLogprobs, 2);
  EXPECT_FALSE(parse(R"({"echo":true})").params.promptLogprobs);
}

TEST(Params, ChatLogprobs) {
  EXPECT_EQ(parse(R"({"logprobs":true,"top_logprobs":3})", true).params.topLogprobs, 3);
  EXPECT_EQ(parse(R"({"logprobs":true})", true).params.topLogprobs, 0);
  EXPECT_EQ(parse(R"({"logprobs":false})", true).params.topLogprobs, -1);
}

TEST(Params, ErrorsNameTheFieldAndWhatIsThere) {
  struct Case {
    const char *body, *param, *says;
  };
  for (const Case &c : {Case{R"({"temperature":-1})", "temperature", "expected a number from 0.0 to 2.0, got -1"},
                        Case{R"({"temperature":"hot"})", "temperature", "got \"hot\""},
                        Case{R"({"n":129})", "n", "from 1 to 128"},
                        Case{R"({"max_tokens":18446744073709551615})", "max_tokens", "got 18446744073709551615"},
                        Case{R"({"max_tokens":2.0})", "max_tokens", "an integer"},
                        Case{R"({"stop":["a","b","c","d","e"]})", "stop", "up to 4"},
                        Case{R"({"logit_bias":{"100":1}})", "logit_bias", "from 0 to 99"},
                        Case{R"({"logit_bias":[1]})", "logit_bias", "an object"},
                        Case{R"({"stop_token_ids":[100]})", "stop_token_ids", "got 100"},
                        Case{R"({"stream":true,"stream_options":{"include_usage":1}})", "stream_options.include_usage", "true or false"},
                        Case{R"({"priority":3000000000})", "priority", "an integer"},
                        Case{R"({"cache_salt":""})", "cache_salt", "nonempty"}}) {
    Parsed p = parse(c.body);
    ASSERT_TRUE(p.error) << c.body;
    EXPECT_EQ(p.error->status, 400u);
    EXPECT_EQ(p.error->param, c.param) << c.body;
    EXPECT_THAT(p.error->message, HasSubstr(c.says));
  }
}

TEST(Params, VllmsOwn) {
  Parsed p = parse(R"({"min_tokens":3,"max_tokens":5,"include_stop_str_in_output":true,"truncate_prompt_tokens":-1,"best_of":2,"n":2,"prompt_logprobs":0})");
  ASSERT_FALSE(p.error) << p.error->message;
  EXPECT_EQ(p.params.completion.minTokens, 3);
  EXPECT_TRUE(p.params.completion.includeStop);
  EXPECT_EQ(p.params.truncatePrompt, 64);
  EXPECT_TRUE(p.params.returnPromptLogprobs);
  EXPECT_EQ(p.params.promptLogprobs, 0);
  for (auto [body, param] : {std::pair(R"({"min_tokens":-1})", "min_tokens"), std::pair(R"({"best_of":3})", "best_of"),
                             std::pair(R"({"truncate_prompt_tokens":0})", "truncate_prompt_tokens"), std::pair(R"({"truncate_prompt_tokens":65})", "truncate_prompt_tokens"),
                             std::pair(R"({"prompt_logprobs":1,"stream":true})", "prompt_logprobs"), std::pair(R"({"include_stop_str_in_output":1})", "include_stop_str_in_output")})
    EXPECT_EQ(parse(body).error.value_or(ApiError()).param, param) << body;
  Params few;
  few.completion.minTokens = 6;
  EXPECT_EQ(settleLength(few, 60, 16, kLimits, "prompt")->param, "min_tokens") << "the context leaves 5";
}

TEST(Params, TheFirstErrorIsReported) { EXPECT_EQ(parse(R"({"n":0,"temperature":9})").error->param, "temperature"); }

TEST(Params, LengthIsCutToTheContextAndRefusedBeyond) {
  Params p;
  ASSERT_FALSE(settleLength(p, 60, 16, kLimits, "prompt"));
  EXPECT_EQ(p.completion.maxTokens, 5);
  ASSERT_FALSE(settleLength(p, 10, std::nullopt, kLimits, "prompt"));
  EXPECT_EQ(p.completion.maxTokens, 55);
  EXPECT_EQ(settleLength(p, 65, 16, kLimits, "messages")->param, "messages");
  p.maxTokens = 6;
  std::optional<ApiError> error = settleLength(p, 60, 16, kLimits, "prompt");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->param, "max_tokens");
  EXPECT_EQ(error->code, "context_length_exceeded");
}

TEST(Body, RefusesWhatWouldCostTooMuch) {
  EXPECT_THAT(parseBody(std::string(101, '[')).error().message, HasSubstr("100 levels"));
  std::string keys = "{\"a\":0";
  for (int i = 0; i < kMaxKeys; ++i)
    keys += ",\"" + std::to_string(i) + "\":0";
  EXPECT_THAT(parseBody(keys + "}").error().message, HasSubstr("1024 keys"));
  EXPECT_TRUE(parseBody("{\"a\":\"" + std::string(3000, '[') + ",,\"}")) << "brackets in strings do not count";
  EXPECT_THAT(parseBody("[1]").error().message, HasSubstr("expected a JSON object, got a list"));
  EXPECT_THAT(parseBody("{\"a\":1,\"a\":2}").error().message, HasSubstr("duplicate"));
}

} // namespace
