#include "tools/compile-model/quantize/Factors.h"

#include <algorithm>
#include <numeric>

namespace dsv3 {

using quantize::Algorithm;
using quantize::Reader;
using quantize::Vector;

static const LinearDecision *decisionFor(const DecisionTable &decisions, const std::string &weight) {
  auto it = decisions.find(weight);
  return it == decisions.end() || !it->second.weight ? nullptr : &it->second;
}

static Vector factorsOf(Algorithm algorithm, const std::vector<Reader> &readers) {
  return algorithm == Algorithm::SmoothQuant ? quantize::smoothQuantFactors(readers) : quantize::awqFactors(readers);
}

/// The experts that saw most tokens: a search looks at these alone.
static std::vector<int64_t> busiest(const std::vector<int64_t> &counts) {
  constexpr size_t most = 8;
  std::vector<int64_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return counts[size_t(a)] > counts[size_t(b)]; });
  order.resize(std::min(most, order.size()));
  return order;
}

/// A linear as the search sees it. `x` is kept alive by `kept`.
static Status addReader(const std::string &weight, int64_t member, const LinearDecision *decision, LayerData &layer, std::vector<InputsPtr> &kept,
                        std::vector<Reader> &readers) {
  Result<quantize::Matrix> w = layer.matrix(weight, member);
  Result<InputsPtr> x = layer.inputs(weight, member);
  if (!w || !x)
    return w ? x.error() : w.error();
  kept.push_back(*x);
  readers.push_back({std::move(*w), decision ? decision->weight : std::nullopt, decision ? decision->activation : std::nullopt, x->get()});
  return {};
}

Status FactorTable::forNorm(const hf::Model &model, const DecisionTable &decisions, const std::string &gamma, Algorithm algorithm, LayerData &layer) {
  std::vector<const hf::Weight *> weights;
  bool any = false;
  for (const auto &[name, linear] : layer.linears())
    if (linear.gamma == gamma) {
      weights.push_back(model.tensors.find(name));
      any |= decisionFor(decisions, name) != nullptr;
      if (!decisionFor(decisions, name) && weights.back()->scheme)
        return {}; // its codes would have to change
    }
  if (!any)
    return {};
  std::vector<InputsPtr> kept;
  std::vector<Reader> readers;
  for (const hf::Weight *weight : weights) {
    const std::string &site = weight->spec.site;
    std::vector<int64_t> members = {0};
    if (weight->spec.members)
      members = busiest(layer.tokensOfExperts(layer.linears().at(site).routing, weight->spec.members));
    for (int64_t e : members)
      if (Status s = addReader(site, e, decisionFor(decisions, site), layer, kept, readers); !s)
        return s;
    gammaOf[site] = gamma;
  }
  gammas[gamma] = factorsOf(algorithm, readers);
  return {};
}

Status FactorTable::forDown(const hf::Weight &down, const DecisionTable &decisions, Algorithm algorithm, LayerData &layer) {
  const std::string &site = down.spec.site, &up = layer.linears().at(site).up;
  const LinearDecision *decision = decisionFor(decisions, site);
  if (!decision || !decisionFor(decisions, up))
    return {};
  downOf[up] = site;
  for (int64_t e = 0; e < std::max<int64_t>(1, down.spec.members); ++e) {
    std::vector<InputsPtr> kept;
    std::vector<Reader> readers;
    if (Status s = addReader(site, e, decision, layer, kept, readers); !s)
      return s;
    if (kept[0]->tokens())
      downs[{site, e}] = factorsOf(algorithm, readers);
  }
  return {};
}

Status FactorTable::choose(const hf::Model &model, const DecisionTable &decisions, Algorithm algorithm, LayerData &layer) {
  if ((algorithm != Algorithm::SmoothQuant && algorithm != Algorithm::Awq) || !layer.isCalibrated())
    return {};
  std::vector<std::string> norms;
  for (const auto &[name, linear] : layer.linears())
    if (!linear.gamma.empty() && std::find(norms.begin(), norms.end(), linear.gamma) == norms.end())
      norms.push_back(linear.gamma);
  for (const std::string &gamma : norms)
    if (Status s = forNorm(model, decisions, gamma, algorithm, layer); !s)
      return s;
  for (const auto &[name, linear] : layer.linears())
    if (!linear.up.empty())
      if (Status s = forDown(*model.tensors.find(name), decisions, algorithm, layer); !s)
        return s;
  return {};
}

Vector FactorTable::columns(const std::string &weight, int64_t member) const {
  if (auto it = gammaOf.find(weight); it != gammaOf.end())
    return gammas.at(it->second);
  auto it = downs.find({weight, member});
  return it == downs.end() ? Vector() : it->second;
}

Vector FactorTable::rows(const std::string &weight, int64_t member) const {
  auto down = downOf.find(weight);
  return down == downOf.end() ? Vector() : columns(down->second, member);
}

Vector FactorTable::gamma(const std::string &weight) const {
  auto it = gammas.find(weight);
  return it == gammas.end() ? Vector() : it->second;
}

} // namespace dsv3
