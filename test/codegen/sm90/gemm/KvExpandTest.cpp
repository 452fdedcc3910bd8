// kernel.kv_expand on the tile simulator: pages anywhere in the cache, sequences that end inside a page, two layers.
#include "test/codegen/sm90/gemm/GemmHarness.h"

#include "runtime/core/DType.h"

#include <cmath>
#include <cstring>

using namespace mlir;

namespace dsv3::codegen::test {
namespace {

constexpr int64_t kHeads = 2, kLatent = 128, kRope = 64, kLanes = kLatent + kRope, kPoolPages = 9, kTablePages = 8, kPage = 64;

struct Case {
  int64_t nope = 128, values = 128;
  bool fp8 = false;
  int64_t capacity = 6;             ///< key blocks
  std::vector<int32_t> contexts{70, 130}; ///< of two sequences; every block of each is expanded

  std::string weight(int64_t n) const {
    return "tensor<" + std::to_string(kHeads) + "x" + std::to_string(n) + "x" + std::to_string(kLatent) + "xbf16" +
           (fp8 ? ", #dsv3.blocked<f8E4M3FN, 128x128, f32>>" : ">");
  }
  std::string keys() const { return out(nope + kRope); }
  std::string out(int64_t lanes) const {
    return "tensor<" + std::to_string(capacity) + "x" + std::to_string(kHeads) + "x64x" + std::to_string(lanes) + "xbf16>";
  }
  std::string kv() const { return "!dsv3.kv<layers = 2, page = 64, latent = 128, rope = 64, bf16>"; }
  std::string args() const { return "%kv: " + kv() + ", %wk: " + weight(nope) + ", %wv: " + weight(values) + ", %seq: !dsv3.seq"; }
  std::string body() const {
    return "%k = kernel.empty : " + keys() + "\n%v = kernel.empty : " + out(values) + "\n%a, %b = kernel.kv_expand ins(%kv[1], %wk, %wv, %seq : " +
           kv() + ", " + weight(nope) + ", " + weight(values) + ") outs(%k, %v : " + keys() + ", " + out(values) + ") key_rows site \"s\" -> " +
           keys() + ", " + out(values);
  }
};

template <typename T> Bytes bytesOf(const std::vector<T> &v) {
  Bytes b(v.size() * sizeof(T));
  std::memcpy(b.data(), v.data(), b.size());
  return b;
}

/// A weight's numbers and one scale per head.
struct Weight {
  Numbers numbers;
  int64_t n;
  std::vector<float> scale;
  Weight(const Case &c, int64_t n, unsigned seed) : n(n), scale{c.fp8 ? 0.01f : 1.0f, c.fp8 ? 0.02f : 1.0f} {
    numbers = c.fp8 ? randomE4m3(kHeads * n * kLatent, seed) : randomBf16(kHeads * n * kLatent, seed);
  }
  double value(int64_t h, int64_t r, int64_t k) const { return double(numbers.values[size_t((h * n + r) * kLatent + k)]) * double(scale[size_t(h)]); }
  void pack(const LaunchKernel &kernel, unsigned operand, bool fp8, std::vector<Bytes> &parts) const {
    if (!fp8)
      return parts.push_back(numbers.bytes);
    parts.push_back(kernel.pack(operand, 0, [&](ArrayRef<int64_t> at) { return &numbers.bytes[size_t((at[0] * n + at[1]) * kLatent + at[2])]; }));
    parts.push_back(kernel.pack(operand, 1, [&](ArrayRef<int64_t> at) { return reinterpret_cast<const uint8_t *>(&scale[size_t(at[0])]); }));
  }
};

void check(const Case &c, uint64_t seed = 1) {
  auto kernel = LaunchKernel::compile(c.args(), c.body(), "phase = \"prefill\", tokens = 160 : i64, seqs = 8 : i64");
  ASSERT_TRUE(kernel);
  SCOPED_TRACE(kernel->schedule());
  Numbers cache = randomBf16(2 * kPoolPages * kPage * kLanes, 1);
  Weight wk(c, c.nope, 2), wv(c, c.values, 3);
  std::vector<Bytes> parts;
  wk.pack(*kernel, 1, c.fp8, parts);
  wv.pack(*kernel, 2, c.fp8, parts);
  std::vector<int32_t> table(8 * kTablePages, 0), blocks, contexts(8, 0);
  for (int32_t s = 0; s < int32_t(c.contexts.size()); ++s) {
    contexts[size_t(s)] = c.contexts[size_t(s)];
    for (int32_t b = 0; b * kPage < c.contexts[size_t(s)]; ++b) {
      table[size_t(s * kTablePages + b)] = (7 * s + 5 * b + 3) % kPoolPages;
      blocks.push_back(s), blocks.push_back(b);
    }
  }
  int64_t count = int64_t(blocks.size()) / 2;
  ASSERT_LE(count, c.capacity);
  blocks.resize(size_t(2 * c.capacity), 12345); // behind the list: nothing may follow it
  Bytes list = bytesOf(blocks), tableBytes = bytesOf(table), contextBytes = bytesOf(contexts);
  Bytes keys(size_t(c.capacity * kHeads * kPage * (c.nope + kRope) * 2), 0x7f), values(size_t(c.capacity * kHeads * kPage * c.values * 2), 0x7f);
  std::vector<Bytes *> refs{&cache.bytes};
  for (Bytes &p : parts)
    refs.push_back(&p);
  for (Bytes *b : {&list, &tableBytes, &contextBytes, &keys, &values})
    refs.push_back(b);
  std::vector<int64_t> scalars(DSV3_SCALAR_COUNT, 0);
  scalars[DSV3_SCALAR_KBLOCKS] = count;
  scalars[DSV3_SCALAR_KV_LAYER_STRIDE] = kPoolPages * kPage * kLanes * 2;
  kernel->run(refs, scalars, seed);

  auto bits = [](const Bytes &b, int64_t i) { return uint16_t(b[size_t(2 * i)] | b[size_t(2 * i + 1)] << 8); };
  int64_t wrong = 0, touched = 0;
  for (int64_t b = 0; b < c.capacity; ++b)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t r = 0; r < kPage; ++r) {
        int64_t row = (b * kHeads + h) * kPage + r;
        auto expect = [&](const Bytes &out, int64_t index, double want, double size) {
          if (b >= count)
            touched += bits(out, index) != 0x7f7f;
          else
            wrong += !(std::fabs(double(bf16ToFloat(bits(out, index))) - want) <= size * 1e-6 + std::fabs(want) / 256);
        };
        const float *x = nullptr;
        if (b < count) {
          int64_t s = blocks[size_t(2 * b)], place = blocks[size_t(2 * b + 1)];
          if (place * kPage + r < contexts[size_t(s)])
            x = &cache.values[size_t(((kPoolPages + table[size_t(s * kTablePages + place)]) * kPage + r) * kLanes)];
        }
        auto product = [&](const Weight &w, const Bytes &out, int64_t pitch) {
          for (int64_t n = 0; n < w.n; ++n) {
            double sum = 0, size = 0;
            for (int64_t k = 0; x && k < kLatent; ++k)
              sum += double(x[k]) * w.value(h, n, k), size += std::fabs(double(x[k]) * w.value(h, n, k));
            expect(out, row * pitch + n, sum, size);
          }
        };
        product(wk, keys, c.nope + kRope);
        product(wv, values, c.values);
        for (int64_t i = 0; i < kRope; ++i)
          expect(keys, row * (c.nope + kRope) + c.nope + i, x ? double(x[kLatent + i]) : 0, 0);
      }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(touched, 0) << "blocks behind the list";
}

} // namespace

TEST(KvExpand, Values) {
  for (uint64_t seed : {0, 1, 2})
    check({}, seed);
}

TEST(KvExpand, OneBlock) { check({.capacity = 1, .contexts = {33}}); }

TEST(KvExpand, OddWidths) { check({.nope = 72, .values = 40}); }

TEST(KvExpand, BlockScaled) {
  check({.fp8 = true});
  check({.nope = 192, .values = 64, .fp8 = true});
}

} // namespace dsv3::codegen::test
