// What is imported, interpreted, says what transformers says: the example model and all odd configurations.
#include "Imported.h"

#include "test/runtime/core/TempDir.h"
#include "test/runtime/reference/Checkpoint.h"
#include "test/runtime/reference/Util.h"
#include "tools/dsv3-interpret/Interpreter.h"

#include <cstdio>
#include <cstdlib>
#include <numeric>

using namespace dsv3;
using namespace dsv3::interpret;
using reference::ok;

namespace {

const std::string root = DSV3_SOURCE_DIR;

/// An imported model ready to run, one sequence at a time, in float arithmetic.
class Running {
public:
  Running(const std::string &dir, DType computeType)
      : m(dir, computeType), reader(*m.module, m.model->checkpoint.get(), /*dummy=*/false), interpreter(*m.module, reader) {}

  /// The final state of a prompt; starts a new cache.
  Array<float> trunk(const Ids &ids) {
    auto type = llvm::cast<ir::KvType>(m.program("trunk").getArgumentTypes()[2]);
    cache = std::make_shared<Cache<float>>(type.getLayers(), int64_t(pagesOf(ids.size()).size()),
                                           std::vector<int64_t>{type.getLatent(), type.getRope()},
                                           reference::CacheStorage{ok(roundingOf(type.getElem())), {}});
    return run("trunk", {hold<float>(ids), sequence(ids.size()), cache});
  }
  Array<float> head(Array<float> hidden) { return run("head", {hold(std::move(hidden))}); }
  /// Logits of all tokens but the first, from the trunk's states of all but the last.
  Array<float> mtp(const Ids &ids, const Array<float> &hidden) {
    int64_t n = ids.size() - 1;
    Ids next({n}, std::vector<int32_t>(ids.data.begin() + 1, ids.data.end()));
    Array<float> before({n, hidden.cols()}, std::vector<float>(hidden.data.begin(), hidden.data.end() - hidden.cols()));
    return run("mtp", {hold<float>(next), hold(std::move(before)), sequence(n), cache});
  }
  bool hasMtp() { return bool(m.program("mtp")); }

private:
  static std::vector<int32_t> pagesOf(int64_t tokens) {
    std::vector<int32_t> pages((tokens + reference::kPageTokens - 1) / reference::kPageTokens);
    std::iota(pages.rbegin(), pages.rend(), 0); // pages need not ascend
    return pages;
  }
  static std::shared_ptr<const SeqMeta> sequence(int64_t tokens) {
    SeqMeta meta;
    meta.addSequence(0, tokens, pagesOf(tokens));
    return std::make_shared<const SeqMeta>(std::move(meta));
  }
  Array<float> run(const char *program, const std::vector<Held<float>> &arguments) {
    auto results = ok(interpreter.run(m.program(program), arguments));
    auto *numbers = results.empty() ? nullptr : std::get_if<std::shared_ptr<const Array<float>>>(&results[0]);
    return numbers ? **numbers : Array<float>();
  }

  test::Imported m;
  WeightReader reader;
  Interpreter<float> interpreter;
  std::shared_ptr<Cache<float>> cache;
};

/// The last row of [T, N], as [N].
Array<float> lastRow(const Array<float> &x) {
  return Array<float>({x.cols()}, std::vector<float>(x.data.end() - x.cols(), x.data.end()));
}

double errorOf(const Array<float> &got, const reference::Checkpoint &goldens, const std::string &name) {
  double error = reference::maxDifference(got, ok(goldens.plain<float>(name)));
  std::printf("%s %.2e\n", name.c_str(), error);
  return error;
}

reference::Checkpoint tinyGoldens() { return reference::Checkpoint({root + "/test/goldens/goldens_fp8.safetensors"}); }

TEST(ImportedTiny, LogitsInFloat32MatchTransformers) {
  auto goldens = tinyGoldens();
  Running model(root + "/examples/dsv3-tiny", DType::F32);
  EXPECT_LT(errorOf(model.head(model.trunk(goldens.ids("arith.input_ids"))), goldens, "arith.logits"), 2e-4);
  Ids ids = goldens.ids("mtp.input_ids");
  EXPECT_LT(errorOf(model.mtp(ids, model.trunk(ids)), goldens, "mtp.logits"), 2e-4);
}

/// No golden has bf16 bits. Roundings in the right places keep logits of up to 24 this near to float32's.
TEST(ImportedTiny, LogitsInBf16AreNear) {
  auto goldens = tinyGoldens();
  Running model(root + "/examples/dsv3-tiny", DType::BF16);
  double error = errorOf(model.head(model.trunk(goldens.ids("arith.input_ids"))), goldens, "arith.logits");
  EXPECT_LT(error, 0.3);
  EXPECT_GT(error, 1e-3) << "nothing was rounded";
}

struct Case {
  const char *name;
  int seed; ///< of the golden's checkpoint
};

class ImportedOdd : public testing::TestWithParam<Case> {};

TEST_P(ImportedOdd, LogitsInFloat32MatchTransformers) {
  const std::string name = GetParam().name;
  test::TempDir dir;
  std::string command = std::string(DSV3_PYTHON) + " '" + root + "/test/e2e/make_checkpoint.py' '" + root +
                        "/test/e2e/configs/" + name + ".json' '" + dir.str() +
                        "' --fill random --shards 2 --gain 1.5 --seed " + std::to_string(GetParam().seed) + " 2>/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  reference::Checkpoint goldens({root + "/test/goldens/odd/" + name + ".safetensors"});
  Running model(dir.str(), DType::F32);
  EXPECT_LT(errorOf(model.head(model.trunk(goldens.ids("p7.input_ids"))), goldens, "p7.logits"), 2e-4);
  Ids ids = goldens.ids("p130.input_ids");
  Array<float> hidden = model.trunk(ids);
  EXPECT_LT(errorOf(lastRow(model.head(hidden)), goldens, "p130.last_logits"), 2e-4);
  if (model.hasMtp())
    EXPECT_LT(errorOf(lastRow(model.mtp(ids, hidden)), goldens, "mtp.last_logits"), 2e-4);
}

INSTANTIATE_TEST_SUITE_P(Configs, ImportedOdd,
                         testing::Values(Case{"moe-first", 1}, Case{"dense3-mtp-ue8m0", 2}, Case{"bf16-tied-halves", 3},
                                         Case{"bf16-mtp-plain", 4}, Case{"fp8-edges-yarn", 7}, Case{"fp8-halves-mtp", 6}),
                         [](const auto &info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
