// dsv3-run and dsv3-eval as processes, on the fake model with the example's tokenizer.
#include "FakeArtifact.h"
#include "FakeModel.h"
#include "runtime/core/Json.h"
#include "runtime/core/MappedFile.h"
#include "runtime/core/Safetensors.h"
#include "test/runtime/core/TempDir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <sys/wait.h>

using namespace dsv3;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

struct Finished {
  int code;
  std::string out, err;
  Json json() const { return *parseJson(out, "output"); }
};

class Tools : public testing::Test {
protected:
  static void SetUpTestSuite() { artifact = new fake::FakeArtifact(fake::modulePath(), true); }
  static void TearDownTestSuite() { delete artifact; }

  /// Flags go through the shell: quote what needs it.
  static Finished shell(const std::string &command) {
    std::string errors = artifact->file("stderr.txt");
    std::FILE *pipe = popen((command + " 2>" + errors + " </dev/null").c_str(), "r");
    Finished done;
    char buffer[4096];
    for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
      done.out.append(buffer, n);
    int status = pclose(pipe);
    done.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    std::ifstream file(errors);
    done.err.assign(std::istreambuf_iterator<char>(file), {});
    return done;
  }
  static Finished run(const std::string &flags) {
    return shell(std::string(DSV3_RUN) + " " + artifact->path() + " " + flags);
  }
  static Finished eval(const std::string &flags) {
    return shell(std::string(DSV3_EVAL) + " " + artifact->path() + " " + flags);
  }
  static Json generate(const std::string &flags) {
    Finished done = run("--json " + flags);
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(done.err, "") << "quiet in a pipe";
    return done.json();
  }
  static void expectRefused(const Finished &done, int code, const std::string &word) {
    EXPECT_EQ(done.code, code) << done.err;
    EXPECT_THAT(done.err, AllOf(HasSubstr(word), HasSubstr("error: ")));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    EXPECT_EQ(done.out, "");
  }
  static std::string write(const std::string &name, const std::string &content) {
    std::ofstream(artifact->file(name)) << content;
    return artifact->file(name);
  }

  static fake::FakeArtifact *artifact;
};

fake::FakeArtifact *Tools::artifact = nullptr;

TEST_F(Tools, JsonShape) {
  Json r = generate("--prompt 'Once upon a time' --max-tokens 5");
  EXPECT_EQ(r["prompt_ids"], Json::parse("[0,2037,660,261,567]")) << "BOS, then the text";
  EXPECT_EQ(r["ids"].size(), 5u);
  EXPECT_EQ(r["logprobs"].size(), 5u);
  EXPECT_EQ(r["finish_reason"], "length");
  EXPECT_FALSE(r.contains("index"));
  for (const char *key : {"load_ms", "ttft_ms", "tpot_ms", "tokens_per_second"})
    EXPECT_GE(r["timings"][key].get<double>(), 0) << key;
  Finished text = run("--prompt 'Once upon a time' --max-tokens 5");
  EXPECT_EQ(text.out, r["text"].get<std::string>() + "\n");
}

TEST_F(Tools, SpecialTokensOnlyInPrompts) {
  EXPECT_EQ(generate("--prompt '<｜User｜>' --max-tokens 0")["prompt_ids"], Json::parse("[0,3553]"));
  Json chat = generate("--chat '<｜User｜>' --max-tokens 0")["prompt_ids"];
  EXPECT_EQ(chat[0], 0);
  EXPECT_EQ(chat[1], 3553);
  EXPECT_EQ(std::count(chat.begin(), chat.end(), 3553), 1);
  EXPECT_EQ(chat.back(), 3554);
}

TEST_F(Tools, StopStringsEndTheText) {
  Json all = generate("--ids=0,5 --max-tokens 12");
  std::string text = all["text"], stop = text.substr(text.size() / 2, 3);
  Json cut = generate("--ids=0,5 --max-tokens 12 --stop never --stop '" + stop + "'");
  EXPECT_EQ(cut["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(cut["finish_reason"], "stop");
  EXPECT_LT(cut["ids"].size(), 12u);
  Finished streamed = run("--ids=0,5 --max-tokens 12 --stop '" + stop + "'");
  EXPECT_EQ(streamed.out, cut["text"].get<std::string>() + "\n");
}

TEST_F(Tools, EndIdsEndUnlessIgnored) {
  Json all = generate("--ids=0,5 --max-tokens 6");
  fake::FakeArtifact other(fake::modulePath(), true);
  other.manifest["model"]["eos_token_ids"] = Json::array({all["ids"][3]});
  other.writeManifest();
  std::string command = std::string(DSV3_RUN) + " " + other.path() + " --ids=0,5 --max-tokens 6 --json";
  Json ended = shell(command).json();
  EXPECT_EQ(ended["ids"].size(), 4u);
  EXPECT_EQ(ended["finish_reason"], "stop");
  EXPECT_EQ(all["text"].get<std::string>().rfind(ended["text"].get<std::string>(), 0), 0u);
  Json ignored = shell(command + " --ignore-eos").json();
  EXPECT_EQ(ignored["ids"], all["ids"]);
  EXPECT_EQ(ignored["finish_reason"], "length");
  EXPECT_LT(ignored["text"].get<std::string>().size(), all["text"].get<std::string>().size())
      << "the end id is no text";
}

TEST_F(Tools, BatchIsInOrderAndEqualToEachAlone) {
  std::string batch =
      write("batch.jsonl", "{\"ids\":[0,5],\"max_tokens\":30}\n\n"
                           "{\"chat\":\"hey\",\"max_tokens\":2}\n"
                           "{\"messages\":[{\"role\":\"user\",\"content\":\"hey\"}],\"max_tokens\":2}\n"
                           "{\"prompt\":\"Hi\",\"temperature\":1,\"seed\":4,\"max_tokens\":7}\n");
  Finished done = run("--batch " + batch);
  ASSERT_EQ(done.code, 0) << done.err;
  std::vector<Json> lines;
  std::istringstream in(done.out);
  for (std::string line; std::getline(in, line);)
    lines.push_back(*parseJson(line, "line"));
  ASSERT_EQ(lines.size(), 4u);
  for (size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(lines[i]["index"], i);
  EXPECT_EQ(lines[0]["ids"], generate("--ids=0,5 --max-tokens 30")["ids"]);
  EXPECT_EQ(lines[1]["ids"], lines[2]["ids"]);
  EXPECT_EQ(lines[1]["prompt_ids"], generate("--chat hey --max-tokens 0")["prompt_ids"]);
  EXPECT_EQ(lines[3]["ids"], generate("--prompt Hi --temperature 1 --seed 4 --max-tokens 7")["ids"]);
}

void expectLogits(const StoredTensor *t, const std::vector<uint32_t> &hidden) {
  ASSERT_NE(t, nullptr);
  EXPECT_THAT(t->shape, ElementsAre(hidden.size(), fake::kVocab));
  EXPECT_EQ(t->dtype, DType::F32);
  for (size_t r = 0; r < hidden.size(); ++r)
    for (int v = 0; v < fake::kVocab; v += 311)
      ASSERT_EQ(loadAsFloat(DType::F32, t->data.data(), r * fake::kVocab + v), fake::logit(hidden[r], v))
          << r << ", " << v;
}

TEST_F(Tools, LogitsAndTapsFiles) {
  std::vector<int32_t> ids = {0, 5, 9, 77, 3000};
  test::TempDir dir;
  std::string logits = dir / "logits", taps = dir / "taps";
  generate("--ids=0,5,9,77,3000 --max-tokens 1 --prefill-chunk 2 --logits-out " + logits + " --taps-out " +
           taps);
  auto file = SafetensorsFile::open(logits);
  ASSERT_TRUE(bool(file)) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 2u);
  expectLogits(file->find("logits"), fake::expected(ids).hidden);
  expectLogits(file->find("mtp_logits"), fake::expected(ids).mtpHidden);
  auto states = SafetensorsFile::open(taps);
  ASSERT_TRUE(bool(states)) << states.error().message;
  const StoredTensor *embed = states->find("embed");
  ASSERT_NE(embed, nullptr);
  EXPECT_EQ(embed->dtype, DType::I32);
  EXPECT_THAT(embed->shape, ElementsAre(5, 2));
  EXPECT_EQ(loadAsFloat(DType::I32, embed->data.data(), 8), 3000);
  EXPECT_EQ(loadAsFloat(DType::I32, embed->data.data(), 9), 4);
  EXPECT_THAT(states->find("mtp.hidden")->shape, ElementsAre(4, 1));
}

TEST_F(Tools, LogitsOfABatch) {
  // Lengths that make rows of different prompts alternate, one without an MTP row.
  std::vector<std::vector<int32_t>> prompts(4);
  std::string lines;
  for (int i = 0; i < 4; ++i) {
    const int lengths[] = {130, 1, 20, 60};
    for (int t = 0; t < lengths[i]; ++t)
      prompts[i].push_back((i * 31 + t * 7) % fake::kVocab);
    lines += Json{{"ids", prompts[i]}, {"max_tokens", 0}}.dump() + "\n";
  }
  test::TempDir dir;
  std::string logits = dir / "logits";
  ASSERT_EQ(run("--prefill-chunk 13 --batch " + write("batch.jsonl", lines) + " --logits-out " + logits).code,
            0);
  auto file = SafetensorsFile::open(logits);
  ASSERT_TRUE(bool(file)) << file.error().message;
  for (int i = 0; i < 4; ++i) {
    fake::Expected e = fake::expected(prompts[i]);
    expectLogits(file->find("logits." + std::to_string(i)), e.hidden);
    expectLogits(file->find("mtp_logits." + std::to_string(i)), e.mtpHidden);
  }
}

TEST_F(Tools, OutputFilesThatWouldDestroySomething) {
  test::TempDir dir;
  std::string file = dir / "x", inside = artifact->path() + "/new";
  std::filesystem::create_symlink(artifact->path() + "/manifest.json", dir / "link");
  std::filesystem::create_symlink(dir.str(), dir / "same");
  for (std::string flag : {"--logits-out ", "--taps-out "}) {
    expectRefused(run("--ids 0 --max-tokens 1 " + flag + "/dev/null"), 2, flag + "/dev/null: expected");
    expectRefused(run("--ids 0 " + flag + dir.str()), 2, "got a folder");
    expectRefused(run("--ids 0 " + flag + inside), 2, inside + ": expected a file outside");
    expectRefused(run("--ids 0 " + flag + (dir / "link")), 2, "expected a file outside");
    // Before anything else is looked at.
    expectRefused(shell(std::string(DSV3_RUN) + " nowhere --ids 0 " + flag + "/dev/null"), 2, "/dev/null");
  }
  expectRefused(run("--ids 0 --logits-out " + file + " --taps-out " + (dir / "same/x")), 2,
                "expected two files");
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(Tools, WeightsThatOverflowLeaveNoFile) {
  fake::FakeArtifact broken(fake::modulePath("dsv3_fake_nan"), true);
  test::TempDir dir;
  std::string command = std::string(DSV3_RUN) + " " + broken.path() + " ";
  expectRefused(shell(command + "--ids=0,5 --max-tokens 0 --logits-out " + (dir / "x")), 3,
                "request 0: logit 0 at position 0 is not finite: the weights overflow");
  EXPECT_TRUE(dir.empty());
  // Requests without tokens count, too.
  std::string batch = dir.write("b", "{\"ids\":[0],\"max_tokens\":0}\n{\"ids\":[0,5,7],\"max_tokens\":1}\n");
  Finished done = shell(command + "--batch " + batch);
  EXPECT_EQ(done.code, 3);
  EXPECT_THAT(done.err, HasSubstr("request 1: logit 0 at position 2 is not finite"));
  std::string stories = dir.write("s", "{\"text\":\"Hi\"}\n");
  expectRefused(shell(std::string(DSV3_EVAL) + " " + broken.path() + " --stories " + stories), 3,
                "request 0: logit 0 at position 0 is not finite");
}

TEST_F(Tools, WrongUseIsOneLine) {
  std::pair<const char *, const char *> cases[] = {
      {"--prompt x --no-such-flag", "--no-such-flag"},
      {"--prompt x --max-tokens many", "--max-tokens"},
      {"--prompt x --temperature nan", "--temperature"},
      {"--prompt x --temperature 1e6", "--temperature: expected a number from 0, below 1000000"},
      {"--prompt x --repetition-penalty 1e6", "a number above 0, below 1000000"},
      {"--prompt x --seed -1", "--seed: expected an integer from 0 to 18446744073709551615, got \"-1\""},
      {"--prompt x --seed 18446744073709551616", "--seed"},
      {"--prompt x --seed 1.5", "--seed"},
      {"--prompt x --top-p 1.5", "--top-p"},
      {"--prompt x --threads 0", "--threads"},
      {"--prompt x --stop ''", "--stop"},
      {"--ids=1,,2", "--ids"},
      {"--ids=", "--ids"},
      {"--prompt x --ids=1", "--prompt"},
      {"", "--prompt"},
      {"--ids=3584", "3584"},
      {"--ids=0,-1", "-1"},
      {"--prompt x --device tpu", "tpu"},
      {"--batch nowhere.jsonl", "nowhere.jsonl"},
      {"--prompt x --logits-out /proc/nowhere/x", "/proc/nowhere/x"}};
  for (auto [flags, word] : cases)
    expectRefused(run(flags), 2, word);
  std::pair<const char *, const char *> lines[] = {{"{\"ids\": [0, 1}", "line 1"},
                                                   {"{\"max_tokens\": 3}", "line 1"},
                                                   {"{\"ids\": [0], \"max_tokens\": \"x\"}", "max_tokens"},
                                                   {"{\"ids\":[0],\"seed\":-1}", "seed: expected"},
                                                   {"{\"ids\":[0],\"seed\":18446744073709551616}", "seed"},
                                                   {"", "--batch"},
                                                   {"[1]", "line 1"},
                                                   {"{\"ids\":[0],\"tempo\":1}", "tempo"},
                                                   {"{\"ids\":[0],\"top_p\":7}", "top-p"}};
  for (auto [line, word] : lines)
    expectRefused(run("--batch " + write("bad.jsonl", std::string(line) + "\n")), 2, word);
  expectRefused(run("--prompt x --cpu-features sse2"), 4, "sse2");
}

TEST_F(Tools, EmptyValuesAreNotUnset) {
  for (std::string flag : {"--temperature", "--top-p", "--top-k", "--min-p", "--seed", "--repetition-penalty",
                           "--max-tokens", "--logits-out", "--taps-out", "--batch", "--threads",
                           "--prefill-chunk", "--device", "--cpu-features"})
    for (std::string value : {" ''", "="})
      expectRefused(run("--ids=0 " + flag + value), 2, flag);
}

TEST_F(Tools, TheLargestSeed) {
  std::string seed = "18446744073709551615",
              line = "{\"ids\":[0,5],\"temperature\":2,\"seed\":" + seed + "}\n";
  Json one = generate("--ids=0,5 --max-tokens 8 --temperature 2 --seed " + seed);
  EXPECT_EQ(generate("--max-tokens 8 --batch " + write("seed.jsonl", line))["ids"], one["ids"]);
  EXPECT_NE(generate("--ids=0,5 --max-tokens 8 --temperature 2 --seed 0")["ids"], one["ids"]);
}

TEST_F(Tools, WithoutATokenizerOnlyIds) {
  fake::FakeArtifact bare(fake::modulePath());
  std::string command = std::string(DSV3_RUN) + " " + bare.path() + " --max-tokens 3 ";
  expectRefused(shell(command + "--prompt x"), 2, "--prompt needs a tokenizer");
  expectRefused(shell(command + "--chat x"), 2, "--chat needs a tokenizer");
  std::string ids = shell(command + "--ids=0,5").out;
  EXPECT_EQ(std::count(ids.begin(), ids.end(), ','), 2) << ids;
}

TEST_F(Tools, OutputThatIsGone) {
  EXPECT_EQ(shell("{ ( " + std::string(DSV3_RUN) + " " + artifact->path() +
                  " --prompt x --max-tokens 250; echo $? >&2 ) | true; }")
                .err,
            "0\n");
  expectRefused(run("--prompt x --max-tokens 9 >/dev/full"), 2, "No space left");
}

TEST_F(Tools, EvalMeasuresTheFakeModel) {
  std::string stories = write("stories.jsonl", "{\"text\":\"Once upon a time\"}\n{\"text\":\"Hi\"}\n");
  Finished done = eval("--json --stories " + stories + " --limit 1");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.err, "");
  std::vector<int32_t> ids = {0, 2037, 660, 261, 567};
  fake::Expected e = fake::expected(ids);
  double nll = 0;
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    double sum = 0;
    for (int v = 0; v < fake::kVocab; ++v)
      sum += std::exp(double(fake::logit(e.hidden[i], v)));
    nll += std::log(sum) - fake::logit(e.hidden[i], ids[i + 1]);
  }
  Json s = done.json()["stories"];
  EXPECT_EQ(s["documents"], 1);
  EXPECT_EQ(s["tokens"], 4);
  EXPECT_NEAR(s["nll"].get<double>(), nll / 4, 1e-9);
  EXPECT_NEAR(s["perplexity"].get<double>(), std::exp(nll / 4), 1e-3);
}

TEST_F(Tools, EvalRefusesBadFiles) {
  expectRefused(eval(""), 2, "--prose");
  expectRefused(eval("--stories nowhere.jsonl"), 2, "nowhere.jsonl");
  expectRefused(eval("--problems " + write("bad.jsonl", "{\"question\": \"half a li")), 2,
                "bad.jsonl: line 1");
  expectRefused(eval("--problems " + write("bad.jsonl", "{\"question\": \"x\"}\n")), 2,
                "line 1: final is missing");
  expectRefused(eval("--prose " + write("bad.jsonl", "\n")), 2, "at least one line");
}

TEST_F(Tools, DevicesByName) {
  fake::FakeArtifact both(fake::modulePath(), false, fake::modulePath("dsv3_fake_device"));
  std::string flags = " --ids=0,5 --max-tokens 4 ";
  auto on = [&](const std::string &environment, const std::string &device) {
    return shell(environment + " DSV3_CUDA_DRIVER=" DSV3_FAKE_CUDA " " + std::string(DSV3_RUN) + " " + both.path() + flags + device);
  };
  Finished cpu = on("", "--device cpu"), cuda = on("", "--device=cuda"), automatic = on("", "");
  EXPECT_EQ(cpu.code, 0) << cpu.err;
  EXPECT_EQ(cuda.code, 0) << cuda.err;
  EXPECT_EQ(cuda.err, "");
  EXPECT_EQ(cuda.out, cpu.out);
  EXPECT_EQ(automatic.out, cpu.out);
  EXPECT_THAT(automatic.err, HasSubstr("dsv3-run: warning: running x86-64 avx2"));
  expectRefused(on("FAKE_CUDA=no_device", "--device=cuda"), 4, "expected a GPU");
  expectRefused(on("FAKE_CUDA=capability=8.9", "--device=cuda"), 4, "got Fake GPU of 8.9");
  expectRefused(on("FAKE_CUDA=driver=12000", "--device=cuda"), 4, "CUDA 12.8 or later");
  expectRefused(on("FAKE_CUDA=memory=4096", "--device=cuda"), 5, "GPU memory: expected");
  expectRefused(on("", "--device=tpu"), 2, "--device");
  expectRefused(on("", "--device=cuda --cpu-features avx2"), 2, "--cpu-features");
  expectRefused(on("", "--device=cpu --kv-pages 1073741824"), 5, "memory: expected");
  expectRefused(run("--device=cuda --ids=0"), 4, "the artifact has no code for cuda, only for x86-64");
}

} // namespace
