// A checkpoint imported for a test, with what tests ask of the module.
#pragma once

#include "frontends/huggingface/Import.h"

#include "dialects/dsv3/Dsv3Dialect.h"

#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dsv3::test {

class Imported {
public:
  explicit Imported(const std::string &dir, DType computeType = DType::BF16, const hf::TensorOptions &options = {}) {
    Result<hf::Model> read = hf::readModel(dir, options);
    if (!read) {
      ADD_FAILURE() << read.error().message;
      return;
    }
    model.emplace(std::move(*read));
    auto result = importModel(context, *model, {computeType});
    if (!result)
      ADD_FAILURE() << result.error().message;
    else
      module = std::move(*result);
  }
  explicit operator bool() { return bool(module); }

  ir::ProgramOp program(llvm::StringRef name) { return module->lookupSymbol<ir::ProgramOp>(name); }

  /// The op of a site in any program; nullptr when there is none.
  mlir::Operation *at(llvm::StringRef site) {
    mlir::Operation *found = nullptr;
    module->walk([&](mlir::Operation *op) {
      if (auto attr = op->getAttrOfType<mlir::StringAttr>("site"); attr && attr.getValue() == site)
        found = op;
    });
    return found;
  }

  std::vector<std::string> sites(ir::ProgramOp program) {
    std::vector<std::string> out;
    for (mlir::Operation &op : program.getBody().front())
      if (auto attr = op.getAttrOfType<mlir::StringAttr>("site"))
        out.push_back(attr.str());
    return out;
  }

  /// "dsv3.linear" -> how many in the module.
  std::map<std::string, int> counts() {
    std::map<std::string, int> out;
    module->walk([&](mlir::Operation *op) { ++out[op->getName().getStringRef().str()]; });
    return out;
  }

  /// Tensor -> reason.
  std::map<std::string, std::string> ignored() {
    std::map<std::string, std::string> out;
    for (auto op : module->getOps<ir::IgnoredOp>())
      out[op.getTensor().str()] = op.getReason().str();
    return out;
  }

  /// A weight as it is printed, without aliases: "@l0.q_a : tensor<...> from #dsv3.file<...>".
  std::string weight(llvm::StringRef symbol) {
    auto op = module->lookupSymbol<ir::WeightOp>(symbol);
    return op ? "@" + symbol.str() + " : " + text(op.getType()) + " from " + text(op.getSource()) : "";
  }

  template <typename T> static std::string text(T thing) {
    std::string out;
    llvm::raw_string_ostream(out) << thing;
    return out;
  }

  /// The ledger: leaves of weights and ignored tensors are the checkpoint's, each once.
  void expectCompleteLedger() {
    std::vector<std::string> leaves, tensors;
    for (auto op : module->getOps<ir::WeightOp>())
      llvm::cast<ir::WeightSource>(op.getSource()).forEachTensor([&](llvm::StringRef name) { leaves.push_back(name.str()); });
    for (const auto &[name, reason] : ignored())
      leaves.push_back(name);
    for (const hf::CheckpointTensor &tensor : model->checkpoint->tensors())
      tensors.push_back(tensor.name());
    std::sort(leaves.begin(), leaves.end());
    EXPECT_EQ(leaves, tensors);
  }

  void expectUniqueSites() {
    std::set<std::string> seen;
    for (auto program : module->getOps<ir::ProgramOp>())
      for (const std::string &site : sites(program))
        EXPECT_TRUE(seen.insert(site).second) << site << " occurs twice";
  }

  mlir::MLIRContext context;
  std::optional<hf::Model> model;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace dsv3::test
