// The consumers of a GEMM with weights as M: one role of all warpgroups, or two warpgroups with code of their own, which have a
// weight of a pair each, take turns at the tensor cores, or both.
#include "codegen/sm90/gemm/ColsKernel.h"

using namespace mlir;

namespace dsv3::codegen {

static constexpr StringRef kTogether[] = {"mma"}, kSides[] = {"mma0", "mma1"};

ArrayRef<StringRef> ColsKernel::roles() const { return s.ownRoles() ? ArrayRef<StringRef>(kSides) : ArrayRef<StringRef>(kTogether); }

void ColsKernel::allocateForRoles() {
  const int64_t count = int64_t(roles().size());
  for (int64_t i = 0; i < count; ++i) {
    if (spec.staged())
      stages.push_back(k.alloc(k.swizzled({4 * s.warpgroups / count, s.stagedTokens(i), 16}, k.bf16, 1, 4, 3)));
    if (s.beside)
      handed.push_back(k.alloc(k.fragBuf({64, s.columns(i)}, exchangeElem())));
    if (s.turns) // orders no data, so that no tool need follow it
      turns.push_back(k.gate(kSides[i], kSides[1 - i]));
  }
  if (s.beside)
    swap = k.memoryGate(kSides[0], kSides[1], /*mutual=*/true);
}

void ColsKernel::addConsumers() {
  if (!s.ownRoles())
    k.consumers("mma", s.warpgroups, consumerRegs(s), [&](Value g) { consume(g); });
  for (side = 0; s.ownRoles() && side < 2; ++side)
    k.consumers(kSides[side], 1, consumerRegs(s), [&](Value) { consumeAlone(); });
}

/// The first turn is the first warpgroup's; the last one that is passed on is nobody's, and taken so that the gate is left empty.
void ColsKernel::consumeAlone() {
  if (side == 1)
    passTurn();
  consume(k.ci(side));
  if (side == 0)
    takeTurn();
}
void ColsKernel::takeTurn() {
  if (s.turns)
    k.meet(turns[1 - side]);
}
void ColsKernel::passTurn() {
  if (s.turns)
    k.signal(turns[side]);
}

/// What a warpgroup has of one weight for the other's columns, against what the other has of the other weight for its own.
Values ColsKernel::swapped(Value sum) {
  const int64_t first = s.columns(), other = 1 - side;
  k.store(k.slice(sum, side ? 0 : first, s.columns(other)), handed[other]);
  k.meet(swap);
  Value mine = k.slice(sum, side ? first : 0, s.columns(side)), theirs = k.load(handed[side], mine.getType());
  k.meet(swap); // both have read before either stores again
  return side ? Values{theirs, mine} : Values{mine, theirs};
}

} // namespace dsv3::codegen
