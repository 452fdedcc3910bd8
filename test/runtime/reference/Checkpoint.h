// Tensors of safetensors files as arrays of the reference, for its tests.
#pragma once

#include "runtime/core/Safetensors.h"
#include "runtime/reference/Quantize.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace dsv3::reference {

class Checkpoint {
public:
  explicit Checkpoint(const std::vector<std::string> &paths) {
    for (const std::string &path : paths) {
      Result<SafetensorsFile> file = SafetensorsFile::open(path);
      if (file)
        files.push_back(std::move(*file));
      else
        ADD_FAILURE() << file.error().message;
    }
  }

  /// All shards of a checkpoint folder.
  static Checkpoint folder(const std::string &path) {
    std::vector<std::string> shards;
    for (const auto &entry : std::filesystem::directory_iterator(path))
      if (entry.path().extension() == ".safetensors")
        shards.push_back(entry.path().string());
    return Checkpoint(shards);
  }

  bool has(const std::string &name) const { return find(name) != nullptr; }

  /// A tensor's numbers as stored, widened to T.
  template <typename T> Result<Array<T>> plain(const std::string &name) const {
    const StoredTensor *t = find(name);
    if (!t)
      return checkpointError(name + " is missing");
    Array<T> a(t->shape);
    for (int64_t i = 0; i < a.size(); ++i)
      a.data[i] = T(loadAsFloat(t->dtype, t->data.data(), size_t(i)));
    return a;
  }

  /// A weight; FP8 ones times their block scales in float32, as a recipe does.
  template <typename T> Result<Array<T>> weight(const std::string &name) const {
    const StoredTensor *t = find(name);
    if (!t || t->dtype != DType::F8E4M3)
      return plain<T>(name);
    Result<Array<float>> data = plain<float>(name), scale = plain<float>(name + "_scale_inv");
    if (!data || !scale)
      return data ? scale.error() : data.error();
    Result<Array<float>> w = dequantize(Quantized<float>{std::move(*data), std::move(*scale), {}});
    if (!w)
      return w.error();
    return Array<T>(w->shape, std::vector<T>(w->data.begin(), w->data.end()));
  }

  Ids ids(const std::string &name) const {
    const StoredTensor *t = find(name);
    if (!t || t->dtype != DType::I32) {
      ADD_FAILURE() << name << " is missing or not I32";
      return {};
    }
    Ids a(t->shape);
    std::memcpy(a.data.data(), t->data.data(), t->data.size());
    return a;
  }

private:
  const StoredTensor *find(const std::string &name) const {
    for (const SafetensorsFile &file : files)
      if (const StoredTensor *t = file.find(name))
        return t;
    return nullptr;
  }

  std::vector<SafetensorsFile> files;
};

} // namespace dsv3::reference
