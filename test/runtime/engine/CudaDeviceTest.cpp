// What the CUDA device computes, and what a step of the engine on it brings back.
#include "CudaRig.h"

#include <algorithm>
#include <numeric>

using namespace dsv3;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

//===-- It computes -------------------------------------------------------===//

TEST_F(Cuda, GeneratesWhatTheCpuDoes) {
  Both artifact;
  Result<OpenedModel> gpu = open(artifact), cpu = open(artifact, "cpu");
  ASSERT_TRUE(bool(gpu)) << gpu.error().message;
  ASSERT_TRUE(bool(cpu)) << cpu.error().message;
  EXPECT_THAT(gpu->notes, IsEmpty());
  EXPECT_EQ(gpu->device->describe(), "sm_90a on Fake GPU (driver of CUDA 13.0)");
  std::unique_ptr<Engine> onGpu = engineOf(*gpu), onCpu = engineOf(*cpu);
  for (int length : {1, 7, 63, 65}) {
    Ids prompt(length);
    std::iota(prompt.begin(), prompt.end(), length);
    for (int32_t &id : prompt)
      id %= fake::kVocab;
    EXPECT_EQ(generate(*onGpu, prompt, 6), generate(*onCpu, prompt, 6)) << length;
  }
}

TEST_F(Cuda, ScoresAndTapsWhatTheCpuDoes) {
  Both artifact;
  std::vector<float> logits[2], mtp[2];
  std::vector<int32_t> taps[2];
  for (int i = 0; i < 2; ++i) {
    Result<OpenedModel> model = open(artifact, i ? "cpu" : "cuda");
    ASSERT_TRUE(bool(model)) << model.error().message;
    std::unique_ptr<Engine> engine = engineOf(*model);
    auto keep = [](std::vector<float> &to) {
      return [&to](size_t, int64_t, int64_t rows, const float *data) {
        to.insert(to.end(), data, data + rows * fake::kVocab);
        return Status();
      };
    };
    ScoreSink sink;
    sink.logits = keep(logits[i]);
    sink.mtpLogits = keep(mtp[i]);
    sink.taps = [&](size_t, uint32_t tap, int64_t rows, const void *data) {
      auto *values = static_cast<const int32_t *>(data);
      taps[i].insert(taps[i].end(), values, values + rows * (tap == 0 ? 2 : 1));
      return Status();
    };
    Status scored = engine->score({{3, 1, 4, 1, 5}, {2, 7}}, sink);
    ASSERT_TRUE(bool(scored)) << scored.error().message;
  }
  EXPECT_EQ(logits[0].size(), 7u * fake::kVocab);
  EXPECT_EQ(logits[0], logits[1]);
  EXPECT_EQ(mtp[0], mtp[1]);
  EXPECT_FALSE(taps[0].empty());
  EXPECT_EQ(taps[0], taps[1]);
}

//===-- A step ------------------------------------------------------------===//

TEST_F(Cuda, TheNextStepIsLaunchedBeforeTheCurrentOneIsWaitedFor) {
  Both artifact;
  Result<OpenedModel> model = open(artifact);
  ASSERT_TRUE(bool(model)) << model.error().message;
  std::unique_ptr<Engine> engine = engineOf(*model);
  std::string log = artifact.file("calls.txt");
  setenv("FAKE_CUDA_LOG", log.c_str(), 1);
  generate(*engine, {1, 2, 3}, 3);
  unsetenv("FAKE_CUDA_LOG");
  std::string step = broughtStep(*model->device), token = brought(sizeof(dsv3_sampled));
  EXPECT_THAT(linesOf(log), ElementsAre(step, "graph", token, step, "graph", token, "wait", step, "graph", token, "wait", "wait"))
      << "a prefill and two decode steps that take their token on the device, without an allocation, and no logits";
}

TEST_F(Cuda, RequestsThatEndWhileTheNextStepRuns) {
  Both artifact;
  Result<OpenedModel> model = open(artifact);
  ASSERT_TRUE(bool(model)) << model.error().message;
  std::unique_ptr<Engine> engine = engineOf(*model);
  Ids all[3];
  for (int i = 0; i < 3; ++i)
    all[i] = generate(*engine, {5, i}, 12);
  // Together: one ends at an id, one is stopped by its callback, one is cancelled from it.
  int ended = 0;
  Ids got[3];
  RequestId ids[3];
  for (int i = 0; i < 3; ++i) {
    Request r;
    r.prompt = {5, i};
    r.maxTokens = 12;
    if (i == 0)
      r.endIds = {all[0][4]};
    r.onToken = [&, i](const SampledToken &t) {
      got[i].push_back(t.id);
      if (i == 2 && got[i].size() == 7)
        EXPECT_TRUE(engine->cancel(ids[2]));
      return i != 1 || got[i].size() < 5;
    };
    r.onFinish = [&](FinishReason) { ++ended; };
    Result<RequestId> id = engine->submit(std::move(r));
    ASSERT_TRUE(bool(id));
    ids[i] = *id;
  }
  ASSERT_TRUE(bool(engine->runAll()));
  EXPECT_EQ(ended, 3);
  size_t first = size_t(std::find(all[0].begin(), all[0].end(), all[0][4]) - all[0].begin()) + 1;
  EXPECT_EQ(got[0], Ids(all[0].begin(), all[0].begin() + long(first)));
  EXPECT_EQ(got[1], Ids(all[1].begin(), all[1].begin() + 5));
  EXPECT_EQ(got[2], Ids(all[2].begin(), all[2].begin() + 7));
  EXPECT_EQ(engine->snapshot().freePages, engine->snapshot().totalPages);
}

TEST_F(Cuda, OnlyRowsThatTheHostChoosesBringTheirLogits) {
  Both artifact;
  Result<OpenedModel> model = open(artifact);
  ASSERT_TRUE(bool(model)) << model.error().message;
  std::unique_ptr<Engine> engine = engineOf(*model);
  for (double penalty : {1.0, 1.5, 1.5, 1.0}) {
    Request r;
    r.prompt = {1, 2, 3};
    r.maxTokens = 2;
    r.sampling.repetitionPenalty = penalty;
    ASSERT_TRUE(bool(engine->submit(std::move(r))));
  }
  std::string log = artifact.file("calls.txt");
  setenv("FAKE_CUDA_LOG", log.c_str(), 1);
  ASSERT_TRUE(bool(engine->step())); // all four prompts
  unsetenv("FAKE_CUDA_LOG");
  EXPECT_THAT(linesOf(log), ElementsAre(broughtStep(*model->device), "graph", brought(2 * fake::kVocab * 4), brought(4 * sizeof(dsv3_sampled)), "wait"))
      << "the two in the middle as one copy";
  EXPECT_EQ(engine->snapshot().tokensOfDevice, 2u);
  EXPECT_EQ(engine->snapshot().tokensOfHost, 2u);
}

/// Requests of every kind, together and alone, chosen by the device and by the host.
TEST_F(Cuda, TokensAreTheSameWhoeverChooses) {
  Both artifact;
  auto request = [](int i) {
    Request r;
    for (int t = 0; t < 3 + 9 * i % 40; ++t)
      r.prompt.push_back((i * 31 + t * 7) % fake::kVocab);
    r.maxTokens = 6;
    r.sampling.temperature = i % 4 ? 0.4 * i : 0;
    r.sampling.topK = i % 3 ? 5 * i : 0;
    r.sampling.topP = i % 2 ? 0.9 : 1;
    r.sampling.minP = i % 5 ? 0 : 0.02;
    r.sampling.repetitionPenalty = i % 6 == 5 ? 1.3 : 1;
    r.sampling.seed = 11;
    r.sampling.stream = uint64_t(i);
    return r;
  };
  using Tokens = std::vector<std::pair<int32_t, double>>;
  auto run = [&](const std::string &device, bool sampleOnDevice, bool together, int64_t *ofDevice) {
    Result<OpenedModel> model = open(artifact, device);
    EXPECT_TRUE(bool(model));
    Engine::Options options;
    options.sampleOnDevice = sampleOnDevice;
    options.scheduling.prefillChunk = 16;
    std::unique_ptr<Engine> engine = std::move(*Engine::create(*model->device, model->artifact->manifest(), options));
    std::vector<Tokens> tokens(12);
    for (int i = 0; i < 12; ++i) {
      Request r = request(i);
      r.onToken = [&tokens, i](const SampledToken &t) { return tokens[size_t(i)].push_back({t.id, t.logprob}), true; };
      EXPECT_TRUE(bool(engine->submit(std::move(r))));
      if (!together)
        EXPECT_TRUE(bool(engine->runAll()));
    }
    EXPECT_TRUE(bool(engine->runAll()));
    EXPECT_EQ(engine->snapshot().tokensOfDevice + engine->snapshot().tokensOfHost, 12u * 6);
    *ofDevice = engine->snapshot().tokensOfDevice;
    return tokens;
  };
  int64_t ofDevice = 0;
  std::vector<Tokens> want = run("cuda", true, true, &ofDevice);
  EXPECT_EQ(ofDevice, 10 * 6) << "all but the two with a penalty";
  EXPECT_EQ(run("cuda", true, false, &ofDevice), want);
  EXPECT_EQ(run("cuda", false, true, &ofDevice), want);
  EXPECT_EQ(ofDevice, 0);
  EXPECT_EQ(run("cpu", true, true, &ofDevice), want);
  EXPECT_EQ(ofDevice, 0) << "a CPU's programs choose nothing";
}

/// The step behind the one that overflows runs already, with token 0 in place of the one that was not chosen.
TEST_F(Cuda, ALogitThatIsNotFiniteEndsItsRequestAloneWhoeverChooses) {
  Both artifact;
  for (bool onDevice : {true, false}) {
    pretend("nan_some");
    Result<OpenedModel> model = open(artifact);
    ASSERT_TRUE(bool(model)) << model.error().message;
    Engine::Options options;
    options.sampleOnDevice = onDevice;
    options.prefixCache = true;
    std::unique_ptr<Engine> engine = std::move(*Engine::create(*model->device, model->artifact->manifest(), options));
    std::vector<Ids> got(20), want;
    std::vector<std::string> errors(20);
    size_t failing = 0;
    for (int i = 0; i < 20; ++i) {
      Request r;
      r.prompt = {4, i, 2};
      r.maxTokens = 12;
      r.onToken = [&got, i](const SampledToken &t) { return got[size_t(i)].push_back(t.id), true; };
      r.onError = [&errors, i](const Error &e) { errors[size_t(i)] = e.message; };
      want.push_back(tokensBeforeOverflow(r.prompt, 12));
      failing += want.back().size() < 12;
      ASSERT_TRUE(bool(engine->submit(std::move(r))));
    }
    ASSERT_TRUE(failing > 2 && failing < 18) << failing;
    Status ran = engine->runAll();
    ASSERT_TRUE(bool(ran)) << ran.error().message;
    EXPECT_EQ(got, want);
    for (size_t i = 0; i < 20; ++i)
      EXPECT_EQ(errors[i], want[i].size() == 12 ? "" : "request " + std::to_string(i) + ": logit 5 at position " + std::to_string(2 + want[i].size()) + " is not finite: the weights overflow");
    EXPECT_EQ(engine->snapshot().nonFinite, failing);
    EXPECT_EQ(engine->snapshot().freePages, engine->snapshot().totalPages);
    EXPECT_EQ(engine->snapshot().tokensOfHost == 0, onDevice);
  }
}

TEST_F(Cuda, ARunBringsOnlyWhatItWasAskedFor) {
  Both artifact;
  Result<OpenedModel> model = open(artifact);
  ASSERT_TRUE(bool(model)) << model.error().message;
  Device &device = *model->device;
  dsv3_ref ref{DSV3_POOL_PERSIST, 0, 64};
  ASSERT_TRUE(bool(device.run(0, {}, {{ref, 128}}, {})));
  EXPECT_TRUE(bool(device.fetch(ref, 128)));
  EXPECT_TRUE(bool(device.fetch({DSV3_POOL_PERSIST, 0, 96}, 96)));
  for (auto [offset, bytes] : {std::pair<uint64_t, uint64_t>{32, 64}, {64, 129}, {160, 64}, {4096, 4}}) {
    Result<const void *> other = device.fetch({DSV3_POOL_PERSIST, 0, offset}, bytes);
    ASSERT_FALSE(bool(other)) << offset;
    EXPECT_THAT(other.error().message, HasSubstr("expected one that the run was asked to copy"));
  }
}

} // namespace
