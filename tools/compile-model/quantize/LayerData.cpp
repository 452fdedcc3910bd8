#include "tools/compile-model/quantize/LayerData.h"

#include <cmath>

namespace dsv3 {

using quantize::Matrix;

Result<Matrix> readMatrix(const WeightReader &reader, int64_t first, int64_t rows) {
  Matrix w(rows, reader.cols());
  for (int64_t r = 0; r < rows; ++r)
    if (Status s = reader.values(first + r, 0, w.cols(), &w(r, 0)); !s)
      return s.error();
  return w;
}

LayerData::LayerData(mlir::ModuleOp module, const WeightData &data, int64_t layer, const LayerStates &states)
    : data(data), prefix("l" + std::to_string(layer) + "."), states(states) {
  for (const ObservedLinear &linear : observedLinears(module))
    if (linear.weight.compare(0, prefix.size(), prefix) == 0)
      observed[linear.weight] = linear;
}

Result<Matrix> LayerData::matrix(const std::string &weight, int64_t member) const {
  auto reader = data.open(weight);
  if (!reader)
    return reader.error();
  int64_t n = (*reader)->shape()[(*reader)->shape().size() - 2];
  return readMatrix(**reader, member * n, n);
}

Result<quantize::Vector> LayerData::vector(const std::string &weight) const {
  auto reader = data.open(weight);
  if (!reader)
    return reader.error();
  quantize::Vector v((*reader)->cols());
  if (Status s = (*reader)->values(0, 0, v.size(), v.data()); !s)
    return s.error();
  return v;
}

/// "l3.input_norm" as the layer's own run calls it.
const Matrix *LayerData::state(const std::string &name) const {
  auto it = name.size() > prefix.size() ? states.find("l0." + name.substr(prefix.size())) : states.end();
  return it == states.end() ? nullptr : &it->second;
}

static bool goesTo(const Matrix &ids, int64_t token, int64_t expert) { return (ids.row(token).array() == float(expert)).any(); }

Matrix LayerData::routedRows(const Matrix &input, const Matrix &ids, int64_t expert) const {
  std::vector<int64_t> chosen;
  for (int64_t t = 0; t < ids.rows(); ++t)
    if (goesTo(ids, t, expert))
      chosen.push_back(t);
  Matrix rows(int64_t(chosen.size()), input.cols());
  for (size_t i = 0; i < chosen.size(); ++i)
    rows.row(int64_t(i)) = input.row(chosen[i]);
  return rows;
}

std::vector<int64_t> LayerData::tokensOfExperts(const std::string &routing, int64_t experts) const {
  std::vector<int64_t> counts(size_t(experts), 0);
  if (const Matrix *ids = state(routing))
    for (int64_t i = 0; i < ids->size(); ++i)
      ++counts[size_t(ids->data()[i])];
  return counts;
}

/// Sums of squares of what a linear reads must be finite: with others no algorithm ends.
static Status expectMultipliable(const Matrix &rows, const std::string &weight) {
  constexpr float most = 1e15f;
  for (int64_t t = 0; t < rows.rows(); ++t)
    for (int64_t k = 0; k < rows.cols(); ++k)
      if (!(std::fabs(rows(t, k)) <= most))
        return checkpointError("calibration: expected " + weight + " to read numbers up to 1e15, got " + std::to_string(rows(t, k)) + " for token " +
                               std::to_string(t) + ", channel " + std::to_string(k));
  return {};
}

static Matrix swiglu(const Matrix &gate, const Matrix &up) {
  return (gate.array() / (1 + (-gate.array()).exp()) * up.array()).matrix();
}

Result<Matrix> LayerData::rowsOf(const ObservedLinear &linear, int64_t member) const {
  const Matrix *rows = state(linear.input), *ids = state(linear.routing);
  if ((!linear.input.empty() && !rows) || (!linear.routing.empty() && !ids))
    return internalError("calibration: no observer of what " + linear.weight + " reads");
  if (linear.routing.empty())
    return *rows;
  if (rows)
    return routedRows(*rows, *ids, member);
  // Inside the expert: what its first two linears make of their rows.
  Result<Matrix> gate = matrix(linear.gate, member), up = matrix(linear.up, member);
  if (!gate || !up)
    return gate ? up.error() : gate.error();
  auto before = observed.find(linear.up);
  const Matrix *input = before == observed.end() ? nullptr : state(before->second.input);
  if (!input)
    return internalError("calibration: no observer of what " + linear.up + " reads");
  Matrix x = routedRows(*input, *ids, member);
  return swiglu(x * gate->transpose(), x * up->transpose());
}

Result<InputsPtr> LayerData::inputs(const std::string &weight, int64_t member) {
  if (!isCalibrated())
    return InputsPtr();
  auto it = observed.find(weight);
  if (it == observed.end())
    return internalError("no linear reads " + weight);
  const ObservedLinear &linear = it->second;
  std::string key = linear.input + "," + linear.gate + "," + (linear.routing.empty() ? "" : std::to_string(member));
  if (key != cacheKey) {
    Result<Matrix> rows = rowsOf(linear, member);
    if (!rows)
      return rows.error();
    if (Status s = expectMultipliable(*rows, weight); !s)
      return s.error();
    cache = std::make_shared<quantize::Inputs>(std::move(*rows));
    cacheKey = key;
  }
  return cache;
}

} // namespace dsv3
