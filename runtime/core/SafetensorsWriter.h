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
/// in pieces of any size, `finish`. The file gets its name only in `finish`: a writer
/// destroyed before that leaves nothing behind, and neither does a killed process where
/// the file system has unnamed files (O_TMPFILE; not NFS).
class SafetensorsWriter {
public:
  struct Tensor {
    std::string name;
    DType dtype;
    std::vector<int64_t> shape;
  };

  /// The file that writing to `path` makes or replaces: symbolic links are followed, the
  /// last one may dangle. Usage error when something other than a regular file is there,
  /// which a rename would destroy.
  static Result<std::string> target(const std::string &path);

  /// Writes the header to a temporary file beside the target of `path`. Errors are Usage
  /// errors (the user chose the path) or Internal for bad declarations: equal names, a
  /// size overflow.
  static Result<SafetensorsWriter> create(const std::string &path,
                                          const std::vector<Tensor> &tensors,
                                          const std::map<std::string, std::string> &metadata = {});

  SafetensorsWriter(SafetensorsWriter &&other) noexcept;
  SafetensorsWriter &operator=(SafetensorsWriter &&) = delete;
  ~SafetensorsWriter();

  /// The next bytes of the data. More than was declared is an Internal error.
  Status append(const void *data, size_t bytes);

  /// Names the file; an existing one is replaced. Fewer bytes than
  /// declared is an Internal error.
  Status finish();

private:
  SafetensorsWriter() = default;
  Error systemError(const char *action) const;
  std::string temporaryName() const;
  Status open();

  std::string path;      ///< as the user wrote it
  std::string resolved;  ///< of `path`
  std::string temporary; ///< a name to remove, if there is one
  std::FILE *file = nullptr;
  uint64_t remaining = 0;
};

} // namespace dsv3
