#include "tools/flags/Flags.h"

#include "runtime/core/Json.h"
#include "runtime/core/ThreadPool.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace dsv3::flags {

void addMachine(CLI::App &app, OpenOptions &open) {
  const char *group = "Machine";
  app.add_option("--threads", open.threads, "default: all cores, here " + std::to_string(ThreadPool::defaultThreads()))
      ->check(CLI::Range(1, 4096))
      ->group(group);
  app.add_option("--device", open.device, "cpu, cuda, or auto: the first target of the artifact that runs here")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--kv-pages", open.kvPages, "pages of 64 tokens of cache (default: what max_batch sequences need, or what memory holds)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 30))
      ->group(group);
  app.add_option("--cpu-features", open.cpuFeatures, "force a code variant: avx2, avx512, avx512-vnni-bf16, amx")->group(group);
  app.add_flag("--verify", open.verify, "compare the hash of the weights, which reads all of them")->group(group);
}

CLI::Option *addPrefillChunk(CLI::App &app, int64_t &rows) {
  return app.add_option("--prefill-chunk", rows, "most prompt tokens of one sequence in a step (default: the artifact's)")->check(CLI::Range(int64_t(1), int64_t(1) << 30));
}

void refuseEmptyValues(CLI::App &app, const std::vector<std::string> &allowed) {
  for (CLI::Option *option : app.get_options())
    if (std::find(allowed.begin(), allowed.end(), option->get_name()) == allowed.end())
      option->check([](const std::string &value) { return value.empty() ? std::string("expected a value, got an empty string") : std::string(); });
}

std::string checkSeed(const std::string &text) {
  uint64_t seed;
  auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error == std::errc() && stop == text.data() + text.size())
    return "";
  return "expected an integer from 0 to 18446744073709551615, got \"" + printable(text) + "\"";
}

std::string oneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

} // namespace dsv3::flags
