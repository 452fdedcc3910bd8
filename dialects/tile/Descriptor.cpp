#include "dialects/tile/Descriptor.h"

namespace dsv3::tile {
namespace {

constexpr int64_t kStepBytes = 32;            // every wgmma reads 32 bytes along k
constexpr int64_t kCore = 8;                  // rows of a core matrix and of a swizzle atom
constexpr int64_t kField = int64_t(1) << 18;  // LBO and SBO: 14 bits of 16 bytes
constexpr int64_t kIgnored = 16;              // what is written to an LBO that the hardware does not read

/// One attempt: a descriptor read off from a few elements. It holds only if the comparison of all of them does.
WgmmaDescriptor candidate(const WgmmaOperand &op, SwizzleMode mode) {
  auto plain = [&](int64_t mn, int64_t k) { return swizzled(mode, op.byte(mn, k)); };
  WgmmaDescriptor d;
  d.mode = mode;
  d.major = op.major;
  d.start = plain(0, 0);
  const int64_t perStep = kStepBytes / op.elementBytes, perChunk = 16 / op.elementBytes;
  for (int64_t k = 0; k < op.k; k += perStep)
    d.kOffset.push_back(plain(0, k) - d.start);
  auto stride = [&](int64_t mn, int64_t k) {
    // The only group there is has no stride; any value will do.
    return mn < op.mn && k < op.k ? plain(mn, k) - d.start : kIgnored;
  };
  const bool swizzle = mode != SwizzleMode::None;
  if (op.major == Major::K) {
    d.sbo = stride(kCore, 0);
    d.lbo = swizzle ? kIgnored : stride(0, perChunk);
    return d;
  }
  const int64_t alongK = stride(0, kCore), alongMn = stride(rowBytes(mode) / op.elementBytes, 0);
  // Without a swizzle the two fields change places.
  d.sbo = swizzle ? alongK : alongMn;
  d.lbo = swizzle ? alongMn : alongK;
  return d;
}

struct Mismatch {
  int64_t matched = 0; ///< elements that agreed before the first that did not
  int64_t mn = 0, k = 0, actual = 0, wanted = 0;
  std::string reason; ///< set instead, when all agree, but the descriptor cannot be written
};

/// What keeps a descriptor whose addresses are right from being written, or "".
std::string unwritable(const WgmmaDescriptor &d) {
  // The swizzle sees address bits, but which row of an atom comes first is fixed (base offset 0).
  const int64_t atom = kCore * rowBytes(d.mode);
  if (d.mode != SwizzleMode::None && d.start % atom >= rowBytes(d.mode))
    return "starts at byte " + std::to_string(d.start) + ", inside a swizzle atom";
  std::vector<int64_t> offsets = d.kOffset;
  offsets.insert(offsets.end(), {d.start, d.lbo, d.sbo});
  for (int64_t offset : offsets)
    if (offset < 0 || offset >= kField || offset % 16 != 0)
      return "expected offsets that are multiples of 16 below 262144, got " + std::to_string(offset);
  return "";
}

/// Compares every element in order; nothing when all agree and the descriptor can be written.
std::optional<Mismatch> compare(const WgmmaOperand &op, const WgmmaDescriptor &d) {
  Mismatch bad;
  const int64_t perStep = kStepBytes / op.elementBytes;
  for (int64_t k = 0; k < op.k; ++k)
    for (int64_t mn = 0; mn < op.mn; ++mn, ++bad.matched) {
      bad.wanted = hardwareByte(d, op.elementBytes, k / perStep, mn, k % perStep);
      bad.actual = op.byte(mn, k);
      bad.mn = mn;
      bad.k = k;
      if (bad.wanted != bad.actual)
        return bad;
    }
  bad.reason = unwritable(d);
  if (bad.reason.empty())
    return std::nullopt;
  return bad;
}

} // namespace

int64_t rowBytes(SwizzleMode mode) {
  switch (mode) {
  case SwizzleMode::None: return 16;
  case SwizzleMode::B32: return 32;
  case SwizzleMode::B64: return 64;
  case SwizzleMode::B128: return 128;
  }
  return 0;
}

const char *name(SwizzleMode mode) {
  switch (mode) {
  case SwizzleMode::None: return "no swizzle";
  case SwizzleMode::B32: return "sw32";
  case SwizzleMode::B64: return "sw64";
  case SwizzleMode::B128: return "sw128";
  }
  return "";
}

int64_t swizzled(SwizzleMode mode, int64_t byte) {
  const int64_t mask = rowBytes(mode) / 16 - 1;
  return byte ^ (((byte >> 7) & mask) << 4);
}

int64_t WgmmaDescriptor::kStep() const {
  if (kOffset.size() < 2)
    return 0;
  for (size_t i = 1; i < kOffset.size(); ++i)
    if (kOffset[i] != int64_t(i) * kOffset[1])
      return -1;
  return kOffset[1];
}

uint64_t WgmmaDescriptor::bits() const {
  return uint64_t(lbo >> 4) << 16 | uint64_t(sbo >> 4) << 32 | uint64_t(mode) << 62;
}

int64_t hardwareByte(const WgmmaDescriptor &d, int64_t elementBytes, int64_t step, int64_t mn, int64_t k) {
  const int64_t row = rowBytes(d.mode), perChunk = 16 / elementBytes;
  int64_t plain = d.start + d.kOffset[step];
  if (d.major == Major::K) {
    // Atoms of 8 rows; with a swizzle the 32 bytes of a step lie in one row, without it they are two core matrices.
    const int64_t alongK = d.mode == SwizzleMode::None ? (k / perChunk) * d.lbo + (k % perChunk) * elementBytes
                                                       : k * elementBytes;
    plain += (mn % kCore) * row + (mn / kCore) * d.sbo + alongK;
  } else {
    const int64_t perRow = row / elementBytes;
    const bool swizzle = d.mode != SwizzleMode::None;
    plain += (mn % perRow) * elementBytes + (mn / perRow) * (swizzle ? d.lbo : d.sbo);
    plain += (k % kCore) * row + (k / kCore) * (swizzle ? d.sbo : d.lbo);
  }
  return swizzled(d.mode, plain);
}

Result<WgmmaDescriptor> solveDescriptor(const WgmmaOperand &op) {
  const int64_t perStep = kStepBytes / op.elementBytes;
  if (op.major == Major::MN && op.elementBytes != 2)
    return unsupportedError("expected 16-bit elements for an operand that is contiguous along m or n, got " +
                            std::to_string(8 * op.elementBytes) + " bits");
  if (op.mn <= 0 || op.mn % kCore != 0)
    return unsupportedError("expected a multiple of 8 rows, got " + std::to_string(op.mn));
  if (op.k <= 0 || op.k % perStep != 0)
    return unsupportedError("expected k to be a multiple of " + std::to_string(perStep) + ", got " + std::to_string(op.k));
  // The reason of the mode that came furthest is the one a person needs.
  Mismatch best;
  SwizzleMode bestMode = SwizzleMode::B128;
  best.matched = -1;
  for (SwizzleMode mode : {SwizzleMode::B128, SwizzleMode::B64, SwizzleMode::B32, SwizzleMode::None}) {
    WgmmaDescriptor d = candidate(op, mode);
    std::optional<Mismatch> bad = compare(op, d);
    if (!bad)
      return d;
    if (bad->matched > best.matched) {
      best = *bad;
      bestMode = mode;
    }
  }
  const std::string what = std::string("not a wgmma layout (") + name(bestMode) + ", " +
                           (op.major == Major::K ? "k" : "mn") + " contiguous): ";
  if (!best.reason.empty())
    return unsupportedError(what + best.reason);
  return unsupportedError(what + "expected element (" + std::to_string(best.mn) + ", " + std::to_string(best.k) +
                          ") at byte " + std::to_string(best.wanted) + ", got " + std::to_string(best.actual));
}

} // namespace dsv3::tile
