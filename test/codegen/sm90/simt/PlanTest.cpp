// The plan that cuts sequences, and the sum of their parts.
#include "test/codegen/sm90/simt/DeviceTest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

namespace dsv3::codegen::test {
namespace {

using Words = std::vector<int32_t>;

//===-- attn_plan ---------------------------------------------------------===//

struct Plan {
  Words items, parts, splits;
  int32_t slots = 0;
};

int64_t pagesOf(int32_t length) { return (length + 63) / 64; }

using Pieces = std::vector<std::pair<int64_t, int64_t>>;

void addSequence(Plan &plan, size_t s, int32_t length, const Pieces &pieces) {
  plan.splits.push_back(plan.slots);
  for (auto [begin, end] : pieces)
    plan.items.insert(plan.items.end(), {int32_t(s), int32_t(begin), int32_t(end), pieces.size() > 1 ? plan.slots++ : -1, length});
}

/// By length: cuts every `span` pages.
Plan byLength(const Words &lengths, int64_t max, int64_t pages, int64_t capacity) {
  Plan plan;
  for (size_t s = 0; s < lengths.size(); ++s) {
    int64_t n = pagesOf(lengths[s]), span = std::max(pages, (n + max - 1) / max);
    span += span % 2;
    Pieces pieces;
    for (int64_t begin = 0; begin < n; begin += span)
      pieces.push_back({begin, std::min(n, begin + span)});
    addSequence(plan, s, lengths[s], pieces);
  }
  plan.splits.resize(size_t(capacity + 1), plan.slots);
  return plan;
}

/// Evenly, with a given budget per partition; none when the partitions do not suffice.
std::optional<Plan> filled(const Words &lengths, int64_t start, int64_t partitions, int64_t capacity, int64_t budget) {
  Plan plan;
  int64_t rest = budget, items = 0;
  plan.parts = {0};
  for (size_t s = 0; s < lengths.size(); ++s) {
    Pieces pieces;
    for (int64_t n = pagesOf(lengths[s]), at = 0; at < n;) {
      int64_t left = n - at, cost = left + left % 2 + start, take = left;
      if (cost <= rest) {
        rest -= cost;
      } else {
        take = std::max<int64_t>(0, (rest - start) / 2 * 2);
        rest = budget;
      }
      if (take > 0)
        pieces.push_back({at, at + take}), ++items;
      at += take;
      if (take < left)
        plan.parts.push_back(int32_t(items));
    }
    addSequence(plan, s, lengths[s], pieces);
  }
  if (int64_t(plan.parts.size()) > partitions)
    return std::nullopt;
  plan.parts.resize(size_t(partitions + 1), int32_t(items));
  plan.splits.resize(size_t(capacity + 1), plan.slots);
  return plan;
}

Plan evenly(const Words &lengths, int64_t start, int64_t partitions, int64_t capacity) {
  for (int64_t budget = start + 2;; ++budget)
    if (std::optional<Plan> plan = filled(lengths, start, partitions, capacity, budget))
      return *plan;
}

Words words(const Buffer &b, size_t n) {
  Words w(n);
  std::memcpy(w.data(), b.data(), n * 4);
  return w;
}

struct Case {
  int64_t max, pages, partitions, capacity;
  Words lengths;
};

class PlanCase : public DeviceTest, public ::testing::WithParamInterface<Case> {};

/// Items are shared by cost: no partition has more than an equal share and one item beyond it.
void checkShares(const Words &parts, const Words &items, int64_t partitions) {
  int64_t count = int64_t(items.size()) / 5, all = 0, most = 0;
  auto cost = [&](int64_t i) { return items[size_t(i * 5 + 2)] - items[size_t(i * 5 + 1)] + 2; };
  for (int64_t i = 0; i < count; ++i)
    all += cost(i), most = std::max<int64_t>(most, cost(i));
  EXPECT_EQ(parts.front(), 0);
  EXPECT_EQ(parts.back(), count);
  for (int64_t p = 0; p < partitions; ++p) {
    int64_t sum = 0;
    ASSERT_LE(parts[size_t(p)], parts[size_t(p + 1)]);
    for (int64_t i = parts[size_t(p)]; i < parts[size_t(p + 1)]; ++i)
      sum += cost(i);
    EXPECT_LE(sum, all / partitions + most) << "partition " << p;
    if (count <= partitions)
      EXPECT_LE(parts[size_t(p + 1)] - parts[size_t(p)], 1);
  }
}

TEST_P(PlanCase, IsWhatTheDefinitionSays) {
  Case c = GetParam();
  int64_t n = c.max ? c.capacity * c.max : c.partitions + c.capacity, seqs = int64_t(c.lengths.size());
  std::string it = tensorText({n, 5}, Elem::I32), pt = tensorText({c.partitions + 1}, Elem::I32), st = tensorText({c.capacity + 1}, Elem::I32);
  auto grid = compile("%s: !dsv3.seq", "%i = kernel.empty : " + it + "\n%p = kernel.empty : " + pt + "\n%q = kernel.empty : " + st +
                                           "\n%a, %b, %c = kernel.attn_plan ins(%s) outs(%i, %p, %q : " + it + ", " + pt + ", " + st +
                                           ") split <max = " + std::to_string(c.max) + ", pages = " + std::to_string(c.pages) + "> site \"s\" -> " + it + ", " +
                                           pt + ", " + st);
  ASSERT_TRUE(grid);
  Plan plan = c.max ? byLength(c.lengths, c.max, c.pages, c.capacity) : evenly(c.lengths, c.pages, c.partitions, c.capacity);
  for (bool backwards : {false, true}) {
    Buffer lengths = Buffer::of(c.lengths), items(n * 20), parts(c.partitions * 4 + 4), splits(c.capacity * 4 + 4);
    grid->run({lengths.data(), items.data(), parts.data(), splits.data()}, step(seqs, seqs), backwards);
    EXPECT_TRUE(items.intact() && parts.intact() && splits.intact());
    EXPECT_EQ(words(items, plan.items.size()), plan.items);
    EXPECT_EQ(words(splits, plan.splits.size()), plan.splits);
    Words shares = words(parts, size_t(c.partitions + 1));
    if (c.max)
      checkShares(shares, plan.items, c.partitions);
    else
      EXPECT_EQ(shares, plan.parts);
  }
}

Words many(size_t n, uint32_t longest) {
  std::mt19937 engine(7);
  Words lengths(n);
  for (int32_t &l : lengths)
    l = int32_t(1 + engine() % longest);
  return lengths;
}

INSTANTIATE_TEST_SUITE_P(Splits, PlanCase,
                         ::testing::Values(Case{8, 8, 132, 8, {1, 64, 65, 512, 513, 4096, 70000}}, Case{8, 2, 132, 128, many(100, 5000)},
                                           Case{4, 16, 7, 40, many(33, 9000)}, Case{2, 1, 3, 1000, many(1000, 900)}, Case{0, 4, 132, 8, {4096}},
                                           Case{0, 1, 132, 8, {1, 64, 65, 512, 513, 4096, 70000}}, Case{0, 5, 132, 128, many(128, 5000)},
                                           Case{0, 4, 16, 8, {1, 1, 640}}, Case{0, 14, 66, 1000, many(1000, 900)},
                                           Case{0, 4, 66, 64, Words(64, 4096)}, Case{0, 4, 1, 1000, many(1000, 900)},
                                           Case{0, 14, 132, 128, many(3, 33000)}));

TEST(EvenSplit, CutsNothingThatFitsWhole) {
  Plan plan = evenly(Words(64, 4096), 4, 66, 64); // a sequence for each of 64 partitions: to cut them all for the other two costs more
  EXPECT_EQ(plan.slots, 0);
  EXPECT_EQ(plan.items.size(), 64u * 5);
}

//===-- attn_combine ------------------------------------------------------===//

class CombineTest : public DeviceTest, public ::testing::WithParamInterface<Elem> {};

TEST_P(CombineTest, SumsTheSlotsOfCutSequencesOnly) {
  constexpr int64_t kSeqs = 4, kCapacity = 6, kHeads = 3, kLatent = 256, kSlots = 90;
  Elem e = GetParam();
  std::string out = tensorText({kCapacity, kHeads, kLatent}, e), partial = tensorText({kSlots, kHeads, kLatent}, Elem::F32);
  std::string lse = tensorText({kSlots, kHeads}, Elem::F32);
  auto grid = compile("%p: " + partial + ", %l: " + lse + ", %q: tensor<7xi32>, %s: !dsv3.seq, %o: " + out,
                      "%r = kernel.attn_combine ins(%p, %l, %q, %s : " + partial + ", " + lse + ", tensor<7xi32>) outs(%o : " + out + ") site \"s\"");
  ASSERT_TRUE(grid);
  Words splits = {0, 2, 2, 75, 80, 80, 80}; // 2, none, 73 and 5 parts
  Array<double> values = randomValues({kSlots, kHeads * kLatent}, Elem::F32, 1), weights = randomValues({kSlots, kHeads}, Elem::F32, 2, 12);
  Array<double> before = randomValues({kCapacity, kHeads * kLatent}, e, 3), want = before;
  for (int64_t s = 0; s < kSeqs; ++s)
    for (int64_t h = 0; h < kHeads && splits[size_t(s)] < splits[size_t(s + 1)]; ++h) {
      double sum = 0;
      std::fill_n(want.row(s) + h * kLatent, kLatent, 0.0);
      for (int64_t i = splits[size_t(s)]; i < splits[size_t(s + 1)]; ++i)
        sum += std::exp2(weights.row(i)[h]);
      for (int64_t i = splits[size_t(s)]; i < splits[size_t(s + 1)]; ++i)
        for (int64_t c = 0; c < kLatent; ++c)
          want.row(s)[h * kLatent + c] += std::exp2(weights.row(i)[h]) / sum * values.row(i)[h * kLatent + c];
    }
  Buffer p = Buffer::of(values, Elem::F32), l = Buffer::of(weights, Elem::F32), q = Buffer::of(splits);
  for (bool backwards : {false, true}) {
    Buffer o = Buffer::of(before, e);
    grid->run({p.data(), l.data(), q.data(), o.data()}, step(kSeqs, kSeqs), backwards);
    EXPECT_LE(rowError(o.values(want.shape, e), want), e == Elem::F32 ? 1e-5 : 3e-3);
    Array<double> got = o.values(want.shape, e);
    for (int64_t whole : {1, 4, 5})
      EXPECT_EQ(std::vector<double>(got.row(whole), got.row(whole) + kHeads * kLatent),
                std::vector<double>(before.row(whole), before.row(whole) + kHeads * kLatent));
  }
}

TEST_P(CombineTest, GivesTheSameBitsAloneAndInEveryBucket) {
  constexpr int64_t kHeads = 2, kLatent = 128;
  Elem e = GetParam();
  Array<double> values = randomValues({20, kHeads * kLatent}, Elem::F32, 1), weights = randomValues({20, kHeads}, Elem::F32, 2, 5);
  // Buckets differ in how many threads share a head's slots and how many heads a block does.
  auto run = [&](int64_t capacity, Words splits, int64_t seqs, int64_t first) {
    std::string out = tensorText({capacity, kHeads, kLatent}, e), partial = tensorText({20, kHeads, kLatent}, Elem::F32);
    std::string lse = tensorText({20, kHeads}, Elem::F32), list = tensorText({capacity + 1}, Elem::I32);
    auto grid = compile("%p: " + partial + ", %l: " + lse + ", %q: " + list + ", %s: !dsv3.seq, %o: " + out,
                        "%r = kernel.attn_combine ins(%p, %l, %q, %s : " + partial + ", " + lse + ", " + list + ") outs(%o : " + out + ") site \"s\"");
    Array<double> v = values, w = weights; // slots from `first` on, moved to the front
    std::rotate(v.data.begin(), v.data.begin() + first * kHeads * kLatent, v.data.end());
    std::rotate(w.data.begin(), w.data.begin() + first * kHeads, w.data.end());
    splits.resize(size_t(capacity + 1), splits.back());
    Buffer p = Buffer::of(v, Elem::F32), l = Buffer::of(w, Elem::F32), q = Buffer::of(splits), o(capacity * kHeads * kLatent * bytesOf(e));
    if (grid)
      grid->run({p.data(), l.data(), q.data(), o.data()}, step(seqs, seqs), false);
    return o;
  };
  int64_t row = kHeads * kLatent * bytesOf(e);
  Buffer all = run(3, {0, 6, 17, 20}, 3, 0);
  for (int64_t capacity : {1, 400, 800, 1500, 5000}) {
    Buffer alone = run(capacity, {0, 11}, 1, 6);
    EXPECT_EQ(std::memcmp(static_cast<char *>(all.data()) + row, alone.data(), size_t(row)), 0) << "capacity " << capacity;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CombineTest, ::testing::Values(Elem::F32, Elem::BF16));

} // namespace
} // namespace dsv3::codegen::test
