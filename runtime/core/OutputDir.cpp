#include "runtime/core/OutputDir.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <unistd.h>
#include <utility>

namespace dsv3 {

namespace fs = std::filesystem;

/// The path without trailing slashes, so that "out/" gets its temporary beside it, not
/// inside it.
static std::string withoutTrailingSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  return path;
}

static Status checkExisting(const fs::path &target, const OutputDir::Options &options) {
  std::error_code ec;
  fs::file_status status = fs::symlink_status(target, ec);
  if (!fs::exists(status))
    return {};
  if (!options.force)
    return usageError(target.string() + " exists: use --force to replace it");
  bool empty = fs::is_directory(status) && fs::is_empty(target, ec) && !ec;
  bool ours = fs::is_directory(status) && fs::exists(target / options.marker, ec);
  if (!empty && !ours)
    return usageError(target.string() + " exists and has no " + options.marker +
                      ": --force replaces only earlier outputs");
  if (!empty && !options.entries.empty())
    for (const fs::directory_entry &entry : fs::directory_iterator(target, ec)) {
      std::string name = entry.path().filename().string();
      if (std::find(options.entries.begin(), options.entries.end(), name) == options.entries.end())
        return usageError(target.string() + " exists and holds " + name + ": --force replaces only earlier outputs");
    }
  return {};
}

Result<OutputDir> OutputDir::create(const std::string &target, const Options &options) {
  if (target.empty())
    return usageError("expected an output path, got an empty string");
  OutputDir dir;
  dir.options = options;
  dir.target = withoutTrailingSlash(target);
  if (Status ok = checkExisting(dir.target, options); !ok)
    return ok.error();

  fs::path parent = fs::path(dir.target).parent_path();
  if (parent.empty())
    parent = ".";
  std::error_code ec;
  if (!fs::is_directory(parent, ec))
    return usageError("cannot write " + dir.target + ": " + parent.string() +
                      " is not an existing directory");
  std::string temporary = dir.target + ".tmp-" + std::to_string(::getpid());
  fs::remove_all(temporary, ec); // left by a killed process that had our number
  if (!fs::create_directory(temporary, ec))
    return usageError("cannot write into " + parent.string() + ": " +
                      (ec ? ec.message() : temporary + " exists"));
  dir.temporary = std::move(temporary);
  return dir;
}

OutputDir::OutputDir(OutputDir &&other) noexcept
    : options(std::move(other.options)), target(std::move(other.target)),
      temporary(std::exchange(other.temporary, {})) {}

OutputDir::~OutputDir() {
  if (temporary.empty())
    return;
  std::error_code ec;
  fs::remove_all(temporary, ec);
}

Status OutputDir::commit() {
  // Asked again: compiling takes a while, and somebody may have come first.
  if (Status ok = checkExisting(target, options); !ok)
    return ok.error();
  std::error_code ec;
  std::string old = target + ".old-" + std::to_string(::getpid());
  bool replace = fs::exists(fs::symlink_status(target, ec));
  if (replace) {
    fs::rename(target, old, ec);
    if (ec)
      return usageError("cannot replace " + target + ": " + ec.message());
  }
  fs::rename(temporary, target, ec);
  if (ec) {
    std::string reason = ec.message();
    if (replace)
      fs::rename(old, target, ec);
    return usageError("cannot create " + target + ": " + reason);
  }
  temporary.clear();
  if (replace)
    fs::remove_all(old, ec);
  return {};
}

} // namespace dsv3
