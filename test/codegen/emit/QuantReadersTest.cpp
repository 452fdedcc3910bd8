// Each packing of codes, written out bit by bit here, and what readers refuse.
#include "test/codegen/emit/Recipes.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <functional>

namespace dsv3::test {

using testing::HasSubstr;

namespace {
constexpr int64_t N = 16, K = 24, G = 3; // groups of 10: the last has 4
int64_t groupOf(int64_t k) { return k / 10; }
int codeAt(int64_t n, int64_t k) { return int((n * 5 + k * 3) % 16) - 8; } // every code, -8 too
int zeroAt(int64_t n, int64_t g) { return int((n + 4 * g) % 15) - 7; }
float scaleAt(int64_t n, int64_t g) { return float(1 + n % 4) * std::ldexp(1.0f, int(g) - 3); }
float valueAt(int64_t n, int64_t k, bool zeros = true) {
  return float(codeAt(n, k) - (zeros ? zeroAt(n, groupOf(k)) : 0)) * scaleAt(n, groupOf(k));
}
constexpr int kAwqColumn[8] = {0, 2, 4, 6, 1, 3, 5, 7}; ///< the row that nibble i of a word holds

template <typename T> void put(TestCheckpoint &c, const std::string &name, DType dtype, std::vector<int64_t> shape, const std::vector<T> &values) {
  c.tensors[name] = {dtype, std::move(shape), std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T))};
}

/// Words of 8 nibbles: nibble i of word w is `code(w, i)`, which is from 0 to 15.
std::vector<uint32_t> words(int64_t count, const std::function<int(int64_t, int64_t)> &code) {
  std::vector<uint32_t> out(static_cast<size_t>(count), 0);
  for (int64_t w = 0; w < count; ++w)
    for (int64_t i = 0; i < 8; ++i)
      out[size_t(w)] |= uint32_t(code(w, i)) << (4 * i);
  return out;
}
} // namespace

class QuantReaders : public Recipes {
protected:
  /// Scales as [N, G], or [G, N].
  void scales(const std::string &name, bool transposed = false) {
    content.add(name, DType::F16, transposed ? std::vector<int64_t>{G, N} : std::vector<int64_t>{N, G});
    for (int64_t n = 0; n < N; ++n)
      for (int64_t g = 0; g < G; ++g)
        content.set(name, size_t(transposed ? g * N + n : n * G + g), scaleAt(n, g));
  }
  void awq() {
    put(content, "qweight", DType::I32, {K, N / 8}, words(K * N / 8, [](int64_t w, int64_t i) { return codeAt(w % 2 * 8 + kAwqColumn[i], w / 2) + 8; }));
    put(content, "qzeros", DType::I32, {G, N / 8}, words(G * N / 8, [](int64_t w, int64_t i) { return zeroAt(w % 2 * 8 + kAwqColumn[i], w / 2) + 8; }));
    scales("scales", true);
  }
  void gptq(int less) {
    put(content, "qweight", DType::I32, {K / 8, N}, words(K / 8 * N, [](int64_t w, int64_t i) { return codeAt(w % N, w / N * 8 + i) + 8; }));
    put(content, "qzeros", DType::I32, {G, N / 8}, words(G * N / 8, [=](int64_t w, int64_t i) { return zeroAt(w % 2 * 8 + i, w / 2) + 8 - less; }));
    scales("scales", true);
  }

  /// A weight of `tensors` in `scheme`, and its plain copy.
  void weight(const std::string &scheme, const std::string &source, int64_t n = N, int64_t k = K) {
    std::string shape = std::to_string(n) + "x" + std::to_string(k) + "xf32";
    open("dsv3.weight @w : tensor<" + shape + ", #dsv3.blocked<" + scheme + ">> from #dsv3.file<" + source + ">\n" +
         "dsv3.weight @plain : tensor<" + shape + "> from #dsv3.ref<@w>");
  }

  void expectAll(bool zeros) {
    WeightValues w = load("w");
    std::vector<float> plain = plainValues();
    ASSERT_EQ(w.codes.size(), size_t(N * K));
    ASSERT_EQ(w.scales.size(), size_t(N * G));
    ASSERT_EQ(w.zeros.size(), zeros ? size_t(N * G) : 0);
    for (int64_t n = 0; n < N; ++n)
      for (int64_t k = 0; k < K; ++k) {
        EXPECT_EQ(int8_t(w.codes[size_t(n * K + k)]), codeAt(n, k)) << n << " " << k;
        EXPECT_EQ(w.scales[size_t(n * G + groupOf(k))], scaleAt(n, groupOf(k)));
        if (zeros)
          EXPECT_EQ(w.zeros[size_t(n * G + groupOf(k))], zeroAt(n, groupOf(k)));
        ASSERT_EQ(plain[size_t(n * K + k)], valueAt(n, k, zeros)) << n << " " << k;
      }
  }
  /// The values of the plain copy, all of them, or zeros after a failure.
  std::vector<float> plainValues(int64_t n = N, int64_t k = K) {
    std::vector<float> values = load("plain").values;
    EXPECT_EQ(values.size(), size_t(n * k));
    values.resize(size_t(n * k));
    return values;
  }
  std::string why(const std::string &symbol = "plain") {
    Error e = refused(symbol);
    EXPECT_EQ(e.code, ExitCode::BadCheckpoint) << e.message;
    return e.message;
  }
};

TEST_F(QuantReaders, Awq) {
  awq();
  weight("i4, 1x10, f16, zero i8", R"("qweight", scale "scales", zero "qzeros", packed awq)");
  expectAll(true);
}

TEST_F(QuantReaders, GptqStoresZeroPointsLessOne) {
  gptq(1);
  weight("i4, 1x10, f16, zero i8", R"("qweight", scale "scales", zero "qzeros", packed gptq)");
  expectAll(true);
}

TEST_F(QuantReaders, GptqV2StoresZeroPointsAsTheyAre) {
  gptq(0);
  weight("i4, 1x10, f16, zero i8", R"("qweight", scale "scales", zero "qzeros", packed gptq_v2)");
  expectAll(true);
}

TEST_F(QuantReaders, GroupsMayBePermuted) {
  gptq(0);
  std::vector<int32_t> index;
  for (int64_t k = 0; k < K; ++k)
    index.push_back(int32_t((k * 7) % G));
  put(content, "g_idx", DType::I32, {K}, index);
  weight("i4, 1x10, f16, zero i8, indexed", R"("qweight", scale "scales", zero "qzeros", index "g_idx", packed gptq_v2)");
  std::vector<float> plain = plainValues();
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k) {
      int64_t g = index[size_t(k)];
      ASSERT_EQ(plain[size_t(n * K + k)], float(codeAt(n, k) - zeroAt(n, g)) * scaleAt(n, g)) << n << " " << k;
    }
  index[5] = G;
  put(content, "g_idx", DType::I32, {K}, index);
  weight("i4, 1x10, f16, zero i8, indexed", R"("qweight", scale "scales", zero "qzeros", index "g_idx", packed gptq_v2)");
  EXPECT_EQ(why(), "g_idx: element 5 is 3, expected a group from 0 to 2");
}

TEST_F(QuantReaders, WordsOfCompressedTensors) {
  put(content, "p", DType::I32, {N, K / 8}, words(N * K / 8, [](int64_t w, int64_t i) { return codeAt(w / 3, w % 3 * 8 + i) + 8; }));
  put(content, "z", DType::I32, {N / 8, G}, words(N / 8 * G, [](int64_t w, int64_t i) { return zeroAt(w / G * 8 + i, w % G) + 8; }));
  scales("s");
  weight("i4, 1x10, f16, zero i8", R"("p", scale "s", zero "z", packed words)");
  expectAll(true);
  weight("i4, 1x10, f16", R"("p", scale "s", packed words)");
  expectAll(false);
}

TEST_F(QuantReaders, WordsWithOddKAndRowsThatFillNoWord) {
  // 3 rows of 11: two words a row, the second with 3 codes; zero points of 3 rows in one word.
  put(content, "p", DType::I32, {3, 2}, words(6, [](int64_t w, int64_t i) { return w % 2 * 8 + i < 11 ? codeAt(w / 2, w % 2 * 8 + i) + 8 : 15; }));
  put(content, "z", DType::I32, {1, 2}, words(2, [](int64_t w, int64_t i) { return i < 3 ? zeroAt(i, w) + 8 : 0; }));
  content.add("s", DType::F32, {3, 2});
  for (int64_t n = 0; n < 3; ++n)
    for (int64_t g = 0; g < 2; ++g)
      content.set("s", size_t(n * 2 + g), scaleAt(n, g));
  weight("i4, 1x10, f32, zero i8", R"("p", scale "s", zero "z", packed words)", 3, 11);
  std::vector<float> plain = plainValues(3, 11);
  for (int64_t n = 0; n < 3; ++n)
    for (int64_t k = 0; k < 11; ++k)
      EXPECT_EQ(plain[size_t(n * 11 + k)], valueAt(n, k));
}

TEST_F(QuantReaders, SlimQuantsScaleHoldsOneSixteenth) {
  std::vector<int8_t> bytes;
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; k += 2)
      bytes.push_back(int8_t(uint8_t(codeAt(n, k) & 15) << 4 | uint8_t(codeAt(n, k + 1) & 15)));
  put(content, "b", DType::I8, {N, K / 2}, bytes);
  content.add("s", DType::F32, {N, 1});
  for (int64_t n = 0; n < N; ++n)
    content.set("s", size_t(n), scaleAt(n, 0) / 16);
  weight("i4, 1x?, f32", R"("b", scale "s", packed high_first)");
  std::vector<float> plain = plainValues();
  WeightValues w = load("w");
  ASSERT_EQ(w.codes.size(), size_t(N * K));
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k) {
      EXPECT_EQ(int8_t(w.codes[size_t(n * K + k)]), codeAt(n, k));
      EXPECT_EQ(plain[size_t(n * K + k)], float(codeAt(n, k)) * scaleAt(n, 0)) << n << " " << k;
    }
}

TEST_F(QuantReaders, Int8PerChannelWithOddK) {
  std::vector<int8_t> codes;
  for (int64_t i = 0; i < 5 * 7; ++i)
    codes.push_back(int8_t(i * 29 - 128));
  put(content, "c", DType::I8, {5, 7}, codes);
  content.add("s", DType::BF16, {5, 1});
  weight("i8, 1x?, bf16", R"("c", scale "s")", 5, 7);
  std::vector<float> plain = plainValues(5, 7);
  for (int64_t i = 0; i < 35; ++i)
    EXPECT_EQ(plain[size_t(i)], float(codes[size_t(i)]) * at("s", i / 7));
}

TEST_F(QuantReaders, Fp8PerTensorWithAScalarScale) {
  content.add("one", DType::F32, {});
  content.set("one", 0, 0.75f);
  open(R"(
    dsv3.weight @w : tensor<10x20xf32, #dsv3.blocked<f8E4M3FN, ?x?, f32>> from #dsv3.file<"a", scale "one">
    dsv3.weight @plain : tensor<10x20xf32> from #dsv3.ref<@w>)");
  std::vector<float> plain = plainValues(10, 20);
  for (int64_t i = 0; i < 200; ++i)
    EXPECT_EQ(plain[size_t(i)], at("a", i) * 0.75f);
  EXPECT_EQ(load("w").scales, std::vector<float>{0.75f});
}

TEST_F(QuantReaders, ScalesMayLieInAnotherShard) {
  const std::map<std::string, TestTensor> all = content.tensors;
  open(R"(
    dsv3.weight @a : tensor<10x20xf32, #dsv3.blocked<f8E4M3FN, 4x8, f32>> from #dsv3.file<"a", scale "a_scale">
    dsv3.weight @e : tensor<3x6x20xf32, #dsv3.blocked<f8E4M3FN, 4x8, f32>> from #dsv3.stack<0 to 3, #dsv3.file<"e.{}", scale "e.{}_scale">>)");
  WeightValues a = load("a"), e = load("e");
  TestCheckpoint first, second;
  Json map = Json::object();
  for (const auto &[name, tensor] : all) {
    bool scales = name.find("_scale") != name.npos;
    (scales ? first : second).tensors[name] = tensor;
    map[name] = scales ? "1.safetensors" : "2.safetensors";
  }
  std::filesystem::remove(dir / "model.safetensors");
  TestCheckpoint::writeShard(dir / "1.safetensors", first.tensors);
  TestCheckpoint::writeShard(dir / "2.safetensors", second.tensors);
  dir.write("model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  auto opened = hf::Checkpoint::open(dir.str());
  ASSERT_TRUE(bool(opened)) << opened.error().message;
  checkpoint.emplace(std::move(*opened));
  data.emplace(*module, &*checkpoint);
  EXPECT_EQ(load("a").scales, a.scales);
  EXPECT_EQ(load("e").scales, e.scales);
  EXPECT_EQ(load("e").codes, e.codes);
}

//===-- Refusals ----------------------------------------------------------===//

TEST_F(QuantReaders, AnAllZeroRowMayHaveScaleZero) {
  put(content, "c", DType::I8, {2, 3}, std::vector<int8_t>{0, 0, 0, 1, 2, 3});
  content.add("s", DType::F32, {2, 1});
  content.set("s", 0, 0);
  weight("i8, 1x?, f32", R"("c", scale "s")", 2, 3);
  std::vector<float> plain = plainValues(2, 3);
  EXPECT_EQ(plain[1], 0);
  EXPECT_NE(plain[4], 0);
  content.tensors["c"].data[2] = 5; // a code that says something, under a scale of 0
  weight("i8, 1x?, f32", R"("c", scale "s")", 2, 3);
  EXPECT_EQ(why(), "s: expected a scale above 0 where codes are not 0, got 0 at element 0");
}

TEST_F(QuantReaders, AScaleBelowZeroTurnsItsGroup) {
  awq();
  weight("i4, 1x10, f16, zero i8", R"("qweight", scale "scales", zero "qzeros", packed awq)");
  std::vector<float> before = plainValues();
  content.set("scales", 17, -scaleAt(17 % N, 17 / N));
  weight("i4, 1x10, f16, zero i8", R"("qweight", scale "scales", zero "qzeros", packed awq)");
  std::vector<float> after = plainValues();
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k)
      EXPECT_EQ(after[size_t(n * K + k)], (n == 17 % N && groupOf(k) == 17 / N ? -1 : 1) * before[size_t(n * K + k)]) << n << " " << k;
}

TEST_F(QuantReaders, ScalesAreFinite) {
  awq();
  for (float bad : {INFINITY, float(NAN)}) {
    content.set("scales", 17, bad);
    weight("i4, 1x10, f16, zero i8", R"("qweight", scale "scales", zero "qzeros", packed awq)");
    EXPECT_THAT(why(), HasSubstr("scales: expected finite scales, got")) << bad;
    EXPECT_THAT(why(), HasSubstr("at element 17"));
  }
}

TEST_F(QuantReaders, AZeroPointThatGptqCannotHold) {
  gptq(1);
  content.tensors["qzeros"].data[2] |= '\x0f'; // nibble 4 of word 0
  weight("i4, 1x10, f16, zero i8", R"("qweight", scale "scales", zero "qzeros", packed gptq)");
  EXPECT_EQ(why(), "qzeros: expected zero points up to 14 in checkpoint_format gptq, got 15 at element 0");
  weight("i4, 1x10, f16, zero i8", R"("qweight", scale "scales", zero "qzeros", packed gptq_v2)");
  plainValues();
}

TEST_F(QuantReaders, Int4InBytesStaysInRange) {
  put(content, "c", DType::I8, {1, 3}, std::vector<int8_t>{-8, 7, 8});
  content.add("s", DType::F32, {1, 1});
  weight("i4, 1x?, f32", R"("c", scale "s")", 1, 3);
  EXPECT_EQ(why(), "c: expected int4 codes from -8 to 7, got 8 at element 2");
}

TEST_F(QuantReaders, ATransposedGridIsRefused) {
  put(content, "p", DType::I32, {N, K / 8}, words(N * K / 8, [](int64_t, int64_t) { return 0; }));
  scales("s", true);
  weight("i4, 1x10, f16", R"("p", scale "s", packed words)");
  EXPECT_EQ(why(), "s: expected shape [16, 3] (one scale per 1x10 block of [16, 24]), got [3, 16]");
}

TEST_F(QuantReaders, PackedWordsUnderASliceAreOurFault) {
  put(content, "p", DType::I32, {N, K / 8}, words(N * K / 8, [](int64_t, int64_t) { return 8; }));
  scales("s");
  open(R"(dsv3.weight @w : tensor<4x24xf32, #dsv3.blocked<i4, 1x10, f16>> from
          #dsv3.slice<0, 0, 4, #dsv3.file<"p", scale "s", packed words>>)");
  EXPECT_EQ(refused("w").code, ExitCode::Internal);
}

} // namespace dsv3::test
