#include "tools/compile-model/quantize/Report.h"

#include "runtime/core/Json.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>

namespace dsv3 {

namespace {

std::string format(const char *pattern, ...) {
  char line[512];
  va_list args;
  va_start(args, pattern);
  std::vsnprintf(line, sizeof line, pattern, args);
  va_end(args);
  return line;
}

/// Linears that are counted together: the experts of a layer, a component, what must have one scheme. Errors are means.
struct Group {
  std::string name;
  std::vector<const LinearReport *> members;
  double weightError = 0, error = 0, saturation = 0, bytes = 0, bytesIn8 = 0;
  int64_t calibrated = 0, fewest = 0; ///< members that saw rows; rows of the one that saw fewest
  const LinearReport *worst = nullptr;

  /// What decides: the output's error where there was calibration.
  double loss() const { return calibrated ? error : weightError; }
};

double bytesOf(const LinearReport &l, const quantize::Scheme &scheme) {
  auto blocks = [](int64_t n, int64_t block) { return block ? (n + block - 1) / block : 1; };
  return double(l.rows * l.cols) * scheme.bits() / 8 +
         double(blocks(l.rows, scheme.blockRows) * blocks(l.cols, scheme.blockCols)) * double(byteSize(scheme.scaleType));
}

double lossOf(const LinearReport &l) { return l.tokens ? l.error : l.weightError; }

Group groupOf(std::string name, std::vector<const LinearReport *> members) {
  Group g;
  g.name = std::move(name);
  g.fewest = members[0]->tokens;
  for (const LinearReport *l : members) {
    g.weightError += l->weightError / double(members.size());
    g.saturation += l->saturation / double(members.size());
    g.error += l->tokens ? l->error : 0;
    g.calibrated += l->tokens > 0;
    g.fewest = std::min(g.fewest, l->tokens);
    g.bytes += bytesOf(*l, l->scheme);
    g.bytesIn8 += l->scheme.bits() < 8 ? bytesOf(*l, quantize::Scheme()) : bytesOf(*l, l->scheme);
    if (!g.worst || lossOf(*l) > lossOf(*g.worst))
      g.worst = l;
  }
  g.error /= double(std::max<int64_t>(1, g.calibrated));
  g.members = std::move(members);
  return g;
}

/// Groups of linears with the same key, in the order of their first members.
template <typename Key> std::vector<Group> grouped(const std::vector<LinearReport> &linears, Key key) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const LinearReport *>> members;
  for (const LinearReport &l : linears) {
    std::vector<const LinearReport *> &list = members[key(l)];
    if (list.empty())
      order.push_back(key(l));
    list.push_back(&l);
  }
  std::vector<Group> out;
  for (const std::string &name : order)
    out.push_back(groupOf(name, members[name]));
  return out;
}

std::string siteOf(const LinearReport &l) { return l.expert < 0 ? l.stack : l.stack + "[" + std::to_string(l.expert) + "]"; }

/// Activations have a scale per token, not per channel as Scheme::text() would say.
std::string activationText(const LinearReport &l) {
  if (!l.activation)
    return "plain";
  std::string text = std::string(l.activation->code == quantize::Code::F8E4M3 ? "fp8" : "int8") + " per token";
  return l.activation->blockCols ? text + " and " + std::to_string(l.activation->blockCols) : text;
}

std::string percent(bool known, double value) { return known ? format("%.2f%%", 100 * value) : "-"; }

std::string mib(double bytes) { return format("%.2f", bytes / (1 << 20)); }

//===-- Parts of the text -------------------------------------------------===//

std::string componentTable(const std::vector<LinearReport> &linears) {
  std::string out = "By component, errors as means:\n" +
                    format("%-22s %8s %12s %12s %12s %12s   %s\n", "component", "linears", "weight err", "output err", "MiB", "in 8 bits", "worst");
  for (const Group &g : grouped(linears, [](const LinearReport &l) { return l.component; }))
    out += format("%-22s %8zu %12s %12s %12s %12s   %s %s\n", g.name.c_str(), g.members.size(), percent(true, g.weightError).c_str(),
                  percent(g.calibrated, g.error).c_str(), mib(g.bytes).c_str(), mib(g.bytesIn8).c_str(), siteOf(*g.worst).c_str(),
                  percent(true, lossOf(*g.worst)).c_str());
  return out;
}

/// What has one scheme: gate and up of a layer's experts are one product.
std::string unitOf(const LinearReport &l) {
  const std::string &s = l.stack;
  bool gate = s.size() > 5 && s.compare(s.size() - 5, 5, ".gate") == 0, up = s.size() > 3 && s.compare(s.size() - 3, 3, ".up") == 0;
  return l.expert >= 0 && (gate || up) ? s.substr(0, s.rfind('.')) + ".gate, up" : s;
}

/// As --quant-config names them: a module, or an expression for all experts of a layer.
std::vector<std::string> targetsOf(const Group &g) {
  std::vector<std::string> out;
  for (const LinearReport *l : g.members) {
    std::string text = l->module;
    if (l->expert >= 0) {
      text = "re:";
      const std::string number = "." + std::to_string(l->expert) + ".";
      const size_t at = l->module.find(number, l->module.find(".experts."));
      for (char c : l->module.substr(0, at))
        text += c == '.' ? std::string("[.]") : std::string(1, c);
      text += "[.][0-9]+[.]" + l->module.substr(at + number.size());
    }
    if (std::find(out.begin(), out.end(), text) == out.end())
      out.push_back(std::move(text));
  }
  return out;
}

/// "targets", and what else a group of --quant-config says for them to have 8 bits.
OrderedJson configGroup(const Group &g) {
  const LinearReport &l = *g.members[0];
  OrderedJson group = {{"targets", targetsOf(g)}, {"weights", {{"num_bits", 8}}}};
  if (l.activation) {
    group["input_activations"] = {{"num_bits", 8}};
    if (l.activation->code == quantize::Code::F8E4M3)
      group["weights"]["type"] = group["input_activations"]["type"] = "float";
    if (l.activation->blockCols)
      group["input_activations"]["group_size"] = l.activation->blockCols;
  }
  return group;
}

std::string candidates(const std::vector<LinearReport> &linears, const std::string &policy, bool isFile) {
  std::vector<Group> units = grouped(linears, unitOf);
  const bool narrow = std::any_of(units.begin(), units.end(), [](const Group &g) { return g.members[0]->scheme.bits() < 8; });
  if (narrow)
    units.erase(std::remove_if(units.begin(), units.end(), [](const Group &g) { return g.members[0]->scheme.bits() >= 8; }), units.end());
  std::stable_sort(units.begin(), units.end(), [](const Group &a, const Group &b) { return a.loss() > b.loss(); });
  if (units.empty())
    return "";
  std::string out = narrow ? "\nLargest errors, to be kept in 8 bits first (adds: what that costs):\n" : "\nLargest errors, to be left as stored first:\n";
  out += format("%10s %10s   %-16s %s\n", "error", narrow ? "adds MiB" : "MiB", "linear", narrow ? "targets" : "names for \"ignore\"");
  for (size_t i = 0; i < std::min<size_t>(10, units.size()); ++i) {
    const Group &g = units[i];
    std::string names;
    for (const std::string &target : targetsOf(g))
      names += (names.empty() ? "\"" : ", \"") + target + "\"";
    out += format("%10s %10s   %-16s ", percent(true, g.loss()).c_str(), mib(narrow ? g.bytesIn8 - g.bytes : g.bytes).c_str(), g.name.c_str()) + names + "\n";
  }
  if (!narrow)
    return out;
  OrderedJson config = {{"config_groups", {{"8 bits", configGroup(units[0])}}}};
  if (!isFile)
    config = {{"policy", policy}, {"config_groups", config["config_groups"]}};
  return out + (isFile ? "To keep the first of them in 8 bits, add to " + policy + ":\n  " : "To keep the first of them in 8 bits, a --quant-config:\n  ") + config.dump() + "\n";
}

std::string linearTable(const std::vector<LinearReport> &linears) {
  std::string out = "\nEvery linear:\n" + format("%-16s %-26s %-22s %-12s %11s %11s %9s %9s\n", "linear", "weight", "activation", "algorithm", "weight err",
                                                 "output err", "clipped", "rows");
  for (const Group &g : grouped(linears, [](const LinearReport &l) { return l.stack; })) {
    const LinearReport &first = *g.members[0];
    bool alike = std::all_of(g.members.begin(), g.members.end(), [&](const LinearReport *l) { return l->algorithm == first.algorithm; });
    out += format("%-16s %-26s %-22s %-12s %11s %11s %9s %9lld", g.name.c_str(), first.scheme.text().c_str(), activationText(first).c_str(),
                  alike ? std::string(name(first.algorithm)).c_str() : "several", percent(true, g.weightError).c_str(), percent(g.calibrated, g.error).c_str(),
                  percent(true, g.saturation).c_str(), static_cast<long long>(g.fewest));
    if (g.members.size() > 1)
      out += "  worst " + siteOf(*g.worst) + " " + percent(true, lossOf(*g.worst));
    out += "\n";
  }
  return out;
}

std::string fallbacks(const std::vector<LinearReport> &linears) {
  std::string out;
  for (const LinearReport &l : linears)
    if (l.fellBack)
      out += format("  %-16s %lld rows\n", siteOf(l).c_str(), static_cast<long long>(l.tokens));
  return out.empty() ? out : "\nRounded without data, since calibration showed them fewer than " + std::to_string(quantize::kFewestTokens) + " rows (more text helps):\n" + out;
}

} // namespace

std::string reportText(const std::vector<LinearReport> &linears, const std::string &policy, bool isFile) {
  const bool calibrated = std::any_of(linears.begin(), linears.end(), [](const LinearReport &l) { return l.tokens > 0; });
  std::string out = "What quantisation under " + policy + " did to " + std::to_string(linears.size()) + " linears.\n\n" +
                    "weight err: |w - w'| / |w|. output err: |y - y'| / |y| of the linear's output on the calibration rows, its activations rounded too" +
                    (calibrated ? "" : "\n(there was no calibration: errors below are of weights)") +
                    ".\nclipped: codes at either end of the range. rows: those that the linear saw, of a layer's experts the fewest.\n\n";
  if (linears.empty())
    return out + "Nothing was quantised.\n";
  return out + componentTable(linears) + candidates(linears, policy, isFile) + linearTable(linears) + fallbacks(linears);
}

} // namespace dsv3
