#include "passes/schedule/ProgramBuffers.h"

using namespace mlir;

namespace dsv3 {

int64_t tensorBytes(RankedTensorType type) { return kernel::getValueBytes(type); }

std::vector<Lifetime> ProgramBuffers::intermediate(SmallVectorImpl<unsigned> &indices) const {
  std::vector<Lifetime> lifetimes;
  for (auto [i, buffer] : llvm::enumerate(buffers)) {
    if (!buffer.output.empty())
      continue;
    indices.push_back(unsigned(i));
    lifetimes.push_back({buffer.bytes, buffer.first, buffer.last});
  }
  return lifetimes;
}

namespace {
class Analysis {
public:
  explicit Analysis(ir::ProgramOp program) : program(program) {}

  FailureOr<ProgramBuffers> run() {
    int64_t time = 0;
    for (Operation &op : program.getBody().front()) {
      if (failed(visit(op, time++)))
        return failure();
    }
    return std::move(result);
  }

private:
  LogicalResult visit(Operation &op, int64_t time) {
    if (auto view = dyn_cast<kernel::ViewOp>(op))
      return visitView(view);
    if (auto launch = dyn_cast<kernel::KernelOp>(op))
      return visitLaunch(launch, time);
    for (Value v : op.getOperands())
      if (failed(read(op, v, time)))
        return failure();
    return isa<ir::ReturnOp>(op) ? visitReturn(op) : success();
  }

  LogicalResult visitView(kernel::ViewOp view) {
    if (view.getSource().getDefiningOp<kernel::EmptyOp>())
      return view.emitOpError("expected a view of a computed value, got a view of kernel.empty");
    if (auto it = result.of.find(view.getSource()); it != result.of.end()) {
      unsigned buffer = it->second, version = versions.lookup(view.getSource());
      result.of[view.getResult()] = buffer;
      versions[view.getResult()] = version;
    }
    return success();
  }

  LogicalResult visitLaunch(kernel::KernelOp launch, int64_t time) {
    for (Value v : launch.getIns())
      if (failed(read(*launch, v, time)))
        return failure();
    unsigned first = launch->getNumOperands() - launch.getNumOuts();
    for (unsigned i = 0; i < launch.getNumOuts(); ++i)
      if (failed(write(launch->getOpOperand(first + i), launch->getResult(i), time)))
        return failure();
    return success();
  }

  LogicalResult read(Operation &op, Value v, int64_t time) {
    if (v.getDefiningOp<kernel::EmptyOp>())
      return op.emitOpError("expected inputs with a value, got an uninitialised kernel.empty");
    auto it = result.of.find(v);
    if (it == result.of.end())
      return success(); // a weight, an argument, the cache
    if (versions.lookup(v) != current[it->second])
      return op.emitOpError("reads a value that was overwritten in place before");
    result.buffers[it->second].last = time;
    return success();
  }

  LogicalResult write(OpOperand &destination, Value value, int64_t time) {
    Operation *op = destination.getOwner();
    if (isa<ir::KvType>(value.getType()))
      return success();
    if (destination.get().getDefiningOp<kernel::EmptyOp>()) {
      auto type = cast<RankedTensorType>(value.getType());
      result.buffers.push_back({type, tensorBytes(type), time, time, ""});
      current.push_back(0);
      unsigned buffer = unsigned(result.buffers.size() - 1);
      result.of[value] = buffer;
      result.destinations[&destination] = buffer;
      versions[value] = 0;
      return success();
    }
    auto it = result.of.find(destination.get());
    if (it == result.of.end())
      return op->emitOpError() << "expected destination " << destination.getOperandNumber() << " to be a kernel.empty or an intermediate value, got "
                               << destination.get();
    unsigned buffer = it->second;
    if (versions.lookup(destination.get()) != current[buffer])
      return op->emitOpError("overwrites a value that was overwritten in place before");
    result.of[value] = buffer;
    result.destinations[&destination] = buffer;
    versions[value] = ++current[buffer];
    result.buffers[buffer].last = time;
    return success();
  }

  LogicalResult visitReturn(Operation &op) {
    for (auto [i, v] : llvm::enumerate(op.getOperands())) {
      if (isa<ir::KvType>(v.getType()))
        continue;
      StringRef name = program.getResultName(unsigned(i));
      auto it = result.of.find(v);
      if (name.empty() || it == result.of.end() || v.getDefiningOp<kernel::ViewOp>())
        return op.emitOpError() << "expected result " << i << " to be a named value computed by a launch, got " << v;
      ProgramBuffer &buffer = result.buffers[it->second];
      if (!buffer.output.empty())
        return op.emitOpError() << "returns one buffer as '" << buffer.output << "' and as '" << name << "'";
      buffer.output = name.str();
    }
    return success();
  }

  ir::ProgramOp program;
  ProgramBuffers result;
  DenseMap<Value, unsigned> versions; // how often the buffer had been overwritten when the value was made
  SmallVector<unsigned> current;
};
} // namespace

FailureOr<ProgramBuffers> ProgramBuffers::analyse(ir::ProgramOp program) { return Analysis(program).run(); }

} // namespace dsv3
