#include "frontends/quantize/Policy.h"

#include "frontends/huggingface/QuantConfig.h"

#include <algorithm>
#include <array>

namespace dsv3::quantize {

//===-- Linears -----------------------------------------------------------===//

static constexpr std::string_view componentNames[] = {"attention",      "kv_b",   "dense_ffn", "shared_experts", "routed_experts",
                                                      "mtp_projection", "router", "embedding", "lm_head"};

std::string_view name(Component component) { return componentNames[size_t(component)]; }

std::optional<std::pair<Component, std::string>> Linear::place(std::string_view site, int64_t rank) {
  if (site == "embed" || site == "lm_head")
    return std::pair(site == "embed" ? Component::Embedding : Component::Head, std::string());
  size_t dot = site.find('.');
  if (site.empty() || site[0] != 'l' || dot == site.npos)
    return std::nullopt;
  const std::string part(site.substr(dot + 1));
  static const std::pair<const char *, Component> places[] = {
      {"q_a", Component::Attention},           {"q_b", Component::Attention},         {"q", Component::Attention},
      {"kv_a", Component::Attention},          {"o", Component::Attention},           {"kv_b", Component::KvB},
      {"shared.gate", Component::SharedExperts}, {"shared.up", Component::SharedExperts}, {"shared.down", Component::SharedExperts},
      {"eh_proj", Component::MtpProjection},   {"router", Component::Router},         {"embed", Component::Embedding},
      {"head", Component::Head}};
  for (auto [place, component] : places)
    if (part == place)
      return std::pair(component, part.substr(part.find('.') == part.npos ? 0 : part.find('.') + 1));
  if (part == "gate" || part == "up" || part == "down")
    return std::pair(rank == 3 ? Component::RoutedExperts : Component::DenseFfn, part);
  return std::nullopt;
}

//===-- Built-in policies -------------------------------------------------===//

namespace {
constexpr std::string_view builtIns[] = {"none", "checkpoint", "fp8-block", "w8a8", "w4a16", "w4a8-experts"};

const Scheme int8PerRow{Code::I8, 1, 0};
const Scheme int8Groups{Code::I8, 1, 128};
const Scheme int4Groups{Code::I4, 1, 128};
const Scheme fp8Blocks{Code::F8E4M3, 128, 128};
const Scheme fp8Groups{Code::F8E4M3, 1, 128};

/// What formats store quantised: the linears of decoder layers. kv_b is left out: decode multiplies with its two halves, one of
/// them transposed, where it would only lose.
bool isPoliciesLinear(Component c) {
  return c == Component::Attention || c == Component::DenseFfn || c == Component::SharedExperts || c == Component::RoutedExperts;
}

Activation with(const Scheme &scheme) { return {Activation::Rule::Scheme, scheme}; }
} // namespace

std::string Policy::builtInNames() {
  std::string names;
  for (std::string_view name : builtIns)
    names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

Result<Policy> Policy::builtIn(std::string_view name) {
  if (std::find(std::begin(builtIns), std::end(builtIns), name) == std::end(builtIns))
    return usageError("--quant: expected one of " + builtInNames() + ", got '" + printable(name) + "'");
  Policy policy;
  policy.title = policy.base = std::string(name);
  return policy;
}

/// Codes of fewer bits cannot win from more of them: such a weight stays as it is stored.
static bool isNarrower(const Linear &linear, const Scheme &scheme) { return linear.bits && linear.bits < scheme.bits(); }

Decision Policy::byDefault(const Linear &linear) const {
  Decision d;
  d.by = base;
  if (base == "checkpoint")
    d.activation.rule = Activation::Rule::Asked;
  if (base == "none" || base == "checkpoint" || !isPoliciesLinear(linear.component))
    return d;
  if (base == "fp8-block") {
    bool blocks = linear.stored && linear.stored->code == Code::F8E4M3 && linear.stored->blockCols;
    if (!linear.bits)
      d.weight = fp8Blocks;
    if (!linear.bits || blocks) {
      d.activation = with(fp8Groups);
      d.activation.scheme.powerOfTwo = linear.stored && linear.stored->powerOfTwo;
    }
    return d;
  }
  if (base == "w4a16") {
    d.weight = int4Groups;
  } else if (base == "w4a8-experts" && linear.component == Component::RoutedExperts) {
    d.weight = int4Groups;
    // A scale of the whole row of the down projection's input spans columns that no tile of the product before it sees.
    d.activation = with(linear.part == "down" ? int8Groups : int8PerRow);
  } else {
    d.weight = int8PerRow;
    d.activation = with(int8PerRow);
  }
  // Codes of as many bits, in groups of another size or with zero points, would lose as well.
  if (isNarrower(linear, *d.weight) || (linear.bits == 4 && d.weight->bits() == 4))
    d.weight.reset();
  return d;
}

//===-- Matching ----------------------------------------------------------===//

Result<bool> Policy::matches(Target &target, const Linear &linear) const {
  bool hit = false;
  if (!target.component.empty()) {
    std::string whole(quantize::name(linear.component));
    hit = target.component == whole || target.component == whole + "." + linear.part;
  } else {
    size_t hits = 0;
    for (const std::string &module : linear.modules) {
      bool one = false;
      for (const std::string &name : hf::moduleNames(module)) {
        Result<bool> matched = target.pattern.matches(name);
        if (!matched)
          return usageError(matched.error().message);
        one |= *matched;
      }
      hits += one;
    }
    if (hits && hits != linear.modules.size())
      return usageError(target.where + ": \"" + printable(target.pattern.text()) + "\" matches " + std::to_string(hits) + " of the " +
                        std::to_string(linear.modules.size()) + " experts of " + linear.site + ", which have one scheme: expected all or none");
    hit = hits;
  }
  target.matched |= hit;
  return hit;
}

/// Names go before expressions, expressions before components, and parts of components before whole ones.
static int rankOf(const hf::NamePattern &pattern, const std::string &component) {
  if (component.empty())
    return pattern.isRegex() ? 1 : 0;
  return component.find('.') != component.npos ? 2 : 3;
}

Result<const Policy::Group *> Policy::groupOf(const Linear &linear) {
  const Group *best = nullptr;
  int bestRank = 4;
  for (Group &group : groups)
    for (Target &target : group.targets) {
      Result<bool> hit = matches(target, linear);
      if (!hit)
        return hit.error();
      if (int rank = rankOf(target.pattern, target.component); *hit && rank < bestRank)
        best = &group, bestRank = rank;
    }
  return best;
}

Result<Decision> Policy::decide(const Linear &linear) {
  bool skip = false;
  for (Target &target : ignored) {
    Result<bool> hit = matches(target, linear);
    if (!hit)
      return hit.error();
    skip |= *hit;
  }
  Result<const Group *> group = groupOf(linear);
  if (!group)
    return group.error();
  if (skip)
    return Decision{std::nullopt, {}, title + ": ignore"};
  if (!*group)
    return byDefault(linear);
  const Decision &decision = (*group)->decision;
  bool may = isPoliciesLinear(linear.component) || linear.component == Component::Head || linear.component == Component::MtpProjection;
  if (!may && (decision.weight || decision.activation.rule != Activation::Rule::Plain))
    return usageError((*group)->where + ": expected " + linear.site + " (" + std::string(quantize::name(linear.component)) +
                      ") to be left as it is stored, with plain activations: " +
                      (linear.component == Component::KvB ? "decode multiplies with its halves" : "it is no product of weights that have kernels in other schemes"));
  return decision;
}

Status Policy::verifyAllMatched() const {
  auto check = [](const Target &target) -> Status {
    if (target.matched)
      return {};
    const std::string &text = target.component.empty() ? target.pattern.text() : target.component;
    return usageError(target.where + ": \"" + printable(text) + "\" matches no linear of the model");
  };
  for (const Group &group : groups)
    for (const Target &target : group.targets)
      if (Status s = check(target); !s)
        return s;
  for (const Target &target : ignored)
    if (Status s = check(target); !s)
      return s;
  return {};
}

} // namespace dsv3::quantize
