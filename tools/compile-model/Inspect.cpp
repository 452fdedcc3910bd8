// compile-model inspect: the manifest for people.
#include "frontends/quantize/Policy.h"
#include "runtime/core/Json.h"
#include "tools/compile-model/Driver.h"

#include <cstring>
#include <map>
#include <sstream>

namespace dsv3 {

namespace {
double mib(const Json &bytes) { return bytes.is_number() ? bytes.get<double>() / (1 << 20) : 0; }
std::string field(const Json &object, const char *key) {
  auto it = object.find(key);
  return it == object.end() ? "?" : it->is_string() ? printable(it->get<std::string>()) : printable(it->dump());
}

/// "avx2 (0.1 MiB) avx512 (0.1 MiB)"
void printVariants(std::ostream &os, const Json &variants) {
  for (const Json &variant : variants)
    os << " " << field(variant, "name") << " (" << (variant.contains("bytes") ? mib(variant["bytes"]) : 0) << " MiB)";
}

/// What the device is, and how far its code was checked.
void printDevice(std::ostream &os, const Json &device) {
  size_t kernels = 0, assembled = 0;
  if (device.contains("kernels") && device["kernels"].is_array())
    for (const Json &kernel : device["kernels"]) {
      ++kernels;
      assembled += kernel.contains("cubin");
    }
  bool verified = device.contains("verified") && device["verified"] == true;
  os << " " << field(device, "arch") << ", " << field(device, "sm_count") << " multiprocessors, " << field(device, "smem")
     << " bytes of shared memory; " << kernels << " kernels, " << assembled << " as machine code, "
     << (verified ? "verified by " + field(device, "assembler") : "unverified (no ptxas)");
}

/// What a packed weight is part of, by its name: "l3.q_a_kv_a", "l3.kv_b.k.plain", "embed".
std::string componentOf(const std::string &weight, size_t rank) {
  std::string site = weight;
  for (const char *suffix : {".plain", ".k", ".kn", ".v"})
    if (size_t n = std::strlen(suffix); site.size() > n && site.compare(site.size() - n, n, suffix) == 0)
      site.resize(site.size() - n);
  if (site == "rope_table")
    return "rope";
  if (site.find("q_a_kv_a") != site.npos)
    return "attention";
  const std::string fused = "gate_up"; // of the dense layers or the shared experts
  if (site.size() > fused.size() && site.compare(site.size() - fused.size(), fused.size(), fused) == 0)
    site.resize(site.size() - std::strlen("_up"));
  if (rank < 2)
    return "norms, biases";
  auto place = quantize::Linear::place(site, int64_t(rank));
  return place ? std::string(quantize::name(place->first)) : "other";
}

/// A line per component and scheme: what the policy came to, after what the target could not do.
void printSchemes(std::ostream &os, const Json &tensors) {
  struct Sum {
    size_t weights = 0;
    double bytes = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (const Json &tensor : tensors) {
    if (!tensor.is_object())
      continue;
    size_t rank = tensor.contains("shape") && tensor["shape"].is_array() ? tensor["shape"].size() : 0;
    const std::string scheme = field(tensor, "scheme") + (tensor.contains("activations") ? ", activations in " + field(tensor, "activations") : "");
    Sum &sum = sums[{componentOf(field(tensor, "name"), rank), scheme}];
    ++sum.weights;
    sum.bytes += tensor.contains("bytes") ? mib(tensor["bytes"]) : 0;
  }
  for (const auto &[key, sum] : sums)
    os << "    " << key.first << ": " << sum.weights << " in " << key.second << ", " << sum.bytes << " MiB\n";
}

/// What a token costs in a layer, and how its row is stored.
void printCache(std::ostream &os, const Json &m) {
  const Json &kv = m["kv"];
  os << "cache    " << field(kv, "layers") << " layers, pages of " << field(kv, "page_tokens") << " tokens, rows of " << field(kv, "row_elems")
     << " numbers in " << field(kv, "dtype");
  if (kv.contains("latent") && kv["latent"].is_object())
    os << ", latent (" << field(kv["latent"], "lanes") << ") as " << field(kv["latent"], "codes") << " with a f32 scale per token";
  for (const Json &target : m["targets"]) {
    auto memory = target.find("memory");
    if (memory == target.end() || !memory->is_object() || !memory->contains("kv_page") || !(*memory)["kv_page"].is_number_unsigned() ||
        !kv.contains("layers") || !kv["layers"].is_number_unsigned() || !kv.contains("page_tokens") || !kv["page_tokens"].is_number_unsigned())
      continue;
    uint64_t tokens = kv["layers"].get<uint64_t>() * kv["page_tokens"].get<uint64_t>();
    os << ": " << (*memory)["kv_page"].get<uint64_t>() / std::max<uint64_t>(tokens, 1) << " bytes a token and layer";
    break;
  }
  os << "\n";
}

void printTarget(std::ostream &os, const Json &target) {
  os << "target   " << field(target, "name") << ":";
  if (target.contains("device"))
    printDevice(os, target["device"]);
  else if (target.contains("variants"))
    printVariants(os, target["variants"]);
  os << "\n  memory  ";
  for (const char *pool : {"weights", "arena", "persist", "step", "kv_page"})
    os << " " << pool << " " << (target.contains("memory") && target["memory"].contains(pool) ? mib(target["memory"][pool]) : 0) << " MiB";
  os << "\n";
  for (const Json &p : target["programs"])
    os << "  program  " << field(p, "name") << ": " << field(p, "phase") << ", " << field(p, "tokens") << " tokens, " << field(p, "seqs")
       << " sequences\n";
  os << "  " << target["weights"]["tensors"].size() << " weights\n";
  printSchemes(os, target["weights"]["tensors"]);
}
} // namespace

Result<std::string> inspectArtifact(const std::string &folder) {
  std::string path = folder + "/manifest.json";
  Result<Json> json = parseJsonFile(path);
  if (!json)
    return json.error();
  const Json &m = *json;
  for (const char *key : {"model", "config", "kv"})
    if (!m.is_object() || !m.contains(key) || !m[key].is_object())
      return checkpointError(path + ": " + key + " is missing");
  for (const char *key : {"targets", "ignored", "taps"})
    if (!m.contains(key) || !m[key].is_array())
      return checkpointError(path + ": " + key + " is missing");
  for (const Json &target : m["targets"])
    if (!target.is_object() || !target.contains("programs") || !target["programs"].is_array() || !target.contains("weights") ||
        !target["weights"].is_object() || !target["weights"].contains("tensors"))
      return checkpointError(path + ": targets: expected programs and weights of each");
  std::ostringstream os;
  os.setf(std::ios::fixed);
  os.precision(1);
  os << "format " << field(m, "format") << ", abi " << field(m, "abi") << "\n";
  os << "model    vocab " << field(m["model"], "vocab_size") << ", hidden " << field(m["model"], "hidden_size") << ", layers "
     << field(m["model"], "layers") << " + " << field(m["model"], "mtp_layers") << " mtp\n";
  os << "config   ";
  for (const auto &[key, value] : m["config"].items())
    os << key << " " << field(m["config"], key.c_str()) << "  ";
  os << "\n";
  printCache(os, m);
  for (const Json &target : m["targets"])
    printTarget(os, target);
  os << m["ignored"].size() << " checkpoint tensors ignored, " << m["taps"].size() << " taps\n";
  return os.str();
}

} // namespace dsv3
