#include "runtime/core/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dsv3 {

static Error systemError(const std::string &path, const char *action) {
  return checkpointError(path + ": cannot " + action + ": " + std::strerror(errno));
}

Result<MappedFile> MappedFile::open(const std::string &path) {
  // Opening a pipe would wait for somebody to write; it is refused below.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return systemError(path, "open");
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};

  struct stat info;
  if (::fstat(fd, &info) != 0)
    return systemError(path, "read");
  if (!S_ISREG(info.st_mode))
    return checkpointError(path + ": expected a regular file");

  MappedFile file;
  file.name = path;
  if (info.st_size == 0) // mmap refuses a length of zero
    return file;
  void *address = ::mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED)
    return systemError(path, "map");
  file.data = static_cast<const char *>(address);
  file.length = size_t(info.st_size);
  return file;
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : name(std::move(other.name)), data(std::exchange(other.data, nullptr)),
      length(std::exchange(other.length, 0)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  if (this != &other) {
    unmap();
    name = std::move(other.name);
    data = std::exchange(other.data, nullptr);
    length = std::exchange(other.length, 0);
  }
  return *this;
}

MappedFile::~MappedFile() { unmap(); }

void MappedFile::unmap() {
  if (data)
    ::munmap(const_cast<char *>(data), length);
}

} // namespace dsv3
