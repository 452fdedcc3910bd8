// A whole file mapped read-only: weights are used where the page cache holds them.
#pragma once

#include "runtime/core/Result.h"

#include <string>
#include <string_view>

namespace dsv3 {

/// Move-only owner of a private read-only mapping. Views into `bytes()` live as long as
/// the object and survive a move of it. Shortening the file on disk while it is mapped
/// makes reads beyond the new end fatal, as with every mapped file.
class MappedFile {
public:
  /// Maps the whole file. An empty file gives empty `bytes()`. Errors (BadCheckpoint)
  /// name the file and the system's reason.
  static Result<MappedFile> open(const std::string &path);

  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  const std::string &path() const { return name; }
  std::string_view bytes() const { return {data, length}; }

private:
  MappedFile() = default;
  void unmap();

  std::string name;
  const char *data = nullptr;
  size_t length = 0;
};

} // namespace dsv3
