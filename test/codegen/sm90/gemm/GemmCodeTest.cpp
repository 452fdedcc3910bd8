// Products of DeepSeek-V3 through ptxas: no spill, no serialised wgmma (emitDevice refuses them), and the shared memory that
// the launch asks for is the kernel's.
#include "test/codegen/sm90/gemm/GemmHarness.h"

using namespace mlir;

namespace dsv3::codegen::test {
namespace {

std::string tensor(std::vector<int64_t> shape, const std::string &elem, const std::string &scheme = "") {
  std::string text = "tensor<";
  for (int64_t d : shape)
    text += std::to_string(d) + "x";
  return text + elem + (scheme.empty() ? ">" : ", #dsv3.blocked<" + scheme + ", f32>>");
}

constexpr const char *kFp8Weight = "f8E4M3FN, 128x128", *kFp8Rows = "f8E4M3FN, 1x128", *kInt8 = "i8, 1x?", *kInt8Rows = "i8, 1x128";

void check(const std::string &args, const std::string &body, const std::string &phase, int64_t tokens) {
  auto kernel = LaunchKernel::compile(args, body, "phase = \"" + phase + "\", tokens = " + std::to_string(tokens) + " : i64, seqs = 8 : i64");
  SCOPED_TRACE(phase + " " + std::to_string(tokens));
  expectAssembles(kernel.get());
}

struct Product {
  int64_t n, k;
  bool gated = false;
  std::string w = "", x = ""; ///< schemes
  std::string out = "bf16";
};

void check(const Product &p, const std::string &phase, int64_t tokens) {
  std::string x = tensor({tokens, p.k}, "bf16", p.x), w = tensor({p.n, p.k}, "bf16", p.w), y = tensor({tokens, p.n}, p.out);
  std::string body = "%o = kernel.empty : " + y + "\n%y = kernel.";
  if (p.gated)
    check("%x: " + x + ", %a: " + w + ", %b: " + w, body + "gated_gemm ins(%x, %a, %b : " + x + ", " + w + ", " + w + ") outs(%o : " + y + ") via f32 site \"s\"", phase, tokens);
  else
    check("%x: " + x + ", %a: " + w, body + "gemm ins(%x, %a : " + x + ", " + w + ") outs(%o : " + y + ") site \"s\"", phase, tokens);
}

void checkHeads(int64_t heads, int64_t n, int64_t k, bool fp8, int64_t tokens) {
  std::string x = tensor({tokens, heads, k}, "bf16"), w = tensor({heads, n, k}, "bf16", fp8 ? kFp8Weight : ""), y = tensor({tokens, heads, n}, "bf16");
  check("%x: " + x + ", %a: " + w, "%o = kernel.empty : " + y + "\n%y = kernel.batched_gemm ins(%x, %a : " + x + ", " + w + ") outs(%o : " + y + ") site \"s\"",
        "decode", tokens);
}

} // namespace

TEST(GemmCode, Prefill) {
  check({.n = 24576, .k = 1536}, "prefill", 4096);
  check({.n = 576, .k = 7168}, "prefill", 4096);
  check({.n = 2112, .k = 7168}, "prefill", 512);
  check({.n = 256, .k = 7168, .out = "f32"}, "prefill", 512);
  for (int64_t tokens : {512, 4096})
    check({.n = 7168, .k = 2048}, "prefill", tokens); // 224 columns, and 256 whose results are stored later
  check({.n = 18432, .k = 7168, .gated = true}, "prefill", 4096);
}

TEST(GemmCode, Decode) {
  for (int64_t tokens : {1, 16, 64, 128, 256}) {
    check({.n = 2112, .k = 7168}, "decode", tokens);
    check({.n = 24576, .k = 1536}, "decode", tokens);
    check({.n = 2048, .k = 7168, .gated = true}, "decode", tokens);
  }
  check({.n = 256, .k = 7168, .out = "f32"}, "decode", 32);
}

TEST(GemmCode, BlockScaled) {
  for (int64_t tokens : {1, 64, 128}) {
    check({.n = 2112, .k = 7168, .w = kFp8Weight}, "decode", tokens);
    check({.n = 2048, .k = 7168, .gated = true, .w = kFp8Weight}, "decode", tokens);
  }
  check({.n = 18432, .k = 7168, .gated = true, .w = kFp8Weight}, "decode", 1);
  check({.n = 24576, .k = 1536, .w = kFp8Weight}, "prefill", 4096);
  check({.n = 18432, .k = 7168, .gated = true, .w = kFp8Weight}, "prefill", 4096);
}

TEST(GemmCode, BothScaled) {
  for (int64_t tokens : {1, 64, 128}) {
    check({.n = 2112, .k = 7168, .w = kFp8Weight, .x = kFp8Rows}, "decode", tokens);
    check({.n = 2048, .k = 7168, .gated = true, .w = kFp8Weight, .x = kFp8Rows}, "decode", tokens);
  }
  check({.n = 24576, .k = 1536, .w = kFp8Weight, .x = kFp8Rows}, "prefill", 4096);
  check({.n = 18432, .k = 7168, .gated = true, .w = kFp8Weight, .x = kFp8Rows}, "prefill", 4096);
}

TEST(GemmCode, Int8) {
  for (int64_t tokens : {1, 64, 128, 256}) {
    check({.n = 1536, .k = 7168, .w = kInt8, .x = kInt8}, "decode", tokens);
    check({.n = 24576, .k = 1536, .w = kInt8, .x = kInt8}, "decode", tokens);
    check({.n = 2048, .k = 7168, .gated = true, .w = kInt8, .x = kInt8}, "decode", tokens);
    check({.n = 7168, .k = 2048, .w = kInt8, .x = kInt8Rows}, "decode", tokens);
  }
  for (int64_t tokens : {512, 4096}) {
    check({.n = 576, .k = 7168, .w = kInt8, .x = kInt8}, "prefill", tokens);
    check({.n = 24576, .k = 1536, .w = kInt8, .x = kInt8}, "prefill", tokens); // of 4096 with narrow tiles
    check({.n = 32768, .k = 512, .w = kInt8, .x = kInt8}, "prefill", tokens);
    check({.n = 18432, .k = 7168, .gated = true, .w = kInt8, .x = kInt8}, "prefill", tokens);
    check({.n = 7168, .k = 2048, .w = kInt8, .x = kInt8Rows}, "prefill", tokens);
  }
}

TEST(GemmCode, Heads) {
  for (int64_t tokens : {1, 32, 128}) {
    checkHeads(128, 512, 128, false, tokens);
    checkHeads(16, 128, 512, false, tokens);
  }
  checkHeads(128, 512, 128, true, 32);
}

TEST(GemmCode, KvExpand) {
  for (bool fp8 : {false, true}) {
    std::string kv = "!dsv3.kv<layers = 2, page = 64, latent = 512, rope = 64, bf16>", w = tensor({128, 128, 512}, "bf16", fp8 ? kFp8Weight : "");
    std::string keys = tensor({72, 128, 64, 192}, "bf16"), values = tensor({72, 128, 64, 128}, "bf16");
    check("%kv: " + kv + ", %wk: " + w + ", %wv: " + w + ", %seq: !dsv3.seq",
          "%k = kernel.empty : " + keys + "\n%v = kernel.empty : " + values + "\n%a, %b = kernel.kv_expand ins(%kv[1], %wk, %wv, %seq : " + kv + ", " + w +
              ", " + w + ") outs(%k, %v : " + keys + ", " + values + ") key_rows site \"s\" -> " + keys + ", " + values,
          "prefill", 4096);
  }
}

} // namespace dsv3::codegen::test
