// compile-model inspect: the manifest for people.
#include "runtime/core/Json.h"
#include "tools/compile-model/Driver.h"

#include <sstream>

namespace dsv3 {

namespace {
double mib(const Json &bytes) { return bytes.is_number() ? bytes.get<double>() / (1 << 20) : 0; }
std::string field(const Json &object, const char *key) {
  auto it = object.find(key);
  return it == object.end() ? "?" : it->is_string() ? printable(it->get<std::string>()) : printable(it->dump());
}
} // namespace

Result<std::string> inspectArtifact(const std::string &folder) {
  std::string path = folder + "/manifest.json";
  Result<Json> json = parseJsonFile(path);
  if (!json)
    return json.error();
  const Json &m = *json;
  for (const char *key : {"model", "config", "memory", "kv"})
    if (!m.is_object() || !m.contains(key) || !m[key].is_object())
      return checkpointError(path + ": " + key + " is missing");
  for (const char *key : {"targets", "programs", "weights", "ignored", "taps"})
    if (!m.contains(key) || !m[key].is_array())
      return checkpointError(path + ": " + key + " is missing");
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
  for (const Json &target : m["targets"]) {
    os << "target   " << field(target, "name") << ":";
    if (target.contains("variants"))
      for (const Json &variant : target["variants"])
        os << " " << field(variant, "name") << " (" << (variant.contains("bytes") ? mib(variant["bytes"]) : 0) << " MiB)";
    os << "\n";
  }
  os << "memory  ";
  for (const char *pool : {"weights", "arena", "persist", "step", "kv_page"})
    os << " " << pool << " " << (m["memory"].contains(pool) ? mib(m["memory"][pool]) : 0) << " MiB";
  os << "\n";
  for (const Json &p : m["programs"])
    os << "program  " << field(p, "name") << ": " << field(p, "phase") << ", " << field(p, "tokens") << " tokens, " << field(p, "seqs") << " sequences\n";
  os << m["weights"].size() << " weights, " << m["ignored"].size() << " checkpoint tensors ignored, " << m["taps"].size() << " taps\n";
  return os.str();
}

} // namespace dsv3
