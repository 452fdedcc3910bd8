#include "runtime/engine/Artifact.h"

#include "FakeArtifact.h"
#include "runtime/engine/CpuFeatures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

using namespace dsv3;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

Error errorOf(const fake::FakeArtifact &a, bool verify = false) {
  Artifact::Options options;
  options.verify = verify;
  auto opened = Artifact::open(a.path(), options);
  return opened ? Error{ExitCode::Ok, "it opened"} : opened.error();
}

void expectRefused(const fake::FakeArtifact &a, testing::Matcher<std::string> message, bool verify = false,
                   ExitCode code = ExitCode::BadCheckpoint) {
  Error e = errorOf(a, verify);
  EXPECT_EQ(e.code, code) << e.message;
  EXPECT_THAT(e.message, message);
  EXPECT_EQ(e.message.find('\n'), std::string::npos);
}

void flipByte(const std::string &path, uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  char c = char(file.get() ^ 0x40);
  file.seekp(at);
  file.put(c);
}

const std::string kCode = "code/x86-64/avx2.so", kWeights = "weights/x86-64/rank-0.bin";

class ArtifactTest : public testing::Test {
protected:
  fake::FakeArtifact artifact{fake::modulePath()};
};

TEST_F(ArtifactTest, Opens) {
  auto opened = Artifact::open(artifact.path(), {"", true});
  ASSERT_TRUE(bool(opened)) << opened.error().message;
  EXPECT_EQ(opened->variant(), "avx2");
  EXPECT_EQ(opened->weights().size(), 1024u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(opened->weights().data()) % 4096, 0u) << "mapped, not copied";
  EXPECT_EQ(opened->target().programs.size(), 7u);
  EXPECT_EQ(opened->manifest().model.eosIds, std::vector<int32_t>{1});
}

TEST_F(ArtifactTest, EveryManifestKeyIsNeeded) {
  const Json good = artifact.manifest;
  auto lacks = [&](auto remove, const std::string &name) {
    artifact.manifest = good;
    remove(artifact.manifest);
    artifact.writeManifest();
    expectRefused(artifact, AllOf(HasSubstr("manifest.json"), HasSubstr(name)));
  };
  for (auto &[key, value] : good.items()) {
    lacks([&, key = key](Json &m) { m.erase(key); }, key);
    if (!value.is_object())
      continue;
    for (auto &[inner, ignored] : value.items())
      if (inner != "bos_token_id" && inner != "taps") // these may be absent: no token, no taps
        lacks([&, key = key, inner = inner](Json &m) { m[key].erase(inner); }, key + "." + inner);
  }
  for (const char *key : {"name", "phase", "tokens", "seqs", "qblocks", "kblocks", "outputs"})
    lacks([&](Json &m) { m["targets"][0]["programs"][3].erase(key); }, std::string("targets[0].programs[3].") + key);
  for (const char *key : {"name", "variants", "weights", "memory", "programs"})
    lacks([&](Json &m) { m["targets"][0].erase(key); }, std::string("targets[0].") + key);
  for (const char *key : {"weights", "arena", "persist", "step", "kv_page", "kv_pages_min"})
    lacks([&](Json &m) { m["targets"][0]["memory"].erase(key); }, std::string("targets[0].memory.") + key);
  for (const char *key : {"name", "file", "hash", "bytes"})
    lacks([&](Json &m) { m["targets"][0]["variants"][0].erase(key); },
          std::string("targets[0].variants[0].") + key);
  for (const char *key : {"file", "hash", "bytes", "tensors"})
    lacks([&](Json &m) { m["targets"][0]["weights"].erase(key); }, std::string("targets[0].weights.") + key);
}

TEST_F(ArtifactTest, WrongValuesAreNamed) {
  const Json good = artifact.manifest;
  auto refused = [&](const char *pointer, Json value, testing::Matcher<std::string> message) {
    artifact.manifest = good;
    artifact.manifest[Json::json_pointer(pointer)] = value;
    artifact.writeManifest();
    expectRefused(artifact, message);
  };
  refused("/format", 9999, AllOf(HasSubstr("format: expected 2, got 9999")));
  refused("/abi", 9999, HasSubstr("abi: expected 4, got 9999"));
  refused("/model/vocab_size", "many", HasSubstr("model.vocab_size: expected an integer, got \"many\""));
  refused("/model/eos_token_ids", Json::array({99999}), HasSubstr("model.eos_token_ids"));
  refused("/targets/0/programs/2/phase", "dinner",
          HasSubstr("targets[0].programs[2].phase: expected one of prefill, decode, score, mtp"));
  refused("/targets/0/programs/2/tokens", 3, HasSubstr("program decode_b1, tokens: the manifest says 3, the code 1"));
  refused("/kv/row_elems", 3, HasSubstr("kv.row_elems: the manifest says 3, the code 2"));
  refused("/targets/0/memory/arena", 64, HasSubstr("memory.arena"));
  refused("/config/max_model_len", 4096, HasSubstr("kv_pages_min"));
  refused("/taps/0/name", "x", HasSubstr("tap: the manifest says x, the code embed"));
  refused("/targets/0/weights/tensors/0/bytes", 2000, HasSubstr("weight table"));
  refused("/targets/0/variants/0/file", "../x.so", HasSubstr("a path inside the artifact"));
}

TEST_F(ArtifactTest, CutFilesAreRefused) {
  for (const std::string &name : {kCode, kWeights, std::string("manifest.json")}) {
    fake::FakeArtifact fresh(fake::modulePath());
    for (uint64_t size : {fs::file_size(fresh.file(name)) - 1, uint64_t(100), uint64_t(0)}) {
      fs::resize_file(fresh.file(name), size);
      expectRefused(fresh, HasSubstr(name));
    }
    fs::remove(fresh.file(name));
    expectRefused(fresh, HasSubstr(name));
  }
}

TEST_F(ArtifactTest, DamagedFilesAreRefused) {
  flipByte(artifact.file(kWeights), 500);
  EXPECT_EQ(errorOf(artifact).code, ExitCode::Ok) << "weights are hashed only on demand";
  expectRefused(artifact, AllOf(HasSubstr(kWeights), HasSubstr("hash")), true);
  flipByte(artifact.file(kCode), fs::file_size(artifact.file(kCode)) / 2);
  expectRefused(artifact, AllOf(HasSubstr(kCode), HasSubstr("hash")));
}

TEST_F(ArtifactTest, NoFolderNoTarget) {
  EXPECT_THAT(Artifact::open("nowhere.dsv3", {}).error().message, HasSubstr("nowhere.dsv3"));
  artifact.manifest["targets"][0]["name"] = "sm_90a";
  artifact.writeManifest();
  expectRefused(artifact, AllOf(HasSubstr("x86-64"), HasSubstr("sm_90a")), false, ExitCode::Unsupported);
}

/// The manifest fits each of these modules, but the module is wrong in itself.
TEST(Module, FaultsAreFoundBeforeAnythingRuns) {
  expectRefused(fake::FakeArtifact(fake::modulePath("dsv3_fake_bad_abi")), HasSubstr("abi: expected 4"));
  expectRefused(fake::FakeArtifact(fake::modulePath("dsv3_fake_bad_launch")),
                AllOf(HasSubstr("launch append"), HasSubstr("an address outside its pool")));
  expectRefused(fake::FakeArtifact(fake::modulePath("dsv3_fake_bad_field")), HasSubstr("two fields overlap"));
  expectRefused(fake::FakeArtifact(fake::modulePath("dsv3_fake_bad_output")), HasSubstr("output logits"));
}

TEST(CpuFeatures, ChoosesTheBestOrTheForced) {
  std::vector<std::string> all = {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"};
  std::vector<std::string> old = {"avx2", "fma", "f16c"};
  std::vector<std::string> offered = {"avx2", "avx512", "avx512-vnni-bf16"};
  EXPECT_EQ(*chooseVariant(offered, all, ""), 1u);
  EXPECT_EQ(*chooseVariant(offered, old, ""), 0u);
  EXPECT_EQ(*chooseVariant(offered, all, "avx2"), 0u);
  auto check = [](Result<size_t> r, testing::Matcher<std::string> message) {
    ASSERT_FALSE(bool(r));
    EXPECT_EQ(r.error().code, ExitCode::Unsupported);
    EXPECT_THAT(r.error().message, message);
  };
  check(chooseVariant({"avx512"}, old, ""),
        HasSubstr("it has avx2, fma, f16c; the artifact has code for avx512"));
  check(chooseVariant(offered, old, "avx512"), HasSubstr("this cpu has no avx512f"));
  check(chooseVariant(offered, all, "amx"), HasSubstr("the artifact has code for avx2, avx512"));
}

TEST(CpuFeatures, TilesNeedAllTheirFeatures) {
  std::vector<std::string> has = {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16"};
  std::vector<std::string> offered = {"avx2", "avx512", "avx512-vnni-bf16", "amx"};
  EXPECT_EQ(*chooseVariant(offered, has, ""), 2u);
  Result<size_t> refused = chooseVariant(offered, has, "amx");
  ASSERT_FALSE(bool(refused));
  EXPECT_EQ(refused.error().code, ExitCode::Unsupported);
  EXPECT_EQ(refused.error().message, "cpu features \"amx\": this cpu has no amx-tile, amx-bf16, amx-int8");
  has.insert(has.end(), {"amx-tile", "amx-bf16"});
  EXPECT_FALSE(bool(chooseVariant(offered, has, "amx")));
  has.push_back("amx-int8");
  EXPECT_EQ(*chooseVariant(offered, has, ""), 3u);
}

} // namespace
