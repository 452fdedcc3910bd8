// An engine over the fake module, and what the module says without engine or cache.
#pragma once

#include "FakeArtifact.h"
#include "FakeModel.h"
#include "runtime/engine/CpuDevice.h"
#include "runtime/engine/Engine.h"

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace dsv3 {

using Ids = std::vector<int32_t>;

inline Ids randomIds(int count, int seed) {
  std::mt19937 random(seed);
  Ids ids(count);
  for (int32_t &id : ids)
    id = int32_t(random() % fake::kVocab);
  return ids;
}

inline int32_t greedy(uint32_t hidden) {
  int best = 0;
  for (int v = 1; v < fake::kVocab; ++v)
    if (fake::logit(hidden, v) > fake::logit(hidden, best))
      best = v;
  return best;
}

/// `count` greedy tokens after `ids`, without engine or cache.
inline Ids expectedTokens(Ids ids, int count) {
  Ids out;
  for (int i = 0; i < count; ++i) {
    out.push_back(greedy(fake::expected(ids).hidden.back()));
    ids.push_back(out.back());
  }
  return out;
}

/// The same of a module where some rows overflow: how many tokens come before the first that does, or all of `count`.
inline Ids tokensBeforeOverflow(Ids ids, int count) {
  Ids out;
  for (int i = 0; i < count; ++i) {
    const uint32_t hidden = fake::expected(ids).hidden.back();
    if (fake::notFinite(hidden))
      break;
    out.push_back(greedy(hidden));
    ids.push_back(out.back());
  }
  return out;
}

struct Rig {
  fake::FakeArtifact folder;
  Artifact artifact;
  std::unique_ptr<CpuDevice> device;
  std::unique_ptr<Engine> engine;

  explicit Rig(int64_t chunk = 0, int64_t pages = 0, int threads = 2, const std::string &module = "dsv3_fake_good")
      : Rig(optionsOf(chunk), pages, threads, module) {}

  explicit Rig(const Engine::Options &engineOptions, int64_t pages = 0, int threads = 2, const std::string &module = "dsv3_fake_good")
      : folder(fake::modulePath(module)), artifact(std::move(*Artifact::open(folder.path(), {}))) {
    CpuDevice::Options options;
    options.threads = threads;
    options.kvPages = pages;
    device = std::move(*CpuDevice::create(artifact, options));
    engine = std::move(*Engine::create(*device, artifact.manifest(), engineOptions));
  }

  static Engine::Options optionsOf(int64_t chunk) {
    Engine::Options options;
    options.scheduling.prefillChunk = chunk;
    return options;
  }
};

struct Outcome {
  Ids ids;
  std::vector<double> logprobs;
  std::optional<FinishReason> reason;
  std::optional<Error> error;
};

inline Request request(const Ids &prompt, int maxTokens, Outcome &outcome) {
  Request r;
  r.prompt = prompt;
  r.maxTokens = maxTokens;
  r.onToken = [&outcome](const SampledToken &t) {
    outcome.ids.push_back(t.id);
    outcome.logprobs.push_back(t.logprob);
    return true;
  };
  r.onError = [&outcome](const Error &error) { outcome.error = error; };
  r.onFinish = [&outcome](FinishReason reason) { outcome.reason = reason; };
  return r;
}

} // namespace dsv3
