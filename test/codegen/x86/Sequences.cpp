#include "test/codegen/x86/Sequences.h"

#include "runtime/core/DType.h"

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

std::string cacheText(int64_t latent, int64_t rope, Elem elem, Codes codes) {
  std::string stored = codes == Codes::None ? "" : codes == Codes::E4M3 ? "f8E4M3FN" : "f8E5M2";
  return "!dsv3.kv<layers = " + std::to_string(kLayers) + ", page = 64, latent = " + std::to_string(latent) + ", rope = " + std::to_string(rope) +
         ", " + name(elem) + (stored.empty() ? "" : ", stored #dsv3.blocked<" + stored + ", 1x?, f32>") + ">";
}

static reference::QuantScheme schemeOf(Codes codes) {
  return {codes == Codes::E4M3 ? reference::QuantStorage::F8E4M3 : reference::QuantStorage::F8E5M2, 1, 0};
}

static reference::CacheStorage storageOf(Elem elem, Codes codes) {
  if (codes == Codes::None)
    return {};
  return {elem == Elem::F32 ? reference::Rounding::F32 : reference::Rounding::BF16, schemeOf(codes)};
}

CodedRow::CodedRow(const Array<double> &row, Codes type) {
  auto quantised = *reference::quantize(row, schemeOf(type));
  values = *reference::dequantize(quantised);
  scale = float(quantised.scale.data[0]);
  for (double code : quantised.data.data)
    codes.push_back(type == Codes::E4M3 ? floatToE4m3(float(code)) : floatToE5m2(float(code)));
}

TestCache::TestCache(const Sequences &s, int64_t latent, int64_t rope, Elem elem, uint32_t seed, Codes codes)
    : cache(kLayers, kPoolPages, {latent, rope}, storageOf(elem, codes)),
      bytes(kLayers * kPoolPages * PageLayout{latent, rope, bytesOf(elem), codes}.bytes()) {
  PageLayout layout{latent, rope, bytesOf(elem), codes};
  for (int64_t q = 0; q < s.meta.seqs(); ++q)
    for (int64_t i = 0; i < s.meta.ctxLen[size_t(q)]; ++i) {
      int64_t page = s.meta.blockTable[size_t(q)][size_t(i / 64)], token = i % 64;
      // By page and place, so that a row's numbers do not depend on the step.
      Array<double> row = randomValues({latent + rope}, elem, seed + uint32_t(page * 64 + token));
      Array<double> first({latent}), rest({rope});
      std::copy_n(row.data.begin(), latent, first.data.begin());
      std::copy_n(row.data.begin() + latent, rope, rest.data.begin());
      char *at = static_cast<char *>(bytes.data()) + (kLayer * kPoolPages + page) * layout.bytes();
      if (codes == Codes::None) {
        std::memcpy(at + layout.latentAt(token), Buffer::of(first, elem).data(), size_t(latent * bytesOf(elem)));
      } else {
        CodedRow coded(first, codes);
        first = coded.values;
        std::memcpy(at + layout.latentAt(token), coded.codes.data(), size_t(latent));
        std::memcpy(at + layout.scaleAt(token), &coded.scale, sizeof(float));
      }
      std::memcpy(at + layout.ropeAt(token), Buffer::of(rest, elem).data(), size_t(rope * bytesOf(elem)));
      double *to = cache.row(kLayer, page, token);
      std::copy_n(rest.data.begin(), rope, std::copy_n(first.data.begin(), latent, to));
    }
}

} // namespace dsv3::codegen::test
