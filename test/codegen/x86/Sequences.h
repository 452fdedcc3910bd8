// Steps of several sequences over a paged cache whose pages are in no order.
#pragma once

#include "runtime/reference/Cache.h"
#include "test/codegen/x86/Harness.h"

namespace dsv3::codegen::test {

struct Chunk {
  int64_t past, count; ///< cached tokens before this step, tokens of this step
};

/// The step's metadata for the reference and for kernels.
struct Sequences {
  explicit Sequences(const std::vector<Chunk> &chunks);

  reference::SeqMeta meta;
  Step step;
  Buffer tokenSeq{0}, tokenPos{0}, tokenSlot{0}, ctxLen{0}, blockTable{0}, qblocks{0}, kblocks{0}, kblockStart{0};

  /// A field by DSV3_FIELD_*.
  const Buffer &field(unsigned kind) const;
  void add(Buffers &to, const LaunchSignature &signature) const;
};

constexpr int64_t kPoolPages = 40, kLayers = 2, kLayer = 1;

/// "!dsv3.kv<layers = 2, page = 64, latent = 96, rope = 32, bf16>"
std::string cacheText(int64_t latent, int64_t rope, Elem elem);

/// A cache whose layer 1 holds random rows for all cached tokens, and NaN elsewhere, with its bytes.
struct TestCache {
  TestCache(const Sequences &s, int64_t latent, int64_t rope, Elem elem, uint32_t seed);
  reference::Cache<double> cache;
  Buffer bytes;
};

} // namespace dsv3::codegen::test
