// The matrices of one layer, and the rows that meet them.
#pragma once

#include "codegen/emit/WeightData.h"
#include "frontends/quantize/Inputs.h"
#include "passes/specialize/Observers.h"
#include "tools/compile-model/quantize/Observe.h"

#include <map>
#include <memory>

namespace dsv3 {

using InputsPtr = std::shared_ptr<const quantize::Inputs>;

/// Reads one matrix at a time. Expert `e` of a stack is member e; other linears have member 0 alone.
class LayerData {
public:
  /// `module` is the model as imported, in float32; `states` those of the layer run as layer 0, empty without calibration.
  LayerData(mlir::ModuleOp module, const WeightData &data, int64_t layer, const LayerStates &states);

  bool isCalibrated() const { return !states.empty(); }
  /// The linears of this layer, by weight.
  const std::map<std::string, ObservedLinear> &linears() const { return observed; }

  Result<quantize::Matrix> matrix(const std::string &weight, int64_t member) const;
  Result<quantize::Vector> vector(const std::string &weight) const;

  /// What the linear reads; null without calibration. Linears that read the same rows, one after the other, get the same object.
  Result<InputsPtr> inputs(const std::string &weight, int64_t member);
  /// Tokens that were sent to each expert of the routing.
  std::vector<int64_t> tokensOfExperts(const std::string &routing, int64_t experts) const;

private:
  const quantize::Matrix *state(const std::string &name) const;
  Result<quantize::Matrix> rowsOf(const ObservedLinear &linear, int64_t member) const;
  quantize::Matrix routedRows(const quantize::Matrix &input, const quantize::Matrix &ids, int64_t expert) const;

  const WeightData &data;
  const std::string prefix;
  const LayerStates &states;
  std::map<std::string, ObservedLinear> observed;
  std::string cacheKey;
  InputsPtr cache;
};

/// Rows [first, first + rows) of a weight.
Result<quantize::Matrix> readMatrix(const WeightReader &reader, int64_t first, int64_t rows);

} // namespace dsv3
