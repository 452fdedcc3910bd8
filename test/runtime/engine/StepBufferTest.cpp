// The fields of the step buffer, value by value.
#include "runtime/engine/StepBuffer.h"

#include "FakeArtifact.h"
#include "FakeModel.h"
#include "runtime/engine/Artifact.h"
#include "runtime/engine/ModuleCheck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

using namespace dsv3;
using testing::ElementsAre;

namespace {

class StepBufferTest : public testing::Test {
protected:
  StepBufferTest()
      : artifact(std::move(*Artifact::open(folder.path(), {}))), module(artifact.module()),
        memory(module.pool_bytes[DSV3_POOL_STEP], 0xee), buffer(module, memory.data()) {
    // One sequence in the middle of its prompt, one at its end, on pages of their own.
    first.tokens.resize(100);
    std::iota(first.tokens.begin(), first.tokens.end(), 1000);
    first.cached = 55;
    first.pages = {7, 3};
    second.tokens = {5, 6, 8};
    second.pages = {4};
    items = {{&first, 55, 20}, {&second, 0, 3}};
  }

  template <typename T = int32_t> std::vector<T> field(uint32_t kind, size_t from, size_t count) {
    const T *data = reinterpret_cast<const T *>(memory.data() + findField(module, kind)->offset);
    return {data + from, data + from + count};
  }

  fake::FakeArtifact folder{fake::modulePath()};
  Artifact artifact;
  const dsv3_module_desc &module;
  std::vector<uint8_t> memory;
  StepBuffer buffer;
  Sequence first, second;
  std::vector<StepItem> items;
};

TEST_F(StepBufferTest, Prefill) {
  dsv3_step_host step = buffer.fill(module.programs[1], items);
  EXPECT_THAT(step.scalars, ElementsAre(23, 2, 3, 3, 0, 0, 0, 0));
  EXPECT_THAT(field(DSV3_FIELD_IDS, 18, 6), ElementsAre(1073, 1074, 5, 6, 8, 0));
  EXPECT_THAT(field(DSV3_FIELD_TOKEN_SEQ, 18, 5), ElementsAre(0, 0, 1, 1, 1));
  EXPECT_THAT(field(DSV3_FIELD_TOKEN_POS, 18, 5), ElementsAre(73, 74, 0, 1, 2));
  // Positions 63 and 64 lie on two pages; rows after the last store nothing.
  EXPECT_THAT(field<int64_t>(DSV3_FIELD_TOKEN_SLOT, 8, 2), ElementsAre(7 * 64 + 63, 3 * 64));
  EXPECT_THAT(field<int64_t>(DSV3_FIELD_TOKEN_SLOT, 20, 5),
              ElementsAre(4 * 64, 4 * 64 + 1, 4 * 64 + 2, -1, -1));
  EXPECT_THAT(field(DSV3_FIELD_Q_START, 0, 5), ElementsAre(0, 20, 23, 23, 23));
  EXPECT_THAT(field(DSV3_FIELD_CTX_LEN, 0, 4), ElementsAre(75, 3, 0, 0));
  EXPECT_THAT(field(DSV3_FIELD_BLOCK_TABLE, 0, 10), ElementsAre(7, 3, 0, 0, 0, 4, 0, 0, 0, 0));
  EXPECT_THAT(field(DSV3_FIELD_LOGIT_ROW, 0, 2), ElementsAre(19, 22));
  // Tiles end at positions 64 and 80 whatever the chunk; one sequence each.
  EXPECT_THAT(field(DSV3_FIELD_QBLOCK, 0, 12), ElementsAre(0, 0, 9, 0, 0, 9, 11, 0, 1, 20, 3, 0));
}

TEST_F(StepBufferTest, KeyBlocks) {
  buffer.fill(module.programs[1], items);
  EXPECT_THAT(field(DSV3_FIELD_KBLOCK, 0, 6), ElementsAre(0, 0, 0, 1, 1, 0));
  EXPECT_THAT(field(DSV3_FIELD_KBLOCK_START, 0, 5), ElementsAre(0, 2, 3, 3, 3));
}

TEST_F(StepBufferTest, DecodeUsesNoTiles) {
  first.cached = 99;
  dsv3_step_host step = buffer.fill(module.programs[4], {{&first, 99, 1}, {&second, 2, 1}});
  EXPECT_THAT(step.scalars, ElementsAre(2, 2, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(field(DSV3_FIELD_CTX_LEN, 0, 4), ElementsAre(100, 3, 0, 0));
  EXPECT_THAT(field<int64_t>(DSV3_FIELD_TOKEN_SLOT, 0, 4), ElementsAre(3 * 64 + 35, 4 * 64 + 2, -1, -1));
}

TEST_F(StepBufferTest, MtpHasTheNextIds) {
  buffer.fillMtp(module.programs[6], items);
  EXPECT_THAT(field(DSV3_FIELD_NEXT_IDS, 18, 5), ElementsAre(1074, 1075, 6, 8, 0));
  EXPECT_THAT(field<int64_t>(DSV3_FIELD_TOKEN_SLOT, 18, 5),
              ElementsAre(3 * 64 + 9, 3 * 64 + 10, 4 * 64, 4 * 64 + 1, -1))
      << "the last token of the second prompt stores nothing, that of the first's chunk does";
}

} // namespace
