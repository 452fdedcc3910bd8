// Shared-memory matrix descriptors of wgmma (sm_90a): from a layout to the descriptor, proved element by element.
//
// Source: PTX ISA 8.7, "Asynchronous warpgroup level matrix shared memory layout". This is the only place that knows it:
// the verifier, the lowering and the layout chooser ask here, so that they cannot disagree.
#pragma once

#include "runtime/core/Result.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dsv3::tile {

/// Swizzle mode, with its code in bits 62-63 of the descriptor.
enum class SwizzleMode : uint64_t { None = 0, B128 = 1, B64 = 2, B32 = 3 };

/// Bytes of a row of the swizzle atom: 16, 32, 64 or 128. An atom has 8 rows.
int64_t rowBytes(SwizzleMode mode);
/// "sw128", or "no swizzle".
const char *name(SwizzleMode mode);
/// Address bits 4.. xor address bits 7..: its own inverse. The hardware swizzles absolute shared-memory addresses; with
/// the buffer at a multiple of 1024 this is the same as swizzling offsets in it.
int64_t swizzled(SwizzleMode mode, int64_t byte);

/// Which dimension lies contiguously: K (rows of A, or of B given as [n, k]) or the other one (B given as [k, n]).
enum class Major { K, MN };

/// What is wanted: an operand of `mn` x `k` elements (mn = 64 for A, N for B) and where each one is.
struct WgmmaOperand {
  int64_t mn = 0;            ///< a multiple of 8
  int64_t k = 0;             ///< a multiple of the k of one wgmma: 32 bytes
  int64_t elementBytes = 2;  ///< 1, 2 or 4
  Major major = Major::K;
  /// Byte offset of element (mn, k) from a 1024-byte aligned address (usually the buffer that a view belongs to).
  std::function<int64_t(int64_t mn, int64_t k)> byte;
};

struct WgmmaDescriptor {
  SwizzleMode mode = SwizzleMode::None;
  Major major = Major::K;
  int64_t start = 0; ///< bytes; added to the buffer's address
  int64_t lbo = 0;   ///< leading byte offset; 16 where the hardware ignores it
  int64_t sbo = 0;   ///< stride byte offset
  /// Bytes to add to `start` for the i-th wgmma along k: kOffset[0] = 0.
  std::vector<int64_t> kOffset;

  /// The step between two wgmmas along k, or -1 when it is not the same for all (a swizzle atom ends in between).
  int64_t kStep() const;
  /// Everything but the start address: bits 16-29 LBO / 16, 32-45 SBO / 16, 62-63 mode. The start address goes to
  /// bits 0-13 as (address & 0x3ffff) >> 4.
  uint64_t bits() const;
};

/// Where the hardware looks for element (mn, k) of the `step`-th wgmma, k counted in that wgmma.
int64_t hardwareByte(const WgmmaDescriptor &d, int64_t elementBytes, int64_t step, int64_t mn, int64_t k);

/// Finds the descriptor whose `hardwareByte` equals `operand.byte` on every element, or says which element is elsewhere.
/// Among several the widest swizzle wins.
Result<WgmmaDescriptor> solveDescriptor(const WgmmaOperand &operand);

} // namespace dsv3::tile
