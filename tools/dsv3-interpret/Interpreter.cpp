#include "Interpreter.h"

#include "dialects/kernel/KernelDialect.h"

namespace dsv3::interpret {

static bool isCodes(mlir::Value value) {
  auto type = llvm::dyn_cast<mlir::RankedTensorType>(value.getType());
  return type && llvm::isa_and_nonnull<ir::BlockedAttr>(type.getEncoding());
}

/// Whether every product that reads a weight multiplies it with activations in codes: then the codes themselves are multiplied. With
/// plain ones they are dequantised to the weight's element type first.
static bool meetsCodes(mlir::Value weight) {
  return llvm::all_of(weight.getUses(), [](mlir::OpOperand &use) {
    mlir::Operation *op = use.getOwner();
    if (auto experts = llvm::dyn_cast<ir::RoutedExpertsOp>(op); experts && use.get() == experts.getWDown())
      return experts.getActSchemeAttr() != nullptr;
    return use.getOperandNumber() > 0 && isCodes(op->getOperand(0));
  });
}

template <typename T> void Interpreter<T>::use(Frame<T> &frame, llvm::StringRef weight, mlir::Value result) {
  const bool exact = meetsCodes(result);
  const std::string key = weight.str() + (exact ? " exact" : "");
  auto it = weights.find(key);
  if (it == weights.end()) {
    Array<float> numbers = frame.take(reader.read(weight, exact));
    if (!frame.status())
      return;
    Array<T> value;
    if constexpr (std::is_same_v<T, float>)
      value = std::move(numbers);
    else
      value = Array<T>(numbers.shape, std::vector<T>(numbers.data.begin(), numbers.data.end()));
    it = weights.try_emplace(key, hold<T>(std::move(value))).first;
  }
  frame.set(result, it->second);
}

template <typename T>
Result<std::vector<Held<T>>> Interpreter<T>::run(ir::ProgramOp program, const std::vector<Held<T>> &arguments,
                                                 const TapHook<T> &tap) {
  Frame<T> frame;
  for (auto [argument, value] : llvm::zip_equal(program.getBody().getArguments(), arguments))
    frame.set(argument, value);
  std::vector<Held<T>> results;
  auto keep = [&](llvm::StringRef name, mlir::Value value) {
    if (tap)
      tap(name, value.getType(), frame.held(value));
  };
  for (mlir::Operation &op : program.getBody().front()) {
    frame.enter(op);
    if (auto u = llvm::dyn_cast<ir::UseOp>(op))
      use(frame, u.getWeight(), u.getResult());
    else if (auto u = llvm::dyn_cast<kernel::UseOp>(op))
      use(frame, u.getWeight(), u.getResult());
    else if (auto t = llvm::dyn_cast<ir::TapOp>(op))
      keep(t.getName(), t.getValue());
    else if (auto t = llvm::dyn_cast<kernel::TapOp>(op))
      keep(t.getName(), t.getValue());
    else if (auto r = llvm::dyn_cast<ir::ReturnOp>(op))
      for (mlir::Value value : r.getOperands())
        results.push_back(frame.held(value));
    else if (!evalDsv3(op, frame) && !evalKernel(op, frame))
      frame.fail(unsupportedError("expected an op of the dsv3 or kernel dialect, got '" +
                                  op.getName().getStringRef().str() + "'"));
    if (!frame.status())
      return frame.status().error();
  }
  return results;
}

template class Interpreter<float>;
template class Interpreter<double>;

} // namespace dsv3::interpret
