// Cases as compile-model would describe them, without a compiler.
#pragma once

#include "tools/dsv3-bench/Data.h"

#include <gtest/gtest.h>

namespace dsv3::bench {

inline Buffer plain(const std::string &name, Role role, DType elem, std::vector<int64_t> shape) {
  Buffer b;
  b.name = name;
  b.role = role;
  b.elem = elem;
  b.shape = std::move(shape);
  b.lanes = b.shape.back();
  b.bytes = int64_t(byteSize(elem));
  for (int64_t d : b.shape)
    b.bytes *= d;
  return b;
}

/// A weight of bf16 or f32 in this layout.
inline Buffer weight(const std::string &name, DType elem, std::vector<int64_t> shape, const std::string &layout, int64_t padded = 0) {
  Buffer b = plain(name, Role::Weight, elem, std::move(shape));
  b.bytes = std::max(b.bytes, padded);
  b.parts = {{"data", elem, 0, b.bytes, 0, layout}};
  return b;
}

/// FP8 with a scale per 128 x 128.
inline Buffer fp8Weight(const std::string &name, int64_t n, int64_t k) {
  Buffer b = plain(name, Role::Weight, DType::BF16, {n, k});
  int64_t data = (n * k + 255) / 256 * 256, scales = ((n + 127) / 128) * ((k + 127) / 128) * 4;
  b.bytes = data + scales;
  b.block = {128, 128};
  b.parts = {{"data", DType::F8E4M3, 0, n * k, 0, "(n, k) -> [n, k]"}, {"scale", DType::F32, data, scales, 0, "(n, k) -> [n/128, k/128]"}};
  return b;
}

/// Rows of FP8 with a scale per 128 lanes.
inline Buffer fp8Rows(const std::string &name, Role role, int64_t rows, int64_t k) {
  Buffer b = plain(name, role, DType::BF16, {rows, k});
  int64_t data = (rows * k + 255) / 256 * 256, scales = rows * ((k + 127) / 128) * 4;
  b.bytes = data + scales;
  b.block = {1, 128};
  b.parts = {{"data", DType::F8E4M3, 0, rows * k, 0, "(n, k) -> [n, k]"}, {"scale", DType::F32, data, scales, 0, "(n, k) -> [n, k/128]"}};
  return b;
}

/// A pack around one case, with a step buffer for 16 tokens in 8 sequences of 4 pages.
inline Pack packOf(Case c) {
  Pack pack;
  pack.target = "sm_90a";
  pack.tokens = 16;
  pack.seqs = 8;
  pack.pages = 4;
  int64_t counts[] = {16, 16, 16, 16, 16, 9, 8, 32, 8, 4 * 16, 2 * 64, 9, 8 * DSV3_SAMPLING_WORDS};
  static_assert(std::size(counts) == DSV3_FIELD_COUNT, "a count for every field");
  for (int64_t f = 0; f < DSV3_FIELD_COUNT; ++f) {
    DType elem = f == DSV3_FIELD_TOKEN_SLOT ? DType::I64 : DType::I32;
    pack.fields.push_back({f, elem, pack.stepBytes, counts[f]});
    pack.stepBytes += (counts[f] * 8 + 63) / 64 * 64;
  }
  Launch l;
  l.kernel = "k";
  l.op = "kernel." + c.op;
  l.threads = 128;
  c.launches.push_back(l);
  pack.kernels.push_back({"k", 32, 0});
  pack.cases.push_back(std::move(c));
  return pack;
}

inline CaseData dataOf(const Pack &pack, int64_t sets = 1) {
  Result<CaseData> data = CaseData::make(pack, pack.cases[0], sets);
  EXPECT_TRUE(data) << data.error().message;
  return std::move(*data);
}

inline Case gemmCase(Json shape) {
  Case c;
  c.name = c.op = "gemm";
  c.shape = std::move(shape);
  c.shape["op"] = "gemm";
  int64_t m = c.shape["m"], n = c.shape["n"], k = c.shape["k"];
  c.buffers = {plain("x", Role::Input, DType::BF16, {m, k}), weight("w", DType::BF16, {n, k}, "(n, k) -> [n/8, k, n%8] pad n:8", (n + 7) / 8 * 8 * k * 2),
               plain("out", Role::Output, DType::BF16, {m, n})};
  return c;
}

} // namespace dsv3::bench
