#include "codegen/sm90/gemm/GemmSchedule.h"

#include <algorithm>
#include <initializer_list>

namespace dsv3::codegen {

namespace {
constexpr double kLaunch = 2.0e-6;   // launch, barrier set-up, first stage
constexpr double kItem = 0.35e-6;    // drain and epilogue of a tile that nothing overlaps
constexpr double kExchange = 0.9e-6; // partial sums through distributed shared memory
constexpr double kStageClocks = 60;  // a wait and a release that tensor cores do not hide
constexpr double kExpandClocks = 250; // 64 x 128 FP8 values to a register operand, one warpgroup
constexpr int64_t kInFlight = 90000; // bytes an SM must have on the way to keep memory busy
constexpr int64_t kBarriers = 16;    // bytes a stage

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Tiles of `tokens` rows over all products. Rows of experts are uneven: taken as spread from 0 to twice the mean.
int64_t rowTiles(const GemmShape &p, int64_t tokens) {
  if (!p.grouped)
    return p.batch * ceilDiv(p.rows, tokens);
  int64_t tiles = 0, active = p.active();
  for (int64_t i = 0; i < active; ++i)
    tiles += ceilDiv(std::max<int64_t>(1, p.rows * (2 * i + 1) / (active * active)), tokens);
  return tiles;
}

/// Tensor core clocks of 64 x `cols` x 16: below 64 columns reading A from shared memory is what costs.
double mmaClocks(int64_t cols, const GpuModel &gpu) {
  return std::max(64.0 * double(cols) * 16 / gpu.macs, 32.0 * double(std::max<int64_t>(cols, 8)) / 128 + 16);
}

int64_t stagesThatFit(int64_t stage, int64_t reserved, int64_t most, const GpuModel &gpu) {
  return std::min(most, (gpu.sharedBytes - reserved) / (stage + kBarriers));
}
} // namespace

int64_t stageBytes(const GemmShape &p, const RowsSchedule &s) { return (s.bm() + s.bn) * s.bk * p.xBytes; }

int64_t stageBytes(const GemmShape &p, const ColsSchedule &s) {
  return (p.weights * s.bm() * p.weightBytes + s.tokens * p.xBytes) * s.bk;
}

double estimate(const GemmShape &p, const RowsSchedule &s, const GpuModel &gpu) {
  double items = double(p.batch * ceilDiv(p.rows, s.bm()) * ceilDiv(p.n, s.bn));
  double rounds = double(ceilDiv(int64_t(items), gpu.sms)), blocks = double(ceilDiv(p.k, s.bk));
  // Narrow tiles leave the tensor cores waiting between k-blocks.
  double efficiency = s.bn >= 192 ? 0.90 : s.bn >= 128 ? 0.80 : 0.62;
  if (s.warpgroups == 1)
    efficiency *= 0.85;
  double mma = blocks * double(s.warpgroups * s.bk * p.xBytes / 32) * mmaClocks(s.bn, gpu) / efficiency / gpu.clock;
  double load = blocks * double(stageBytes(p, s)) / gpu.smLoad;
  double memory = double(p.batch) * (double(p.n * p.k) * double(p.weightBytes) + double(p.rows) * double(p.k * 2 + p.n * p.outBytes)) / gpu.memory;
  double l2 = items * blocks * double(stageBytes(p, s)) / gpu.l2;
  double epilogue = kItem + double(s.bn) * 4e-9;
  return kLaunch + std::max({rounds * (std::max(mma, load) + epilogue), memory, l2});
}

double estimate(const GemmShape &p, const ColsSchedule &s, const GpuModel &gpu) {
  int64_t items = rowTiles(p, s.tokens) * ceilDiv(p.n, s.bm());
  int64_t resident = gpu.clusters(s.split);
  double rounds = double(ceilDiv(items, resident)), k = double(p.k) / double(s.split);
  double weights = double(p.weights * s.bm() * p.weightBytes) * k, x = double(s.tokens * p.xBytes) * k;
  double efficiency = s.tokens >= 256 ? 0.90 : s.tokens >= 128 ? 0.80 : 0.70;
  double mma = (double(s.warpgroups * p.weights * p.xBytes) * k / 32 * mmaClocks(s.tokens, gpu) / efficiency + k / double(s.bk) * kStageClocks) / gpu.clock;
  if (p.grouped && p.weightBytes < p.xBytes)
    mma += k / 128 * double(p.weights) * kExpandClocks * std::max(1.0, double(s.warpgroups) / 2) / gpu.clock;
  double memory = double(p.active() * p.weights * p.n * p.weightBytes) * double(p.k) / gpu.memory;
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

RowsSchedule chooseRows(const GemmShape &p, const GpuModel &gpu) {
  RowsSchedule best;
  double least = 1e30;
  for (int64_t warpgroups : {2, 1})
    for (int64_t bn : {256, 192, 128, 64}) {
      if (p.xBytes == 1 && bn > 128)
        continue; // the promoted sums need as many registers as the accumulator
      RowsSchedule s;
      s.warpgroups = warpgroups;
      s.bn = bn;
      s.bk = 128 / p.xBytes; // a swizzle atom
      s.stages = stagesThatFit(stageBytes(p, s), 0, 8, gpu);
      if (double cost = estimate(p, s, gpu); cost < least)
        least = cost, best = s;
    }
  return best;
}

/// Shared memory for the list of row tiles.
static int64_t listBytes(const GemmShape &p, int64_t tokens) { return p.grouped ? 16 * (1 + mostRowTiles(p, tokens)) : 0; }

/// Warpgroups, K of a stage and stages for a token tile; `warpgroups` 0 when nothing fits.
static ColsSchedule completeCols(const GemmShape &p, int64_t split, int64_t tokens, const GpuModel &gpu) {
  ColsSchedule best;
  best.warpgroups = 0;
  double least = 1e30;
  // An accumulator takes tokens / 2 registers a thread and matrix; promoted ones (FP8) twice that, and the expanded
  // operand 48 more, or the scales of x tokens / 2. Four consumer warpgroups leave 112 registers each, two leave 232, of
  // which the rest of the kernel takes 60.
  int64_t accumulators = p.weights * tokens / 2 * (p.weightBytes == 1 ? 2 : 1) + (p.xBytes == 1 ? tokens / 2 : 0);
  for (int64_t warpgroups : {4, 2, 1}) {
    bool expands = p.weightBytes < p.xBytes;
    if (accumulators > (warpgroups < 4 ? (p.xBytes == 1 ? 160 : 136) : expands ? 32 : 64) || (warpgroups == 4 && expands && p.weights > 1))
      continue;
    for (int64_t bk : {256, 128, 64}) {
      ColsSchedule s;
      s.warpgroups = warpgroups;
      s.tokens = tokens;
      s.split = split;
      s.bk = bk;
      s.stages = stagesThatFit(stageBytes(p, s), s.exchangeBytes(p.weights) + s.stagingBytes() + listBytes(p, tokens), 8, gpu);
      // bf16: a warpgroup's rows of several swizzle atoms are no contiguous operand, so more than 64 k go to one warpgroup;
      // parts of a split begin at multiples of 128. FP8 is promoted every 128.
      bool legal = p.weightBytes == 1 ? bk == 128 : (bk == 64 || warpgroups == 1) && (split == 1 || bk <= 128);
      if (!legal || s.stages < 3 || s.stages * stageBytes(p, s) < kInFlight)
        continue;
      if (double cost = estimate(p, s, gpu); cost < least)
        least = cost, best = s;
    }
  }
  return best;
}

int64_t splitOfWeight(const GemmShape &p, const GpuModel &gpu) {
  int64_t best = 1;
  double least = 1e30;
  for (int64_t split : {1, 2, 4, 8}) {
    if (p.k / split < 256)
      break; // too short to be worth an exchange
    // One split for all buckets: judged over narrow and wide ones, the widest being where x costs most traffic.
    double cost = 0;
    for (int64_t tokens : {8, 64, 128}) {
      GemmShape bucket = p;
      bucket.rows = tokens;
      cost += estimate(bucket, chooseCols(bucket, split, tokens, gpu), gpu);
    }
    if (cost < least * 0.97) // a wider split must earn its exchange clearly
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
  for (int64_t tokens = covers; tokens >= 8; tokens /= 2) {
    ColsSchedule s = completeCols(p, split, tokens, gpu);
    if (double cost = s.warpgroups ? estimate(p, s, gpu) : 1e30; cost < least)
      least = cost, best = s;
  }
  return best;
}

int64_t mostRowTiles(const GemmShape &p, int64_t tokens) {
  return (p.rows + p.active() * (tokens - 1)) / tokens; // every expert has one row more than whole tiles
}

} // namespace dsv3::codegen
