// The linears of one layer through the algorithm.
#pragma once

#include "codegen/emit/WeightData.h"
#include "frontends/huggingface/Model.h"
#include "frontends/quantize/CheckpointWriter.h"
#include "tools/compile-model/quantize/Factors.h"
#include "tools/compile-model/quantize/Report.h"

#include <map>

namespace dsv3 {

/// Everything of a layer, ready to be written.
struct QuantizedLayer {
  std::vector<quantize::OutTensor> tensors;
  std::vector<std::string> taken; ///< the checkpoint tensors that these are made of
  std::map<std::string, quantize::StoredModule> stored;
  std::vector<LinearReport> report;
};

class LayerQuantizer {
public:
  /// All of them must outlive this; `module` is `model` as imported, in float32.
  LayerQuantizer(const hf::Model &model, mlir::ModuleOp module, const WeightData &data, const DecisionTable &decisions, quantize::Algorithm algorithm)
      : model(model), module(module), data(data), decisions(decisions), algorithm(algorithm) {}

  /// `states` are those of the layer run as layer 0; empty without calibration.
  Result<QuantizedLayer> run(int64_t layer, const LayerStates &states);

private:
  class Run;

  const hf::Model &model;
  mlir::ModuleOp module;
  const WeightData &data;
  const DecisionTable &decisions;
  quantize::Algorithm algorithm;
};

/// What enters the decoder layer of the MTP module: eh_proj [enorm(embed(t[i+1])) | hnorm(h[i])], from what left the last layer.
/// `rows` are replaced; sequences lose their last row, which has no next token.
Status enterMtp(const hf::Model &model, const WeightData &data, std::vector<std::vector<int32_t>> &text, quantize::Matrix &rows);

} // namespace dsv3
