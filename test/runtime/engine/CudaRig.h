// The CUDA device over a driver that keeps its books in host memory (FakeCuda.cpp): no GPU is needed.
#pragma once

#include "Rig.h"
#include "runtime/core/Hash.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/cuda/OpenDevice.h"
#include "runtime/engine/ModuleCheck.h"
#include "runtime/engine/StepBuffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace dsv3 {

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

inline Ids generate(Engine &engine, const Ids &prompt, int count) {
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

inline std::unique_ptr<Engine> engineOf(OpenedModel &model) { return std::move(*Engine::create(*model.device, model.artifact->manifest(), {})); }

/// The fake's lines for the runtime's own kernel.
inline std::string brought(uint64_t bytes) { return "launch step_copy " + std::to_string(bytes); }
inline std::string broughtStep(const Device &device) { return brought((256 + device.module().pool_bytes[DSV3_POOL_STEP] + 15) / 16 * 16); }

} // namespace dsv3
