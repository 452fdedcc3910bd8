#include "tools/compile-model/Interrupt.h"

#include <csignal>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>
#include <unistd.h>

namespace dsv3 {

namespace {
std::mutex mutex;
std::vector<std::string> unfinished;
} // namespace

void watchInterrupts() {
  // A handler may not walk a folder; a thread that waits for the signal may.
  sigset_t signals;
  sigemptyset(&signals);
  for (int s : {SIGINT, SIGTERM, SIGHUP})
    sigaddset(&signals, s);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int got = 0;
    sigwait(&signals, &got);
    std::lock_guard<std::mutex> lock(mutex); // held to the end: nothing new may be registered
    std::error_code ignored;
    for (const std::string &folder : unfinished)
      std::filesystem::remove_all(folder, ignored);
    _exit(128 + got);
  }).detach();
}

void removeOnInterrupt(const std::string &folder) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!folder.empty())
    unfinished.push_back(folder);
  else if (!unfinished.empty())
    unfinished.pop_back();
}

} // namespace dsv3
