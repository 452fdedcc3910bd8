#include "passes/tile/BankConflicts.h"

#include <algorithm>
#include <vector>

namespace dsv3::tile {
namespace {

constexpr int64_t kBanks = 32, kWord = 4;

unsigned lanesPerPhase(SmemInstruction instruction) {
  switch (instruction) {
  case SmemInstruction::Access4: return 32;
  case SmemInstruction::Access8: return 16;
  default: return 8;
  }
}

/// Distinct words in the fullest bank; 0 when no lane is active.
unsigned degreeOfPhase(const int64_t *address, unsigned lanes, int64_t bytes) {
  std::vector<int64_t> words;
  for (unsigned i = 0; i < lanes; ++i)
    if (address[i] != kInactiveLane)
      for (int64_t w = address[i] / kWord, end = (address[i] + bytes - 1) / kWord; w <= end; ++w)
        words.push_back(w);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  unsigned inBank[kBanks] = {}, worst = 0;
  for (int64_t w : words)
    worst = std::max(worst, ++inBank[w % kBanks]);
  return worst;
}

} // namespace

const char *name(SmemInstruction instruction, bool store) {
  switch (instruction) {
  case SmemInstruction::Access4: return store ? "st.shared" : "ld.shared";
  case SmemInstruction::Access8: return store ? "st.shared.v2" : "ld.shared.v2";
  case SmemInstruction::Access16: return store ? "st.shared.v4" : "ld.shared.v4";
  case SmemInstruction::Matrix1: return store ? "stmatrix.x1" : "ldmatrix.x1";
  case SmemInstruction::Matrix2: return store ? "stmatrix.x2" : "ldmatrix.x2";
  case SmemInstruction::Matrix4: return store ? "stmatrix.x4" : "ldmatrix.x4";
  }
  return "";
}

int64_t bytesPerLane(SmemInstruction instruction) {
  switch (instruction) {
  case SmemInstruction::Access4: return 4;
  case SmemInstruction::Access8: return 8;
  default: return 16;
  }
}

unsigned addressLanes(SmemInstruction instruction) {
  switch (instruction) {
  case SmemInstruction::Matrix1: return 8;
  case SmemInstruction::Matrix2: return 16;
  default: return 32;
  }
}

BankConflicts countBankConflicts(SmemInstruction instruction, const std::array<int64_t, 32> &address) {
  BankConflicts out;
  const unsigned lanes = lanesPerPhase(instruction);
  for (unsigned first = 0; first < addressLanes(instruction); first += lanes) {
    const unsigned degree = degreeOfPhase(address.data() + first, lanes, bytesPerLane(instruction));
    if (degree == 0)
      continue;
    ++out.phases;
    out.degree = std::max(out.degree, degree);
    out.excess += degree - 1;
  }
  return out;
}

} // namespace dsv3::tile
