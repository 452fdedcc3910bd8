#include "FakeArtifact.h"

#include "FakeKernels.h"
#include "runtime/core/Hash.h"
#include "runtime/core/MappedFile.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>

namespace fs = std::filesystem;

namespace fake {

namespace {

using dsv3::Json;

const char *const kElems[] = {"f32", "bf16", "i32", "i64"};
const char *const kPhases[] = {"prefill", "decode", "score", "mtp"};

Json fileEntry(const std::string &folder, const std::string &name) {
  auto mapped = dsv3::MappedFile::open(folder + "/" + name);
  return {{"file", name}, {"hash", dsv3::hashHex(mapped->bytes())}, {"bytes", mapped->bytes().size()}};
}

/// The module's own tables, as the compiler would have written them down: `target` and what all targets share.
struct Description {
  Json target, common;
};

Description describeModule(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const dsv3_module_desc &d = *reinterpret_cast<dsv3_module_fn>(dlsym(library, "dsv3_module"))();
  Json m, common;
  for (uint32_t i = 0; i < d.n_programs; ++i) {
    const dsv3_program_desc &p = d.programs[i];
    Json outputs = Json::array();
    for (uint32_t o = 0; o < p.n_outputs; ++o)
      outputs.push_back(
          {{"name", p.outputs[o].name}, {"dtype", kElems[p.outputs[o].elem]}, {"cols", p.outputs[o].cols}});
    m["programs"].push_back({{"name", p.name},
                             {"phase", kPhases[p.phase]},
                             {"tokens", p.tokens},
                             {"seqs", p.seqs},
                             {"qblocks", p.qblocks},
                             {"kblocks", p.kblocks},
                             {"outputs", outputs}});
  }
  for (uint32_t i = 0; i < d.n_taps; ++i)
    common["taps"].push_back(
        {{"name", d.taps[i].name}, {"dtype", kElems[d.taps[i].elem]}, {"cols", d.taps[i].cols}});
  uint64_t pageBytes = uint64_t(d.kv_layers) * d.kv_page_bytes;
  m["memory"] = {{"weights", d.pool_bytes[DSV3_POOL_WEIGHTS]},
                 {"arena", d.pool_bytes[DSV3_POOL_ARENA]},
                 {"persist", d.pool_bytes[DSV3_POOL_PERSIST]},
                 {"step", d.pool_bytes[DSV3_POOL_STEP]},
                 {"kv_page", pageBytes},
                 {"kv_pages_min", d.max_pages}};
  common["kv"] = {{"layers", d.kv_layers},
             {"page_tokens", d.kv_page_tokens},
             {"row_elems", d.kv_row_elems},
             {"dtype", "f32"}};
  dlclose(library);
  return {m, common};
}

void writeWeights(const std::string &path) {
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < kWeights; ++i) {
    uint32_t w = weight(i);
    file.write(reinterpret_cast<const char *>(&w), sizeof w);
  }
}

Json weightsEntry(const std::string &folder, const std::string &name) {
  Json entry = fileEntry(folder, name);
  entry["tensors"] = Json::array({{{"name", "table"}, {"offset", 0}, {"bytes", kWeights * 4}}});
  return entry;
}

} // namespace

FakeArtifact::FakeArtifact(const std::string &module, bool withTokenizer, const std::string &device) {
  std::string pattern = (fs::temp_directory_path() / "dsv3-fake-XXXXXX").string();
  folder = mkdtemp(pattern.data());
  fs::create_directories(folder + "/code/x86-64");
  fs::create_directories(folder + "/weights/x86-64");
  fs::copy_file(module, folder + "/code/x86-64/avx2.so");
  writeWeights(folder + "/weights/x86-64/rank-0.bin");
  if (withTokenizer) {
    fs::create_directories(folder + "/tokenizer");
    for (const char *name : {"tokenizer.json", "tokenizer_config.json"})
      fs::copy_file(std::string(DSV3_SOURCE_DIR "/examples/dsv3-tiny/") + name,
                    folder + "/tokenizer/" + name);
  }
  Description described = describeModule(module);
  manifest = described.common;
  manifest["format"] = 2;
  manifest["abi"] = DSV3_ABI;
  manifest["compiler"] = {{"name", "fake"}, {"version", "1"}};
  manifest["model"] = {{"vocab_size", kVocab},
                       {"hidden_size", 1},
                       {"layers", kLayers},
                       {"mtp_layers", 1},
                       {"bos_token_id", 0},
                       {"eos_token_ids", Json::array({1})},
                       {"max_position_embeddings", 4096}};
  manifest["config"] = {{"dtype", "f32"},     {"quant", "none"},          {"determinism", "batch"},
                        {"max_batch", kSeqs}, {"max_model_len", kMaxLen}, {"prefill_chunk", kTokens},
                        {"taps", ".*"}};
  Json variant = fileEntry(folder, "code/x86-64/avx2.so");
  variant["name"] = "avx2";
  Json target = described.target;
  target["name"] = "x86-64";
  target["weights"] = weightsEntry(folder, "weights/x86-64/rank-0.bin");
  target["variants"] = Json::array({variant});
  manifest["targets"] = Json::array({target});
  if (!device.empty())
    manifest["targets"].push_back(addDevice(device));
  manifest["ignored"] = Json::array();
  writeManifest();
}

/// The fake driver looks for the kernel's name in what it loads, and for "machine code" or a version of PTX.
Json FakeArtifact::addDevice(const std::string &module) {
  fs::create_directories(folder + "/code/sm_90a/kernels");
  fs::create_directories(folder + "/weights/sm_90a");
  fs::copy_file(module, folder + "/code/sm_90a/host.so");
  writeWeights(folder + "/weights/sm_90a/rank-0.bin");
  Json kernels = Json::array();
  for (const Kernel &k : kKernels) {
    std::string stem = std::string("code/sm_90a/kernels/") + k.name;
    std::ofstream(file(stem + ".cubin")) << "machine code of " << k.name << " ";
    std::ofstream(file(stem + ".ptx")) << ".version 8.7\n.target sm_90a\n.entry " << k.name << " ";
    kernels.push_back({{"symbol", k.name}, {"cubin", fileEntry(folder, stem + ".cubin")}, {"ptx", fileEntry(folder, stem + ".ptx")}});
  }
  Json target = describeModule(module).target;
  target["name"] = "sm_90a";
  target["weights"] = weightsEntry(folder, "weights/sm_90a/rank-0.bin");
  target["device"] = {{"arch", "sm_90a"}, {"sm_count", 132}, {"smem", 232448}, {"verified", true}, {"kernels", kernels},
                      {"host", fileEntry(folder, "code/sm_90a/host.so")}};
  return target;
}

FakeArtifact::~FakeArtifact() { fs::remove_all(folder); }

void FakeArtifact::writeManifest() const { std::ofstream(folder + "/manifest.json") << manifest.dump(1); }

std::string modulePath(const std::string &name) {
  return std::string(DSV3_FAKE_MODULES) + "/" + name + ".so";
}

} // namespace fake
