// The safetensors files of a checkpoint folder as one set of named tensors.
#pragma once

#include "runtime/core/Safetensors.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dsv3::hf {

/// One tensor of the folder. The strings and views belong to the Checkpoint.
struct CheckpointTensor {
  const StoredTensor *stored;
  size_t file;  ///< index into Checkpoint::files()
  bool indexed; ///< listed in model.safetensors.index.json (true when there is no index)

  const std::string &name() const { return stored->name; }
  DType dtype() const { return stored->dtype; }
  const std::vector<int64_t> &shape() const { return stored->shape; }
  std::string_view data() const { return stored->data; }
};

/// DIR/model.safetensors.index.json with the shards it names, or else the single
/// DIR/model.safetensors. All data stays mapped.
class Checkpoint {
public:
  /// Opens and validates every shard. BadCheckpoint when a file is missing or damaged, the
  /// index names a tensor its file lacks or a file outside the folder, or two files hold
  /// the same tensor. A tensor that the index does not list is kept with `indexed` false:
  /// whether that matters depends on whether the model needs it.
  static Result<Checkpoint> open(const std::string &dir);

  /// A checkpoint without files: what its tensors hold is drawn (runtime/core/Dummy.h), their `data` is empty. Internal error
  /// when a name comes twice.
  static Result<Checkpoint> drawn(const std::string &dir, std::vector<StoredTensor> tensors);
  bool isDrawn() const { return shards.empty(); }

  const std::string &dir() const { return folder; }
  /// Sorted by file name.
  const std::vector<SafetensorsFile> &files() const { return shards; }
  /// Sorted by name.
  const std::vector<CheckpointTensor> &tensors() const { return all; }
  /// nullptr when there is no such tensor.
  const CheckpointTensor *find(std::string_view name) const;
  /// The file's name without the folder; "dummy" of a drawn tensor.
  std::string fileName(const CheckpointTensor &tensor) const;

private:
  Checkpoint() = default;
  using WeightMap = std::unordered_map<std::string, std::string>;

  Status openWithIndex(const std::string &indexPath);
  Status openFiles(const std::vector<std::string> &names);
  Status collect(const WeightMap *index);
  Status checkIndex(const WeightMap &index) const;

  std::string folder;
  Status indexNames();

  std::vector<SafetensorsFile> shards;
  std::vector<StoredTensor> dummies; // without files
  std::vector<CheckpointTensor> all;
  std::unordered_map<std::string_view, size_t> byName; // keys live in `shards` or `dummies`
};

inline constexpr const char *indexFileName = "model.safetensors.index.json";

} // namespace dsv3::hf
