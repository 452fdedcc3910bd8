// What tests of single GPU launches share.
#pragma once

#include "codegen/emit/Cubin.h"
#include "test/codegen/sm90/simt/Grid.h"
#include "test/codegen/x86/Harness.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace dsv3::codegen::test {

class DeviceTest : public ::testing::Test {
protected:
  DeviceTest() {
    mlir::DialectRegistry registry;
    registerDeviceDialects(registry);
    registry.insert<ir::Dsv3Dialect, kernel::KernelDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// The last launch of a program of `tokens` tokens with these arguments; null if the text does not parse.
  kernel::KernelOp parse(const std::string &args, const std::string &body, int64_t tokens = 128) {
    module = mlir::parseSourceString<mlir::ModuleOp>("dsv3.program @p(" + args + ") attributes {tokens = " + std::to_string(tokens) + " : i64} {\n" +
                                                         body + "\n  dsv3.return\n}",
                                                     &context);
    kernel::KernelOp op;
    if (module)
      module->walk([&](kernel::KernelOp launch) { op = launch; });
    EXPECT_TRUE(op) << body;
    return op;
  }

  std::shared_ptr<const Grid> compile(const std::string &args, const std::string &body, int64_t tokens = 128) {
    kernel::KernelOp op = parse(args, body, tokens);
    return op ? Grid::create(op) : nullptr;
  }

  /// The scalars of a step.
  static std::vector<int64_t> step(int64_t tokens, int64_t seqs) {
    std::vector<int64_t> scalars(DSV3_SCALAR_COUNT, 0);
    scalars[DSV3_SCALAR_TOKENS] = tokens, scalars[DSV3_SCALAR_SEQS] = seqs;
    return scalars;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace dsv3::codegen::test
