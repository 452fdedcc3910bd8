// A directory that appears whole or not at all.
#pragma once

#include "runtime/core/Result.h"

#include <string>
#include <vector>

namespace dsv3 {

/// Content is written to `OUT.tmp-PID` beside the target and renamed by `commit`. Without
/// `commit` the destructor removes it, so a failed run leaves nothing behind.
class OutputDir {
public:
  struct Options {
    bool force = false; ///< replace an existing output
    /// A file that an output of this kind contains. `force` refuses to replace a
    /// directory without it: a mistyped `-o ~` must not delete a home directory.
    std::string marker = "manifest.json";
    /// Everything that an output of this kind contains. `force` refuses to replace a directory that holds anything
    /// else: somebody's data, or the very checkpoint that is being read. Empty: not checked.
    std::vector<std::string> entries = {"manifest.json", "code", "weights", "tokenizer"};
  };

  /// Creates the temporary directory. Usage errors: the target exists (without `force`,
  /// or not ours), or its parent does not exist or cannot be written; each names the path.
  static Result<OutputDir> create(const std::string &target, const Options &options);

  OutputDir(OutputDir &&other) noexcept;
  OutputDir &operator=(OutputDir &&) = delete;
  ~OutputDir();

  /// Where to write.
  const std::string &path() const { return temporary; }

  /// Renames to the target; an old output is replaced. On failure the old one stays.
  Status commit();

private:
  OutputDir() = default;

  Options options;
  std::string target, temporary;
};

} // namespace dsv3
