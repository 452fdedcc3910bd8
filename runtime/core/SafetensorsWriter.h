// Writes a safetensors file tensor by tensor, without holding the data in memory.
#pragma once

#include "runtime/core/DType.h"
#include "runtime/core/Result.h"

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dsv3 {

/// Usage: `create` with every tensor's name, type and shape, `append` data in that order
/// in pieces of any size, `finish`. The file gets its name only in `finish`; a writer
/// destroyed before that leaves nothing behind.
class SafetensorsWriter {
public:
  struct Tensor {
    std::string name;
    DType dtype;
    std::vector<int64_t> shape;
  };

  /// Writes the header to a temporary file beside `path`. Errors are Usage errors (the
  /// user chose the path) or Internal for bad declarations: equal names, a size overflow.
  static Result<SafetensorsWriter> create(const std::string &path,
                                          const std::vector<Tensor> &tensors,
                                          const std::map<std::string, std::string> &metadata = {});

  SafetensorsWriter(SafetensorsWriter &&other) noexcept;
  SafetensorsWriter &operator=(SafetensorsWriter &&) = delete;
  ~SafetensorsWriter();

  /// The next bytes of the data. More than was declared is an Internal error.
  Status append(const void *data, size_t bytes);

  /// Closes and renames; an existing file at `path` is replaced. Fewer bytes than
  /// declared is an Internal error.
  Status finish();

private:
  SafetensorsWriter() = default;
  Error systemError(const char *action) const;

  std::string path, temporary;
  std::FILE *file = nullptr;
  uint64_t remaining = 0;
};

} // namespace dsv3
