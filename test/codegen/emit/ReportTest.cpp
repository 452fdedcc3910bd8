// Occupancy by hand.
#include "codegen/emit/Report.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using ::testing::HasSubstr;

namespace dsv3::codegen {

static DeviceKernel kernel(const std::string &name, int64_t threads, int64_t registers, int64_t shared) {
  DeviceKernel k;
  k.symbol = name;
  k.threads = threads;
  k.dynamicShared = shared;
  k.resources = KernelResources{};
  k.resources->registers = registers;
  return k;
}

TEST(Report, Occupancy) {
  KernelReport gemm = reportOf(kernel("gemm", 384, 168, 229440)); // 168 x 384 = 64512 registers, one block either way
  EXPECT_EQ(gemm.blocks, 1);
  EXPECT_EQ(gemm.occupancy, 384.0 / 2048);
  KernelReport small = reportOf(kernel("small", 128, 32, 0)); // 16 blocks of 4096 registers and 128 threads
  EXPECT_EQ(small.blocks, 16);
  EXPECT_EQ(small.occupancy, 1);
  KernelReport tiny = reportOf(kernel("tiny", 32, 16, 0));
  EXPECT_EQ(tiny.blocks, 32);
  EXPECT_EQ(tiny.limit, "blocks");
  // 40 registers a thread are 1280 a warp, 5 units; 4 warps; 65536 / 5120 = 12.8.
  EXPECT_EQ(reportOf(kernel("odd", 128, 40, 0)).blocks, 12);
  EXPECT_EQ(reportOf(kernel("odd", 128, 40, 0)).limit, "registers");
  // 57344 bytes and the reserved 1024 are a quarter of 233472.
  EXPECT_EQ(reportOf(kernel("shared", 128, 32, 57344)).blocks, 4);
  EXPECT_EQ(reportOf(kernel("shared", 128, 32, 57345)).blocks, 3);
  EXPECT_EQ(reportOf(kernel("shared", 128, 32, 57345)).limit, "shared memory");
}

TEST(Report, WithoutAnAssemblerNothingIsClaimed) {
  DeviceKernel k = kernel("k", 128, 32, 0);
  k.resources.reset();
  std::vector<KernelReport> reports = {reportOf(k)};
  EXPECT_FALSE(reports[0].assembled);
  EXPECT_TRUE(toJson(reports)[0]["registers"].is_null());
  EXPECT_THAT(toText(reports), HasSubstr("not assembled"));
}

TEST(Report, TextAndJsonSayTheSame) {
  DeviceKernel k = kernel("a_kernel_with_a_name", 384, 168, 229440);
  k.stages = 4;
  k.resources->spillLoads = 8;
  k.accesses = {{"store", "stmatrix.x4", 2, 1, 0}, {"load", "ld.shared", 1, 4, 96}};
  std::vector<KernelReport> reports = {reportOf(k)};
  EXPECT_EQ(toText(reports), "kernel                threads  regs  spill  shared  stages  conflicts  blocks/sm  warps  limit\n"
                             "a_kernel_with_a_name      384   168      8  229440       4          4          1    19%  registers\n"
                             "  1 x load by ld.shared: 4-way bank conflict\n");
  nlohmann::json j = toJson(reports)[0];
  EXPECT_EQ(j["kernel"], "a_kernel_with_a_name");
  EXPECT_EQ(j["registers"], 168);
  EXPECT_EQ(j["spill_bytes"], 8);
  EXPECT_EQ(j["shared_bytes"], 229440);
  EXPECT_EQ(j["stages"], 4);
  EXPECT_EQ(j["blocks_per_sm"], 1);
  EXPECT_EQ(j["accesses"][0]["instruction"], "stmatrix.x4");
  EXPECT_EQ(j["accesses"][1]["degree"], 4);
  EXPECT_TRUE(toJson({reportOf(kernel("simt", 128, 32, 0))})[0]["accesses"].is_null());
}

} // namespace dsv3::codegen
