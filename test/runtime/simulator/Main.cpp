// dsv3-simulate [--seed N] [--steps N]: episodes of random traffic until `steps` steps are done. Exit code 1 when a promise
// of the engine was broken; the line printed then repeats the episode.
#include "Simulator.h"

#include <CLI/CLI.hpp>

#include <cstdio>

int main(int argc, char **argv) {
  uint64_t seed = 1, steps = 1'000'000, episode = 4'000;
  CLI::App app("Drives the serving engine over a simulated device and checks its promises after every step.", "dsv3-simulate");
  app.add_option("--seed", seed, "of the first episode")->capture_default_str();
  app.add_option("--steps", steps, "steps in all")->capture_default_str();
  app.add_option("--episode", episode, "steps of an episode")->check(CLI::Range(uint64_t(1), uint64_t(1) << 40))->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  dsv3::sim::Totals totals;
  for (; totals.steps < steps; ++seed) {
    dsv3::sim::Simulator simulator(seed);
    if (auto failure = simulator.run(std::min(episode, steps - totals.steps))) {
      std::fprintf(stderr, "seed %llu (%s): %s\nrepeat: dsv3-simulate --seed %llu --steps %llu --episode %llu\n", (unsigned long long)seed,
                   simulator.describe().c_str(), failure->c_str(), (unsigned long long)seed, (unsigned long long)episode,
                   (unsigned long long)episode);
      return 1;
    }
    totals.add(simulator.totals());
  }
  auto u = [](uint64_t n) { return (unsigned long long)n; };
  std::printf("%llu steps, %llu requests and %llu refused (%llu stop, %llu length, %llu cancelled, %llu error), %llu with prompt probabilities, "
              "%llu preemptions, %llu tokens found in the cache, %llu evictions, %llu faults, %llu overflows\n",
              u(totals.steps), u(totals.requests), u(totals.refused), u(totals.finished[0]), u(totals.finished[1]), u(totals.finished[2]),
              u(totals.finished[3]), u(totals.scored), u(totals.preemptions), u(totals.hits), u(totals.evictions), u(totals.faults), u(totals.overflows));
  // Traffic that no longer reaches these proves nothing about them.
  const bool covered = steps < 200'000 || (totals.preemptions && totals.hits && totals.evictions && totals.faults && totals.scored && totals.refused && totals.overflows &&
                                           totals.finished[0] && totals.finished[1] && totals.finished[2] && totals.finished[3]);
  if (!covered)
    std::fprintf(stderr, "expected traffic of every kind, got none of some\n");
  return covered ? 0 : 1;
}
