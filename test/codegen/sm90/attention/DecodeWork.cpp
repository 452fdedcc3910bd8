#include "test/codegen/sm90/attention/DecodeWork.h"

#include <cmath>
#include <numeric>
#include <random>

namespace dsv3::codegen {

static int64_t totalPages(const std::vector<int32_t> &lens) {
  int64_t n = 0;
  for (int32_t len : lens)
    n += DecodeWork::pagesOf(len);
  return n;
}

DecodeWork::DecodeWork(int64_t heads, std::vector<int32_t> lengths, int64_t pageBytes)
    : heads(heads), seqs(lengths.size()), poolPages(totalPages(lengths) + 2), lens(std::move(lengths)), table(seqs * kTablePages, 0x7fffff),
      out({seqs, heads, kLatent}, 0), scalars(8) {
  scalars[4] = poolPages * pageBytes;
  out.fill(kNan);
  std::vector<int32_t> order(poolPages);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  for (int64_t s = 0, next = 0; s < seqs; ++s)
    for (int64_t p = 0; p < pagesOf(lens[s]); ++p)
      table[s * kTablePages + p] = order[next++];
}

void DecodeWork::eachRow(const std::function<void(int64_t, int64_t, int64_t, bool)> &visit) const {
  for (int64_t s = 0; s < seqs; ++s)
    for (int64_t p = 0; p < pagesOf(lens[s]); ++p)
      for (int64_t r = 0; r < kPageTokens; ++r)
        visit(s, table[s * kTablePages + p], r, p * kPageTokens + r < lens[s]);
}

void DecodeWork::add(int32_t seq, int32_t begin, int32_t end, int32_t slot) {
  items.insert(items.end(), {seq, begin, end, slot, lens[seq]});
  const int64_t slots = slot + 1;
  if (int64_t(lse.size()) < slots * heads) {
    partial.resize(slots * heads * kLatent, NAN);
    lse.resize(slots * heads, NAN);
  }
}

std::vector<tile::SimArgument> DecodeWork::workArguments() {
  if (partial.empty())
    partial.resize(heads * kLatent), lse.resize(heads);
  starts = parts;
  starts.insert(starts.begin(), 0);
  const int64_t slots = lse.size() / heads;
  using Arg = tile::SimArgument;
  return {Arg::memory(table.data(), {seqs, kTablePages}),
          Arg::memory(items.data(), {int64_t(items.size()) / 5, 5}),
          Arg::memory(starts.data(), {int64_t(starts.size())}),
          out.argument(),
          Arg::memory(partial.data(), {slots, heads, kLatent}),
          Arg::memory(lse.data(), {slots, heads}),
          Arg::scalar(kLayer)};
}

void DecodeWork::checkWhole(int64_t seq) {
  for (int64_t h = 0; h < heads; ++h)
    EXPECT_LT(relativeError(widened(out.row({seq, h}), kLatent), want(seq, h, 0, pagesOf(lens[seq])).out), 5e-3) << "sequence " << seq << " head " << h;
}

void DecodeWork::checkPart(int64_t seq, int64_t begin, int64_t end, int64_t slot) {
  for (int64_t h = 0; h < heads; ++h) {
    const Attended a = want(seq, h, begin, end);
    const float *row = partial.data() + (slot * heads + h) * kLatent;
    EXPECT_LT(relativeError({row, row + kLatent}, a.out), 5e-3) << "slot " << slot << " head " << h;
    EXPECT_NEAR(lse[slot * heads + h], a.logSum, 1e-3) << "slot " << slot << " head " << h;
  }
}

void DecodeWork::checkSame(DecodeWork &other, int64_t seq) {
  for (int64_t h = 0; h < heads; ++h)
    EXPECT_TRUE(std::equal(out.row({seq, h}), out.row({seq, h}) + kLatent, other.out.row({seq, h}))) << "head " << h;
}

} // namespace dsv3::codegen
