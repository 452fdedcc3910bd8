#include "codegen/sm90/gemm/GemmSchedule.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <vector>

namespace dsv3::codegen {

namespace {
constexpr double kLaunch = 2.0e-6;   // launch, barrier set-up, first stage
constexpr double kItem = 0.35e-6;    // drain and epilogue of a tile that nothing overlaps
constexpr double kExchange = 0.8e-6; // partial sums through distributed shared memory
constexpr double kStageClocks = 60;  // a wait and a release that tensor cores do not hide
constexpr double kExpandClocks = 250; // 64 x 128 FP8 values to a register operand, one warpgroup
constexpr double kFewRowsL2 = 10e12, kManyRowsL2 = 7.1e12; // bytes/s of FP8 tiles as measured, up to 1024 rows and beyond
constexpr double kInt8L2 = 9.5e12; // bytes/s of int8 tiles: 8192^3 in tiles of 128 x 256 at 1627 TOP/s
constexpr int64_t kInFlight = 90000; // bytes an SM must have on the way to keep memory busy
constexpr int64_t kBarriers = 16;    // bytes a stage

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Tensor core clocks of 64 x `cols` x 16: below 64 columns reading A from shared memory is what costs.
double mmaClocks(int64_t cols, const GpuModel &gpu) {
  return std::max(64.0 * double(cols) * 16 / gpu.macs, 32.0 * double(std::max<int64_t>(cols, 8)) / 128 + 16);
}

int64_t stagesThatFit(int64_t stage, int64_t reserved, int64_t most, const GpuModel &gpu) {
  return std::min(most, (gpu.sharedBytes - reserved) / (stage + kBarriers));
}

/// Shared memory for the list of row tiles.
int64_t listBytes(const GemmShape &p, int64_t tokens) { return p.grouped ? 16 * (1 + mostRowTiles(p, tokens)) : 0; }
} // namespace

int64_t likelyRowTiles(const GemmShape &p, int64_t tokens) {
  if (!p.grouped)
    return p.batch * ceilDiv(p.rows, tokens);
  int64_t tiles = 0, active = p.active();
  for (int64_t i = 0; i < active; ++i)
    tiles += ceilDiv(std::max<int64_t>(1, p.rows * (2 * i + 1) / (active * active)), tokens);
  return tiles;
}

double drawnExperts(const GemmShape &p) { return double(p.batch) * (1 - std::pow(1 - 1 / double(p.batch), double(p.rows))); }
double drawnRowTiles(const GemmShape &p, int64_t tokens) {
  constexpr int kSteps = 64;
  double experts = drawnExperts(p), mean = double(p.rows) / experts, tiles = 0;
  for (int i = 0; i < kSteps; ++i)
    tiles += std::ceil(std::max(1.0, mean * (0.75 + 0.5 * (i + 0.5) / kSteps)) / double(tokens));
  return experts * tiles / kSteps;
}

int64_t stageBytes(const GemmShape &p, const RowsSchedule &s) { return (s.bm() + s.bn) * s.bk * p.xBytes(); }

int64_t stageBytes(const GemmShape &p, const ColsSchedule &s) {
  return (p.weights * s.bm() * p.weightBytes() + s.tokens * p.xBytes()) * s.bk;
}

/// FP8: clocks of 128 k of a tile. A product is waited for before its sums are promoted, so a warpgroup's chain counts beside
/// what the tensor cores and shared memory (both operands read by every warpgroup, the stage written once) can do.
static double scaledBlockClocks(const RowsSchedule &s) {
  double chain = 2.5 * double(s.bn) + 150, tensor = double(2 * s.warpgroups * s.bn);
  double shared = double(s.warpgroups * 4 * (2048 + 32 * s.bn) + (s.bm() + s.bn) * 128) / 128;
  return std::max({chain, tensor, 1.1 * shared});
}

/// FP8 x FP8 with tokens as M.
static double estimateScaled(const GemmShape &p, const RowsSchedule &s, const GpuModel &gpu) {
  double items = double(likelyRowTiles(p, s.bm()) * ceilDiv(p.n * p.weights, s.bn)), blocks = double(ceilDiv(p.k, s.bk));
  double rounds = double(ceilDiv(int64_t(items), gpu.sms)), epilogue = kItem + double(s.bn) * 4e-9;
  double weights = double(p.active() * p.weights * p.n * p.k), values = double(p.rows) * double(p.k + p.n * p.outBytes);
  double l2 = items * blocks * double(stageBytes(p, s)) / (p.rows > 1024 ? kManyRowsL2 : kFewRowsL2);
  return kLaunch + std::max({rounds * (blocks * scaledBlockClocks(s) / gpu.clock + epilogue), (weights + values) / gpu.memory, l2});
}

/// Few rows of int8 with tokens as M: as estimateStreaming. Tiles of the same weights lie one behind the other, and read memory once.
/// Fitted to 50 measured schedules of ten shapes, 64 and 128 rows: 6.4% off (root mean square).
static double estimateFewRows(const GemmShape &p, const RowsSchedule &s, const GpuModel &gpu) {
  constexpr double kStart = 2.5e-6, kItemEnd = 0.3e-6, kStore = 8e-9, kLatency = 0.92e-6, kSmLoad = 157e9, kMemory = 4.2e12; // s; of a column
  constexpr double kClock = 1.71e9, kBlockClocks = 27, kReadBytes = 128, kWriteBytes = 700; // a clock
  const double products = double(s.warpgroups * 4), stage = double(stageBytes(p, s)), blocks = double(ceilDiv(p.k, s.bk));
  const double rounds = double(ceilDiv(ceilDiv(p.rows, s.bm()) * ceilDiv(p.n * p.weights, s.bn), gpu.sms));
  const double shared = products * double((64 + s.bn) * 32) / kReadBytes + stage / kWriteBytes;
  const double block = (std::max(products * double(s.bn) / 2, shared) + kBlockClocks) / kClock;
  const double item = blocks * std::max({block, (kLatency + 2 * block) / double(s.stages), stage / kSmLoad});
  const double memory = double(p.weights * p.n) * double(p.k) / kMemory;
  return kStart + std::cbrt(std::pow(memory, 3) + std::pow(rounds * item, 3)) + rounds * (kItemEnd + double(s.bn) * double(s.warpgroups) * kStore / 2);
}

namespace {
/// What either family does for a k-block of an item: every warpgroup reads 64 rows and `across` rows from shared memory per product.
struct BlockWork {
  int64_t products, across; ///< of 32 bytes of k
  int64_t stage, stages, perItem; ///< bytes; under way; k-blocks
};
} // namespace

/// Experts in int8. Clocks of a k-block as in estimateStreaming. Ranks 200 measured schedules of four shapes, 1 to 4096 tokens.
static double estimateExperts(const GemmShape &p, const BlockWork &w, double tiles, double columns, int64_t split, double end, const GpuModel &gpu) {
  constexpr double kStart = 3.5e-6, kLatency = 0.92e-6, kSmLoad = 157e9, kMemory = 4.3e12;
  constexpr double kAgain = 0.7; // of weights, for a second tile of the same rows
  constexpr double kUneven = 0.09; // of an item's way from memory, by which blocks end one behind the other
  constexpr double kClock = 1.71e9, kBlockClocks = 27, kReadBytes = 128, kWriteBytes = 700; // a clock
  const double products = double(w.products), stage = double(w.stage), blocks = double(w.perItem);
  const double mma = products * std::max(double(w.across) / 2, 8.0), shared = products * double((64 + w.across) * 32) / kReadBytes + stage / kWriteBytes;
  const double block = (std::max(mma, shared) + kBlockClocks) / kClock;
  const double item = blocks * std::max({block, (kLatency + 2 * block) / double(w.stages), stage / kSmLoad});
  // Nobody knows how many items there are: half a round is lost on average, and all of a second one that few need.
  const double items = tiles * columns, shares = items / double(gpu.clusters(split)), experts = drawnExperts(p);
  const double rounds = shares <= 1 ? 1 : std::max(shares + 0.5, 2.0);
  const double again = 1 + kAgain * (tiles / experts - 1);
  const double memory = (again * experts * double(p.weights * p.n) * double(p.k) + double(p.rows) * double(p.k + p.n * p.outBytes)) / kMemory;
  const double l2 = items * double(split) * blocks * stage / kInt8L2, uneven = kUneven * blocks * std::sqrt(double(split)) * stage * double(gpu.sms) / kMemory;
  return kStart + std::pow(std::pow(memory, 4) + std::pow(rounds * (item + end), 4) + std::pow(l2, 4), 0.25) + uneven;
}

double estimate(const GemmShape &p, const RowsSchedule &s, const GpuModel &gpu) {
  if (p.grouped && p.operands == Operands::Int8) {
    const double columns = double(ceilDiv(p.n * p.weights, s.bn));
    const double end = (kItem + double(s.bn) * 8e-9) * (p.n % (s.bn / p.weights) ? 1.5 : 1); // an edge of N is stored in pieces
    return estimateExperts(p, {s.warpgroups * 4, s.bn, stageBytes(p, s), s.stages, ceilDiv(p.k, s.bk)}, drawnRowTiles(p, s.bm()), columns, 1, end, gpu);
  }
  if (promotes(p.operands))
    return estimateScaled(p, s, gpu);
  if (p.operands == Operands::Int8 && p.rows <= 256)
    return estimateFewRows(p, s, gpu);
  double items = double(likelyRowTiles(p, s.bm()) * ceilDiv(p.n * p.weights, s.bn));
  double rounds = double(ceilDiv(int64_t(items), gpu.sms)), blocks = double(ceilDiv(p.k, s.bk));
  // Narrow tiles leave the tensor cores waiting between k-blocks.
  double efficiency = s.bn >= 192 ? 0.90 - 0.04 * double(256 - s.bn) / 64 : s.bn >= 128 ? 0.80 : 0.62;
  if (s.warpgroups == 1)
    efficiency *= 0.85;
  double mma = blocks * double(s.warpgroups * s.bk * p.xBytes() / 32) * mmaClocks(s.bn, gpu) / efficiency / gpu.clock;
  // Operands that many blocks read at the same time come at more than the model's rates.
  double load = blocks * double(stageBytes(p, s)) / (1.6 * gpu.smLoad);
  double weights = double(p.active() * p.weights * p.n) * double(p.k * p.weightBytes());
  double memory = (weights + double(p.rows) * double(p.k * p.xBytes() + p.n * p.outBytes)) / gpu.memory;
  double l2 = items * blocks * double(stageBytes(p, s)) / (p.operands == Operands::Int8 ? kInt8L2 : 1.4 * gpu.l2);
  double epilogue = kItem + double(s.bn) * 4e-9;
  return kLaunch + std::max({rounds * (std::max(mma, load) + epilogue), memory, l2});
}

/// Weights as M that nothing scales on the way, dense. A k-block takes the longest of multiplying, of shared memory (what wgmma
/// reads of both operands for every 32 bytes of k, and a little for what copies write), and of the copies' way there and back over the stages under way. That
/// and the memory's time overlap but for where they are alike. Fitted to 242 of bf16, measured schedules of twelve shapes, 8 to 512
/// rows: 4.6% off (root mean square); int8 has the same clocks a byte, and
/// so many of them for more rows that L2 counts.
static double estimateStreaming(const GemmShape &p, const ColsSchedule &s, const GpuModel &gpu) {
  constexpr double kStart = 2.5e-6, kItemEnd = 0.05e-6, kStore = 6.3e-9, kMeet = 0.7e-6, kPush = 6.2e-9; // s; of a column
  constexpr double kLatency = 0.92e-6, kSmLoad = 157e9, kMemory = 4.2e12, kAgain = 0.38;
  constexpr double kClock = 1.71e9, kBlockClocks = 27, kReadBytes = 128, kWriteBytes = 700; // a clock
  const int64_t tiles = likelyRowTiles(p, s.tokens), items = tiles * ceilDiv(p.n, s.bm());
  const double rounds = double(ceilDiv(items, gpu.clusters(s.split))), blocks = double(p.k) / double(s.split * s.bk), stage = double(stageBytes(p, s));
  const double products = double(s.warpgroups * p.weights * s.bk * p.xBytes() / 32), columns = double(p.weights * s.tokens);
  const double mma = products * std::max(64.0 * double(s.tokens) * 16 / gpu.macs, 8.0);
  const double shared = products * double((64 + s.tokens) * 32) / kReadBytes + stage / kWriteBytes;
  const double block = (std::max(mma, shared) + kBlockClocks) / kClock;
  const double item = blocks * std::max({block, (kLatency + 2 * block) / double(s.stages), stage / kSmLoad});
  // A second tile of tokens reads the weights at about the same time as the first: no second read of memory, but no free one.
  const double again = tiles > p.batch ? 1 + kAgain : 1;
  // Two matrices in small pieces come slower; measured, not understood.
  const double pieces = p.weights > 1 && s.warpgroups < 3 ? 1.04 : 1;
  const double memory = again * pieces * double(p.batch * p.weights * p.n * p.weightBytes()) * double(p.k) / kMemory;
  const double end = kItemEnd + columns * double(s.warpgroups) * kStore;
  const double exchange = s.split > 1 ? kMeet + rounds * columns * kPush : 0;
  // Rows that all blocks read at about the same time come at more (o, 128 rows: 352 MB of tiles in 31 us).
  const double l2 = p.operands == Operands::Int8 ? double(items * s.split) * blocks * stage / (p.rows > 256 ? kInt8L2 : 11.5e12) : 0;
  return kStart + std::max(l2, std::pow(std::pow(memory, 4) + std::pow(rounds * item, 4), 0.25)) + rounds * end + exchange;
}

double estimate(const GemmShape &p, const ColsSchedule &s, const GpuModel &gpu) {
  if (p.grouped && p.operands == Operands::Int8) {
    constexpr double kItemEnd = 0.25e-6, kStore = 6.3e-9, kMeet = 0.6e-6, kPush = 6.2e-9; // s; of a column
    const double columns = double(p.weights * s.tokens), end = kItemEnd + columns * (double(s.warpgroups) * kStore + (s.split > 1 ? kPush : 0)) + (s.split > 1 ? kMeet : 0);
    const BlockWork work{s.warpgroups * p.weights * s.bk / 32, s.tokens, stageBytes(p, s), s.stages, ceilDiv(p.k, s.split * s.bk)};
    return estimateExperts(p, work, drawnRowTiles(p, s.tokens), double(ceilDiv(p.n, s.bm())), s.split, end, gpu) + (s.split > 1 ? kMeet : 0);
  }
  if (!p.grouped && !promotes(p.operands))
    return estimateStreaming(p, s, gpu);
  int64_t items = likelyRowTiles(p, s.tokens) * ceilDiv(p.n, s.bm());
  int64_t resident = gpu.clusters(s.split);
  double rounds = double(ceilDiv(items, resident)), k = double(p.k) / double(s.split);
  double weights = double(p.weights * s.bm() * p.weightBytes()) * k, x = double(s.tokens * p.xBytes()) * k;
  double efficiency = s.tokens >= 256 ? 0.90 : s.tokens >= 128 ? 0.80 : 0.70;
  double mma = (double(s.warpgroups * p.weights * p.xBytes()) * k / 32 * mmaClocks(s.tokens, gpu) / efficiency + k / double(s.bk) * kStageClocks) / gpu.clock;
  if (promotes(p.operands) && scalesRows(p.operands)) // every warp reads the scales of all rows of x, a sector each
    mma += k / 128 * double(4 * s.warpgroups * s.tokens) / gpu.clock;
  if (p.grouped && p.operands == Operands::ExpandedFp8)
    mma += k / 128 * double(p.weights) * kExpandClocks * std::max(1.0, double(s.warpgroups) / 2) / gpu.clock;
  double memory = double(p.active() * p.weights * p.n * p.weightBytes()) * double(p.k) / gpu.memory;
  double l2 = double(items * s.split) * (weights + x) / gpu.l2;
  double total = std::max({memory, l2, rounds * std::max((weights + x) / gpu.smLoad, mma)}) + rounds * kItem;
  if (s.split > 1)
    total += rounds * (kExchange + double(s.tokens * s.warpgroups) * 2e-9);
  // Experts end anywhere, so that blocks end unevenly; and what L2 serves again is never quite free.
  if (p.grouped)
    total += 0.5 * (weights + x) / gpu.smLoad + 0.1 * l2;
  double fill = double(stageBytes(p, s)) / gpu.smLoad; // nothing is multiplied before a whole stage is there
  return kLaunch + fill + total;
}

/// Columns at the end of N whose tiles are half as wide, so that the last round of tiles is half as long; 0 where that does not help.
static int64_t narrowColumns(const GemmShape &p, const RowsSchedule &s, const GpuModel &gpu) {
  const int64_t down = ceilDiv(p.rows, s.bm()), across = p.n / s.bn, sms = gpu.sms;
  auto halves = [&](int64_t narrow) { // of the time of a tile, where most is to do
    int64_t most = 0;
    for (int64_t sm = 0; sm < sms; ++sm)
      most = std::max(most, 2 * ceilDiv(down * (across - narrow) - sm, sms) + ceilDiv(2 * down * narrow - sm, sms));
    return most;
  };
  int64_t best = 0;
  for (int64_t narrow = 1; narrow < std::min<int64_t>(across, 5); ++narrow)
    if (halves(narrow) < halves(best))
      best = narrow;
  return best * s.bn;
}

/// How tiles of many rows end: int8 with what fits beside the stages. Fewer rows wait for memory, and FP8 gains nothing.
static void chooseEnd(const GemmShape &p, RowsSchedule &s, const GpuModel &gpu) {
  const int64_t columns = s.bn / p.weights, blocks = ceilDiv(p.k, s.bk);
  if (promotes(p.operands) || p.grouped || p.rows <= 256 || p.outBytes != 2 || p.outGroup || p.n % 64 || columns % 32)
    return;
  // Of short items the end is much, of shorter ones what is stored delays the next product (kv_b in int8: 122.3 us, 125.0 so).
  s.later = p.weights == 1 && p.rows > 1024 && blocks >= 8 && blocks <= 32;
  RowsSchedule end = s;
  end.staged = end.ahead = 1;
  if (p.operands != Operands::Int8 || s.stages * (stageBytes(p, s) + kBarriers) + end.stagingBytes(columns) + end.aheadBytes() > gpu.sharedBytes)
    return;
  s = end;
  if (p.weights == 1 && s.bn == 256 && p.n % s.bn == 0)
    s.narrow = narrowColumns(p, s, gpu);
  s.parts = s.narrow ? 2 : 1; // two widths in one kernel need the registers
}

/// Tiles of rows that share a column of weights at about the same time: all of them while x stays in L2, so that weights come from
/// memory once.
static int64_t bandOf(const GemmShape &p, const RowsSchedule &s) {
  constexpr int64_t kStays = 20 << 20, kBand = 8;
  return p.rows * p.k * p.xBytes() > kStays ? kBand : std::max(kBand, ceilDiv(p.rows, s.bm()));
}

RowsSchedule chooseRows(const GemmShape &p, const GpuModel &gpu) {
  RowsSchedule best;
  // Experts: one tile of 192 rows holds what most of them have, two of 128 would be half empty (128 rows on average: gate and up
  // take 397 us, 438 in tiles of 128 x 192).
  if (p.grouped && promotes(p.operands)) {
    // With few blocks of k the loop is unrolled, and three warpgroups have no registers for that.
    best = {p.k > 512 ? 3 : 2, 128, 128};
    best.stages = stagesThatFit(stageBytes(p, best), listBytes(p, best.bm()), 8, gpu);
    return best;
  }
  double least = 1e30;
  for (int64_t warpgroups : {3, 2, 1})
    for (int64_t bn : {256, 224, 192, 160, 144, 128, 96, 64}) {
      // FP8: promoted sums take as many registers as the accumulator, and are made of 32 columns at least; 160 was not measured.
      if (promotes(p.operands) && (bn > 192 || bn == 160 || bn % 32 || bn / p.weights % 32))
        continue;
      // An edge of N cuts whole pieces of 64 columns; int8 is scaled and stored in pieces of 32.
      const int64_t columns = bn / p.weights;
      if (p.operands == Operands::Int8 ? columns % 32 : !promotes(p.operands) && columns % 64 && p.n % columns)
        continue;
      if (p.outGroup && bn != p.weights * p.outGroup)
        continue;
      if (warpgroups == 3 && !(p.grouped && bn <= 192)) // a list of 256 columns does not fit their registers
        continue;
      if (promotes(p.operands) && warpgroups == 2 && p.rows <= 64 && !p.grouped)
        continue; // boxes that end behind x's last row are slow (64 rows of dense gate and up: 113 us, 81 in tiles of 64)
      RowsSchedule s;
      s.warpgroups = warpgroups;
      s.bn = bn;
      s.bk = p.atom();
      // Few rows wait for memory: 12 small stages under way (gate and up of the shared expert, 64 rows: 10.6 us, 11.6 with 8).
      const int64_t most = p.operands == Operands::Int8 && !p.grouped && p.rows <= 256 ? 12 : 8;
      s.stages = stagesThatFit(stageBytes(p, s), listBytes(p, s.bm()), most, gpu);
      if (double cost = estimate(p, s, gpu); cost < least)
        least = cost, best = s;
    }
  chooseEnd(p, best, gpu);
  best.group = bandOf(p, best);
  return best;
}

/// Stages that keep memory busy: 112 KiB under way, 64 KiB of them weights. More make a launch slower by a percent or two.
static int64_t stagesThatStream(const GemmShape &p, const ColsSchedule &s) {
  int64_t weights = p.weights * s.bm() * s.bk * p.weightBytes();
  return std::max({ceilDiv(112 << 10, stageBytes(p, s)), ceilDiv(64 << 10, weights), int64_t(4)});
}

namespace {
/// The best so far. What costs registers, starts later or holds more memory must earn it.
struct Choice {
  ColsSchedule schedule;
  double cost = 1e30;

  void offer(const ColsSchedule &s, double seconds, bool streams) {
    constexpr double kWarpgroups = 0.5e-6, kStages = 0.02; // s; of the cost
    double margin = 0;
    if (streams && schedule.warpgroups)
      margin = s.warpgroups > schedule.warpgroups                        ? kWarpgroups
               : s.bk == schedule.bk && s.stages > schedule.stages ? kStages * cost
                                                                         : 0;
    if (seconds < cost - margin)
      schedule = s, cost = seconds;
  }
};
} // namespace

/// Whether blocks of a cluster may share K of experts' products, as measured: sums of more than 8 rows are too much to exchange (512
/// rows of 32 experts: 265 us in two parts, 233 whole), as many small items as multiprocessors need no parts (8 tokens for 8 of 256
/// experts: 56.2 us in two, 54.0 whole), and larger clusters pay where all of them run at once.
static bool mayShare(const GemmShape &p, const ColsSchedule &s, const GpuModel &gpu) {
  if (s.split == 1)
    return true;
  const double items = drawnRowTiles(p, s.tokens) * double(ceilDiv(p.n, s.bm()));
  return s.tokens == 8 && ((s.split == 2 && (s.warpgroups > 1 || items <= double(gpu.sms))) || (s.split == 4 && items <= double(gpu.clusters(s.split))));
}

/// Warpgroups, K of a stage and stages for a token tile; `warpgroups` 0 when nothing fits.
static ColsSchedule completeCols(const GemmShape &p, int64_t split, int64_t tokens, const GpuModel &gpu) {
  Choice best;
  best.schedule.warpgroups = 0;
  // An accumulator takes tokens / 2 registers a thread and matrix; promoted ones (FP8) twice that, and the expanded
  // operand 48 more, or the scales of x tokens / 2, twice half of that as they are read ahead. Four consumer warpgroups leave
  // 112 registers each, three 152, two 232, of which the rest of the kernel takes 60.
  const bool sums = promotes(p.operands), expands = p.operands == Operands::ExpandedFp8, streams = !p.grouped && !sums;
  const bool pieces = ColsSchedule::inPieces(p.operands, p.weights, split > 1 ? std::max<int64_t>(8, tokens / split) : tokens); // which read them a few at a time
  const int64_t scales = scalesRows(p.operands) && !pieces ? tokens / (sums ? 2 : 4) + (sums && p.gathers ? tokens / 4 : 0) : 0;
  const int64_t accumulators = p.weights * tokens / 2 * (sums ? 2 : 1) + scales;
  for (int64_t order : {4, 3, 2, 1}) {
    const int64_t warpgroups = streams ? 5 - order : order;
    const int64_t most = warpgroups == 4 ? (expands ? 32 : 64) : warpgroups == 3 ? 90 : scalesRows(p.operands) ? 160 : 136;
    if (p.outGroup && warpgroups % 2) // pairs of warpgroups share the scales of y
      continue;
    if (accumulators > most || (warpgroups == 4 && expands && p.weights > 1) || (warpgroups == 3 && !streams))
      continue;
    for (int64_t bk : {4 * p.atom(), 2 * p.atom(), p.atom()}) {
      ColsSchedule s;
      s.warpgroups = warpgroups;
      s.tokens = tokens;
      s.split = split;
      s.bk = bk;
      // A warpgroup's rows of several swizzle atoms are no contiguous operand, so more than an atom goes to one warpgroup; parts
      // of a split begin at multiples of 128, and sums are promoted every 128.
      if (p.grouped && p.operands == Operands::Int8 && (bk > p.atom() || !mayShare(p, s, gpu))) // longer stages are 2 or 3% slower
        continue;
      if (p.operands == Operands::Int8 && bk > p.atom() && p.k < 4 * bk)
        continue; // few stages an item (kv_b, 32 rows: 8.8 us with two, 7.6 with four)
      // One round that leaves few multiprocessors idle has enough under way with 160 KiB (o, 64 rows: 31.1 us with 8 stages, 30.7 with 10,
      // 31.3 with 13).
      const int64_t items = likelyRowTiles(p, tokens) * ceilDiv(p.n, s.bm()) * split;
      const bool isFull = streams && p.operands == Operands::Int8 && p.rows >= 64 && items <= gpu.sms && 4 * items >= 3 * gpu.sms;
      if (isFull && bk > p.atom())
        continue;
      if (sums ? bk != 128 : (bk > p.atom() && warpgroups > 1) || (split > 1 && bk > 128))
        continue;
      const int64_t epilogue = p.outGroup ? s.maximaBytes() : s.stagingBytes();
      const int64_t fit = stagesThatFit(stageBytes(p, s), s.exchangeBytes(p.weights) + epilogue + listBytes(p, tokens), 32, gpu);
      // Stages of the next item make launches of short K slower (kv_b in int8, 64 rows: 9.6 us with 13, 8.4 with 8, 7.7 with the 4 of an item).
      const int64_t blocks = ceilDiv(p.k, bk), next = p.operands == Operands::Int8 ? 2 * blocks : fit;
      const bool isShort = p.operands == Operands::Int8 && streams && blocks <= 4;
      const int64_t few = std::min(fit, isShort ? std::max<int64_t>(blocks, 4) : isFull ? std::max((160 << 10) / stageBytes(p, s), stagesThatStream(p, s)) : streams ? stagesThatStream(p, s) : 8);
      const int64_t many = streams && !isShort && !isFull ? std::min(fit, std::max(few, next)) : few;
      for (s.stages = few; s.stages <= many; s.stages += std::max<int64_t>(1, many - few))
        if (s.stages >= 3 && (isShort || s.stages * stageBytes(p, s) >= kInFlight))
          best.offer(s, estimate(p, s, gpu), streams);
    }
  }
  return best.schedule;
}

bool takesRows(const GemmShape &p, const GpuModel &gpu) {
  if (!scalesRows(p.operands) || ((p.grouped || p.batch > 1) && p.operands != Operands::Int8))
    return false;
  if (p.operands != Operands::Int8)
    return p.rows > 32;
  // Boxes that end behind x's last row are slow: one row of o took 56 us so, where weights as M need 31. Of 64 rows pairs may gain, as
  // their sums are dear to exchange (shared gate and up: 10.6 us, 12.2 in two parts); others do not.
  if (p.rows < (p.weights == 2 ? 64 : 65))
    return false;
  ColsSchedule cols = chooseCols(p, splitOfWeight(p, gpu), kMostTokens, gpu);
  // Short K, 128 rows: weights as M, against the model (q_b: 13.7 us, 14.0 with tokens as M; kv_b: 8.8 and 9.4).
  if (cols.warpgroups && !p.grouped && p.weights == 1 && p.rows <= 128 && p.k <= 2048)
    return false;
  return !cols.warpgroups || estimate(p, chooseRows(p, gpu), gpu) < (p.rows > 64 ? 1 : 0.97) * estimate(p, cols, gpu);
}

int64_t splitOfWeight(const GemmShape &p, const GpuModel &gpu) {
  // Exchanging sums of both products costs what it saves: gate and up of the shared expert take 12.6 us in two parts and 14.1
  // whole for 8 tokens, 20.1 and 15.5 for 64.
  if (promotes(p.operands) && scalesRows(p.operands) && p.weights > 1)
    return 1;
  int64_t best = 1;
  double least = 1e30;
  for (int64_t split : {1, 2, 4, 8}) {
    if (p.k / split < 256)
      break; // too short to be worth an exchange
    // One split for all buckets: judged over narrow and wide ones, the widest being where x costs most traffic.
    const bool alone = p.operands == Operands::Int8;
    double cost = 0;
    for (int64_t rows : alone ? std::vector<int64_t>{p.rows} : std::vector<int64_t>{8, 64, 128}) {
      GemmShape bucket = p;
      bucket.rows = rows;
      ColsSchedule s = chooseCols(bucket, split, alone ? kMostTokens : rows, gpu);
      double seconds = s.warpgroups ? estimate(bucket, s, gpu) : 1e30;
      if (split == 1 && !alone && takesRows(bucket, gpu))
        seconds = std::min(seconds, estimate(bucket, chooseRows(bucket, gpu), gpu));
      cost += seconds;
    }
    if (cost < least * (p.grouped ? 1 : 0.97)) // a wider split must earn its exchange clearly
      least = cost, best = split;
  }
  return best;
}

ColsSchedule chooseCols(const GemmShape &p, int64_t split, int64_t maxTokens, const GpuModel &gpu) {
  int64_t covers = 8; // one tile for all rows reads every weight once
  while (covers < p.rows && covers < maxTokens)
    covers *= 2;
  ColsSchedule best;
  best.warpgroups = 0;
  double least = 1e30;
  const bool uneven = p.grouped && p.operands == Operands::Int8; // what an expert has is rarely a power of two
  for (int64_t tokens : {256, 192, 160, 128, 96, 64, 32, 16, 8}) {
    if (tokens > covers || ((tokens & (tokens - 1)) && !uneven))
      continue;
    ColsSchedule s = completeCols(p, split, tokens, gpu);
    if (double cost = s.warpgroups ? estimate(p, s, gpu) : 1e30; cost < least)
      least = cost, best = s;
  }
  // What is read once makes room in L2 for rows of x, which all blocks read, while those are few enough to stay there anyhow.
  constexpr int64_t kStays = 3 << 20;
  best.once = !p.grouped && p.batch == 1 && !promotes(p.operands) && p.rows > 32 && p.rows * p.k * p.xBytes() <= kStays;
  return best;
}

int64_t mostRowTiles(const GemmShape &p, int64_t tokens) {
  return (p.rows + p.active() * (tokens - 1)) / tokens; // every expert has one row more than whole tiles
}

} // namespace dsv3::codegen
