#include "passes/specialize/Taps.h"

#include "dialects/dsv3/Dsv3Dialect.h"

#include "llvm/Support/Regex.h"


using namespace mlir;

namespace dsv3 {

std::string siblingSite(StringRef site, StringRef name) {
  size_t prefix = site.rfind('.') + 1; // npos + 1 is 0: no prefix
  return (site.take_front(prefix) + name).str();
}

/// Rows of experts are in no token's order and live inside kernels: a state has one row per token.
static bool hasRoutedRows(Operation &op) {
  if (isa<ir::DispatchOp, ir::GroupedLinearOp>(op))
    return true;
  auto swiglu = dyn_cast<ir::SwigluOp>(op);
  return swiglu && swiglu.getGate().getDefiningOp<ir::GroupedLinearOp>();
}

static void addPoints(Operation &op, SmallVectorImpl<TapPoint> &points) {
  auto site = op.getAttrOfType<StringAttr>("site");
  // A quantised value has no rows of plain numbers; the value before it can be tapped.
  if (!site || hasRoutedRows(op) || isa<ir::QuantizeOp>(op))
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

/// An expression that nobody types: the matcher's parser is recursive.
static constexpr size_t mostPattern = 4096;

/// LLVM's matcher takes linear time, which std::regex does not, but knows no `\d` and `\w`: written as classes.
static std::string withClasses(StringRef regex) {
  std::string out;
  for (size_t i = 0; i < regex.size(); ++i) {
    StringRef two = regex.substr(i, 2);
    if (two == "\\d" || two == "\\w")
      out += two == "\\d" ? "[0-9]" : "[A-Za-z0-9_]", ++i;
    else if (two.size() == 2 && two[0] == '\\')
      out += two.str(), ++i;
    else
      out += regex[i];
  }
  return out;
}

Result<SmallVector<TapPoint>> matchTaps(ModuleOp module, StringRef regex) {
  SmallVector<TapPoint> points;
  if (regex.empty())
    return points;
  llvm::Regex expression("^(" + withClasses(regex) + ")$");
  std::string error;
  if (regex.size() > mostPattern || !expression.isValid(error))
    return usageError("expected a regular expression of tap names, got '" + regex.take_front(80).str() + "': " +
                      (error.empty() ? "longer than " + std::to_string(mostPattern) + " characters" : error));
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
