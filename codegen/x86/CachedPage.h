// A page of the paged cache in one layer, as x86 kernels read and write it (ir::KvType has the layout).
#pragma once

#include "codegen/x86/KernelBuilder.h"

namespace dsv3::codegen {

/// Latents as rows of the cache's element type, and the rotated keys.
struct CachedPage {
  Value latent, rope; ///< of the page's first token
  int64_t latentPitch, ropePitch;

  /// The page at `address`. Codes are read once, into `scratch`: code * scale rounded to the element type, of the first
  /// `count` tokens.
  static CachedPage read(KernelBuilder &k, ir::KvType kv, Value address, Value count, Value scratch);
  /// Bytes that `read` writes.
  static int64_t scratchBytes(ir::KvType kv);

  Value latentAt(KernelBuilder &k, Value token) const { return k.at(latent, k.mul(token, latentPitch)); }
  Value ropeAt(KernelBuilder &k, Value token) const { return k.at(rope, k.mul(token, ropePitch)); }
};

/// Rounds `latent(lane, count)` (f32, a row of kv.getLatent() lanes) to the cache's element type and stores it as token
/// `token` of the page at `address`, with the row's scale where the cache holds codes.
void storeLatent(KernelBuilder &k, ir::KvType kv, Value address, Value token, llvm::function_ref<Value(Value lane, int64_t count)> latent);

} // namespace dsv3::codegen
