// The CUDA device over a driver that keeps its books in host memory (FakeCuda.cpp): no GPU is needed.
#include "runtime/cuda/CudaDevice.h"

#include "FakeArtifact.h"
#include "FakeModel.h"
#include "runtime/core/Hash.h"
#include "runtime/cuda/OpenDevice.h"
#include "runtime/engine/Engine.h"
#include "runtime/engine/ModuleCheck.h"
#include "runtime/engine/StepBuffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <cstring>
#include <numeric>
#include <set>

using namespace dsv3;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
namespace fs = std::filesystem;

namespace {

using Ids = std::vector<int32_t>;

/// An artifact for both kinds of machine.
struct Both : fake::FakeArtifact {
  Both(const std::string &device = "dsv3_fake_device") : FakeArtifact(fake::modulePath(), false, fake::modulePath(device)) {}
};

class Cuda : public testing::Test {
protected:
  void SetUp() override {
    setenv("DSV3_CUDA_DRIVER", DSV3_FAKE_CUDA, 1);
    pretend("");
    unsetenv("FAKE_CUDA_LOG");
  }
  static void pretend(const std::string &what) { setenv("FAKE_CUDA", what.c_str(), 1); }

  static Result<OpenedModel> open(const fake::FakeArtifact &artifact, const std::string &device = "cuda", int64_t pages = 0) {
    OpenOptions options;
    options.device = device;
    options.kvPages = pages;
    options.threads = 1;
    return openModel(artifact.path(), options);
  }
  static void expectRefused(const fake::FakeArtifact &artifact, ExitCode code, testing::Matcher<std::string> message,
                            const std::string &device = "cuda", int64_t pages = 0) {
    Result<OpenedModel> opened = open(artifact, device, pages);
    ASSERT_FALSE(bool(opened));
    EXPECT_EQ(opened.error().code, code) << opened.error().message;
    EXPECT_THAT(opened.error().message, message);
    EXPECT_EQ(opened.error().message.find('\n'), std::string::npos) << "one line";
  }

  static std::vector<std::string> linesOf(const std::string &path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);)
      lines.push_back(line);
    return lines;
  }
};

Ids generate(Engine &engine, const Ids &prompt, int count) {
  Ids out;
  Request r;
  r.prompt = prompt;
  r.maxTokens = count;
  r.onToken = [&](const SampledToken &t) { return out.push_back(t.id), true; };
  EXPECT_TRUE(bool(engine.submit(std::move(r))));
  Status ran = engine.runAll();
  EXPECT_TRUE(bool(ran)) << (ran ? "" : ran.error().message);
  return out;
}

std::unique_ptr<Engine> engineOf(OpenedModel &model) { return std::move(*Engine::create(*model.device, model.artifact->manifest(), {})); }

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

/// The fake's lines for the runtime's own kernel.
std::string brought(uint64_t bytes) { return "launch step_copy " + std::to_string(bytes); }
std::string broughtStep(const Device &device) { return brought((256 + device.module().pool_bytes[DSV3_POOL_STEP] + 15) / 16 * 16); }

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
  EXPECT_EQ(engine->stats().freePages, engine->stats().totalPages);
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
  EXPECT_EQ(engine->stats().tokensOfDevice, 2);
  EXPECT_EQ(engine->stats().tokensOfHost, 2);
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
    EXPECT_EQ(engine->stats().tokensOfDevice + engine->stats().tokensOfHost, 12 * 6);
    *ofDevice = engine->stats().tokensOfDevice;
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

/// Greedy tokens of `prompt` before the first row that overflows.
Ids beforeOverflow(Ids ids, int count) {
  Ids out;
  for (int i = 0; i < count; ++i) {
    const uint32_t hidden = fake::expected(ids).hidden.back();
    if (fake::notFinite(hidden))
      break;
    int best = 0;
    for (int v = 1; v < fake::kVocab; ++v)
      if (fake::logit(hidden, v) > fake::logit(hidden, best))
        best = v;
    out.push_back(best);
    ids.push_back(best);
  }
  return out;
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
      want.push_back(beforeOverflow(r.prompt, 12));
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
    EXPECT_EQ(engine->stats().freePages, engine->stats().totalPages);
    EXPECT_EQ(engine->stats().tokensOfHost == 0, onDevice);
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

//===-- Steps in flight ---------------------------------------------------===//

/// Steps of one sequence by hand, over a device that takes them while others run.
struct Flight {
  Device &device;
  Sequence sequence;
  uint32_t decode = 0;

  Flight(Device &device, Ids prompt) : device(device) {
    sequence.tokens = std::move(prompt);
    for (int32_t p = 0; p < 4; ++p)
      sequence.pages.push_back(3 - p);
    while (device.module().programs[decode].phase != DSV3_PHASE_DECODE)
      ++decode;
  }
  uint32_t prefill() const {
    uint32_t p = 0;
    while (device.module().programs[p].phase != DSV3_PHASE_PREFILL || device.module().programs[p].tokens < sequence.tokens.size())
      ++p;
    return p;
  }
  HostCopy sampled(uint32_t program) const { return {findOutput(device.module().programs[program], "sampled")->ref, sizeof(dsv3_sampled)}; }
  /// Rows from `start` to the end, of which the last chooses the greatest logit.
  Status launch(uint32_t program, int64_t start) {
    StepBuffer buffer(device.module(), device.stepBuffer());
    StepItem item;
    item.sequence = &sequence, item.start = start, item.rows = int64_t(sequence.tokens.size()) - start;
    dsv3_step_host step = buffer.fill(device.module().programs[program], {item});
    dsv3_sampling how = samplingOf({}, int64_t(sequence.tokens.size()));
    how.flags |= DSV3_SAMPLE_ROW;
    buffer.setSampling(0, how);
    return device.launch(program, step, {sampled(program)});
  }
  Result<int32_t> wait(uint32_t program) {
    if (Status s = device.wait(); !s)
      return s.error();
    Result<const void *> got = device.fetch(sampled(program).ref, sizeof(dsv3_sampled));
    if (!got)
      return got.error();
    return static_cast<const dsv3_sampled *>(*got)->id;
  }
};

TEST_F(Cuda, AStepTakesTheTokenOfTheStepBefore) {
  Both artifact;
  Result<OpenedModel> model = open(artifact);
  ASSERT_TRUE(bool(model)) << model.error().message;
  const Ids prompt = {1, 2, 3, 4, 5};
  Ids want = generate(*engineOf(*model), prompt, 8), got;
  ASSERT_GT(std::set<int32_t>(want.begin(), want.end()).size(), 4u) << "tokens that differ";
  Flight flight(*model->device, prompt);
  ASSERT_EQ(model->device->stepsAtOnce(), 2);
  std::string log = artifact.file("calls.txt");
  setenv("FAKE_CUDA_LOG", log.c_str(), 1);
  ASSERT_TRUE(bool(flight.launch(flight.prefill(), 0)));
  uint32_t before = flight.prefill();
  for (int i = 1; i < 8; ++i) {
    flight.sequence.tokens.push_back(-1);
    Status launched = flight.launch(flight.decode, int64_t(flight.sequence.tokens.size()) - 1);
    ASSERT_TRUE(bool(launched)) << launched.error().message;
    Result<int32_t> id = flight.wait(before);
    ASSERT_TRUE(bool(id)) << id.error().message;
    got.push_back(*id);
    before = flight.decode;
  }
  Result<int32_t> last = flight.wait(before);
  unsetenv("FAKE_CUDA_LOG");
  ASSERT_TRUE(bool(last)) << last.error().message;
  got.push_back(*last);
  EXPECT_EQ(got, want);
  std::string step = broughtStep(*model->device), token = brought(sizeof(dsv3_sampled));
  std::vector<std::string> lines = linesOf(log);
  lines.resize(10);
  EXPECT_THAT(lines, ElementsAre(step, "graph", token, step, "graph", token, "wait", step, "graph", token))
      << "the host waits for a step after it has launched the next one";
}

TEST_F(Cuda, StepsInFlightHaveMemoryOfTheirOwn) {
  Both artifact;
  Result<OpenedModel> model = open(artifact);
  ASSERT_TRUE(bool(model)) << model.error().message;
  Flight flight(*model->device, {7, 8, 9});
  uint8_t *first = model->device->stepBuffer();
  ASSERT_TRUE(bool(flight.launch(flight.prefill(), 0)));
  EXPECT_NE(model->device->stepBuffer(), first);
  std::memset(model->device->stepBuffer(), 0x5a, model->device->module().pool_bytes[DSV3_POOL_STEP]);
  Result<int32_t> id = flight.wait(flight.prefill());
  ASSERT_TRUE(bool(id)) << id.error().message;
  EXPECT_EQ(*id, generate(*engineOf(*model), {7, 8, 9}, 1)[0]);
}

TEST_F(Cuda, StepsThatCannotBeLaunched) {
  Both artifact;
  Result<OpenedModel> model = open(artifact);
  ASSERT_TRUE(bool(model)) << model.error().message;
  Device &device = *model->device;
  auto refused = [](const Status &s, const std::string &why) {
    ASSERT_FALSE(bool(s)) << why;
    EXPECT_EQ(s.error().code, ExitCode::Internal);
    EXPECT_THAT(s.error().message, HasSubstr(why));
  };
  refused(device.wait(), "expected a step in flight, got none");
  Flight flight(device, {1, 2, 3});
  flight.sequence.tokens.back() = -1;
  refused(flight.launch(flight.prefill(), 0), "token 2 of the step: expected an id or a sequence that the step before chose a token for, got -1");
  flight.sequence.tokens.back() = 3;
  ASSERT_TRUE(bool(flight.launch(flight.prefill(), 0)));
  flight.sequence.tokens.push_back(-2); // there was one sequence
  refused(flight.launch(flight.decode, 3), "token 0 of the step: expected an id");
  flight.sequence.tokens.back() = -1;
  ASSERT_TRUE(bool(flight.launch(flight.decode, 3)));
  refused(flight.launch(flight.decode, 3), "expected fewer than 2 steps in flight, got 2");
  refused(device.run(0, {}, {}, {}), "expected no step in flight, got 2");
  EXPECT_TRUE(bool(device.wait()));
  EXPECT_TRUE(bool(device.wait()));
  refused(device.wait(), "expected a step in flight, got none");
  ASSERT_TRUE(bool(device.run(0, {}, {}, {})));
  refused(flight.launch(flight.decode, 3), "expected an id or a sequence that the step before chose a token for"); // it had no sequence
}

TEST_F(Cuda, ACpuRunsAStepAtATime) {
  Both artifact;
  Result<OpenedModel> model = open(artifact, "cpu");
  ASSERT_TRUE(bool(model)) << model.error().message;
  Device &device = *model->device;
  EXPECT_EQ(device.stepsAtOnce(), 1);
  uint32_t program = 0;
  while (device.module().programs[program].phase != DSV3_PHASE_DECODE)
    ++program;
  Sequence sequence;
  sequence.tokens = {-1}, sequence.pages = {0};
  StepItem item;
  item.sequence = &sequence, item.rows = 1;
  auto launch = [&] { return device.launch(program, StepBuffer(device.module(), device.stepBuffer()).fill(device.module().programs[program], {item}), {}); };
  Status taken = launch();
  ASSERT_FALSE(bool(taken));
  EXPECT_THAT(taken.error().message, HasSubstr("expected an id or a sequence that the step before chose a token for, got -1"));
  sequence.tokens = {4};
  ASSERT_TRUE(bool(launch()));
  EXPECT_FALSE(bool(launch()));
  EXPECT_FALSE(bool(device.run(program, {}, {}, {})));
  EXPECT_TRUE(bool(device.wait()));
  EXPECT_FALSE(bool(device.wait()));
}

//===-- Loading -----------------------------------------------------------===//

TEST_F(Cuda, EveryProgramIsCapturedAtLoad) {
  Both artifact;
  std::string log = artifact.file("calls.txt");
  setenv("FAKE_CUDA_LOG", log.c_str(), 1);
  Result<OpenedModel> model = open(artifact, "cuda", 6);
  unsetenv("FAKE_CUDA_LOG");
  ASSERT_TRUE(bool(model)) << model.error().message;
  std::vector<std::string> lines = linesOf(log);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "capture head"), 7) << "one in every program";
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "capture sample"), 5) << "one in every program that serves";
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "load cubin"), 8) << "one per kernel";
  uint64_t rows = 6 * uint64_t(fake::kLayers + 1) * fake::kPage * fake::kRow * 4 / 16;
  EXPECT_THAT(lines, testing::Contains("map 4 x " + std::to_string(rows))) << "open maps end where the pool does";
}

TEST_F(Cuda, AFaultOnTheDeviceNamesTheProgram) {
  Both artifact;
  pretend("bad_launch");
  Result<OpenedModel> model = open(artifact);
  ASSERT_TRUE(bool(model)) << model.error().message;
  std::unique_ptr<Engine> engine = engineOf(*model);
  Request r;
  r.prompt = {1};
  ASSERT_TRUE(bool(engine->submit(std::move(r))));
  Status ran = engine->runAll();
  ASSERT_FALSE(bool(ran));
  EXPECT_EQ(ran.error().code, ExitCode::Internal);
  EXPECT_THAT(ran.error().message, AllOf(HasSubstr("program prefill_t8"), HasSubstr("an illegal memory access was encountered (700)")));
}

//===-- What is refused ---------------------------------------------------===//

TEST_F(Cuda, NoDriverNoGpuAnotherGpu) {
  Both artifact;
  pretend("no_device");
  expectRefused(artifact, ExitCode::Unsupported, AllOf(HasSubstr("expected a GPU, got a driver that finds none"), HasSubstr("compile the model for x86-64")));
  pretend("capability=8.0");
  expectRefused(artifact, ExitCode::Unsupported,
                AllOf(HasSubstr("expected a GPU of compute capability 9.0 (sm_90a code runs on no other)"), HasSubstr("got Fake GPU of 8.0")));
  pretend("capability=10.0");
  expectRefused(artifact, ExitCode::Unsupported, HasSubstr("got Fake GPU of 10.0"));
  setenv("DSV3_CUDA_DRIVER", "/no/such/libcuda.so", 1);
  expectRefused(artifact, ExitCode::Unsupported, AllOf(StartsWith("expected an NVIDIA driver (/no/such/libcuda.so), got none"), HasSubstr("compile the model for x86-64")));
  setenv("DSV3_CUDA_DRIVER", fake::modulePath().c_str(), 1);
  expectRefused(artifact, ExitCode::Unsupported, HasSubstr("expected a driver of CUDA 12 or later, got one without cuInit"));
}

TEST_F(Cuda, AnOldDriver) {
  Both artifact;
  pretend("driver=12040");
  expectRefused(artifact, ExitCode::Unsupported, HasSubstr("expected a driver that takes PTX 8.7 (CUDA 12.8 or later), got one of CUDA 12.4"));
}

TEST_F(Cuda, PtxStandsInForMachineCode) {
  Both artifact;
  pretend("no_cubin");
  Result<OpenedModel> model = open(artifact);
  ASSERT_TRUE(bool(model)) << model.error().message;
  EXPECT_THAT(model->notes, ElementsAre("the driver compiled 8 of 8 kernels from PTX: it does not take the machine code: no kernel image is "
                                        "available for execution on the device (209)"));
  pretend("");
  for (Json &kernel : artifact.manifest["targets"][1]["device"]["kernels"])
    kernel.erase("cubin");
  artifact.writeManifest();
  model = open(artifact);
  ASSERT_TRUE(bool(model)) << model.error().message;
  EXPECT_THAT(model->notes, ElementsAre("the driver compiled 8 of 8 kernels from PTX: the artifact has no machine code for them"));
  std::unique_ptr<Engine> engine = engineOf(*model);
  EXPECT_EQ(generate(*engine, {1, 2}, 2).size(), 2u);
}

TEST_F(Cuda, ShortMemoryIsSaidOrRefused) {
  Both artifact;
  Result<OpenedModel> full = open(artifact);
  ASSERT_TRUE(bool(full)) << full.error().message;
  const dsv3_module_desc &d = full->device->module();
  uint64_t page = artifact.manifest["targets"][1]["memory"]["kv_page"], rest = 256;
  for (int pool : {DSV3_POOL_WEIGHTS, DSV3_POOL_ARENA, DSV3_POOL_STEP, DSV3_POOL_PERSIST})
    rest += d.pool_bytes[pool];
  int64_t planned = full->device->kvPages(), one = artifact.manifest["targets"][1]["memory"]["kv_pages_min"];
  full = Error{};
  // A tenth is left to the driver.
  auto memory = [&](int64_t pages) { return "memory=" + std::to_string((rest + uint64_t(pages) * page) * 10 / 9 + 16); };
  pretend(memory(one + 1));
  Result<OpenedModel> model = open(artifact);
  ASSERT_TRUE(bool(model)) << model.error().message;
  EXPECT_EQ(model->device->kvPages(), one + 1);
  EXPECT_THAT(model->notes, ElementsAre(AllOf(HasSubstr("GPU memory holds " + std::to_string(one + 1) + " of " + std::to_string(planned) + " kv pages"),
                                              HasSubstr(std::to_string((one + 1) * 64) + " tokens"))));
  model = Error{};
  pretend(memory(one - 1));
  expectRefused(artifact, ExitCode::DoesNotFit, StartsWith("GPU memory: expected"));
  pretend(memory(one + 1));
  expectRefused(artifact, ExitCode::DoesNotFit, StartsWith("GPU memory: expected"), "cuda", one + 2);
}

TEST_F(Cuda, DamagedOrMissingCode) {
  Both artifact;
  std::ofstream(artifact.file("code/sm_90a/kernels/head.cubin"), std::ios::app) << "x";
  expectRefused(artifact, ExitCode::BadCheckpoint, HasSubstr("head.cubin"));
  Both hashed;
  std::fstream(hashed.file("code/sm_90a/kernels/copy.cubin"), std::ios::in | std::ios::out) << "M";
  expectRefused(hashed, ExitCode::BadCheckpoint, AllOf(HasSubstr("copy.cubin"), HasSubstr("hash")));
  Both missing;
  missing.manifest["targets"][1]["device"]["kernels"].erase(3);
  missing.writeManifest();
  expectRefused(missing, ExitCode::BadCheckpoint, HasSubstr("kernel attend_tiles: expected code for it in the manifest, got none"));
  Both key;
  key.manifest["targets"][1]["device"].erase("verified");
  key.writeManifest();
  expectRefused(key, ExitCode::BadCheckpoint, HasSubstr("targets[1].device.verified"));
}

TEST_F(Cuda, FaultsOfAHostProgram) {
  expectRefused(Both("dsv3_fake_device_bad_map"), ExitCode::BadCheckpoint, AllOf(HasSubstr("launch append"), HasSubstr("a tensor map that reaches out of its pool")));
  expectRefused(Both("dsv3_fake_device_foreign"), ExitCode::BadCheckpoint, AllOf(HasSubstr("launch append"), HasSubstr("tiles for threads in a device's program")));
  expectRefused(Both("dsv3_fake_device_bad_sampled"), ExitCode::BadCheckpoint, HasSubstr("output sampled: expected i32 and 8 columns, got i32 and 4"));
}

//===-- Which device ------------------------------------------------------===//

TEST_F(Cuda, AutoTakesTheFirstTargetThatRuns) {
  Both artifact; // x86-64, sm_90a
  Result<OpenedModel> model = open(artifact, "auto");
  ASSERT_TRUE(bool(model)) << model.error().message;
  EXPECT_EQ(model->artifact->target().name, "x86-64");
  EXPECT_THAT(model->notes, ElementsAre(StartsWith("running x86-64 avx2")));
  std::swap(artifact.manifest["targets"][0], artifact.manifest["targets"][1]);
  artifact.writeManifest();
  model = open(artifact, "auto");
  ASSERT_TRUE(bool(model)) << model.error().message;
  EXPECT_EQ(model->artifact->target().name, "sm_90a");
  pretend("no_device");
  model = open(artifact, "auto");
  ASSERT_TRUE(bool(model)) << model.error().message;
  EXPECT_EQ(model->artifact->target().name, "x86-64");
  EXPECT_THAT(model->notes, ElementsAre(AllOf(StartsWith("running x86-64 avx2"), HasSubstr("; not sm_90a: expected a GPU"))));
}

TEST_F(Cuda, ADeviceThatTheArtifactLacks) {
  Both artifact;
  artifact.manifest["targets"].erase(1);
  artifact.writeManifest();
  expectRefused(artifact, ExitCode::Unsupported, HasSubstr("the artifact has no code for cuda, only for x86-64"));
  Both device;
  device.manifest["targets"].erase(0);
  device.writeManifest();
  expectRefused(device, ExitCode::Unsupported, HasSubstr("the artifact has no code for cpu, only for sm_90a"), "cpu");
  pretend("no_device");
  expectRefused(device, ExitCode::Unsupported, HasSubstr("expected a GPU, got a driver that finds none"), "auto");
}

//===-- Weights that are drawn ------------------------------------------===//

/// The first half of the weights is drawn, the second stored.
struct Drawn : Both {
  explicit Drawn(bool withKernel = true) {
    DummyFill fill;
    fill.tensor = "some.weight";
    fill.elem = fill.stored = DType::F32;
    fill.dims = {{0, 1, kHalf, 0, 1}};
    fill.cols = kHalf;
    fill.terms = {{0, 1, DummyFill::kMostIndex, 1}};
    Json &target = manifest["targets"][1];
    target["weights"]["drawn"] = true;
    target["weights"]["tensors"] = Json::array({{{"name", "drawn"}, {"offset", 0}, {"bytes", kHalf * 4}, {"draw", Json::array({Json::parse(toJson(fill).dump())})}},
                                                {{"name", "kept"}, {"offset", kHalf * 4}, {"bytes", kHalf * 4}, {"stored_at", kHalf * 4}}});
    if (withKernel) {
      std::string text = ".version 8.7 .entry dummy_fill ", path = "code/sm_90a/kernels/dummy_fill.ptx";
      std::ofstream(file(path)) << text;
      target["device"]["kernels"].push_back({{"symbol", "dummy_fill"}, {"ptx", {{"file", path}, {"hash", hashHex(text)}, {"bytes", text.size()}}}});
    }
    writeManifest();
  }
  static constexpr int64_t kHalf = fake::kWeights / 2;
};

TEST_F(Cuda, WeightsAreDrawnByTheArtifactsKernel) {
  Drawn artifact;
  Result<OpenedModel> model = open(artifact);
  ASSERT_TRUE(bool(model)) << model.error().message;
  std::vector<uint32_t> words(fake::kWeights);
  ASSERT_TRUE(bool(model->device->read({DSV3_POOL_WEIGHTS, 0, 0}, words.size() * 4, words.data())));
  for (int64_t i = 0; i < Drawn::kHalf; ++i) {
    EXPECT_EQ(words[size_t(i)], uint32_t(Dummy("some.weight").key()) + uint32_t(i)) << "drawn";
    EXPECT_EQ(words[size_t(Drawn::kHalf + i)], fake::weight(int(Drawn::kHalf + i))) << "stored";
  }
}

TEST_F(Cuda, DrawnWeightsNeedAKernel) {
  expectRefused(Drawn(false), ExitCode::Unsupported, AllOf(HasSubstr("weight drawn"), HasSubstr("a kernel that draws")));
}

TEST_F(Cuda, StopsAtLaunchesAndTimesThem) {
  Both artifact;
  Result<OpenedModel> model = open(artifact);
  ASSERT_TRUE(bool(model)) << model.error().message;
  Device &device = *model->device;
  dsv3_step_host step{};
  std::vector<std::pair<uint32_t, bool>> seen;
  ASSERT_TRUE(bool(device.runByLaunch(0, step, [&](uint32_t launch, bool done) {
    seen.push_back({launch, done});
    return Status();
  })));
  ASSERT_GT(seen.size(), 2u);
  for (size_t i = 0; i < seen.size(); ++i)
    EXPECT_EQ(seen[i], std::make_pair(uint32_t(i / 2), i % 2 == 1));
  Status stopped = device.runByLaunch(0, step, [](uint32_t launch, bool) { return launch == 1 ? Status(internalError("enough")) : Status(); });
  ASSERT_FALSE(bool(stopped));
  EXPECT_THAT(stopped.error().message, HasSubstr("enough"));
  Result<StepTimes> times = device.time(0, step, 3);
  ASSERT_TRUE(bool(times)) << times.error().message;
  EXPECT_EQ(times->launches.size(), seen.size() / 2);
  EXPECT_EQ(times->total, 500.0) << "the fake's half millisecond";
}

} // namespace
