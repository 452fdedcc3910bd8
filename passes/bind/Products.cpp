#include "passes/bind/Products.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace dsv3::bind {

std::optional<Product> Product::of(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<Product>>(op)
      .Case<kernel::GemmOp, kernel::BatchedGemmOp, kernel::GroupedGemmOp>([](Operation *op) { return Product{op, {1}}; })
      .Case<kernel::GatedGemmOp, kernel::GroupedGatedGemmOp>([](Operation *op) { return Product{op, {1, 2}}; })
      .Case<kernel::KvExpandOp>([](Operation *op) { return Product{op, {1, 2}, /*hasRows=*/false}; })
      .Default([](Operation *) { return std::nullopt; });
}

std::string whyNoKernel(Operation *op, const codegen::KernelRegistry &registry) {
  const codegen::KernelEmitter *emitter = registry.lookup(op);
  return emitter ? emitter->whyIllegal(op) : "there is no " + op->getName().getStringRef().str();
}

std::string whyNoKernel(const Product &product, Type rows, bool plainWeights, const codegen::KernelRegistry &registry) {
  OpBuilder b(product.op);
  SmallVector<Operation *> made{b.clone(*product.op)};
  Operation *trial = made.front();
  auto retype = [&](unsigned operand, Type type) {
    b.setInsertionPoint(trial);
    auto value = kernel::EmptyOp::create(b, trial->getLoc(), type);
    trial->setOperand(operand, value);
    made.push_back(value);
  };
  if (rows)
    retype(0, rows);
  for (unsigned w : product.weights)
    if (plainWeights) {
      auto use = trial->getOperand(w).getDefiningOp<ir::UseOp>();
      if (!use)
        continue;
      b.setInsertionPoint(trial);
      auto plain = ir::UseOp::create(b, trial->getLoc(), plainType(use.getType()), use.getWeight());
      trial->setOperand(w, plain);
      made.push_back(plain);
    }
  std::string why = whyNoKernel(trial, registry);
  for (Operation *op : made)
    op->erase();
  return why;
}

} // namespace dsv3::bind
