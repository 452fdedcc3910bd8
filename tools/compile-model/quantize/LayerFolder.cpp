#include "tools/compile-model/quantize/LayerFolder.h"

#include "codegen/emit/Package.h"
#include "runtime/core/Json.h"
#include "runtime/core/SafetensorsWriter.h"

#include <filesystem>

namespace dsv3 {

namespace {

struct Piece {
  SafetensorsWriter::Tensor tensor;
  std::string_view data;
};

/// The layer's tensors under the names that they have in layer 0.
void addWeight(const hf::Model &model, const hf::Weight &weight, std::vector<Piece> &pieces) {
  const std::string from = "model.layers." + std::to_string(weight.spec.layer) + ".";
  auto add = [&](const std::string &name) {
    if (const hf::CheckpointTensor *t = model.checkpoint->find(name))
      pieces.push_back({{"model.layers.0." + name.substr(from.size()), t->dtype(), t->shape()}, t->data()});
  };
  for (int64_t e = 0; e < std::max<int64_t>(1, weight.spec.members); ++e) {
    add(weight.tensor(e));
    if (weight.scheme)
      add(weight.scaleTensor(e));
  }
}

/// A layer of its own has neither a later module nor text.
Status writeConfig(const hf::Model &model, int64_t layer, int64_t rows, const std::string &folder) {
  Result<Json> config = parseJsonFile(model.checkpoint->dir() + "/config.json");
  if (!config)
    return config.error();
  Json &c = *config;
  c["num_hidden_layers"] = 1;
  c["first_k_dense_replace"] = layer >= model.config.layers || model.config.isMoe(layer) ? 0 : 1;
  c["moe_layer_freq"] = 1;
  c["num_nextn_predict_layers"] = 0;
  c["vocab_size"] = rows;
  c["tie_word_embeddings"] = true; // the head is not run
  for (const char *token : {"bos_token_id", "eos_token_id", "pad_token_id"})
    c.erase(token);
  return writeText(folder + "/config.json", c.dump(1));
}

} // namespace

Status writeLayerFolder(const hf::Model &model, int64_t layer, const quantize::Matrix &rows, const std::string &folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return usageError("cannot make '" + folder + "': " + error.message());
  const int64_t hidden = model.config.hidden;
  const std::vector<float> ones(static_cast<size_t>(hidden), 1.0f);
  std::vector<Piece> pieces = {
      {{"model.embed_tokens.weight", DType::F32, {rows.rows(), hidden}}, {reinterpret_cast<const char *>(rows.data()), size_t(rows.size()) * sizeof(float)}},
      {{"model.norm.weight", DType::F32, {hidden}}, {reinterpret_cast<const char *>(ones.data()), ones.size() * sizeof(float)}}};
  for (const hf::Weight &weight : model.tensors.weights)
    if (weight.spec.layer == layer && weight.spec.role < hf::Role::MtpEmbedding)
      addWeight(model, weight, pieces);
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const Piece &piece : pieces)
    tensors.push_back(piece.tensor);
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(folder + "/model.safetensors", tensors);
  if (!writer)
    return writer.error();
  for (const Piece &piece : pieces)
    if (Status s = writer->append(piece.data.data(), piece.data.size()); !s)
      return s;
  if (Status s = writer->finish(); !s)
    return s;
  return writeConfig(model, layer, rows.rows(), folder);
}

} // namespace dsv3
