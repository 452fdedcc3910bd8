#include "frontends/quantize/CheckpointWriter.h"

#include "runtime/core/SafetensorsWriter.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <tuple>

namespace dsv3::quantize {

//===-- Tensors -----------------------------------------------------------===//

/// Eight codes to a word along each row, the first in the lowest bits; the last word is filled with zeros.
static std::string packWords(const QuantizedMatrix &m) {
  const int64_t words = (m.cols + 7) / 8;
  std::string out(size_t(m.rows * words) * sizeof(uint32_t), '\0');
  for (int64_t r = 0; r < m.rows; ++r)
    for (int64_t w = 0; w < words; ++w) {
      uint32_t word = 0;
      for (int64_t i = 0; i < 8 && w * 8 + i < m.cols; ++i)
        word |= uint32_t(int8_t(m.row(r)[w * 8 + i]) + 8) << (4 * i);
      std::memcpy(out.data() + size_t(r * words + w) * sizeof word, &word, sizeof word);
    }
  return out;
}

static std::string floats(const Matrix &values, DType type) {
  std::string out(size_t(values.size()) * byteSize(type), '\0');
  convertFromFloat(type, values.data(), size_t(values.size()), out.data());
  return out;
}

std::vector<OutTensor> tensorsOf(const std::string &module, const StoredModule &stored, const QuantizedMatrix &m) {
  OutTensor scale{module + ".weight_scale", m.scheme.scaleType, {m.scales.rows(), m.scales.cols()}, floats(m.scales, m.scheme.scaleType), {}};
  if (!stored.packed()) {
    DType type = m.scheme.code == Code::F8E4M3 ? DType::F8E4M3 : DType::I8;
    OutTensor codes{module + ".weight", type, {m.rows, m.cols}, std::string(reinterpret_cast<const char *>(m.codes.data()), m.codes.size()), {}};
    return {std::move(codes), std::move(scale)};
  }
  const int64_t shape[2] = {m.rows, m.cols};
  OutTensor codes{module + ".weight_packed", DType::I32, {m.rows, (m.cols + 7) / 8}, packWords(m), {}};
  OutTensor size{module + ".weight_shape", DType::I64, {2}, std::string(reinterpret_cast<const char *>(shape), sizeof shape), {}};
  return {std::move(codes), std::move(scale), std::move(size)};
}

//===-- config.json -------------------------------------------------------===//

static auto keyOf(const std::optional<Scheme> &s) {
  Scheme v = s.value_or(Scheme());
  return std::make_tuple(s.has_value(), v.code, v.blockRows, v.blockCols, v.scaleType, v.powerOfTwo);
}

bool StoredModule::packed() const { return weight && weight->code == Code::I4 && !(activation && activation->code == Code::I8); }

bool StoredModule::operator<(const StoredModule &o) const {
  return std::make_pair(keyOf(weight), keyOf(activation)) < std::make_pair(keyOf(o.weight), keyOf(o.activation));
}

/// The arguments of weights, or with `token` for the strategy of whole rows those of activations.
static OrderedJson argumentsOf(const Scheme &scheme, bool activations) {
  OrderedJson args = {{"num_bits", scheme.bits()}, {"type", scheme.code == Code::F8E4M3 ? "float" : "int"}, {"symmetric", true}, {"dynamic", activations}};
  if (!activations && scheme.blockRows != 1) {
    args["strategy"] = scheme.blockRows ? "block" : "tensor";
    if (scheme.blockRows)
      args["block_structure"] = {scheme.blockRows, scheme.blockCols};
  } else if (scheme.blockCols) {
    args["strategy"] = "group";
    args["group_size"] = scheme.blockCols;
  } else {
    args["strategy"] = activations ? "token" : "channel";
  }
  return args;
}

static OrderedJson groupOf(const StoredModule &m) {
  const char *format = m.packed() ? "pack-quantized" : m.weight->code == Code::F8E4M3 ? "float-quantized" : "int-quantized";
  OrderedJson inputs = m.activation ? argumentsOf(*m.activation, true) : OrderedJson();
  return {{"format", format}, {"weights", argumentsOf(*m.weight, false)}, {"input_activations", inputs}, {"output_activations", nullptr}};
}

/// "model.layers.3.mlp.experts.7.up_proj" as an expression in which experts, and with `layers` layers, may have any number.
static std::string patternOf(const std::string &module, bool layers) {
  std::string out;
  for (size_t i = 0; i < module.size();) {
    size_t end = i;
    while (end < module.size() && std::isdigit(static_cast<unsigned char>(module[end])))
      ++end;
    if (end > i) {
      bool layer = out.size() >= 8 && out.compare(out.size() - 8, 8, "layers\\.") == 0;
      bool number = i > 0 && module[i - 1] == '.' && (!layer || layers);
      out += number ? "\\d+" : module.substr(i, end - i);
      i = end;
    } else {
      out += module[i] == '.' ? std::string("\\.") : std::string(1, module[i]);
      ++i;
    }
  }
  return out;
}

namespace {

/// Names for sets of modules.
class Patterns {
public:
  explicit Patterns(const std::map<std::string, StoredModule> &modules) : modules(modules) {
    for (const auto &[name, stored] : modules)
      for (bool layers : {false, true})
        ways[patternOf(name, layers)].insert(&*kinds.insert(stored).first);
  }

  /// The shortest list that names the modules stored like this, and no others.
  std::vector<std::string> of(const StoredModule &stored) const {
    std::vector<std::string> out;
    std::set<std::string> seen;
    for (const auto &[name, other] : modules)
      if (!(other < stored) && !(stored < other)) {
        std::string text = nameOf(name);
        if (seen.insert(text).second)
          out.push_back(text);
      }
    return out;
  }

private:
  std::string nameOf(const std::string &module) const {
    for (bool layers : {true, false}) {
      std::string pattern = patternOf(module, layers);
      if (ways.at(pattern).size() == 1 && pattern.find("\\d+") != pattern.npos)
        return "re:" + pattern + "$";
    }
    return module;
  }

  const std::map<std::string, StoredModule> &modules;
  std::set<StoredModule> kinds;
  std::map<std::string, std::set<const StoredModule *>> ways; ///< how the modules of a pattern are stored
};

} // namespace

// Engines know int8 rows with one scale per token only; vLLM besides wants all projections of an expert alike.
std::map<std::string, StoredModule> forOtherEngines(std::map<std::string, StoredModule> modules) {
  for (auto &[name, stored] : modules)
    if (stored.activation && stored.activation->code == Code::I8)
      stored.activation->blockCols = 0;
  return modules;
}

OrderedJson quantizationConfig(const std::map<std::string, StoredModule> &modules) {
  Patterns patterns(modules);
  std::map<StoredModule, int64_t> counts;
  for (const auto &[name, stored] : modules)
    ++counts[stored];
  const StoredModule *most = nullptr;
  for (const auto &[stored, count] : counts)
    if (stored.weight && (!most || count > counts.at(*most)))
      most = &stored;
  OrderedJson groups = OrderedJson::object(), ignored = OrderedJson::array();
  std::set<std::string> formats;
  for (const auto &[stored, count] : counts) {
    if (!stored.weight) {
      ignored = patterns.of(stored);
      continue;
    }
    OrderedJson group = {{"targets", &stored == most ? std::vector<std::string>{"Linear"} : patterns.of(stored)}};
    group.update(groupOf(stored));
    formats.insert(group["format"]);
    groups["group_" + std::to_string(groups.size())] = group;
  }
  return {{"quant_method", "compressed-tensors"}, {"format", formats.size() == 1 ? *formats.begin() : "mixed-precision"},
          {"quantization_status", "compressed"}, {"global_compression_ratio", nullptr}, {"kv_cache_scheme", nullptr},
          {"ignore", ignored}, {"config_groups", groups}};
}

//===-- Files -------------------------------------------------------------===//

Status CheckpointWriter::shard(const std::vector<OutTensor> &tensors) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05lld-of-%05lld.safetensors", static_cast<long long>(++written), static_cast<long long>(shards));
  std::vector<SafetensorsWriter::Tensor> declared;
  for (const OutTensor &t : tensors) {
    declared.push_back({t.name, t.dtype, t.shape});
    fileOf[t.name] = name;
    bytes += t.data().size();
  }
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(folder + "/" + name, declared, {{"format", "pt"}});
  if (!writer)
    return writer.error();
  for (const OutTensor &t : tensors)
    if (Status s = writer->append(t.data().data(), t.data().size()); !s)
      return s;
  return writer->finish();
}

Status CheckpointWriter::write(const std::string &name, const std::string &content) {
  std::ofstream out(folder + "/" + name, std::ios::binary);
  out << content;
  out.close();
  return out ? Status() : Status(doesNotFitError("cannot write '" + folder + "/" + name + "'"));
}

Status CheckpointWriter::finish(Json config, const OrderedJson &quantization) {
  if (written != shards)
    return internalError("expected " + std::to_string(shards) + " shards, got " + std::to_string(written));
  OrderedJson map = OrderedJson::object();
  for (const auto &[tensor, file] : fileOf)
    map.push_back({tensor, file}); // sorted already; operator[] would search
  OrderedJson index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", std::move(map)}};
  if (Status s = write("model.safetensors.index.json", index.dump(1) + "\n"); !s)
    return s;
  config.erase("compression_config");
  config["quantization_config"] = Json::parse(quantization.dump());
  return write("config.json", config.dump(2) + "\n");
}

} // namespace dsv3::quantize
