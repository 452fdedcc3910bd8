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

/// How the latent of a cached row is stored.
enum class Codes { None, E4M3, E5M2 };

/// "!dsv3.kv<layers = 2, page = 64, latent = 96, rope = 32, bf16>"
std::string cacheText(int64_t latent, int64_t rope, Elem elem, Codes codes = Codes::None);

/// Where things stand in a page of one layer, written down apart from ir::KvType.
struct PageLayout {
  int64_t latent, rope, elemBytes;
  Codes codes;
  int64_t bytes() const { return 64 * (codes == Codes::None ? (latent + rope) * elemBytes : latent + rope * elemBytes + 4); }
  int64_t latentAt(int64_t token) const { return token * (codes == Codes::None ? (latent + rope) * elemBytes : latent); }
  int64_t ropeAt(int64_t token) const {
    return codes == Codes::None ? latentAt(token) + latent * elemBytes : 64 * latent + token * rope * elemBytes;
  }
  int64_t scaleAt(int64_t token) const { return 64 * (latent + rope * elemBytes) + token * 4; }
};

/// The row as codes with one scale, and the bytes of the codes.
struct CodedRow {
  CodedRow(const Array<double> &row, Codes codes);
  Array<double> values; ///< code * scale
  std::vector<uint8_t> codes;
  float scale;
};

/// A cache whose layer 1 holds random rows for all cached tokens, and NaN elsewhere, with its bytes.
struct TestCache {
  TestCache(const Sequences &s, int64_t latent, int64_t rope, Elem elem, uint32_t seed, Codes codes = Codes::None);
  reference::Cache<double> cache;
  Buffer bytes;
};

} // namespace dsv3::codegen::test
