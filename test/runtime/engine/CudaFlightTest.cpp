// Steps on their way through the CUDA device while the host launches the next.
#include "CudaRig.h"

#include <cstring>
#include <set>

using namespace dsv3;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

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

} // namespace
