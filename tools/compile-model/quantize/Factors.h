// Factors per channel (frontends/quantize/Smoothing.h) for the linears of a layer, and where they are folded to.
#pragma once

#include "frontends/huggingface/Model.h"
#include "frontends/quantize/Algorithm.h"
#include "frontends/quantize/Smoothing.h"
#include "tools/compile-model/quantize/LayerData.h"

namespace dsv3 {

/// What the policy says of a linear.
struct LinearDecision {
  std::optional<quantize::Scheme> weight;     ///< none: as it is stored
  std::optional<quantize::Scheme> activation; ///< none: plain
};
using DecisionTable = std::map<std::string, LinearDecision>; ///< by site

/// The factors of one layer. All linears that read a norm share one vector, folded into the norm's gamma: where one of them stays in
/// codes that cannot be scaled (FP8 as stored), there is none. A down projection's are folded into the rows of its up projection,
/// which must be quantised with it. Inputs of the output projection have no op that takes factors.
class FactorTable {
public:
  /// With an algorithm without factors, nothing.
  Status choose(const hf::Model &model, const DecisionTable &decisions, quantize::Algorithm algorithm, LayerData &layer);

  /// Of the columns of a linear's weight; empty: none.
  quantize::Vector columns(const std::string &weight, int64_t member) const;
  /// What the rows of an up projection are divided by; empty: none.
  quantize::Vector rows(const std::string &weight, int64_t member) const;
  /// What a norm's gamma is divided by; empty: none.
  quantize::Vector gamma(const std::string &weight) const;

private:
  using Key = std::pair<std::string, int64_t>;

  Status forNorm(const hf::Model &model, const DecisionTable &decisions, const std::string &gamma, quantize::Algorithm algorithm, LayerData &layer);
  Status forDown(const hf::Weight &down, const DecisionTable &decisions, quantize::Algorithm algorithm, LayerData &layer);

  std::map<std::string, quantize::Vector> gammas;  ///< by gamma
  std::map<std::string, std::string> gammaOf;      ///< of a linear whose norm has factors
  std::map<Key, quantize::Vector> downs;           ///< by down projection and expert
  std::map<std::string, std::string> downOf;       ///< of an up projection
};

} // namespace dsv3
