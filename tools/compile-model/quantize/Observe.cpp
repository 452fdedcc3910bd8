#include "tools/compile-model/quantize/Observe.h"

#include "runtime/cuda/OpenDevice.h"
#include "runtime/engine/CpuFeatures.h"
#include "runtime/engine/Engine.h"
#include "tools/compile-model/Driver.h"

#include <algorithm>
#include <numeric>

namespace dsv3 {

/// The one code variant that will run here.
static Result<std::vector<std::string>> ownVariant() {
  std::vector<std::string> names;
  for (const CpuVariant &v : cpuVariants())
    names.push_back(v.name);
  Result<size_t> best = chooseVariant(names, cpuFeatures(), "");
  if (!best)
    return best.error();
  return std::vector<std::string>{names[*best]};
}

static Status compileLayer(const std::string &folder, const std::string &artifact, int64_t longest, int jobs) {
  CommandLine line;
  line.modelFolder = folder;
  line.output = artifact;
  line.targets = {"x86-64"};
  line.compile.dtype = ComputeType::F32;
  line.compile.observers = true;
  line.compile.maxBatch = 8;
  line.compile.maxModelLen = longest;
  line.compile.jobs = jobs;
  Result<std::vector<std::string>> variant = ownVariant();
  if (!variant)
    return variant.error();
  line.compile.cpuVariants = *variant;
  Result<std::string> done = compileModel(line);
  return done ? Status() : Status(done.error());
}

namespace {
/// Collects taps: rows of a document come in order, documents beside each other.
class Collector {
public:
  Collector(const dsv3_module_desc &module, const std::vector<int64_t> &lengths) : module(module), next(module.n_taps) {
    int64_t at = 0;
    for (int64_t length : lengths) {
      for (std::vector<int64_t> &n : next)
        n.push_back(at);
      at += length;
    }
    for (uint32_t t = 0; t < module.n_taps; ++t)
      states[module.taps[t].name].resize(at, int64_t(module.taps[t].cols));
  }

  Status take(size_t document, uint32_t tap, int64_t rows, const void *data) {
    const dsv3_tap_desc &t = module.taps[tap];
    quantize::Matrix &to = states[t.name];
    int64_t &row = next[tap][document];
    const size_t n = size_t(rows) * t.cols;
    float *out = to.data() + row * to.cols();
    row += rows;
    if (t.elem == DSV3_ELEM_F32 || t.elem == DSV3_ELEM_I32)
      convertToFloat(t.elem == DSV3_ELEM_F32 ? DType::F32 : DType::I32, data, n, out);
    else
      return internalError(std::string("observer ") + t.name + ": expected f32 or i32");
    return {};
  }

  const dsv3_module_desc &module;
  LayerStates states;
  std::vector<std::vector<int64_t>> next; ///< by tap and document: the row to come
};
} // namespace

Result<LayerStates> observeLayer(const std::string &folder, const std::vector<int64_t> &lengths, int jobs) {
  const std::string artifact = folder + "/artifact";
  if (Status s = compileLayer(folder, artifact, *std::max_element(lengths.begin(), lengths.end()), jobs); !s)
    return Error{s.error().code, "calibration: " + s.error().message};
  OpenOptions open;
  open.device = "cpu";
  open.threads = jobs;
  Result<OpenedModel> opened = openModel(artifact, open);
  if (!opened)
    return opened.error();
  Result<std::unique_ptr<Engine>> engine = Engine::create(*opened->device, opened->artifact->manifest(), {});
  if (!engine)
    return engine.error();
  std::vector<std::vector<int32_t>> documents;
  int32_t row = 0;
  for (int64_t length : lengths) {
    documents.emplace_back(size_t(length));
    std::iota(documents.back().begin(), documents.back().end(), row);
    row += int32_t(length);
  }
  Collector collector(opened->device->module(), lengths);
  Status s = (*engine)->states(documents, [&](size_t document, uint32_t tap, int64_t rows, const void *data) {
    return collector.take(document, tap, rows, data);
  });
  if (!s)
    return Error{s.error().code, "calibration: " + s.error().message};
  return std::move(collector.states);
}

} // namespace dsv3
