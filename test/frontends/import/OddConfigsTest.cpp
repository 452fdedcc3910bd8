// Every configuration of test/e2e/configs, imported from a checkpoint of zeros: import reads no data.
#include "Imported.h"

#include "test/runtime/core/TempDir.h"

#include <gmock/gmock.h>

#include <cstdlib>

using namespace dsv3;
using dsv3::test::Imported;
using dsv3::test::TempDir;
using testing::HasSubstr;
using testing::Not;

namespace {

class OddConfigs : public testing::Test {
protected:
  /// Makes the checkpoint, and imports it for both compute types: in `dir` and `m` afterwards.
  void import(const std::string &name) {
    const std::string test = std::string(DSV3_SOURCE_DIR) + "/test/e2e/";
    std::string command = "python3 '" + test + "make_checkpoint.py' '" + test + "configs/" + name + ".json' '" + dir.str() +
                          "' --fill sparse --shards 2 2>/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    for (DType type : {DType::F32, DType::BF16}) {
      m = std::make_unique<Imported>(dir.str(), type, hf::TensorOptions{/*checkValues=*/false});
      ASSERT_TRUE(bool(*m));
      m->expectCompleteLedger();
      m->expectUniqueSites();
    }
  }
  std::string rope() { return Imported::text(mlir::Attribute(llvm::cast<ir::RopeOp>(m->at("l0.k_rope")).getRopeAttr())); }

  TempDir dir;
  std::unique_ptr<Imported> m;
};

TEST_F(OddConfigs, MoeFirst) {
  ASSERT_NO_FATAL_FAILURE(import("moe-first"));
  EXPECT_TRUE(m->at("l0.route"));
  EXPECT_FALSE(m->program("mtp"));
  EXPECT_EQ(m->counts()["dsv3.combine"], 2);
  EXPECT_THAT(Imported::text(m->program("trunk").getFunctionType()), HasSubstr("layers = 2,"));
}

TEST_F(OddConfigs, Dense3MtpUe8m0) {
  ASSERT_NO_FATAL_FAILURE(import("dense3-mtp-ue8m0"));
  EXPECT_FALSE(m->at("l2.route"));
  EXPECT_TRUE(m->at("l3.route"));
  EXPECT_TRUE(m->at("l4.route")) << "the MTP module's layer has experts";
  EXPECT_THAT(m->weight("l0.o"), HasSubstr("pow2_scale"));
  // No q_lora_rank: one linear, which keeps the site of the second.
  EXPECT_FALSE(m->at("l0.q_a"));
  auto q = llvm::cast<ir::LinearOp>(m->at("l0.q_b"));
  EXPECT_EQ(q.getW().getDefiningOp<ir::UseOp>().getWeight(), "l0.q");
  EXPECT_EQ(llvm::cast<mlir::RankedTensorType>(q.getY().getType()).getRank(), 3);
}

TEST_F(OddConfigs, Bf16TiedHalves) {
  ASSERT_NO_FATAL_FAILURE(import("bf16-tied-halves"));
  EXPECT_EQ(m->at("logits")->getOperand(1).getDefiningOp<ir::UseOp>().getWeight(), "lm_head"); // the embedding's numbers in a layout of their own
  EXPECT_THAT(m->weight("lm_head"), HasSubstr("#dsv3.ref<@embed>"));
  EXPECT_THAT(m->weight("l0.o"), Not(HasSubstr("blocked")));
  EXPECT_THAT(rope(), HasSubstr("interleaved = false, factor = 40.0"));
}

TEST_F(OddConfigs, Bf16MtpPlain) {
  ASSERT_NO_FATAL_FAILURE(import("bf16-mtp-plain"));
  EXPECT_THAT(rope(), Not(HasSubstr("factor")));
  EXPECT_TRUE(m->program("mtp"));
}

TEST_F(OddConfigs, Fp8EdgesYarn) {
  ASSERT_NO_FATAL_FAILURE(import("fp8-edges-yarn"));
  // m(0.7) / m(1) of factor 40.
  EXPECT_THAT(rope(), HasSubstr("original = 32, betaFast = 16.0, betaSlow = 1.0, scale = 0.919"));
}

TEST_F(OddConfigs, Fp8HalvesMtp) {
  ASSERT_NO_FATAL_FAILURE(import("fp8-halves-mtp"));
  EXPECT_TRUE(m->at("l0.route"));
  EXPECT_THAT(rope(), HasSubstr("interleaved = false"));
  EXPECT_THAT(m->weight("l0.gate"), HasSubstr("pow2_scale"));
}

} // namespace
