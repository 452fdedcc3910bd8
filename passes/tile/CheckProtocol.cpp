// --dsv3-tile-check-protocol.
#include "passes/tile/Simulator.h"
#include "passes/tile/TileAnalysis.h"
#include "passes/tile/sim/Numbers.h"

#include "mlir/IR/Diagnostics.h"

#include <deque>

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_TILECHECKPROTOCOLPASS
#include "passes/tile/TileAnalysis.h.inc"

namespace {

/// Memory for the arguments of a kernel, from the pass's lists.
class Arguments {
public:
  Arguments(ArrayRef<double> numbers, ArrayRef<int64_t> scalars, ArrayRef<int64_t> dims, ArrayRef<int64_t> ints)
      : numbers(numbers), scalars(scalars), dims(dims), ints(ints) {}

  /// Fails when a list is too short.
  LogicalResult make(tile::KernelOp kernel) {
    for (Type type : kernel.getArgumentTypes()) {
      if (auto map = dyn_cast<tile::TmaType>(type))
        addTensor(map.getShape(), map.getElement());
      else if (auto gmem = dyn_cast<tile::GmemType>(type))
        addTensor(gmem.getShape(), gmem.getElement());
      else if (isa<LLVM::LLVMPointerType>(type))
        addScalars();
      else
        args.push_back(tile::SimArgument::scalar(take(numbers, "args")));
    }
    if (!missing.empty())
      return kernel.emitError() << "expected more numbers in the option '" << missing << "' for the arguments of kernel '" << kernel.getName() << "'";
    return success();
  }
  MutableArrayRef<tile::SimArgument> get() { return args; }

private:
  template <typename T> T take(ArrayRef<T> &list, const char *option) {
    if (list.empty()) {
      missing = option;
      return T();
    }
    T value = list.front();
    list = list.drop_front();
    return value;
  }

  uint8_t *memory(int64_t bytes) {
    storage.emplace_back(bytes);
    return storage.back().data();
  }

  void addScalars() {
    constexpr int64_t kScalars = 8; // DSV3_SCALAR_*
    uint8_t *data = memory(kScalars * 8);
    for (int64_t i = 0; i < std::min<int64_t>(kScalars, scalars.size()); ++i)
      std::memcpy(data + 8 * i, &scalars[i], 8);
    args.push_back(tile::SimArgument::memory(data, {kScalars}));
  }

  void addTensor(ArrayRef<int64_t> shape, Type element) {
    std::vector<int64_t> sizes;
    int64_t n = 1;
    for (int64_t d : shape) {
      sizes.push_back(ShapedType::isDynamic(d) ? take(dims, "dims") : d);
      n *= sizes.back();
    }
    const int64_t width = element.getIntOrFloatBitWidth();
    uint8_t *data = memory((n * width + 7) / 8);
    if (isa<IntegerType>(element) && width >= 16) // lists, offsets, page tables
      for (int64_t i = 0; i < n && !ints.empty(); ++i)
        tile::sim::encode(element, double(take(ints, "ints")), data, i * width);
    args.push_back(tile::SimArgument::memory(data, std::move(sizes)));
  }

  ArrayRef<double> numbers;
  ArrayRef<int64_t> scalars, dims, ints;
  std::string missing;
  std::deque<std::vector<uint8_t>> storage;
  std::vector<tile::SimArgument> args;
};

void emit(const tile::sim::Finding &f) {
  InFlightDiagnostic diag = emitError(f.where) << "C" << int(f.check) << ": " << f.message;
  if (f.other)
    diag.attachNote(*f.other) << f.otherNote;
  std::string trace;
  for (const std::string &event : f.trace)
    trace += (trace.empty() ? "" : "; ") + event;
  if (!trace.empty())
    diag.attachNote(f.where) << "last events: " << trace;
}

class CheckProtocol : public impl::TileCheckProtocolPassBase<CheckProtocol> {
public:
  using TileCheckProtocolPassBase::TileCheckProtocolPassBase;

private:
  void runOnOperation() override {
    bool bad = false;
    getOperation()->walk([&](tile::KernelOp kernel) { bad |= failed(check(kernel)); });
    if (bad)
      signalPassFailure();
  }

  LogicalResult check(tile::KernelOp kernel) {
    tile::sim::Findings found;
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      Arguments arguments(args, scalars, dims, ints);
      if (failed(arguments.make(kernel)))
        return failure();
      tile::SimOptions options;
      options.seed = seed;
      options.ctas = ctas;
      Result<tile::SimReport> report = tile::simulate(kernel, arguments.get(), options);
      if (!report)
        return kernel.emitError() << report.error().message;
      for (const tile::sim::Finding &f : report->findings)
        found.add(f);
    }
    for (const tile::sim::Finding &f : found.all())
      emit(f);
    return failure(!found.empty());
  }
};

} // namespace
} // namespace dsv3
