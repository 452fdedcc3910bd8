#include "codegen/sm90/gemm/Int4Schedule.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

namespace dsv3::codegen {

namespace {
int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Units of 64 rows and 128 k in a stage of a warpgroup.
int64_t units(const Int4Shape &p, const ColsSchedule &s) { return s.held(p.weights) * s.bk / 128; }

/// Registers of a consumer: sums, products in flight, two expanded operands, codes, and what the rest of the kernel takes.
int64_t registers(const Int4Shape &p, const ColsSchedule &s) {
  int64_t operand = p.wide ? 32 : 16, sums = s.held(p.weights) * s.tokens / 2, inFlight = std::min<int64_t>(2, units(p, s));
  const int64_t rest = !p.wide && !p.promoted && sums >= 128 ? (units(p, s) > 2 ? 40 : 30) : 44; // scales in pieces, or of all columns
  if (p.promoted)
    sums += (p.parts > s.split ? sums : 0) + inFlight * s.tokens / 2 + (p.wide ? 0 : std::min<int64_t>(2, s.bk / 128) * s.tokens / 4);
  const int64_t picked = p.gathers && !p.wide ? std::min<int64_t>(s.tokens, 32) / 4 : 0; // tokens whose scales are looked up
  return sums + inFlight * operand + 8 + rest + picked + (p.e4m3 ? 4 : 0); // tables
}

int64_t registersOf(int64_t warpgroups) { return warpgroups == 4 ? 112 : warpgroups == 2 ? 232 : 255; }

/// The same as below, of E4M3 rows.
double unitClocksE4m3(const Int4Shape &p, const ColsSchedule &s) {
  constexpr double kExpand = 112, kLatency = 60, kIssue = 1.15;
  const double product = 4 * std::max(16.0, double(s.tokens) / 2), promote = double(s.tokens) / (p.wGrouped && p.xGrouped ? 1 : 2) + 16;
  const double chain = std::max(product + kLatency, kExpand + 30) + promote + 20 + kExpand / double(units(p, s));
  return std::max({chain, double(s.warpgroups) * product, double(s.warpgroups) * (kExpand + promote) * kIssue});
}

/// Clocks of a warpgroup's unit and of all warpgroups' units together: tensor cores, and the instructions that expand and promote,
/// each of which every scheduler issues for one warp of a warpgroup.
double unitClocks(const Int4Shape &p, const ColsSchedule &s) {
  if (p.e4m3)
    return unitClocksE4m3(p, s);
  double product = (p.wide ? 8 : 4) * std::max(16.0, double(s.tokens) / 2);
  double issue = (p.wide ? 110 : 48) + (p.promoted ? (p.wide ? 1.0 : 4.0) * double(s.tokens) : 0);
  // No unit is in flight at the end of a stage: one alone is promoted after its product.
  double chain = (units(p, s) == 1 ? product + issue : std::max(product, issue)) + 40;
  return std::max({chain, double(s.warpgroups) * product, double(s.warpgroups) * issue});
}
} // namespace

int64_t stageBytes(const Int4Shape &p, const ColsSchedule &s) {
  int64_t rows = s.held(p.weights) * s.bm();
  return rows * s.bk / 2 + s.tokens * s.bk * (p.wide ? 2 : 1) + (p.wGrouped ? rows * s.bk / 128 * 4 : 0) + (p.promoted && !p.wide ? std::max<int64_t>(128, s.tokens * 16) : 0);
}

double estimate(const Int4Shape &p, const ColsSchedule &s, const GpuModel &gpu) {
  constexpr double kStart = 2.5e-6, kItemEnd = 0.25e-6, kStore = 5e-9, kMeet = 0.7e-6, kPush = 6.2e-9; // s; of a column
  constexpr double kLatency = 0.92e-6, kSmLoad = 157e9, kMemory = 4.3e12, kStageClocks = 120;
  const double items = (p.grouped ? drawnRowTiles(p, s.tokens) : double(ceilDiv(p.rows, s.tokens))) * double(ceilDiv(p.n, s.bm()));
  // Nobody knows how many items experts make: half a round is lost on average, and all of a second one that few need.
  const double shares = items / double(gpu.clusters(s.split)), rounds = !p.grouped ? std::ceil(shares) : shares <= 1 ? 1 : std::max(shares + 0.5, 2.0), stages = double(p.k) / double((s.apart ? 1 : s.split) * s.bk);
  const double stage = (double(units(p, s)) * unitClocks(p, s) + kStageClocks) / gpu.clock, bytes = double(stageBytes(p, s));
  const double item = stages * std::max({stage, (kLatency + 2 * stage) / double(s.stages), bytes / kSmLoad});
  const double memory = (p.grouped ? drawnExperts(p) : 1) * double(p.weights * p.n) * double(p.k) * (p.wGrouped ? 0.53125 : 0.5) / kMemory;
  const double l2 = items * double(s.split) * stages * bytes / gpu.l2;
  const double columns = double(p.weights * s.columns());
  // Experts' blocks end one behind the other, by part of an item's way from memory.
  const double uneven = p.grouped ? 0.09 * stages * bytes * double(gpu.sms) / kMemory : 0;
  const double exchange = s.split > 1 ? kMeet + rounds * double(p.weights * s.tokens) * kPush : 0;
  const double work = std::max({rounds * item, l2});
  return kStart + std::pow(std::pow(memory, 4) + std::pow(work, 4), 0.25) + rounds * (kItemEnd + columns * kStore) + exchange + uneven;
}

/// int8, 32 rows of gate and up: 78 us with 8 units in a stage, 70 with 4. E4M3: 82.5 and 83.6.
static int64_t mostUnits(const Int4Shape &p, const ColsSchedule &s) { return p.rows <= 8 || (p.e4m3 && s.tokens == 8) ? 8 : 4; }

/// Warpgroups, K of a stage and stages for a token tile and a split; `warpgroups` 0 when nothing fits.
static ColsSchedule complete(const Int4Shape &p, int64_t split, int64_t tokens, const GpuModel &gpu, double &least) {
  ColsSchedule best;
  best.warpgroups = 0;
  const int64_t list = p.grouped ? 16 * (1 + mostRowTiles(p, tokens)) : 0, padded = ceilDiv(p.k, 128) * 128;
  // Few rows make few items, and a block alone takes its time to expand two weights: two blocks have one each.
  const bool mayPart = split == 1 && p.weights == 2 && p.wGrouped && !p.pairs && p.rows <= 8;
  for (auto [warpgroups, apart] : {std::pair<int64_t, int64_t>{4, 0}, {2, 0}, {1, 0}, {1, 1}})
    for (int64_t bk : {1024, 512, 256, 128}) {
      ColsSchedule s;
      s.warpgroups = warpgroups, s.tokens = tokens, s.split = apart ? 2 : split, s.bk = bk, s.apart = apart;
      if (apart ? !mayPart : bk > 512)
        continue;
      if (padded % bk || units(p, s) > mostUnits(p, s) || registers(p, s) > registersOf(warpgroups) || (split > 1 && bk > 128 && padded % (split * bk)) || padded / bk < split || padded % (p.parts * bk))
        continue;
      if (p.pairs && (warpgroups == 1 || s.columns() % 8))
        continue;
      const int64_t epilogue = p.pairs ? s.maximaBytes() : s.stagingBytes();
      s.stages = std::min<int64_t>(12, (gpu.sharedBytes - s.exchangeBytes(p.weights) - epilogue - list) / (stageBytes(p, s) + 16));
      if (s.stages < 3)
        continue;
      if (double cost = estimate(p, s, gpu); cost < least)
        least = cost, best = s;
    }
  return best;
}

int64_t splitOfWeight(Int4Shape p, const GpuModel &gpu) {
  int64_t best = 1;
  double least = 1e30;
  for (int64_t split : {1, 2, 4, 8}) {
    if (p.k / split < 256)
      break; // too short to be worth an exchange
    double cost = 0; // over narrow and wide buckets
    for (int64_t rows : {8, 64, 128}) {
      p.rows = rows, p.freeSplit = false, p.fixedSplit = split;
      ColsSchedule s = chooseInt4(p, gpu);
      cost += s.warpgroups ? estimate(p, s, gpu) : 1;
    }
    if (cost < least * 0.97) // a wider split must earn its exchange clearly
      least = cost, best = split;
  }
  return best;
}

ColsSchedule chooseInt4(const Int4Shape &p, const GpuModel &gpu) {
  ColsSchedule best;
  best.warpgroups = 0;
  double least = 1e30;
  for (int64_t tokens : {8, 16, 32, 64, 96, 128, 160, 192, 256}) {
    for (int64_t split : {1, 2, 4, 8})
      if (p.parts > 1 ? split == 1 || split == p.parts : p.freeSplit || split == p.fixedSplit)
        if (ColsSchedule s = complete(p, split, tokens, gpu, least); s.warpgroups)
          best = s;
    if (!p.grouped && tokens >= p.rows)
      break;
  }
  return best;
}

} // namespace dsv3::codegen
