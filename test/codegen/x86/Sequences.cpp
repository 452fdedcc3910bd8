#include "test/codegen/x86/Sequences.h"

#include <gtest/gtest.h>

namespace dsv3::codegen::test {

Sequences::Sequences(const std::vector<Chunk> &chunks) {
  Capacities caps = capacities();
  std::vector<int32_t> table(size_t(caps.seqs * caps.pages), -1), qblock, kblock, start{0};
  std::vector<int64_t> slots;
  int32_t nextPage = 7;
  for (size_t s = 0; s < chunks.size(); ++s) {
    auto [past, count] = chunks[s];
    std::vector<int32_t> pages;
    for (int64_t p = 0; p < (past + count + 63) / 64; ++p) {
      pages.push_back(nextPage);
      table[s * size_t(caps.pages) + size_t(p)] = nextPage;
      nextPage = (nextPage + 11) % kPoolPages; // 11 and 40 have no common divisor: every page once
      kblock.insert(kblock.end(), {int32_t(s), int32_t(p)});
    }
    start.push_back(int32_t(kblock.size() / 2));
    int64_t first = meta.tokens();
    for (int64_t i = 0; i < count; i += Capacities::kQueryTile)
      qblock.insert(qblock.end(), {int32_t(s), int32_t(first + i), int32_t(std::min(count - i, Capacities::kQueryTile)), 0});
    for (int64_t i = past; i < past + count; ++i)
      slots.push_back(int64_t(pages[size_t(i / 64)]) * 64 + i % 64);
    meta.addSequence(past, count, pages);
  }
  EXPECT_TRUE(meta.verify(kPoolPages));
  EXPECT_LE(meta.tokens(), caps.tokens);
  EXPECT_LE(int64_t(kblock.size()) / 2, caps.kblocks);
  step.tokens = meta.tokens(), step.seqs = meta.seqs();
  step.qblocks = int64_t(qblock.size()) / 4, step.kblocks = int64_t(kblock.size()) / 2;
  tokenSeq = Buffer::of(meta.tokenSeq), tokenPos = Buffer::of(meta.tokenPos), tokenSlot = Buffer::of(slots), ctxLen = Buffer::of(meta.ctxLen);
  blockTable = Buffer::of(table), qblocks = Buffer::of(qblock), kblocks = Buffer::of(kblock), kblockStart = Buffer::of(start);
}

const Buffer &Sequences::field(unsigned kind) const {
  switch (kind) {
  case DSV3_FIELD_TOKEN_SEQ: return tokenSeq;
  case DSV3_FIELD_TOKEN_POS: return tokenPos;
  case DSV3_FIELD_TOKEN_SLOT: return tokenSlot;
  case DSV3_FIELD_CTX_LEN: return ctxLen;
  case DSV3_FIELD_BLOCK_TABLE: return blockTable;
  case DSV3_FIELD_QBLOCK: return qblocks;
  case DSV3_FIELD_KBLOCK: return kblocks;
  case DSV3_FIELD_KBLOCK_START: return kblockStart;
  default: ADD_FAILURE() << "no test data for field " << kind; return tokenSeq;
  }
}

void Sequences::add(Buffers &to, const LaunchSignature &signature) const {
  for (unsigned kind : signature.stepFields)
    to.add(field(kind));
}

std::string cacheText(int64_t latent, int64_t rope, Elem elem) {
  return "!dsv3.kv<layers = " + std::to_string(kLayers) + ", page = 64, latent = " + std::to_string(latent) + ", rope = " + std::to_string(rope) +
         ", " + name(elem) + ">";
}

TestCache::TestCache(const Sequences &s, int64_t latent, int64_t rope, Elem elem, uint32_t seed)
    : cache(kLayers, kPoolPages, {latent, rope}), bytes(kLayers * kPoolPages * 64 * (latent + rope) * bytesOf(elem)) {
  int64_t rowBytes = (latent + rope) * bytesOf(elem);
  for (int64_t q = 0; q < s.meta.seqs(); ++q)
    for (int64_t i = 0; i < s.meta.ctxLen[size_t(q)]; ++i) {
      int64_t page = s.meta.blockTable[size_t(q)][size_t(i / 64)];
      // By page and place, so that a row's numbers do not depend on the step.
      Array<double> row = randomValues({latent + rope}, elem, seed + uint32_t(page * 64 + i % 64));
      std::copy_n(row.data.begin(), latent + rope, cache.row(kLayer, page, i % 64));
      Buffer stored = Buffer::of(row, elem);
      int64_t at = ((kLayer * kPoolPages + page) * 64 + i % 64) * rowBytes;
      std::memcpy(static_cast<char *>(bytes.data()) + at, stored.data(), size_t(rowBytes));
    }
}

} // namespace dsv3::codegen::test
