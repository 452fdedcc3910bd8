// Source of formats and semantics: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, entries LDTILECFG,
// TILELOADD, TILESTORED, TILERELEASE and TDPBF16PS.
#include "test/codegen/x86/TileEmulator.h"

#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>

namespace dsv3::codegen::test {
namespace {

struct Tile {
  unsigned rows, bytes; ///< as configured; 0 without configuration
  uint8_t data[16][64];
};
thread_local Tile tiles[8];

/// A three-byte VEX instruction of map 0F38.
struct Instruction {
  unsigned prefix, opcode, mod, reg, rm, vvvv;
  uint8_t *address;  ///< base and displacement
  int64_t stride;    ///< index register, scaled
  unsigned bytes;    ///< 0: not one of ours
};

int64_t general(const ucontext_t &context, unsigned number) {
  static const int place[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return context.uc_mcontext.gregs[place[number]];
}

Instruction decode(const ucontext_t &context) {
  auto *code = reinterpret_cast<const uint8_t *>(context.uc_mcontext.gregs[REG_RIP]);
  Instruction i{};
  if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || code[2] & 0x84) // W and L are 0
    return i;
  unsigned extendIndex = code[1] & 0x40 ? 0 : 8, extendBase = code[1] & 0x20 ? 0 : 8;
  i.prefix = code[2] & 3, i.vvvv = (code[2] >> 3 & 15) ^ 15, i.opcode = code[3];
  i.mod = code[4] >> 6, i.reg = code[4] >> 3 & 7, i.rm = code[4] & 7;
  unsigned at = 5;
  if (i.mod != 3) {
    unsigned base = i.rm;
    if (i.rm == 4) {
      unsigned index = (code[at] >> 3 & 7) | extendIndex;
      if (index != 4)
        i.stride = int64_t(uint64_t(general(context, index)) << (code[at] >> 6));
      base = code[at++] & 7;
    }
    if (i.mod == 0 && base == 5) // no base: LLVM does not write this
      return i;
    int32_t displacement = 0;
    if (i.mod == 1)
      displacement = int8_t(code[at++]);
    else if (i.mod == 2) {
      std::memcpy(&displacement, code + at, 4);
      at += 4;
    }
    i.address = reinterpret_cast<uint8_t *>(general(context, base | extendBase) + displacement);
  }
  i.bytes = at;
  return i;
}

/// Palette 1: bytes per row from byte 16 on, 16 bits each, rows from byte 48 on.
bool configure(const uint8_t *config) {
  if (config[0] != 1)
    return false;
  std::memset(tiles, 0, sizeof tiles);
  for (int t = 0; t < 8; ++t) {
    uint16_t bytes;
    std::memcpy(&bytes, config + 16 + 2 * t, 2);
    tiles[t].bytes = bytes, tiles[t].rows = config[48 + t];
    if (bytes > 64 || tiles[t].rows > 16)
      return false;
  }
  return true;
}

/// Denormals count as zero, in operands and in results.
float flush(float v) { return std::fabs(v) < 0x1p-126f ? std::copysign(0.0f, v) : v; }

float bf16At(const uint8_t *data, unsigned index) {
  uint16_t half;
  std::memcpy(&half, data + 2 * index, 2);
  uint32_t bits = uint32_t(half) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return flush(value);
}

/// Even and odd k have a sum each, from zero; their sum is added to C. Every step rounds to nearest, ties to even.
__attribute__((target("avx2,fma"))) bool dotBF16(Tile &c, const Tile &a, const Tile &b) {
  unsigned n = c.bytes / 4, pairs = a.bytes / 4;
  if (!c.rows || c.rows != a.rows || b.rows != pairs || b.bytes != c.bytes)
    return false;
  for (unsigned m = 0; m < c.rows; ++m) {
    float sum[2][16] = {};
    for (unsigned p = 0; p < pairs; ++p)
      for (unsigned odd = 0; odd < 2; ++odd) {
        float x = bf16At(a.data[m], 2 * p + odd);
        for (unsigned j = 0; j < n; ++j)
          sum[odd][j] = flush(__builtin_fmaf(x, bf16At(b.data[p], 2 * j + odd), sum[odd][j]));
      }
    for (unsigned j = 0; j < n; ++j) {
      float old;
      std::memcpy(&old, c.data[m] + 4 * j, 4);
      old = flush(flush(old) + flush(sum[0][j] + sum[1][j]));
      std::memcpy(c.data[m] + 4 * j, &old, 4);
    }
  }
  return true;
}

bool carryOut(const Instruction &i) {
  bool memory = i.mod != 3;
  Tile &tile = tiles[i.reg];
  if (i.opcode == 0x49 && i.prefix == 0 && i.reg == 0) {
    if (memory)
      return configure(i.address);
    std::memset(tiles, 0, sizeof tiles);
    return true;
  }
  if (i.opcode == 0x4b && memory && i.rm == 4 && (i.prefix == 3 || i.prefix == 2) && tile.rows) {
    if (i.prefix == 3)
      std::memset(tile.data, 0, sizeof tile.data);
    for (unsigned r = 0; r < tile.rows; ++r) {
      uint8_t *row = i.address + int64_t(r) * i.stride;
      i.prefix == 3 ? std::memcpy(tile.data[r], row, tile.bytes) : std::memcpy(row, tile.data[r], tile.bytes);
    }
    return true;
  }
  return i.opcode == 0x5c && i.prefix == 2 && !memory && i.vvvv < 8 && dotBF16(tile, tiles[i.rm], tiles[i.vvvv]);
}

void onRefused(int, siginfo_t *, void *raw) {
  auto &context = *static_cast<ucontext_t *>(raw);
  Instruction i = decode(context);
  if (i.bytes && carryOut(i))
    context.uc_mcontext.gregs[REG_RIP] += i.bytes;
  else
    std::signal(SIGILL, SIG_DFL); // the instruction is tried again
}

} // namespace

void emulateTiles() {
  struct sigaction action {};
  action.sa_sigaction = onRefused;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGILL, &action, nullptr);
}

} // namespace dsv3::codegen::test
