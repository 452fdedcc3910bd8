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

/// Codes of experts' rows, enough of them for whole tiles, which are promoted every 128 k.
bool manyRows(const Int4Shape &p) { return p.grouped && p.promoted && !p.wide && !p.gathers && p.parts == 1 && double(p.rows) >= 64 * drawnExperts(p); }

/// The same of those, as ptxas needs them: scales of columns are loaded for all of a stage ahead, and where they do not come with it
/// a stage ahead too.
int64_t registersOfMany(const Int4Shape &p, const ColsSchedule &s) {
  const int64_t blocks = s.bk / 128, inFlight = std::min<int64_t>(2, units(p, s)), ahead = p.k % 512 && p.k > s.bk ? 2 : 1;
  const int64_t scales = (p.xGrouped ? ahead * blocks * s.tokens / 4 : 0) + (p.wGrouped ? 2 * units(p, s) : 0);
  return (s.held(p.weights) + inFlight) * s.tokens / 2 + inFlight * 16 + (units(p, s) > 1 ? 8 : 0) + scales + (units(p, s) > 1 ? 30 : 24) + (p.e4m3 ? 2 : 0);
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
  int64_t rows = s.stageRows(p.weights);
  return rows * s.bk / 2 + s.tokens * s.bk * (p.wide ? 2 : 1) + (p.wGrouped ? rows * s.bk / 128 * 4 : 0) + (p.promoted && !p.wide ? std::max<int64_t>(128, s.tokens * 16) : 0);
}

static double estimateMany(const Int4Shape &, const ColsSchedule &, const GpuModel &);

double estimate(const Int4Shape &p, const ColsSchedule &s, const GpuModel &gpu) {
  if (manyRows(p))
    return estimateMany(p, s, gpu);
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

/// Tiles of rows that fall to experts at random.
static double randomRowTiles(const Int4Shape &p, int64_t tokens) {
  constexpr int kSteps = 64;
  const double experts = drawnExperts(p), mean = double(p.rows) / experts;
  double tiles = 0, weights = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double x = 6 * (i + 0.5) / kSteps - 3, weight = std::exp(-x * x / 2); // standard deviations
    weights += weight, tiles += weight * std::ceil(std::max(1.0, mean + x * std::sqrt(mean)) / double(tokens));
  }
  return experts * tiles / weights;
}

/// Many rows. Products of one warpgroup and what the other computes meanwhile add up (gate and up in groups take 313 us, 185 without the
/// promotion), so the clocks are those of tensor cores and of the instructions behind them. Fitted to 57 measured schedules of
/// twelve products: 5% off (root mean square).
static double estimateMany(const Int4Shape &p, const ColsSchedule &s, const GpuModel &gpu) {
  constexpr double kStart = 2.5e-6, kItemEnd = 0.1e-6, kColumn = 7.6e-9; // s
  constexpr double kTensor = 1.03, kInstruction = 1.3, kExpandE4m3 = 93, kExpandInt8 = 20, kStageClocks = 23; // clocks
  const double tokens = double(s.tokens), held = double(s.held(p.weights)), warpgroups = double(s.warpgroups);
  const double promote = tokens * ((p.e4m3 ? 0.5 : 1) + (p.wGrouped && p.xGrouped ? 0.5 : 0) + (p.xGrouped ? 0.25 / held : 0));
  const double unit = kTensor * 4 * std::max(16.0, tokens / 2) + kInstruction * promote + (p.e4m3 ? kExpandE4m3 : kExpandInt8);
  const double stage = warpgroups * (double(units(p, s)) * unit + kStageClocks) / gpu.clock, stages = double(ceilDiv(p.k, s.bk));
  const double items = randomRowTiles(p, s.tokens) * double(ceilDiv(p.n, s.bm())), rounds = items / double(gpu.sms) + 0.5;
  const double l2 = items * stages * double(stageBytes(p, s)) / gpu.l2;
  return kStart + std::max(l2, rounds * stages * stage) + rounds * (kItemEnd + tokens * warpgroups * held / 2 * kColumn);
}

/// int8, 32 rows of gate and up: 78 us with 8 units in a stage, 70 with 4. E4M3: 82.5 and 83.6.
static int64_t mostUnits(const Int4Shape &p, const ColsSchedule &s) { return p.rows <= 8 || (p.e4m3 && s.tokens == 8) ? 8 : 4; }

/// Many rows with scales per 128 k: many loads and products behind each product. Gate and up, E4M3: 404 us without turns, 331 with.
static bool takesTurns(const Int4Shape &p, const ColsSchedule &s) { return p.xGrouped && !p.pairs && s.warpgroups == 2 && units(p, s) == 1; }

/// What was measured to be slow for many rows, beside what `estimate` says: a warpgroup alone waits for each of its products; four
/// have registers for 32 columns (down in groups: 225 us, 193 of two), which is enough where K is short (of an eighth, int8: 331 and 366); of pairs, 256 k a stage take 332 us where 128 take 295; a
/// loop of two trips takes 485 us where one stage takes 387 (down of an eighth, 80 columns).
static bool suitsMany(const Int4Shape &p, const ColsSchedule &s) {
  if (s.warpgroups == 1 || (s.warpgroups == 4 && p.k > 512) || (p.weights > 1 && s.bk > 128))
    return false;
  if (!p.e4m3 && p.k <= 256)
    return s.warpgroups == 4;
  return ceilDiv(p.k, s.bk) != 2 || s.tokens <= 32;
}

/// Warpgroups, K of a stage and stages for a token tile and a split; `warpgroups` 0 when nothing fits.
static ColsSchedule complete(const Int4Shape &p, int64_t split, int64_t tokens, const GpuModel &gpu, double &least) {
  ColsSchedule best;
  best.warpgroups = 0;
  const int64_t list = p.grouped ? 16 * (1 + mostRowTiles(p, tokens)) : 0, padded = ceilDiv(p.k, 128) * 128;
  // Few rows make few items, and a block alone takes its time to expand two weights: two blocks have one each.
  const bool mayPart = split == 1 && p.weights == 2 && p.wGrouped && !p.pairs && p.rows <= 8;
  // Many rows: a warpgroup that has one weight of a pair has registers for twice the columns, and expands weights half as often.
  const bool many = manyRows(p), mayFace = many && split == 1 && p.weights == 2 && !p.pairs;
  struct Form {
    int64_t warpgroups, apart, beside;
  };
  for (auto [warpgroups, apart, beside] : {Form{4, 0, 0}, {2, 0, 0}, {1, 0, 0}, {1, 1, 0}, {2, 0, 1}})
    for (int64_t bk : {1024, 512, 256, 128}) {
      ColsSchedule s;
      s.warpgroups = warpgroups, s.tokens = tokens, s.split = apart ? 2 : split, s.bk = bk, s.apart = apart, s.beside = beside;
      if (apart ? !mayPart : bk > 512)
        continue;
      if (p.xGrouped && bk > 512) // Int4Spec::scalesInStage
        continue;
      s.turns = many && takesTurns(p, s);
      if ((beside && !mayFace) || (many && !suitsMany(p, s)))
        continue;
      if (padded % bk || units(p, s) > mostUnits(p, s) || (many ? registersOfMany(p, s) : registers(p, s)) > registersOf(warpgroups) || (split > 1 && bk > 128 && padded % (split * bk)) || padded / bk < split || padded % (p.parts * bk))
        continue;
      if (p.pairs && (warpgroups == 1 || s.columns() % 8))
        continue;
      const int64_t epilogue = p.pairs ? s.maximaBytes() : s.stagingBytes();
      s.stages = std::min<int64_t>(12, (gpu.sharedBytes - s.exchangeBytes(p.weights) - s.handedBytes() - epilogue - list) / (stageBytes(p, s) + 16));
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
  for (int64_t tokens : {8, 16, 32, 64, 80, 96, 128, 144, 152, 160, 192, 256}) {
    const bool forMany = tokens == 80 || tokens == 144 || tokens == 152; // measured for those
    if ((forMany && !manyRows(p)) || (tokens == 152 && !p.e4m3))         // int8 has multiples of 16
      continue;
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
