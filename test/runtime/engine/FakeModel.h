// The arithmetic of a model that is no model: hashes that depend on every id, position,
// cache slot and weight that the real one would read. A wrong slot, block table, chunk
// boundary or row changes every bit. The fake module computes it through the cache, the
// tests straight from the ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fake {

constexpr int kVocab = 3584, kLayers = 2, kTokens = 48, kSeqs = 4, kMaxLen = 320, kPage = 64;
constexpr int kPages = kMaxLen / kPage, kRow = 2, kQBlocks = 7, kKBlocks = 8, kWeights = 256;

inline uint32_t mix(uint32_t h, uint32_t x) {
  h ^= x + 0x9e3779b9u + (h << 6) + (h >> 2);
  h *= 0x85ebca6bu;
  return h ^ (h >> 13);
}

inline uint32_t weight(int i) { return mix(17, uint32_t(i)); }

/// A cached value: small enough to be exact as float.
inline float key(uint32_t weightOfId, int id, int position) {
  return float(mix(mix(weightOfId, uint32_t(id)), uint32_t(position)) & 0xffff);
}
inline float mtpKey(uint32_t hidden, int nextId, int position) {
  return float(mix(mix(hidden ^ 0x5555u, uint32_t(nextId)), uint32_t(position)) & 0xffff);
}
inline uint32_t attendKey(uint32_t h, float key) { return mix(h, uint32_t(key)); }

/// State of the row at `position` over keys 0..position, whole key blocks folded first.
template <typename KeyAt> uint32_t hidden(int position, KeyAt keyAt) {
  uint32_t h = 1;
  int whole = (position + 1) / 64;
  for (int b = 0; b < whole; ++b) {
    uint32_t block = 2;
    for (int p = b * 64; p < b * 64 + 64; ++p)
      block = attendKey(block, keyAt(p));
    h = mix(h, block);
  }
  for (int p = whole * 64; p <= position; ++p)
    h = attendKey(h, keyAt(p));
  return h;
}

inline float logit(uint32_t hidden, int v) {
  return float(mix(hidden, uint32_t(v)) & 0xfffff) / 65536.0f - 8.0f;
}

/// Rows that overflow in a module with that fault: what came before decides, as with a real model.
inline bool notFinite(uint32_t hidden) { return hidden % 32 == 5; }

/// What the model says after each token of `ids`, and the MTP module after each but the last.
struct Expected {
  std::vector<uint32_t> hidden, mtpHidden;
};
inline Expected expected(const std::vector<int32_t> &ids) {
  Expected e;
  std::vector<float> keys, mtpKeys;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    keys.push_back(key(weight(ids[i] % kWeights), ids[i], int(i)));
    e.hidden.push_back(hidden(int(i), [&](int p) { return keys[p]; }));
  }
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    mtpKeys.push_back(mtpKey(e.hidden[i], ids[i + 1], int(i)));
    e.mtpHidden.push_back(hidden(int(i), [&](int p) { return mtpKeys[p]; }));
  }
  return e;
}

} // namespace fake
