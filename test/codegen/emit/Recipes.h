// A small checkpoint and modules of weights over it.
#pragma once

#include "codegen/emit/PackWeights.h"
#include "dialects/kernel/KernelDialect.h"
#include "frontends/huggingface/Checkpoint.h"
#include "test/frontends/huggingface/TestCheckpoint.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace dsv3::test {

/// Tensors of every kind: values differ from element to element. FP8 blocks are 4 x 8, edge blocks are partial.
inline TestCheckpoint recipeCheckpoint() {
  TestCheckpoint c;
  auto fill = [](TestTensor &t, auto value) {
    size_t n = t.data.size() / byteSize(t.dtype);
    for (size_t i = 0; i < n; ++i) {
      float x = value(i);
      convertFromFloat(t.dtype, &x, 1, t.data.data() + i * byteSize(t.dtype));
    }
  };
  auto add = [&](const std::string &name, DType dtype, std::vector<int64_t> shape, float step) {
    c.add(name, dtype, std::move(shape));
    fill(c.tensors[name], [&](size_t i) { return (float(i % 61) - 30) * step; });
  };
  auto quantised = [&](const std::string &name, int64_t n, int64_t k, DType scale, float step) {
    add(name, DType::F8E4M3, {n, k}, 1);
    c.add(name + "_scale", scale, {(n + 3) / 4, (k + 7) / 8});
    fill(c.tensors[name + "_scale"], [&](size_t i) { return float(i + 1) * step; });
  };
  add("f32", DType::F32, {6, 10}, 0.3f);
  add("bf16", DType::BF16, {6, 10}, 0.25f);
  add("f16", DType::F16, {6, 10}, 0.125f);
  add("gamma", DType::F32, {10}, 0.7f);
  quantised("a", 10, 20, DType::F32, 0.5f);
  quantised("b", 8, 20, DType::BF16, 0.25f);
  for (int e = 0; e < 3; ++e)
    quantised("e." + std::to_string(e), 6, 20, DType::F32, float(e + 1));
  return c;
}

class Recipes : public ::testing::Test {
protected:
  Recipes() {
    context.loadDialect<ir::Dsv3Dialect, kernel::KernelDialect>();
    content = recipeCheckpoint();
  }

  /// Writes the checkpoint and parses the module.
  void open(const std::string &text) {
    TestCheckpoint::writeShard(dir / "model.safetensors", content.tensors);
    auto opened = hf::Checkpoint::open(dir.str());
    ASSERT_TRUE(bool(opened)) << opened.error().message;
    checkpoint.emplace(std::move(*opened));
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    ASSERT_TRUE(bool(module));
    data.emplace(*module, &*checkpoint);
  }

  /// Stored number i of a tensor.
  float at(const std::string &name, int64_t i) const {
    const TestTensor &t = content.tensors.at(name);
    return loadAsFloat(t.dtype, t.data.data(), size_t(i));
  }
  uint8_t code(const std::string &name, int64_t i) const { return uint8_t(content.tensors.at(name).data[size_t(i)]); }
  float scale(const std::string &name, int64_t n, int64_t k) const {
    return at(name + "_scale", n / 4 * content.tensors.at(name + "_scale").shape[1] + k / 8);
  }
  float dequantised(const std::string &name, int64_t n, int64_t k) const {
    return at(name, n * content.tensors.at(name).shape[1] + k) * scale(name, n, k);
  }

  WeightValues load(const std::string &symbol, std::optional<int64_t> lead = std::nullopt) {
    Result<WeightValues> values = data->load(symbol, lead);
    EXPECT_TRUE(bool(values)) << values.error().message;
    return values ? std::move(*values) : WeightValues();
  }
  Error refused(const std::string &symbol) {
    Result<WeightValues> values = data->load(symbol);
    EXPECT_FALSE(bool(values)) << symbol;
    return values ? Error() : values.error();
  }

  mlir::MLIRContext context;
  TempDir dir;
  TestCheckpoint content;
  std::optional<hf::Checkpoint> checkpoint;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<WeightData> data;
};

} // namespace dsv3::test
