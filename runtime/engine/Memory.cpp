#include "runtime/engine/Memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <sys/mman.h>
#include <utility>

namespace dsv3 {

namespace {

constexpr uint64_t kHugePage = uint64_t(2) << 20;

/// The number in a one-number file; nullopt-like maximum for "max", or no file.
uint64_t numberIn(const char *path) {
  std::ifstream file(path);
  uint64_t value;
  return file >> value ? value : std::numeric_limits<uint64_t>::max();
}

uint64_t cgroupRoom() {
  uint64_t limit = numberIn("/sys/fs/cgroup/memory.max");
  uint64_t used = numberIn("/sys/fs/cgroup/memory.current");
  if (limit == std::numeric_limits<uint64_t>::max() || used == limit)
    return limit;
  // Clean page cache is counted as used but given back under pressure.
  std::ifstream stat("/sys/fs/cgroup/memory.stat");
  uint64_t cache = 0, value;
  for (std::string key; stat >> key >> value;)
    if (key == "inactive_file" || key == "active_file")
      cache += value;
  uint64_t firm = used - std::min(used, cache);
  return limit - std::min(limit, firm);
}

uint64_t machineRoom() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    unsigned long long kib;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &kib) == 1)
      return uint64_t(kib) * 1024;
  }
  return std::numeric_limits<uint64_t>::max();
}

} // namespace

Result<Memory> Memory::allocate(uint64_t bytes, const char *what) {
  Memory m;
  // One huge page more, to start at a boundary. Small pools need neither.
  uint64_t align = bytes >= kHugePage ? kHugePage : 4096;
  m.mapped = bytes + align;
  m.mapping =
      mmap(nullptr, m.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m.mapping == MAP_FAILED) {
    m.mapping = nullptr;
    return doesNotFitError(std::string("cannot reserve ") + sizeText(bytes) + " for " + what + ": " +
                           std::strerror(errno));
  }
  uint64_t address = reinterpret_cast<uint64_t>(m.mapping);
  m.start = reinterpret_cast<uint8_t *>((address + align - 1) / align * align);
  if (align == kHugePage)
    madvise(m.start, bytes, MADV_HUGEPAGE); // advice: without it everything still works
  return m;
}

Memory::Memory(Memory &&other) noexcept { *this = std::move(other); }

Memory &Memory::operator=(Memory &&other) noexcept {
  std::swap(mapping, other.mapping);
  std::swap(mapped, other.mapped);
  std::swap(start, other.start);
  return *this;
}

Memory::~Memory() {
  if (mapping)
    munmap(mapping, mapped);
}

uint64_t availableMemory() { return std::min(machineRoom(), cgroupRoom()); }

std::string sizeText(uint64_t bytes) {
  char text[32];
  if (bytes >= uint64_t(1) << 30)
    std::snprintf(text, sizeof text, "%.2f GiB", double(bytes) / (uint64_t(1) << 30));
  else
    std::snprintf(text, sizeof text, "%.2f MiB", double(bytes) / (uint64_t(1) << 20));
  return text;
}

} // namespace dsv3
