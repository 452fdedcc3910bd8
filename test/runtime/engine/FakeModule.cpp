// A hand-written shared object with the tables of runtime/core/Abi.h over fake::.
// FAKE_FAULT builds one with a planted mistake for the loader to find.
#include "FakeModel.h"
#include "runtime/core/Abi.h"

#include <cstring>

#ifndef FAKE_FAULT
#define FAKE_FAULT 0
#endif
enum { kNoFault, kBadAbi, kBadLaunch, kBadField, kBadOutput, kFaultNan };

using namespace fake;

namespace {

// ---- step buffer, 64-byte aligned fields ----
constexpr uint64_t up(uint64_t n) { return (n + 63) / 64 * 64; }
constexpr uint64_t oIds = 0, oNext = oIds + up(kTokens * 4), oSeq = oNext + up(kTokens * 4),
                   oPos = oSeq + up(kTokens * 4), oSlot = oPos + up(kTokens * 4),
                   oQStart = oSlot + up(kTokens * 8), oCtx = oQStart + up((kSeqs + 1) * 4),
                   oTable = oCtx + up(kSeqs * 4), oRow = oTable + up(kSeqs * kPages * 4),
                   oQb = oRow + up(kSeqs * 4), oKb = oQb + up(kQBlocks * 16),
                   oKbStart = oKb + up(kKBlocks * 8), kStepBytes = oKbStart + up((kSeqs + 1) * 4);

// ---- arena and results ----
constexpr uint64_t aHidden = 0, aBlock = up(kTokens * 4), aTap = aBlock + up(kKBlocks * 4),
                   kArenaBytes = aTap + up(kTokens * 8);
constexpr uint64_t pLogits = 0, pHidden = uint64_t(kTokens) * kVocab * 4,
                   kPersistBytes = pHidden + up(kTokens * 4);

constexpr dsv3_ref step(uint64_t o) { return {DSV3_POOL_STEP, 0, o}; }
constexpr dsv3_ref arena(uint64_t o) { return {DSV3_POOL_ARENA, 0, o}; }
constexpr dsv3_ref persist(uint64_t o) { return {DSV3_POOL_PERSIST, 0, o}; }
constexpr dsv3_ref kv{DSV3_POOL_KV, 0, 0};
constexpr dsv3_ref weights{DSV3_POOL_WEIGHTS, 0, 0};

template <typename T> const T *in(const void *p) { return static_cast<const T *>(p); }
template <typename T> T *out(const void *p) { return static_cast<T *>(const_cast<void *>(p)); }

float *cacheRow(const void *const *b, const int64_t *s, int64_t layer, int64_t slot) {
  return reinterpret_cast<float *>(out<char>(b[0]) + layer * s[DSV3_SCALAR_KV_LAYER_STRIDE]) + slot * kRow;
}
/// Key at `position` of sequence `q` by its block table (b[1]); layer is the first constant.
float keyAt(const void *const *b, const int64_t *s, int q, int position) {
  int page = in<int32_t>(b[1])[q * kPages + position / kPage];
  return cacheRow(b, s, s[DSV3_SCALAR_COUNT], int64_t(page) * kPage + position % kPage)[1];
}

/// kv, ids, pos, slot, weights, tap. Tile: a row.
void append(const void *const *b, const int64_t *s, int64_t begin, int64_t end, void *scratch) {
  if (reinterpret_cast<uintptr_t>(scratch) % 64)
    __builtin_trap();
  for (int64_t t = begin; t < end; ++t) {
    int id = in<int32_t>(b[1])[t], pos = in<int32_t>(b[2])[t];
    int64_t slot = in<int64_t>(b[3])[t];
    // Through scratch, so that two threads sharing one would be seen.
    float *mine = static_cast<float *>(scratch);
    for (int i = 0; i < 256; ++i)
      mine[i] = key(in<uint32_t>(b[4])[id % kWeights], id, pos);
    if (slot >= 0)
      for (int64_t layer = 0; layer < kLayers; ++layer)
        cacheRow(b, s, layer, slot)[1] = mine[255];
    out<int32_t>(b[5])[t * 2] = id;
    out<int32_t>(b[5])[t * 2 + 1] = pos;
  }
}

/// kv, next ids, pos, slot, hidden. The MTP module's layer comes last.
void appendMtp(const void *const *b, const int64_t *s, int64_t begin, int64_t end, void *) {
  for (int64_t t = begin; t < end; ++t)
    if (int64_t slot = in<int64_t>(b[3])[t]; slot >= 0)
      cacheRow(b, s, kLayers, slot)[1] =
          mtpKey(in<uint32_t>(b[4])[t], in<int32_t>(b[1])[t], in<int32_t>(b[2])[t]);
}

/// kv, table, kblock, ctx_len -> hash of each key block. Tile: a key block.
void expand(const void *const *b, const int64_t *s, int64_t begin, int64_t end, void *) {
  for (int64_t k = begin; k < end; ++k) {
    int q = in<int32_t>(b[2])[k * 2], block = in<int32_t>(b[2])[k * 2 + 1];
    uint32_t h = 2;
    for (int p = block * 64; p < block * 64 + 64 && p < in<int32_t>(b[3])[q]; ++p)
      h = attendKey(h, keyAt(b, s, q, p));
    out<uint32_t>(b[4])[k] = h;
  }
}

/// kv, table, qblock, pos, kblock_start, blocks -> hidden. Tile: a query tile.
void attendTiles(const void *const *b, const int64_t *s, int64_t begin, int64_t end, void *) {
  for (int64_t i = begin; i < end; ++i) {
    const int32_t *tile = in<int32_t>(b[2]) + i * 4;
    if (tile[2] < 1 || tile[2] > 16)
      __builtin_trap();
    for (int t = tile[1]; t < tile[1] + tile[2]; ++t) {
      int pos = in<int32_t>(b[3])[t], whole = (pos + 1) / 64;
      uint32_t h = 1;
      for (int k = 0; k < whole; ++k)
        h = mix(h, in<uint32_t>(b[5])[in<int32_t>(b[4])[tile[0]] + k]);
      for (int p = whole * 64; p <= pos; ++p)
        h = attendKey(h, keyAt(b, s, tile[0], p));
      out<uint32_t>(b[6])[t] = h;
    }
  }
}

/// kv, table, seq, pos, ctx_len -> hidden. Tile: a row; for decode.
void attendRows(const void *const *b, const int64_t *s, int64_t begin, int64_t end, void *) {
  for (int64_t t = begin; t < end; ++t) {
    int q = in<int32_t>(b[2])[t], pos = in<int32_t>(b[3])[t];
    bool last = in<int32_t>(b[4])[q] == pos + 1; // a decode row is the last of its context
    out<uint32_t>(b[5])[t] = last ? hidden(pos, [&](int p) { return keyAt(b, s, q, p); }) : 0;
  }
}

/// hidden, logit_row -> logits. Tile: a row of logits. Constant: 1 for every row, 0 for logit_row's.
void head(const void *const *b, const int64_t *s, int64_t begin, int64_t end, void *) {
  for (int64_t r = begin; r < end; ++r) {
    uint32_t h = in<uint32_t>(b[0])[s[DSV3_SCALAR_COUNT] ? r : in<int32_t>(b[1])[r]];
    for (int v = 0; v < kVocab; ++v)
      out<float>(b[2])[r * kVocab + v] = FAKE_FAULT == kFaultNan ? __builtin_nanf("") : logit(h, v);
  }
}

void copy(const void *const *b, const int64_t *, int64_t begin, int64_t end, void *) {
  std::memcpy(out<char>(b[1]) + begin * 4, in<char>(b[0]) + begin * 4, (end - begin) * 4);
}

const dsv3_kernel_desc kernels[] = {{"append", "", append, 1024},
                                    {"append_mtp", "", appendMtp, 0},
                                    {"expand", "", expand, 0},
                                    {"attend_tiles", "", attendTiles, 0},
                                    {"attend_rows", "", attendRows, 64},
                                    {"head", "", head, 0},
                                    {"copy", "", copy, 0}};

// ---- launches ----
const dsv3_ref rAppend[] = {kv,
                            step(oIds),
                            step(oPos),
                            step(oSlot),
                            FAKE_FAULT == kBadLaunch ? dsv3_ref{DSV3_POOL_WEIGHTS, 0, 1 << 20} : weights,
                            arena(aTap)};
const dsv3_ref rAppendMtp[] = {kv, step(oNext), step(oPos), step(oSlot), persist(pHidden)};
const dsv3_ref rExpand[] = {kv, step(oTable), step(oKb), step(oCtx), arena(aBlock)};
const dsv3_ref rTiles[] = {
    kv, step(oTable), step(oQb), step(oPos), step(oKbStart), arena(aBlock), arena(aHidden)};
const dsv3_ref rRows[] = {kv, step(oTable), step(oSeq), step(oPos), step(oCtx), arena(aHidden)};
const dsv3_ref rHead[] = {arena(aHidden), step(oRow), persist(pLogits)};
const dsv3_ref rCopy[] = {arena(aHidden), persist(pHidden)};
const int64_t lastLayer[] = {kLayers - 1}, mtpLayer[] = {kLayers}, someRows[] = {0}, allRows[] = {1};

void launch(const dsv3_host_api *api, void *ctx, uint32_t kernel, const dsv3_ref *refs, uint32_t n,
            const int64_t *consts, const char *site, int64_t tiles) {
  dsv3_launch l{kernel, n, consts ? 1u : 0u, 0, refs, consts, site};
  api->range(ctx, &l, tiles);
}

void attend(const dsv3_host_api *api, void *ctx, const dsv3_step_host *s, const int64_t *layer) {
  launch(api, ctx, 2, rExpand, 5, layer, "expand", s->scalars[DSV3_SCALAR_KBLOCKS]);
  launch(api, ctx, 3, rTiles, 7, layer, "attend", s->scalars[DSV3_SCALAR_QBLOCKS]);
}

void prefill(const dsv3_host_api *api, void *ctx, const dsv3_step_host *s) {
  launch(api, ctx, 0, rAppend, 6, nullptr, "append", s->scalars[DSV3_SCALAR_TOKENS]);
  attend(api, ctx, s, lastLayer);
  launch(api, ctx, 5, rHead, 3, someRows, "head", s->scalars[DSV3_SCALAR_SEQS]);
}
void decode(const dsv3_host_api *api, void *ctx, const dsv3_step_host *s) {
  launch(api, ctx, 0, rAppend, 6, nullptr, "append", s->scalars[DSV3_SCALAR_TOKENS]);
  launch(api, ctx, 4, rRows, 6, lastLayer, "attend", s->scalars[DSV3_SCALAR_TOKENS]);
  launch(api, ctx, 5, rHead, 3, someRows, "head", s->scalars[DSV3_SCALAR_SEQS]);
}
void score(const dsv3_host_api *api, void *ctx, const dsv3_step_host *s) {
  int64_t tokens = s->scalars[DSV3_SCALAR_TOKENS];
  launch(api, ctx, 0, rAppend, 6, nullptr, "append", tokens);
  api->tap(ctx, 0, arena(aTap), tokens);
  attend(api, ctx, s, lastLayer);
  launch(api, ctx, 6, rCopy, 2, nullptr, "hidden", tokens);
  launch(api, ctx, 5, rHead, 3, allRows, "head", tokens);
}
void mtp(const dsv3_host_api *api, void *ctx, const dsv3_step_host *s) {
  int64_t tokens = s->scalars[DSV3_SCALAR_TOKENS];
  launch(api, ctx, 1, rAppendMtp, 5, nullptr, "mtp.append", tokens);
  attend(api, ctx, s, mtpLayer);
  api->tap(ctx, 1, arena(aHidden), tokens);
  launch(api, ctx, 5, rHead, 3, allRows, "mtp.head", tokens);
}

const dsv3_output_desc outputs[] = {
    {"logits", persist(FAKE_FAULT == kBadOutput ? kPersistBytes - 64 : pLogits), DSV3_ELEM_F32, 0, kVocab},
    {"hidden", persist(pHidden), DSV3_ELEM_I32, 0, 1}};

const dsv3_program_desc programs[] = {
    {"prefill_t8", DSV3_PHASE_PREFILL, 8, 1, 2, kPages, 1, outputs, prefill},
    {"prefill_t48", DSV3_PHASE_PREFILL, kTokens, kSeqs, kQBlocks, kKBlocks, 1, outputs, prefill},
    {"decode_b1", DSV3_PHASE_DECODE, 1, 1, 0, 0, 1, outputs, decode},
    {"decode_b2", DSV3_PHASE_DECODE, 2, 2, 0, 0, 1, outputs, decode},
    {"decode_b4", DSV3_PHASE_DECODE, 4, 4, 0, 0, 1, outputs, decode},
    {"score", DSV3_PHASE_SCORE, kTokens, kSeqs, kQBlocks, kKBlocks, 2, outputs, score},
    {"mtp", DSV3_PHASE_MTP, kTokens, kSeqs, kQBlocks, kKBlocks, 1, outputs, mtp},
};

const dsv3_field_desc fields[] = {
    {"ids", DSV3_FIELD_IDS, DSV3_ELEM_I32, oIds, kTokens},
    {"next_ids", DSV3_FIELD_NEXT_IDS, DSV3_ELEM_I32, oNext, kTokens},
    {"token_seq", DSV3_FIELD_TOKEN_SEQ, DSV3_ELEM_I32, oSeq, kTokens},
    {"token_pos", DSV3_FIELD_TOKEN_POS, DSV3_ELEM_I32, oPos, kTokens},
    {"token_slot", DSV3_FIELD_TOKEN_SLOT, DSV3_ELEM_I64, oSlot, kTokens},
    {"q_start", DSV3_FIELD_Q_START, DSV3_ELEM_I32, oQStart, kSeqs + 1},
    {"ctx_len", DSV3_FIELD_CTX_LEN, DSV3_ELEM_I32, FAKE_FAULT == kBadField ? oQStart : oCtx, kSeqs},
    {"block_table", DSV3_FIELD_BLOCK_TABLE, DSV3_ELEM_I32, oTable, kSeqs *kPages},
    {"logit_row", DSV3_FIELD_LOGIT_ROW, DSV3_ELEM_I32, oRow, kSeqs},
    {"qblock", DSV3_FIELD_QBLOCK, DSV3_ELEM_I32, oQb, kQBlocks * 4},
    {"kblock", DSV3_FIELD_KBLOCK, DSV3_ELEM_I32, oKb, kKBlocks * 2},
    {"kblock_start", DSV3_FIELD_KBLOCK_START, DSV3_ELEM_I32, oKbStart, kSeqs + 1},
};

const dsv3_tap_desc taps[] = {{"embed", DSV3_ELEM_I32, 0, 2}, {"mtp.hidden", DSV3_ELEM_I32, 0, 1}};

const dsv3_module_desc module = {FAKE_FAULT == kBadAbi ? DSV3_ABI + 7 : DSV3_ABI,
                                 sizeof(dsv3_module_desc),
                                 "x86-64",
                                 "avx2",
                                 sizeof programs / sizeof *programs,
                                 sizeof kernels / sizeof *kernels,
                                 sizeof fields / sizeof *fields,
                                 sizeof taps / sizeof *taps,
                                 kTokens,
                                 kSeqs,
                                 kPages,
                                 kLayers + 1,
                                 kPage,
                                 kRow,
                                 DSV3_ELEM_F32,
                                 0,
                                 {kWeights * 4, 0, kArenaBytes, kStepBytes, kPersistBytes},
                                 programs,
                                 kernels,
                                 fields,
                                 taps};

} // namespace

extern "C" const dsv3_module_desc *dsv3_module() { return &module; }
