// Kernels of the fake model as tile functions (runtime/core/Abi.h): a fake module has them itself, a fake GPU runs them.
#pragma once

#include "FakeModel.h"
#include "runtime/core/DummyFill.h"
#include "runtime/core/TokenChoice.h"

#include <cstring>

#ifndef FAKE_FAULT
#define FAKE_FAULT 0
#endif
enum { kNoFault, kBadAbi, kBadLaunch, kBadField, kBadOutput, kFaultNan, kBadMap, kForeignLaunch, kBadSampled, kFaultNanSome, kDies };

namespace fake {
namespace {

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

/// Whether rows whose state is `notFinite` have a logit that is none; a fake GPU is told when it starts.
[[maybe_unused]] bool nanSome = FAKE_FAULT == kFaultNanSome;

/// hidden, logit_row -> logits. Tile: a row of logits. Constant: 1 for every row, 0 for logit_row's.
void head(const void *const *b, const int64_t *s, int64_t begin, int64_t end, void *) {
  for (int64_t r = begin; r < end; ++r) {
    uint32_t h = in<uint32_t>(b[0])[s[DSV3_SCALAR_COUNT] ? r : in<int32_t>(b[1])[r]];
    for (int v = 0; v < kVocab; ++v)
      out<float>(b[2])[r * kVocab + v] = FAKE_FAULT == kFaultNan ? __builtin_nanf("") : logit(h, v);
    if (nanSome && notFinite(h))
      out<float>(b[2])[r * kVocab + 5] = __builtin_nanf("");
  }
}

/// logits, sampling -> sampled. Tile: a row. Constant: not used.
void sample(const void *const *b, const int64_t *, int64_t begin, int64_t end, void *) {
  dsv3::TokenChooser chooser;
  for (int64_t r = begin; r < end; ++r)
    if (const dsv3_sampling &how = in<dsv3_sampling>(b[1])[r]; how.flags & DSV3_SAMPLE_ROW)
      out<dsv3_sampled>(b[2])[r] = chooser.choose(in<float>(b[0]) + r * kVocab, kVocab, how);
}

void copy(const void *const *b, const int64_t *, int64_t begin, int64_t end, void *) {
  std::memcpy(out<char>(b[1]) + begin * 4, in<char>(b[0]) + begin * 4, (end - begin) * 4);
}

/// What a GPU has to know of a kernel that it finds by name: how many buffers it takes (the first of `kvMap` kernels by a
/// tensor map), how many numbers, and which number of the step counts its tiles.
struct Kernel {
  const char *name;
  dsv3_cpu_fn fn;
  unsigned bufs, consts;
  bool kvMap;
  int tiles; ///< DSV3_SCALAR_*; -1: tokens if the first constant is not zero, else sequences
  void (*raw)(const uint64_t *words) = nullptr; ///< in place of `fn`: runs once over all arguments
};
[[maybe_unused]] const Kernel kKernels[] = {{"append", append, 6, 0, true, DSV3_SCALAR_TOKENS},
                                            {"append_mtp", appendMtp, 5, 0, true, DSV3_SCALAR_TOKENS},
                                            {"expand", expand, 5, 1, true, DSV3_SCALAR_KBLOCKS},
                                            {"attend_tiles", attendTiles, 7, 1, true, DSV3_SCALAR_QBLOCKS},
                                            {"attend_rows", attendRows, 6, 1, true, DSV3_SCALAR_TOKENS},
                                            {"head", head, 3, 1, false, -1},
                                            {"copy", copy, 2, 0, false, DSV3_SCALAR_TOKENS},
                                            {"sample", sample, 3, 1, false, -1}};

/// words, pool: the low half of the first tensor's key, counted up, in place of numbers. Not a kernel of the module.
void dummyFill(const void *const *b, const int64_t *, int64_t, int64_t, void *) {
  const int64_t *words = in<int64_t>(b[0]);
  auto *to = reinterpret_cast<uint32_t *>(out<char>(b[1]) + words[dsv3::kFillOffset]);
  int64_t count = words[dsv3::kFillDims + 5 * (int64_t(dsv3::DummyFill::kMaxDims) - 1) + 2];
  for (int64_t i = 0; i < count; ++i)
    to[i] = uint32_t(words[dsv3::kFillKeys]) + uint32_t(i);
}
[[maybe_unused]] const Kernel kFillKernel = {"dummy_fill", dummyFill, 2, 0, false, DSV3_SCALAR_TOKENS};

/// to, from, pieces of 16 bytes, the first and the end of those whose negative words stand for rows of the last: `sampled`. The
/// runtime's own; its words are not those of a module's kernel.
[[maybe_unused]] void stepCopy(const uint64_t *words) {
  auto *to = reinterpret_cast<int32_t *>(words[0]);
  auto *from = reinterpret_cast<const int32_t *>(words[1]);
  auto *sampled = reinterpret_cast<const dsv3_sampled *>(words[5]);
  for (uint64_t i = 0; i < 4 * words[2]; ++i)
    to[i] = i / 4 >= words[3] && i / 4 < words[4] && from[i] < 0 ? sampled[-1 - from[i]].id : from[i];
}
[[maybe_unused]] const Kernel kStepKernel = {"step_copy", nullptr, 5, 0, false, 0, stepCopy};

} // namespace
} // namespace fake
