// The probes of `dsv3-bench conflicts`: what they ask, without a device.
#include "tools/dsv3-bench/Conflicts.h"

#include <gtest/gtest.h>

#include <map>

namespace dsv3::bench {

static std::map<std::string, unsigned> degrees() {
  std::map<std::string, unsigned> out;
  for (const Probe &p : conflictProbes())
    out[p.name + " by " + tile::name(p.access.instruction, p.store)] = tile::countBankConflicts(p.access.instruction, p.access.address).degree;
  return out;
}

TEST(Conflicts, ProbesHaveKnownDegrees) {
  std::map<std::string, unsigned> d = degrees();
  EXPECT_EQ(d.at("f32 column, linear by ld.shared"), 32u);
  EXPECT_EQ(d.at("f32 column, pad<4> by ld.shared"), 1u);
  EXPECT_EQ(d.at("f32 column, sw128 by st.shared"), 4u);
  EXPECT_EQ(d.at("bf16 tile, linear by ldmatrix.x4"), 8u);
  EXPECT_EQ(d.at("bf16 tile, sw128 by stmatrix.x4"), 1u);
  EXPECT_EQ(d.at("f32 accumulator, sw128 by st.shared.v2"), 2u);
  for (const char *instruction : {"ld.shared", "st.shared.v2", "ld.shared.v4", "ldmatrix.x1", "stmatrix.x4"})
    EXPECT_EQ(d.at(std::string("in order by ") + instruction), 1u);
}

TEST(Conflicts, TheFirstProbeOfEachInstructionHasNone) {
  std::map<std::string, unsigned> first;
  for (const Probe &p : conflictProbes())
    first.emplace(probeSymbol(p.access.instruction, p.store), tile::countBankConflicts(p.access.instruction, p.access.address).degree);
  EXPECT_EQ(first.size(), 12u);
  for (auto &[symbol, degree] : first)
    EXPECT_EQ(degree, 1u) << symbol;
}

TEST(Conflicts, AddressesAreAligned) {
  for (const Probe &p : conflictProbes())
    for (int64_t a : p.access.address)
      if (a != tile::kInactiveLane) {
        EXPECT_EQ(a % tile::bytesPerLane(p.access.instruction), 0) << p.name;
      }
}

TEST(Conflicts, EveryProbeHasAKernel) {
  const std::string ptx = probePtx();
  for (const Probe &p : conflictProbes())
    EXPECT_NE(ptx.find(".entry " + probeSymbol(p.access.instruction, p.store) + "("), std::string::npos);
}

} // namespace dsv3::bench
