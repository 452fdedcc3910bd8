#include "passes/tile/Simulator.h"

#include "passes/tile/sim/Machine.h"

using namespace mlir;

namespace dsv3::tile {
namespace {

std::string place(KernelOp kernel, size_t i) { return "argument " + std::to_string(i) + " of kernel '" + kernel.getName().str() + "'"; }

Status checkArgument(KernelOp kernel, size_t i, Type type, const SimArgument &arg) {
  llvm::ArrayRef<int64_t> shape;
  if (auto tma = dyn_cast<TmaType>(type))
    shape = tma.getShape();
  else if (auto gmem = dyn_cast<GmemType>(type))
    shape = gmem.getShape();
  else
    return isa<LLVM::LLVMPointerType>(type) == (arg.data != nullptr)
               ? Status()
               : unsupportedError("expected memory for pointers and a number for scalars, got something else for " + place(kernel, i));
  if (!arg.data)
    return unsupportedError("expected memory for " + place(kernel, i) + ", got a number");
  if (arg.shape.size() != shape.size())
    return unsupportedError("expected rank " + std::to_string(shape.size()) + " for " + place(kernel, i) + ", got " + std::to_string(arg.shape.size()));
  for (size_t d = 0; d < shape.size(); ++d)
    if (!ShapedType::isDynamic(shape[d]) && shape[d] != arg.shape[d])
      return unsupportedError("expected " + std::to_string(shape[d]) + " in dim " + std::to_string(d) + " of " + place(kernel, i) +
                              ", got " + std::to_string(arg.shape[d]));
  return {};
}

/// Of what the blocks of a cluster can do together only `cluster_sum` is simulated.
Status checkCluster(KernelOp kernel, int64_t ctas) {
  const int64_t cluster = int64_t(kernel.getCluster());
  if (ctas % cluster)
    return unsupportedError("expected a grid of whole clusters of " + std::to_string(cluster) + ", got " + std::to_string(ctas) + " blocks");
  if (cluster == 1)
    return {};
  bool together = false;
  kernel.walk([&](Operation *op) {
    auto sync = dyn_cast<SyncOp>(op);
    auto copy = dyn_cast<CopyOp>(op);
    together |= (sync && sync.getScope() == Scope::Cluster) || (copy && copy.getMulticast());
  });
  return together ? unsupportedError("not simulated: barriers and multicast copies of a cluster of " + std::to_string(cluster)) : Status();
}

} // namespace

Result<SimReport> simulate(KernelOp kernel, llvm::MutableArrayRef<SimArgument> args, const SimOptions &options) {
  llvm::ArrayRef<Type> types = kernel.getArgumentTypes();
  if (args.size() != types.size())
    return unsupportedError("expected " + std::to_string(types.size()) + " arguments for kernel '" + kernel.getName().str() + "', got " +
                            std::to_string(args.size()));
  for (size_t i = 0; i < args.size(); ++i)
    if (Status s = checkArgument(kernel, i, types[i], args[i]); !s)
      return s.error();
  const int64_t cluster = int64_t(kernel.getCluster());
  if (Status s = checkCluster(kernel, options.ctas); !s)
    return s.error();
  sim::Findings findings, ignored; // what a first run finds, the second does too
  sim::Tables tables;
  SimReport report;
  for (int64_t first = 0; first < options.ctas; first += cluster) {
    sim::ClusterBoard board;
    for (int pass = cluster > 1 ? 0 : 1; pass < 2; ++pass) {
      board.first = pass == 0;
      for (int64_t cta = first; cta < first + cluster; ++cta) {
        sim::Machine machine(kernel, args, options, cta, tables, pass == 0 ? ignored : findings, cluster > 1 ? &board : nullptr);
        if (Status s = machine.run(); !s)
          return s.error();
        report.steps += machine.steps();
      }
    }
  }
  report.findings = findings.all();
  return report;
}

} // namespace dsv3::tile
