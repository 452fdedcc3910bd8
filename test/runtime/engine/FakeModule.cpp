// A hand-written shared object with the tables of runtime/core/Abi.h over fake::.
// FAKE_FAULT builds one with a planted mistake for the loader to find, FAKE_DEVICE the host program of a device.
#include "FakeKernels.h"

#include <cstring>
#include <list>

#ifndef FAKE_DEVICE
#define FAKE_DEVICE 0
#endif

using namespace fake;

namespace {

// ---- step buffer, 64-byte aligned fields ----
constexpr uint64_t up(uint64_t n) { return (n + 63) / 64 * 64; }
constexpr uint64_t oIds = 0, oNext = oIds + up(kTokens * 4), oSeq = oNext + up(kTokens * 4),
                   oPos = oSeq + up(kTokens * 4), oSlot = oPos + up(kTokens * 4),
                   oQStart = oSlot + up(kTokens * 8), oCtx = oQStart + up((kSeqs + 1) * 4),
                   oTable = oCtx + up(kSeqs * 4), oRow = oTable + up(kSeqs * kPages * 4),
                   oQb = oRow + up(kSeqs * 4), oKb = oQb + up(kQBlocks * 16),
                   oKbStart = oKb + up(kKBlocks * 8), oSampling = oKbStart + up((kSeqs + 1) * 4),
                   kStepBytes = oSampling + up(kSeqs * sizeof(dsv3_sampling));

// ---- arena and results ----
constexpr uint64_t aHidden = 0, aBlock = up(kTokens * 4), aTap = aBlock + up(kKBlocks * 4),
                   kArenaBytes = aTap + up(kTokens * 8);
constexpr uint64_t pLogits = 0, pHidden = uint64_t(kTokens) * kVocab * 4,
                   pSampled = pHidden + up(kTokens * 4),
                   kPersistBytes = pSampled + up(kSeqs * sizeof(dsv3_sampled));

constexpr dsv3_ref step(uint64_t o) { return {DSV3_POOL_STEP, 0, o}; }
constexpr dsv3_ref arena(uint64_t o) { return {DSV3_POOL_ARENA, 0, o}; }
constexpr dsv3_ref persist(uint64_t o) { return {DSV3_POOL_PERSIST, 0, o}; }
constexpr dsv3_ref kv{DSV3_POOL_KV, 0, 0};
constexpr dsv3_ref weights{DSV3_POOL_WEIGHTS, 0, 0};

// A device's kernels are found by name.
constexpr dsv3_cpu_fn here(dsv3_cpu_fn fn) { return FAKE_DEVICE ? nullptr : fn; }
const dsv3_kernel_desc kernels[] = {{"append", "", here(append), 1024},
                                    {"append_mtp", "", here(appendMtp), 0},
                                    {"expand", "", here(expand), 0},
                                    {"attend_tiles", "", here(attendTiles), 0},
                                    {"attend_rows", "", here(attendRows), 64},
                                    {"head", "", here(head), 0},
                                    {"copy", "", here(copy), 0},
                                    {"sample", "", here(sample), 0}};

// ---- launches ----
const dsv3_ref rAppend[] = {kv,
                            step(oIds),
                            step(oPos),
                            step(oSlot),
                            FAKE_FAULT == kBadLaunch ? dsv3_ref{DSV3_POOL_WEIGHTS, 0, 1 << 20} : weights,
                            arena(aTap)};
const dsv3_ref rForeign[] = {kv, step(oIds), step(oPos), step(oSlot), {DSV3_POOL_WEIGHTS, 0, 1 << 20}, arena(aTap)};
const dsv3_ref rAppendMtp[] = {kv, step(oNext), step(oPos), step(oSlot), persist(pHidden)};
const dsv3_ref rExpand[] = {kv, step(oTable), step(oKb), step(oCtx), arena(aBlock)};
const dsv3_ref rTiles[] = {
    kv, step(oTable), step(oQb), step(oPos), step(oKbStart), arena(aBlock), arena(aHidden)};
const dsv3_ref rRows[] = {kv, step(oTable), step(oSeq), step(oPos), step(oCtx), arena(aHidden)};
const dsv3_ref rHead[] = {arena(aHidden), step(oRow), persist(pLogits)};
const dsv3_ref rSample[] = {persist(pLogits), step(oSampling), persist(pSampled)};
const dsv3_ref rCopy[] = {arena(aHidden), persist(pHidden)};
const int64_t lastLayer[] = {kLayers - 1}, mtpLayer[] = {kLayers}, someRows[] = {0}, allRows[] = {1};

/// A launch as a grid. Generated code has such tables as constants; here they are made at first use and kept.
struct Grid {
  dsv3_grid_launch launch;
  dsv3_param params[8];
  dsv3_tensor_map map;
  const dsv3_ref *refs;
  const int64_t *consts;

  Grid(uint32_t kernel, const dsv3_ref *refs, uint32_t n, const int64_t *consts, const char *site)
      : launch{}, params{}, map{}, refs(refs), consts(consts) {
    // The cache as rows of 16 bytes, as many as there are; a fault states far too many.
    map.elem = DSV3_MAP_F32;
    map.rank = 2;
    map.dims[0] = 4;
    map.dims[1] = FAKE_FAULT == kBadMap ? uint64_t(1) << 30 : 0;
    map.strides[0] = 16;
    map.box[0] = 4;
    map.box[1] = 64;
    for (uint32_t i = 0; i < n; ++i) {
      bool cache = refs[i].pool == DSV3_POOL_KV;
      params[i] = {uint32_t(cache ? DSV3_PARAM_MAP : DSV3_PARAM_POINTER), 0, refs[i], cache ? &map : nullptr, 0};
    }
    if (consts)
      params[n] = {DSV3_PARAM_NUMBER, 0, {}, nullptr, *consts};
    launch = {kernel, {2, 1, 1}, 128, kernel == 5 ? 65536u : 0u, kernel == 0 ? 2u : 1u, n + (consts ? 1u : 0u), params, site};
  }
};

const dsv3_grid_launch *gridOf(uint32_t kernel, const dsv3_ref *refs, uint32_t n, const int64_t *consts, const char *site) {
  static std::list<Grid> grids;
  for (Grid &g : grids)
    if (g.refs == refs && g.consts == consts)
      return &g.launch;
  return &grids.emplace_back(kernel, refs, n, consts, site).launch;
}

void launch(const dsv3_host_api *api, void *ctx, uint32_t kernel, const dsv3_ref *refs, uint32_t n,
            const int64_t *consts, const char *site, int64_t tiles) {
  if (FAKE_DEVICE != (FAKE_FAULT == kForeignLaunch))
    return api->grid(ctx, gridOf(kernel, refs, n, consts, site));
  dsv3_launch l{kernel, n, consts ? 1u : 0u, 0, refs, consts, site};
  api->range(ctx, &l, tiles);
}

void attend(const dsv3_host_api *api, void *ctx, const dsv3_step_host *s, const int64_t *layer) {
  launch(api, ctx, 2, rExpand, 5, layer, "expand", s->scalars[DSV3_SCALAR_KBLOCKS]);
  launch(api, ctx, 3, rTiles, 7, layer, "attend", s->scalars[DSV3_SCALAR_QBLOCKS]);
}

/// As generated code: only a device's programs choose tokens.
void finish(const dsv3_host_api *api, void *ctx, const dsv3_step_host *s) {
  launch(api, ctx, 5, rHead, 3, someRows, "head", s->scalars[DSV3_SCALAR_SEQS]);
  if (FAKE_DEVICE)
    launch(api, ctx, 7, rSample, 3, someRows, "sample", s->scalars[DSV3_SCALAR_SEQS]);
}

void prefill(const dsv3_host_api *api, void *ctx, const dsv3_step_host *s) {
  const int64_t tokens = s->scalars[DSV3_SCALAR_TOKENS];
  // A fault that no loader sees: it runs programs with all their tokens.
  const bool dies = FAKE_FAULT == kDies && tokens > 4 && tokens % 8;
  launch(api, ctx, 0, dies ? rForeign : rAppend, 6, nullptr, "append", tokens);
  attend(api, ctx, s, lastLayer);
  finish(api, ctx, s);
}
void decode(const dsv3_host_api *api, void *ctx, const dsv3_step_host *s) {
  launch(api, ctx, 0, rAppend, 6, nullptr, "append", s->scalars[DSV3_SCALAR_TOKENS]);
  launch(api, ctx, 4, rRows, 6, lastLayer, "attend", s->scalars[DSV3_SCALAR_TOKENS]);
  finish(api, ctx, s);
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
const dsv3_output_desc served[] = {outputs[0], {"sampled", persist(pSampled), DSV3_ELEM_I32, 0, FAKE_FAULT == kBadSampled ? 4 : DSV3_SAMPLED_WORDS}};
constexpr uint32_t kServed = FAKE_DEVICE ? 2 : 1;

const dsv3_program_desc programs[] = {
    {"prefill_t8", DSV3_PHASE_PREFILL, 8, 1, 2, kPages, kServed, served, prefill},
    {"prefill_t48", DSV3_PHASE_PREFILL, kTokens, kSeqs, kQBlocks, kKBlocks, kServed, served, prefill},
    {"decode_b1", DSV3_PHASE_DECODE, 1, 1, 0, 0, kServed, served, decode},
    {"decode_b2", DSV3_PHASE_DECODE, 2, 2, 0, 0, kServed, served, decode},
    {"decode_b4", DSV3_PHASE_DECODE, 4, 4, 0, 0, kServed, served, decode},
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
    {"sampling", DSV3_FIELD_SAMPLING, DSV3_ELEM_I32, oSampling, kSeqs *DSV3_SAMPLING_WORDS},
};

const dsv3_tap_desc taps[] = {{"embed", DSV3_ELEM_I32, 0, 2}, {"mtp.hidden", DSV3_ELEM_I32, 0, 1}};

const dsv3_module_desc module = {FAKE_FAULT == kBadAbi ? DSV3_ABI + 7 : DSV3_ABI,
                                 sizeof(dsv3_module_desc),
                                 FAKE_DEVICE ? "sm_90a" : "x86-64",
                                 FAKE_DEVICE ? "host" : "avx2",
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
                                 kPage * kRow * sizeof(float),
                                 {kWeights * 4, 0, kArenaBytes, kStepBytes, kPersistBytes},
                                 programs,
                                 kernels,
                                 fields,
                                 taps};

} // namespace

extern "C" const dsv3_module_desc *dsv3_module() { return &module; }
