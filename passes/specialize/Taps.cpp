#include "passes/specialize/Taps.h"

#include "dialects/dsv3/Dsv3Dialect.h"

#include "llvm/Support/Regex.h"

using namespace mlir;

namespace dsv3 {

std::string siblingSite(StringRef site, StringRef name) {
  size_t prefix = site.rfind('.') + 1; // npos + 1 is 0: no prefix
  return (site.take_front(prefix) + name).str();
}

static void addPoints(Operation &op, SmallVectorImpl<TapPoint> &points) {
  auto site = op.getAttrOfType<StringAttr>("site");
  if (!site)
    return;
  if (isa<ir::RouteOp>(op)) {
    points.push_back({site.str() + ".ids", &op, TapPoint::Kind::Result, 0});
    points.push_back({site.str() + ".weights", &op, TapPoint::Kind::Result, 1});
    return;
  }
  if (isa<ir::MlaAttentionOp>(op))
    points.push_back({siblingSite(site.getValue(), "kv_b"), &op, TapPoint::Kind::ExpandedKv});
  if (op.getNumResults() == 1 && isa<RankedTensorType>(op.getResult(0).getType()))
    points.push_back({site.str(), &op});
}

SmallVector<TapPoint> tapPoints(ModuleOp module) {
  SmallVector<TapPoint> points;
  for (auto program : module.getOps<ir::ProgramOp>())
    for (Operation &op : program.getBody().front())
      addPoints(op, points);
  return points;
}

Result<SmallVector<TapPoint>> matchTaps(ModuleOp module, StringRef regex) {
  SmallVector<TapPoint> points;
  if (regex.empty())
    return points;
  llvm::Regex expression(("^(" + regex + ")$").str());
  std::string error;
  if (!expression.isValid(error))
    return usageError("expected a regular expression of tap names, got '" + regex.str() + "': " + error);
  points = tapPoints(module);
  std::string some;
  for (size_t i = 0, step = std::max<size_t>(1, points.size() / 8); i < points.size(); i += step)
    some += (some.empty() ? "" : ", ") + points[i].name;
  llvm::erase_if(points, [&](const TapPoint &p) { return !expression.match(p.name); });
  if (points.empty())
    return usageError("expected taps to match a state, got none for '" + regex.str() + "' among " + some);
  return points;
}

Status checkTaps(ModuleOp module, StringRef regex) {
  auto points = matchTaps(module, regex);
  return points ? Status() : Status(points.error());
}

} // namespace dsv3
