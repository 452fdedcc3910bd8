// Rows with one scale, byte by byte; and the rows of a cache of codes.
#include "test/codegen/sm90/simt/DeviceTest.h"

#include "runtime/core/DType.h"
#include "runtime/reference/Quantize.h"

#include <cstring>

namespace dsv3::codegen::test {
namespace {

constexpr int64_t kTokens = 3, kCapacity = 4, kHeads = 3, kLatent = 512, kRope = 64;

TEST_F(DeviceTest, QuantizesRowsWithOneScale) {
  for (int64_t width : {int64_t(512), int64_t(132)}) {
    std::string shape = std::to_string(kCapacity) + "x" + std::to_string(kHeads) + "x" + std::to_string(width) + "xbf16";
    std::string x = "tensor<" + shape + ">", q = "tensor<" + shape + ", #dsv3.blocked<f8E4M3FN, 1x?, f32>>";
    auto grid = compile("%x: " + x, "%o = kernel.empty : " + q + "\n%r = kernel.quantize ins(%x : " + x + ") outs(%o : " + q + ") site \"s\"", kCapacity);
    ASSERT_TRUE(grid);
    Array<double> values = randomValues({kCapacity * kHeads, width}, Elem::BF16, 1, 30);
    for (int64_t i = 0; i < width; ++i) {
      values.row(1)[i] = 0;
      values.row(2)[i] *= 1024; // beside rows 1000 times smaller
    }
    Array<float> rows({kTokens * kHeads, width});
    for (int64_t i = 0; i < rows.size(); ++i)
      rows.data[size_t(i)] = float(values.data[size_t(i)]);
    auto want = *reference::quantize(rows, {reference::QuantStorage::F8E4M3, 1, 0});
    int64_t scaleAt = (kCapacity * kHeads * width + 255) / 256 * 256;
    Buffer in = Buffer::of(values, Elem::BF16), out(scaleAt + kCapacity * kHeads * 4);
    grid->run({in.data(), out.data()}, step(kTokens, 1), false);
    EXPECT_TRUE(out.intact());
    auto *bytes = static_cast<uint8_t *>(out.data());
    for (int64_t r = 0; r < kTokens * kHeads; ++r) {
      float scale;
      std::memcpy(&scale, bytes + scaleAt + r * 4, 4);
      EXPECT_EQ(scale, want.scale.data[size_t(r)]) << r;
      for (int64_t i = 0; i < width; ++i)
        ASSERT_EQ(bytes[r * width + i], floatToE4m3(want.data.row(r)[i])) << r << " " << i;
    }
  }
}

/// Two sequences of 70 and 5 tokens: three key blocks, of which two are partly empty. What lies there is NaN.
TEST_F(DeviceTest, ExpandsCachedRows) {
  constexpr int64_t kPageBytes = 64 * (kLatent + 2 * kRope + 4), kPool = 5, kRowsWidth = kLatent + kRope;
  std::string kv = "!dsv3.kv<layers = 2, page = 64, latent = 512, rope = 64, bf16, stored #dsv3.blocked<f8E5M2, 1x?, f32>>";
  std::string o = "tensor<" + std::to_string(capacities().kblocks) + "x64x576xbf16>";
  kernel::KernelOp op = parse("%kv: " + kv + ", %s: !dsv3.seq",
                              "%o = kernel.empty : " + o + "\n%r = kernel.kv_rows ins(%kv[1], %s : " + kv + ") outs(%o : " + o + ") site \"s\"", kCapacity);
  ASSERT_TRUE(op);
  (*module)->setAttr(kCapacitiesAttr, capacities().toAttr(&context));
  auto grid = Grid::create(op);
  ASSERT_TRUE(grid);
  const std::vector<std::vector<int32_t>> pages = {{3, 1}, {4}};
  const std::vector<int32_t> lens = {70, 5};
  std::vector<uint8_t> pool(2 * kPool * kPageBytes, 0xff);
  std::vector<int32_t> kblocks, table(size_t(capacities().seqs * capacities().pages), -1), contexts(size_t(capacities().seqs), 0);
  std::vector<uint16_t> want;
  for (size_t s = 0; s < lens.size(); ++s) {
    contexts[s] = lens[s];
    for (size_t p = 0; p < pages[s].size(); ++p) {
      table[s * size_t(capacities().pages) + p] = pages[s][p];
      kblocks.insert(kblocks.end(), {int32_t(s), int32_t(p)});
      uint8_t *page = pool.data() + (kPool + pages[s][p]) * kPageBytes;
      for (int64_t t = 0; t < 64; ++t) {
        if (int64_t(p) * 64 + t >= lens[s]) {
          want.insert(want.end(), kRowsWidth, 0);
          continue;
        }
        float scale = 0.01f * float(1 + t % 5);
        std::memcpy(page + 64 * (kLatent + 2 * kRope) + t * 4, &scale, 4);
        for (int64_t i = 0; i < kLatent; ++i) {
          uint8_t code = uint8_t((i * 37 + t * 11 + int64_t(p)) % 0x78) | uint8_t(i % 2 ? 0x80 : 0);
          page[t * kLatent + i] = code;
          want.push_back(floatToBf16(e5m2ToFloat(code) * scale));
        }
        for (int64_t i = 0; i < kRope; ++i) {
          uint16_t lane = floatToBf16(float(i) - float(t));
          std::memcpy(page + 64 * kLatent + (t * kRope + i) * 2, &lane, 2);
          want.push_back(lane);
        }
      }
    }
  }
  Buffer blocks = Buffer::of(kblocks), lengths = Buffer::of(contexts), tables = Buffer::of(table), out(capacities().kblocks * 64 * kRowsWidth * 2);
  std::vector<int64_t> scalars = step(75, 2);
  scalars[DSV3_SCALAR_KBLOCKS] = 3;
  scalars[DSV3_SCALAR_KV_LAYER_STRIDE] = kPool * kPageBytes;
  grid->run({pool.data(), blocks.data(), lengths.data(), tables.data(), out.data()}, scalars, false);
  EXPECT_TRUE(out.intact());
  EXPECT_EQ(std::memcmp(out.data(), want.data(), want.size() * 2), 0);
}

} // namespace
} // namespace dsv3::codegen::test
