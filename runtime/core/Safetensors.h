// The safetensors file format: 8 bytes of little-endian header length, a JSON header
// (name -> dtype, shape, data_offsets relative to the end of the header), raw data.
// Format: https://huggingface.co/docs/safetensors, "Format".
#pragma once

#include "runtime/core/DType.h"
#include "runtime/core/MappedFile.h"
#include "runtime/core/Result.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dsv3 {

/// "[576, 256]"
std::string shapeText(const std::vector<int64_t> &shape);

/// Product of the dimensions times the element size; nullopt when it exceeds 63 bits or
/// a dimension is negative.
std::optional<uint64_t> tensorBytes(DType dtype, const std::vector<int64_t> &shape);

/// One tensor of an open file. `data` points into the mapping, may be unaligned, and
/// holds exactly the bytes of the shape.
struct StoredTensor {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  std::string_view data;
};

/// A parsed header: the tensors in the order of their data, and `__metadata__`.
struct SafetensorsContent {
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Parses and validates a whole file held in memory; `label` names it in errors. After
/// success the tensors cover the data exactly: known dtypes, sizes that match shapes, no
/// overlap, no hole, no rest. A git-lfs pointer, a web page and an empty file are
/// recognised and named. Every error is BadCheckpoint.
Result<SafetensorsContent> parseSafetensors(std::string_view bytes, const std::string &label);

/// A mapped and validated file. Move-only; views stay valid across moves.
class SafetensorsFile {
public:
  static Result<SafetensorsFile> open(const std::string &path);

  const std::string &path() const { return file.path(); }
  /// In the order of their data.
  const std::vector<StoredTensor> &tensors() const { return content.tensors; }
  const std::map<std::string, std::string> &metadata() const { return content.metadata; }
  /// nullptr when there is no such tensor.
  const StoredTensor *find(std::string_view name) const;

private:
  SafetensorsFile(MappedFile file, SafetensorsContent content);

  MappedFile file;
  SafetensorsContent content;
  std::unordered_map<std::string_view, size_t> byName; // keys live in content.tensors
};

} // namespace dsv3
