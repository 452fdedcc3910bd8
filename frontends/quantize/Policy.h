// A policy: which linear of the model gets which scheme, for its weight and for the activations that meet it.
//
// `--quant=NAME` chooses a built-in one, `--quant-config=FILE` writes one down (docs/cli.md has the format). A policy knows no
// kernel and no algorithm. It is asked once per linear; experts of a layer are one linear of many modules.
#pragma once

#include "frontends/huggingface/NamePattern.h"
#include "frontends/quantize/RoundToNearest.h"
#include "runtime/core/Json.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dsv3::quantize {

/// What a matrix of the model is part of.
enum class Component { Attention, KvB, DenseFfn, SharedExperts, RoutedExperts, MtpProjection, Router, Embedding, Head };
/// "attention", "kv_b", "dense_ffn", "shared_experts", "routed_experts", "mtp_projection", "router", "embedding", "lm_head".
std::string_view name(Component component);

struct Linear {
  Component component;
  std::string part;                 ///< "q_a", "down": "routed_experts.down" names it
  std::string site;                 ///< "l3.down", for messages
  std::vector<std::string> modules; ///< in the checkpoint; one, or one per expert
  std::optional<Scheme> stored;     ///< what the checkpoint has; none: plain, or in a scheme that is not ours to make
  int bits = 0;                     ///< of its codes; 0: plain

  /// The component and part of a weight by its site ("l3.shared.gate") and rank (experts are stacked: 3); none: no matrix that a
  /// policy speaks of.
  static std::optional<std::pair<Component, std::string>> place(std::string_view site, int64_t rank);
};

struct Activation {
  enum class Rule {
    Plain,  ///< stays in the compute type
    Asked,  ///< what the checkpoint asks
    Scheme, ///< `scheme`
  } rule = Rule::Plain;
  Scheme scheme = {};
};

/// What a policy says of one linear.
struct Decision {
  std::optional<Scheme> weight; ///< none: as stored
  Activation activation;
  std::string by;               ///< "w8a8", "FILE: config_groups.experts"
};

class Policy {
public:
  /// none, checkpoint, fp8-block, w8a8, w4a16, w4a8-experts. Usage error that lists them.
  static Result<Policy> builtIn(std::string_view name);
  static std::string builtInNames();
  /// From a file. Usage errors name file, group and field.
  static Result<Policy> read(const std::string &path);
  static Result<Policy> parse(const Json &json, const std::string &where);

  /// Usage error: a pattern that holds for some experts of a layer only, or touches what may not be quantised (kv_b, the router,
  /// embeddings).
  Result<Decision> decide(const Linear &linear);
  /// After all linears: usage error that names a pattern which matched none.
  Status verifyAllMatched() const;

  const std::string &name() const { return title; }

private:
  struct Target {
    hf::NamePattern pattern;  ///< of module names
    std::string component;    ///< or a component, or one of its parts; empty: a pattern
    std::string where;        ///< "FILE: config_groups.experts.targets"
    bool matched = false;
  };
  struct Group {
    std::string where;
    std::vector<Target> targets;
    Decision decision;
  };

  Result<Target> parseTarget(const std::string &text, const std::string &where) const;
  Status parseGroup(const JsonFields &fields, const std::string &where);
  Result<bool> matches(Target &target, const Linear &linear) const;
  Result<const Group *> groupOf(const Linear &linear);
  Decision byDefault(const Linear &linear) const;

  std::string title, base; ///< base: a built-in name
  std::vector<Group> groups;
  std::vector<Target> ignored;
};

} // namespace dsv3::quantize
