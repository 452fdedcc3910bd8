#include "frontends/huggingface/Checkpoint.h"

#include "runtime/core/Json.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace dsv3::hf {

namespace fs = std::filesystem;

/// Quotes a name that came from a file.
static std::string quoted(const std::string &name) { return "\"" + printable(name, 200) + "\""; }

/// An index may only name files directly in the folder: it must not make us read (and
/// later copy into an artifact) anything else.
static bool isPlainFileName(const std::string &name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

Result<Checkpoint> Checkpoint::open(const std::string &dir) {
  Checkpoint checkpoint;
  checkpoint.folder = dir;
  std::error_code ec;
  std::string index = (fs::path(dir) / indexFileName).string();
  Status status;
  // symlink_status: a dangling link is a file that cannot be opened, not an absent one.
  if (fs::exists(fs::symlink_status(index, ec))) {
    status = checkpoint.openWithIndex(index);
  } else if (fs::exists(fs::symlink_status(fs::path(dir) / "model.safetensors", ec))) {
    status = checkpoint.openFiles({"model.safetensors"});
    if (status)
      status = checkpoint.collect(nullptr);
  } else {
    status = checkpointError(dir + ": expected " + indexFileName + " or model.safetensors" +
                             (fs::exists(fs::path(dir) / "pytorch_model.bin", ec) ||
                                      fs::exists(fs::path(dir) / "pytorch_model.bin.index.json", ec)
                                  ? ", got PyTorch files: convert them to safetensors"
                                  : ", got neither"));
  }
  if (!status)
    return status.error();
  return checkpoint;
}

Status Checkpoint::openWithIndex(const std::string &indexPath) {
  Result<Json> json = parseJsonFile(indexPath);
  if (!json)
    return json.error();
  if (!json->is_object())
    return checkpointError(indexPath + ": expected an object, got " + describe(*json));
  Result<JsonFields> weightMap = JsonFields(*json, indexPath).child("weight_map");
  if (!weightMap)
    return weightMap.error();

  WeightMap index;
  std::set<std::string> names;
  for (const auto &[tensor, file] : (*json)["weight_map"].items()) {
    if (!file.is_string())
      return checkpointError(indexPath + ": tensor " + printable(tensor, 200) +
                             ": expected a file name, got " + describe(file));
    const auto &name = file.get_ref<const std::string &>();
    if (!isPlainFileName(name))
      return checkpointError(indexPath + ": tensor " + printable(tensor, 200) +
                             ": expected a file name in this folder, got " + quoted(name));
    index.emplace(tensor, name);
    names.insert(name);
  }
  if (names.empty())
    return checkpointError(indexPath + ": weight_map is empty");
  if (Status ok = openFiles({names.begin(), names.end()}); !ok)
    return ok;
  return collect(&index);
}

Status Checkpoint::openFiles(const std::vector<std::string> &names) {
  shards.reserve(names.size());
  for (const std::string &name : names) {
    Result<SafetensorsFile> file = SafetensorsFile::open((fs::path(folder) / name).string());
    if (!file)
      return file.error();
    shards.push_back(std::move(*file));
  }
  return {};
}

Status Checkpoint::collect(const WeightMap *index) {
  for (size_t file = 0; file < shards.size(); ++file)
    for (const StoredTensor &tensor : shards[file].tensors())
      all.push_back({&tensor, file, !index || index->count(tensor.name) != 0});
  if (Status ok = indexNames(); !ok)
    return ok;
  return index ? checkIndex(*index) : Status();
}

Status Checkpoint::indexNames() {
  std::sort(all.begin(), all.end(),
            [](const auto &a, const auto &b) { return a.name() < b.name(); });
  byName.reserve(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    auto [other, fresh] = byName.emplace(all[i].name(), i);
    if (!fresh)
      return checkpointError(folder + ": tensor " + printable(all[i].name(), 200) +
                             " is in both " + fileName(all[other->second]) + " and " +
                             fileName(all[i]));
  }
  return {};
}

Result<Checkpoint> Checkpoint::drawn(const std::string &dir, std::vector<StoredTensor> tensors) {
  Checkpoint checkpoint;
  checkpoint.folder = dir;
  checkpoint.dummies = std::move(tensors);
  for (const StoredTensor &tensor : checkpoint.dummies)
    checkpoint.all.push_back({&tensor, 0, true});
  if (Status ok = checkpoint.indexNames(); !ok)
    return internalError(ok.error().message);
  return checkpoint;
}

Status Checkpoint::checkIndex(const WeightMap &index) const {
  std::string where = (fs::path(folder) / indexFileName).string();
  for (const auto &[name, file] : index) {
    const CheckpointTensor *tensor = find(name);
    if (tensor && fileName(*tensor) == file)
      continue;
    return checkpointError(where + ": tensor " + printable(name, 200) + " should be in " + file +
                           ", " + (tensor ? "but it is in " + fileName(*tensor)
                                          : std::string("but no file holds it")));
  }
  return {};
}

const CheckpointTensor *Checkpoint::find(std::string_view name) const {
  auto it = byName.find(name);
  return it == byName.end() ? nullptr : &all[it->second];
}

std::string Checkpoint::fileName(const CheckpointTensor &tensor) const {
  return isDrawn() ? "dummy" : fs::path(shards[tensor.file].path()).filename().string();
}

} // namespace dsv3::hf
