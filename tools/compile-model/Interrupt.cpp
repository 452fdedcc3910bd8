#include "tools/compile-model/Interrupt.h"

#include <csignal>
#include <filesystem>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace dsv3 {

namespace {
std::mutex mutex;
std::string unfinished;
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
    if (!unfinished.empty())
      std::filesystem::remove_all(unfinished, ignored);
    _exit(128 + got);
  }).detach();
}

void removeOnInterrupt(const std::string &folder) {
  std::lock_guard<std::mutex> lock(mutex);
  unfinished = folder;
}

} // namespace dsv3
