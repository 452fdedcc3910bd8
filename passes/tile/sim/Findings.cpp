#include "passes/tile/sim/Findings.h"

#include "llvm/ADT/STLExtras.h"

namespace dsv3::tile::sim {

void Findings::add(Finding finding) {
  auto same = [&](const Finding &f) {
    return f.check == finding.check && f.where == finding.where && f.other == finding.other;
  };
  if (llvm::none_of(list, same))
    list.push_back(std::move(finding));
}

} // namespace dsv3::tile::sim
