#include "runtime/engine/Step.h"

#include <algorithm>
#include <limits>

namespace dsv3 {

namespace {

/// What is left of a program's capacities. A program that does not use tiles or key
/// blocks states a capacity of zero.
struct Room {
  int64_t tokens, seqs, qblocks, kblocks;

  explicit Room(const dsv3_program_desc &p)
      : tokens(p.tokens), seqs(p.seqs), qblocks(p.qblocks ? p.qblocks : unlimited),
        kblocks(p.kblocks ? p.kblocks : unlimited) {}

  /// The most rows from `start` on; zero or less when none fit.
  int64_t rowsFrom(int64_t start) const {
    int64_t byTiles = qblocks >= unlimited ? unlimited : (start / kQueryTile + qblocks) * kQueryTile - start;
    int64_t byKeys = kblocks >= unlimited ? unlimited : kblocks * kKeyBlock - start;
    return seqs > 0 ? std::min({tokens, byTiles, byKeys}) : 0;
  }

  void take(int64_t start, int64_t rows) {
    tokens -= rows;
    seqs -= 1;
    if (qblocks < unlimited)
      qblocks -= queryTiles(start, rows);
    if (kblocks < unlimited)
      kblocks -= keyBlocks(start + rows);
  }

  static constexpr int64_t unlimited = std::numeric_limits<int32_t>::max();
};

} // namespace

std::vector<StepItem> planStep(const dsv3_program_desc &program, const std::vector<Sequence *> &sequences,
                               int64_t chunk, int64_t mostRows) {
  Room room(program);
  room.tokens = std::min(room.tokens, mostRows);
  std::vector<StepItem> items;
  for (Sequence *s : sequences) {
    int64_t left = std::min(static_cast<int64_t>(s->tokens.size()), s->stop) - s->cached;
    int64_t rows = std::min({left, chunk, room.rowsFrom(s->cached)});
    if (rows <= 0)
      continue;
    items.push_back({s, s->cached, rows});
    room.take(s->cached, rows);
  }
  return items;
}

bool fitsStep(const dsv3_program_desc &program, const std::vector<StepItem> &items) {
  Room room(program);
  for (const StepItem &item : items) {
    if (item.rows > room.rowsFrom(item.start))
      return false;
    room.take(item.start, item.rows);
  }
  return true;
}

} // namespace dsv3
