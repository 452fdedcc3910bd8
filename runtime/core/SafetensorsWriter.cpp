#include "runtime/core/SafetensorsWriter.h"

#include "runtime/core/Json.h"
#include "runtime/core/Safetensors.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <utility>

namespace dsv3 {

namespace fs = std::filesystem;

static const char *typeName(fs::file_type type) {
  switch (type) {
  case fs::file_type::directory: return "a folder";
  case fs::file_type::fifo: return "a fifo";
  case fs::file_type::socket: return "a socket";
  case fs::file_type::block:
  case fs::file_type::character: return "a device";
  default: return "a file of another kind";
  }
}

Result<std::string> SafetensorsWriter::target(const std::string &path) {
  std::error_code error;
  fs::file_status status = fs::status(path, error); // follows links, magic ones of /proc too
  if (fs::exists(status) && !fs::is_regular_file(status))
    return usageError(path + ": expected a regular file or a new name, got " + typeName(status.type()));
  fs::path file = path;
  for (int links = 0; fs::is_symlink(fs::symlink_status(file, error)); ++links) {
    fs::path next = fs::read_symlink(file, error);
    if (error || links == 40) // as many as Linux follows
      return usageError(path + ": expected a file, got a symbolic link that leads nowhere");
    file = file.parent_path() / next;
  }
  // The folder without links, so that targets can be compared; a missing one stays as it is.
  fs::path folder = fs::canonical(file.has_parent_path() ? file.parent_path() : ".", error);
  return error ? file.string() : (folder / file.filename()).string();
}

Error SafetensorsWriter::systemError(const char *action) const {
  const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  const std::string text = "cannot " + std::string(action) + " " + path + ": " + std::strerror(errno);
  return full ? doesNotFitError(text) : usageError(text);
}

/// The header's JSON, and the number of data bytes it declares.
static Result<std::pair<std::string, uint64_t>>
makeHeader(const std::vector<SafetensorsWriter::Tensor> &tensors,
           const std::map<std::string, std::string> &metadata) {
  Json header = Json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const SafetensorsWriter::Tensor &t : tensors) {
    std::optional<uint64_t> bytes = tensorBytes(t.dtype, t.shape);
    uint64_t end;
    if (!bytes || __builtin_add_overflow(offset, *bytes, &end))
      return internalError("tensor " + t.name + ": shape " + shapeText(t.shape) +
                           " overflows 64 bits");
    if (t.name == "__metadata__" || header.contains(t.name))
      return internalError("tensor " + t.name + " is declared twice or reserved");
    header[t.name] = {{"dtype", std::string(safetensorsName(t.dtype))},
                      {"shape", t.shape},
                      {"data_offsets", {offset, end}}};
    offset = end;
  }
  // Names are ours or come from JSON, so they are UTF-8; `replace` keeps dump from
  // throwing if that is ever untrue.
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' '); // the data starts aligned
  return std::pair(std::move(text), offset);
}

Result<SafetensorsWriter>
SafetensorsWriter::create(const std::string &path, const std::vector<Tensor> &tensors,
                          const std::map<std::string, std::string> &metadata) {
  auto header = makeHeader(tensors, metadata);
  if (!header)
    return header.error();
  SafetensorsWriter writer;
  writer.path = path;
  auto resolved = target(path);
  if (!resolved)
    return resolved.error();
  writer.resolved = std::move(*resolved);
  if (Status ok = writer.open(); !ok)
    return ok.error();

  unsigned char length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = (unsigned char)(uint64_t(header->first.size()) >> (8 * i));
  writer.remaining = sizeof length + header->first.size() + header->second;
  if (Status ok = writer.append(length, sizeof length); !ok)
    return ok.error();
  if (Status ok = writer.append(header->first.data(), header->first.size()); !ok)
    return ok.error();
  return writer;
}

std::string SafetensorsWriter::temporaryName() const {
  return resolved + ".tmp-" + std::to_string(::getpid());
}

static std::string procPath(int descriptor) { return "/proc/self/fd/" + std::to_string(descriptor); }

Status SafetensorsWriter::open() {
  fs::path folder = fs::path(resolved).parent_path();
  int unnamed = ::open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (unnamed >= 0) {
    // Without /proc `finish` could not name it.
    file = ::access(procPath(unnamed).c_str(), F_OK) == 0 ? ::fdopen(unnamed, "wb") : nullptr;
    if (file)
      return {};
    ::close(unnamed);
  }
  std::string name = temporaryName();
  file = std::fopen(name.c_str(), "wb");
  if (!file)
    return systemError("create");
  temporary = std::move(name);
  return {};
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter &&other) noexcept
    : path(std::move(other.path)), resolved(std::move(other.resolved)),
      temporary(std::exchange(other.temporary, {})),
      file(std::exchange(other.file, nullptr)), remaining(other.remaining) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (file)
    std::fclose(file);
  if (!temporary.empty())
    std::remove(temporary.c_str());
}

Status SafetensorsWriter::append(const void *data, size_t bytes) {
  if (bytes > remaining)
    return internalError(path + ": " + std::to_string(bytes) + " bytes appended, " +
                         std::to_string(remaining) + " were left");
  if (bytes && std::fwrite(data, 1, bytes, file) != bytes)
    return systemError("write");
  remaining -= bytes;
  return {};
}

Status SafetensorsWriter::finish() {
  if (remaining)
    return internalError(path + ": " + std::to_string(remaining) + " declared bytes are missing");
  if (std::fflush(file) != 0)
    return systemError("write");
  if (temporary.empty()) {
    // linkat replaces nothing, so a short-lived name comes first; a process of the same
    // number may have left it.
    std::string name = temporaryName();
    std::remove(name.c_str());
    if (::linkat(AT_FDCWD, procPath(::fileno(file)).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return systemError("create");
    temporary = std::move(name);
  }
  if (std::fclose(std::exchange(file, nullptr)) != 0) // a full disk may show only here
    return systemError("write");
  if (std::rename(temporary.c_str(), resolved.c_str()) != 0)
    return systemError("rename to");
  temporary.clear();
  return {};
}

} // namespace dsv3
