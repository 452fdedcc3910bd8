// --per-layer for a person: where an error enters, and what makes it larger.
#include "tools/dsv3-eval/Compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dsv3::eval {

namespace {

/// "l3." of "l3.q_a"; empty for states of no layer.
std::string layerOf(const std::string &name) {
  size_t dot = name.find('.');
  return dot == name.npos ? std::string() : name.substr(0, dot + 1);
}

std::string percent(bool known, double value) {
  char text[32];
  std::snprintf(text, sizeof text, known ? "%.3f%%" : "-", 100 * value);
  return text;
}

/// What is added to an inherited error.
double added(double error, double inherited) { return error > inherited ? std::sqrt(error * error - inherited * inherited) : 0; }

/// What each site of a layer reads, the first that is tapped; "" is the residual that enters the layer.
struct Site {
  const char *name;
  std::vector<const char *> reads;
  const char *linear; ///< what of --quant-config the site is the output of; null: no product with a weight
};

const std::vector<Site> &sites() {
  static const std::vector<Site> all = {
      {"eh_proj", {"concat"}, "mtp_projection"},
      {"input_norm", {"eh_proj", ""}, nullptr},
      {"q_a", {"input_norm"}, "attention.q_a"},
      {"q_a_norm", {"q_a"}, nullptr},
      {"q_b", {"q_a_norm", "input_norm"}, "attention.q_b"},
      {"q_rope", {"q_b"}, nullptr},
      {"kv_a", {"input_norm"}, "attention.kv_a"},
      {"kv_a_norm", {"kv_a"}, nullptr},
      {"k_rope", {"kv_a"}, nullptr},
      {"kv_b", {"kv_a_norm"}, "kv_b"},
      {"attn", {"kv_b", "kv_a_norm"}, nullptr},
      {"o", {"attn"}, "attention.o"},
      {"attn_out_add", {"eh_proj", ""}, nullptr},
      {"post_norm", {"attn_out_add"}, nullptr},
      {"router", {"post_norm"}, "router"},
      {"gate", {"post_norm"}, "dense_ffn.gate"},
      {"up", {"post_norm"}, "dense_ffn.up"},
      {"act", {"up", "gate"}, nullptr},
      {"shared.gate", {"post_norm"}, "shared_experts.gate"},
      {"shared.up", {"post_norm"}, "shared_experts.up"},
      {"shared.act", {"shared.up", "shared.gate"}, nullptr},
      {"shared.down", {"shared.act"}, "shared_experts.down"},
      {"mlp", {"act", "post_norm"}, "dense_ffn.down"},
      {"out", {"attn_out_add"}, nullptr},
  };
  return all;
}

class Tables {
public:
  explicit Tables(const std::vector<StateError> &states) : states(states) {
    for (const StateError &s : states) {
      byName[s.name] = &s;
      std::string layer = layerOf(s.name);
      if (!layer.empty() && std::find(layers.begin(), layers.end(), layer) == layers.end())
        layers.push_back(layer);
    }
  }

  std::string text() const { return layerTable() + linearTable() + stateTable(); }

private:
  const StateError *find(const std::string &name) const {
    auto it = byName.find(name);
    return it == byName.end() ? nullptr : it->second;
  }

  /// The residual that enters a layer: what left the one before, in the first the embeddings, which are equal.
  const StateError *entering(const std::string &layer) const {
    if (const StateError *projected = find(layer + "eh_proj")) // of the MTP module
      return projected;
    if (layer == "l0.")
      return find("embed");
    auto it = std::find(layers.begin(), layers.end(), layer);
    return it == layers.begin() ? nullptr : find(*(it - 1) + "out");
  }

  /// What a state reads; null when that is not tapped.
  const StateError *source(const std::string &name, const Site *&site) const {
    const std::string layer = layerOf(name), part = name.substr(layer.size());
    site = nullptr;
    for (const Site &s : sites())
      if (!layer.empty() && part == s.name)
        site = &s;
    for (size_t i = 0; site && i < site->reads.size(); ++i)
      if (const StateError *from = *site->reads[i] ? find(layer + site->reads[i]) : entering(layer))
        return from;
    return nullptr;
  }

  /// Growth of a residual's error: sums of squares, since what is added to a residual is added to its error.
  static std::string growth(const StateError *from, const StateError *to) {
    return percent(from && to, from && to && to->whole > 0 ? std::sqrt(std::max(0.0, to->lost - from->lost) / to->whole) : 0);
  }

  std::string layerTable() const {
    std::string text = "residual |a - b| / |b|: what enters a layer, what attention and the feed-forward part add, what leaves\n"
                       "layer       enters  attention    feed-forward     leaves   other experts\n";
    char line[160];
    for (const std::string &layer : layers) {
      static const StateError none; // of the first layer when "embed" is not tapped
      const StateError *in = entering(layer), *mid = find(layer + "attn_out_add"), *out = find(layer + "out"), *route = find(layer + "route.ids");
      if (!in && layer == "l0.")
        in = &none;
      if (!mid && !out)
        continue;
      std::snprintf(line, sizeof line, "%-6s %11s %10s %15s %10s %15s\n", layer.substr(0, layer.size() - 1).c_str(),
                    percent(in, in ? in->relative() : 0).c_str(), growth(in, mid).c_str(), growth(mid, out).c_str(), percent(out, out ? out->relative() : 0).c_str(),
                    percent(route, route ? route->relative() : 0).c_str());
      text += line;
    }
    return text;
  }

  std::string linearTable() const {
    struct Row {
      const StateError *state, *from;
      const char *linear;
      double more;
    };
    std::vector<Row> rows;
    for (const StateError &s : states) {
      const Site *site = nullptr;
      const StateError *from = source(s.name, site);
      if (from && site && site->linear)
        rows.push_back({&s, from, find(layerOf(s.name) + "router") && std::string(site->name) == "mlp" ? "routed_experts" : site->linear,
                        added(s.relative(), from->relative())});
    }
    if (rows.empty())
      return "";
    std::stable_sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) { return a.more > b.more; });
    std::string text = "\nlinears that add most to the error of what they read (what each loses by itself: quantization.txt of compile-model quantize)\n"
                       "output                 linear                     reads      error       adds\n";
    char line[200];
    for (size_t i = 0; i < std::min<size_t>(10, rows.size()); ++i) {
      const Row &r = rows[i];
      std::snprintf(line, sizeof line, "%-22s %-20s %11s %10s %10s\n", r.state->name.c_str(), r.linear, percent(true, r.from->relative()).c_str(),
                    percent(true, r.state->relative()).c_str(), percent(true, r.more).c_str());
      text += line;
    }
    return text;
  }

  std::string stateTable() const {
    std::string text = "\nstate                       error      reads       adds\n";
    char line[160];
    for (const StateError &s : states) {
      const Site *site = nullptr;
      const StateError *from = source(s.name, site);
      std::snprintf(line, sizeof line, "%-22s %10s", s.name.c_str(), percent(true, s.relative()).c_str());
      text += line;
      if (s.choices)
        text += "   of the chosen experts are others";
      else if (from) {
        std::snprintf(line, sizeof line, " %10s %10s", percent(true, from->relative()).c_str(), percent(true, added(s.relative(), from->relative())).c_str());
        text += line;
      }
      text += "\n";
    }
    return text;
  }

  const std::vector<StateError> &states;
  std::map<std::string, const StateError *> byName;
  std::vector<std::string> layers; ///< "l0.", in the order of the programs
};

} // namespace

std::string statesText(const std::vector<StateError> &states) { return Tables(states).text(); }

} // namespace dsv3::eval
