#include "runtime/core/SafetensorsWriter.h"

#include "runtime/core/Json.h"
#include "runtime/core/Safetensors.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>
#include <utility>

namespace dsv3 {

Error SafetensorsWriter::systemError(const char *action) const {
  return usageError("cannot " + std::string(action) + " " + path + ": " + std::strerror(errno));
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
  std::string temporary = path + ".tmp-" + std::to_string(::getpid());
  writer.file = std::fopen(temporary.c_str(), "wb");
  if (!writer.file)
    return writer.systemError("create");
  writer.temporary = std::move(temporary);

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

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter &&other) noexcept
    : path(std::move(other.path)), temporary(std::exchange(other.temporary, {})),
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
  int failed = std::fclose(std::exchange(file, nullptr)); // a full disk may show only here
  if (failed)
    return systemError("write");
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    return systemError("rename to");
  temporary.clear();
  return {};
}

} // namespace dsv3
