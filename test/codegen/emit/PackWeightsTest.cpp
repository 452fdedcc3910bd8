// Packing against Layout::offset, which defines what a layout means.
#include "test/codegen/emit/Recipes.h"

#include "dialects/kernel/Layout.h"
#include "runtime/core/Hash.h"

namespace dsv3::test {

class Packing : public Recipes {
protected:
  /// Packs `source` as tensor<shape x elem, packed> and hands back type and bytes.
  std::vector<char> pack(const std::string &source, const std::string &packedType) {
    auto type = mlir::dyn_cast_or_null<mlir::RankedTensorType>(mlir::parseType(packedType, &context));
    EXPECT_TRUE(bool(type)) << packedType;
    Result<std::unique_ptr<WeightReader>> reader = data->open(source);
    EXPECT_TRUE(bool(reader)) << reader.error().message;
    std::vector<char> bytes(size_t(kernel::getPackedBytes(type)));
    Status s = packWeight(**reader, type, bytes.data());
    EXPECT_TRUE(bool(s)) << s.error().message;
    parts = kernel::getPackedParts(type);
    return bytes;
  }

  llvm::SmallVector<kernel::PackedPart> parts;
};

const char *const kWeights = R"(
  dsv3.weight @plain : tensor<6x10xbf16> from #dsv3.file<"f32">
  dsv3.weight @gamma : tensor<10xf32> from #dsv3.file<"gamma">
  dsv3.weight @a : tensor<10x20xf32, #dsv3.blocked<f8E4M3FN, 4x8, f32>> from #dsv3.file<"a", scale "a_scale">
  dsv3.weight @e : tensor<3x6x20xf32, #dsv3.blocked<f8E4M3FN, 4x8, f32>> from #dsv3.stack<0 to 3, #dsv3.file<"e.{}", scale "e.{}_scale">>)";

TEST_F(Packing, PlainWeightsInEveryLayout) {
  open(kWeights);
  for (std::string map : {"(n, k) -> [n, k]", "(n, k) -> [n/16, k, n%16] pad n:16", "(n, k) -> [n/4, k/2, n%4, k%2] pad n:4 k:2",
                          "(n, k) -> [n/4, k, n%4 ^ k%4] pad n:4"}) {
    std::vector<char> bytes = pack("plain", "tensor<6x10xbf16, #kernel.packed<none, #kernel.layout<\"" + map + "\">>>");
    Layout layout = *Layout::parse(map);
    std::vector<bool> used(bytes.size() / 2);
    for (int64_t n = 0; n < 6; ++n)
      for (int64_t k = 0; k < 10; ++k) {
        size_t place = size_t(layout.offset({n, k}, {6, 10}));
        used[place] = true;
        EXPECT_EQ(loadAsFloat(DType::BF16, bytes.data(), place), roundTo(DType::BF16, at("f32", n * 10 + k))) << map << " " << n << " " << k;
      }
    for (size_t i = 0; i < used.size(); ++i)
      EXPECT_TRUE(used[i] || (bytes[2 * i] == 0 && bytes[2 * i + 1] == 0)) << map << ": padding at " << i;
  }
}

TEST_F(Packing, Vectors) {
  open(kWeights);
  std::vector<char> bytes = pack("gamma", "tensor<10xf32, #kernel.packed<none, #kernel.layout<\"(n) -> [n]\">>>");
  for (int64_t i = 0; i < 10; ++i)
    EXPECT_EQ(loadAsFloat(DType::F32, bytes.data(), size_t(i)), at("gamma", i));
}

TEST_F(Packing, CodesAndScales) {
  open(kWeights);
  const std::string scaleMap = "(n, k) -> [n/16, k/8, n%16] pad n:16";
  std::vector<char> bytes = pack("a", "tensor<10x20xf32, #kernel.packed<#dsv3.blocked<f8E4M3FN, 4x8, f32>, #kernel.layout<\"(n, k) -> "
                                      "[n/16, k, n%16] pad n:16\">, scale = #kernel.layout<\"" + scaleMap + "\">>>");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[1].offset % 256, 0);
  Layout layout = *Layout::parse("(n, k) -> [n/16, k, n%16] pad n:16"), scales = *Layout::parse(scaleMap);
  for (int64_t n = 0; n < 10; ++n)
    for (int64_t k = 0; k < 20; ++k) {
      EXPECT_EQ(uint8_t(bytes[size_t(layout.offset({n, k}, {10, 20}))]), code("a", n * 20 + k));
      EXPECT_EQ(loadAsFloat(DType::F32, bytes.data() + parts[1].offset, size_t(scales.offset({n, k}, {10, 20}))), scale("a", n, k));
    }
  EXPECT_EQ(bytes[10], 0) << "row 10 of the panel is padding";
}

TEST_F(Packing, StackedEntriesFollowEachOther) {
  open(kWeights);
  std::vector<char> bytes = pack("e", "tensor<3x6x20xf32, #kernel.packed<#dsv3.blocked<f8E4M3FN, 4x8, f32>, #kernel.layout<\"(n, k) -> "
                                      "[n/16, k, n%16] pad n:16\">, scale = #kernel.layout<\"(n, k) -> [n/4, k/8]\">>>");
  Layout layout = *Layout::parse("(n, k) -> [n/16, k, n%16] pad n:16"), scales = *Layout::parse("(n, k) -> [n/4, k/8]");
  for (int64_t e = 0; e < 3; ++e) {
    std::string name = "e." + std::to_string(e);
    for (int64_t n = 0; n < 6; ++n)
      for (int64_t k = 0; k < 20; ++k) {
        EXPECT_EQ(uint8_t(bytes[size_t(e * parts[0].outerStride + layout.offset({n, k}, {6, 20}))]), code(name, n * 20 + k));
        EXPECT_EQ(loadAsFloat(DType::F32, bytes.data() + parts[1].offset + e * parts[1].outerStride, size_t(scales.offset({n, k}, {6, 20}))),
                  scale(name, n, k));
      }
  }
}

TEST_F(Packing, AScaleLayoutTooCoarseIsRefused) {
  open(kWeights);
  auto type = mlir::cast<mlir::RankedTensorType>(mlir::parseType(
      "tensor<10x20xf32, #kernel.packed<#dsv3.blocked<f8E4M3FN, 4x8, f32>, #kernel.layout<\"(n, k) -> [n, k]\">, scale = "
      "#kernel.layout<\"(n, k) -> [n/4, k/16]\">>>", &context));
  std::vector<char> bytes(size_t(kernel::getPackedBytes(type)));
  auto reader = data->open("a");
  ASSERT_TRUE(bool(reader));
  Status s = packWeight(**reader, type, bytes.data());
  ASSERT_FALSE(bool(s));
  EXPECT_NE(s.error().message.find("different scales at row 0, column 8"), std::string::npos) << s.error().message;
}

/// Signed codes from -8 to 7 under a scale and a zero point per row and 4 columns.
class NibbleReader : public WeightReader {
public:
  NibbleReader() : WeightReader({6, 20}) {}
  static int codeAt(int64_t row, int64_t col) { return int((row * 7 + col * 5) % 16) - 8; }
  static float scaleAt(int64_t row, int64_t col) { return float(1 + row * 5 + col / 4); }
  static int zeroAt(int64_t row, int64_t col) { return int((row + col / 4) % 16) - 8; }

  bool encoded() const override { return true; }
  bool hasZeros() const override { return true; }
  Status values(int64_t row, int64_t col, int64_t n, float *out) const override {
    return each(n, [&](int64_t i) { out[i] = float(codeAt(row, col + i) - zeroAt(row, col + i)) * scaleAt(row, col + i); });
  }
  Status codes(int64_t row, int64_t col, int64_t n, uint8_t *out) const override {
    return each(n, [&](int64_t i) { out[i] = uint8_t(codeAt(row, col + i)); });
  }
  Status scales(int64_t row, int64_t col, int64_t n, float *out) const override {
    return each(n, [&](int64_t i) { out[i] = scaleAt(row, col + i); });
  }
  Status zeros(int64_t row, int64_t col, int64_t n, int8_t *out) const override {
    return each(n, [&](int64_t i) { out[i] = int8_t(zeroAt(row, col + i)); });
  }

private:
  template <typename Fn> static Status each(int64_t n, Fn fn) {
    for (int64_t i = 0; i < n; ++i)
      fn(i);
    return {};
  }
};

TEST_F(Packing, NibblesScalesAndZeroPoints) {
  const std::string dataMap = "(n, k) -> [n/16, k/8, n%16, k%4, k/4%2] pad n:16 k:8", scaleMap = "(n, k) -> [n/16, k/4, n%16] pad n:16";
  auto type = mlir::cast<mlir::RankedTensorType>(
      mlir::parseType("tensor<6x20xbf16, #kernel.packed<#dsv3.blocked<i4, 1x4, f16, zero i8>, #kernel.layout<\"" + dataMap +
                          "\">, scale = #kernel.layout<\"" + scaleMap + "\">>>",
                      &context));
  ASSERT_TRUE(bool(type));
  auto parts = kernel::getPackedParts(type);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].bytes, 16 * 24 / 2);
  EXPECT_EQ(parts[1].bytes, 16 * 5 * 4);
  EXPECT_EQ(parts[2].bytes, 16 * 5);
  std::vector<char> bytes(size_t(kernel::getPackedBytes(type)));
  Status s = packWeight(NibbleReader(), type, bytes.data());
  ASSERT_TRUE(bool(s)) << s.error().message;
  Layout data = *Layout::parse(dataMap), groups = *Layout::parse(scaleMap);
  for (int64_t n = 0; n < 6; ++n)
    for (int64_t k = 0; k < 20; ++k) {
      size_t at = size_t(data.offset({n, k}, {6, 20})), group = size_t(groups.offset({n, k}, {6, 20}));
      int nibble = uint8_t(bytes[at / 2]) >> (at % 2 * 4) & 15;
      EXPECT_EQ(nibble < 8 ? nibble : nibble - 16, NibbleReader::codeAt(n, k)) << n << " " << k;
      EXPECT_EQ(loadAsFloat(DType::F32, bytes.data() + parts[1].offset, group), NibbleReader::scaleAt(n, k));
      EXPECT_EQ(int8_t(bytes[size_t(parts[2].offset) + group]), NibbleReader::zeroAt(n, k));
    }
  // Column 1 of row 0 is the low half of byte 1, column 5 the high one.
  EXPECT_EQ(uint8_t(bytes[1]), uint8_t((NibbleReader::codeAt(0, 1) & 15) | (NibbleReader::codeAt(0, 5) & 15) << 4));
}

TEST_F(Packing, TheFileHoldsEveryWeightAtItsPlace) {
  open(std::string(kWeights) + R"(
    kernel.weight @gamma.packed at 0 bytes 40 : tensor<10xf32, #kernel.packed<none, #kernel.layout<"(n) -> [n]">>> from @gamma
    kernel.weight @plain.packed at 4096 bytes 120 : tensor<6x10xbf16, #kernel.packed<none, #kernel.layout<"(n, k) -> [n, k]">>> from @plain)");
  for (int jobs : {1, 3}) {
    Result<PackedFile> file = packWeights(*module, *data, dir / "rank-0.bin", 8192, jobs);
    ASSERT_TRUE(bool(file)) << file.error().message;
    std::string bytes = readAll(dir / "rank-0.bin");
    ASSERT_EQ(bytes.size(), 8192u);
    EXPECT_EQ(file->hash, hashHex(bytes));
    ASSERT_EQ(file->weights.size(), 2u);
    EXPECT_EQ(file->weights[0].hash, hashHex(bytes.substr(0, 40)));
    EXPECT_EQ(file->weights[1].hash, hashHex(bytes.substr(4096, 120)));
    EXPECT_EQ(loadAsFloat(DType::F32, bytes.data(), 3), at("gamma", 3));
    EXPECT_EQ(bytes.substr(40, 4056), std::string(4056, '\0'));
  }
}

TEST_F(Packing, UnwritableFile) {
  open(kWeights);
  Result<PackedFile> file = packWeights(*module, *data, dir / "no/such/folder", 8192, 1);
  ASSERT_FALSE(bool(file));
  EXPECT_EQ(file.error().code, ExitCode::Usage);
}

} // namespace dsv3::test
