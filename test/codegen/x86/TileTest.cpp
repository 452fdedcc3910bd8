// What the variant with bf16 tiles is made of. Whether it is right, the other tests say.
#include "test/codegen/x86/Harness.h"

#include "runtime/engine/CpuFeatures.h"

#include "llvm-c/Disassembler.h"
#include "llvm-c/Target.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

#include <map>

namespace dsv3::codegen::test {
namespace {

const CpuVariant &tileVariant() {
  for (const CpuVariant &v : cpuVariants())
    if (v.bf16Tile)
      return v;
  llvm_unreachable("no variant has tiles");
}

/// Instructions of kernel @k by mnemonic; those that move a tile to or from the stack are "spill".
std::map<std::string, int> instructions(const std::string &object) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86Disassembler();
  std::map<std::string, int> counts;
  auto file = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "kernel"));
  if (!file) {
    ADD_FAILURE() << llvm::toString(file.takeError());
    return counts;
  }
  LLVMDisasmContextRef context =
      LLVMCreateDisasmCPUFeatures("x86_64-unknown-linux-gnu", "sapphirerapids", "", nullptr, 0, nullptr, nullptr);
  for (const llvm::object::ELFSymbolRef symbol : llvm::cast<llvm::object::ELFObjectFileBase>(**file).symbols()) {
    if (llvm::cantFail(symbol.getName()) != "k")
      continue;
    llvm::object::section_iterator section = llvm::cantFail(symbol.getSection());
    llvm::StringRef text = llvm::cantFail(section->getContents());
    std::string code = text.substr(llvm::cantFail(symbol.getAddress()) - section->getAddress(), symbol.getSize()).str();
    for (size_t at = 0; at < code.size();) {
      char line[128];
      size_t bytes = LLVMDisasmInstruction(context, reinterpret_cast<uint8_t *>(code.data()) + at, code.size() - at, at, line, sizeof line);
      if (!bytes) {
        ADD_FAILURE() << "byte " << at << " of the kernel is no instruction";
        break;
      }
      llvm::StringRef text = llvm::StringRef(line).ltrim(), mnemonic = text.split('\t').first;
      ++counts[mnemonic.str()];
      if ((mnemonic == "tileloadd" || mnemonic == "tilestored") && text.contains("(%rsp"))
        ++counts["spill"];
      at += bytes;
    }
  }
  LLVMDisasmDispose(context);
  return counts;
}

std::map<std::string, int> gemm(int64_t n, int64_t k, Elem x, const Weight &w, const CpuVariant &variant) {
  std::string xt = tensorText({160, k}, x), yt = tensorText({160, n}, Elem::F32);
  return instructions(Kernel::build("%x: " + xt + ", %w: " + w.type,
                                    "%o = kernel.empty : " + yt + "\n%r = kernel.gemm ins(%x, %w : " + xt + ", " + w.type + ") outs(%o : " + yt +
                                        ") site \"s\"",
                                    variant));
}

/// One configuration per call, released at the end, and every tile in its register.
void expectTiles(std::map<std::string, int> counts) {
  EXPECT_GT(counts["tdpbf16ps"], 0);
  EXPECT_EQ(counts["ldtilecfg"], 1);
  EXPECT_EQ(counts["tilerelease"], 1);
  EXPECT_GT(counts["tilestored"], 0);
  EXPECT_EQ(counts["spill"], 0);
}

TEST(Tiles, MultiplyBF16) {
  expectTiles(gemm(64, 1024, Elem::BF16, plainWeight({64, 1024}, Elem::BF16, 1), tileVariant()));
  expectTiles(gemm(40, 64, Elem::BF16, plainWeight({40, 64}, Elem::BF16, 1), tileVariant())); // three panels, one per tile
  expectTiles(gemm(64, 1101, Elem::BF16, plainWeight({64, 1101}, Elem::BF16, 1), tileVariant()));
  expectTiles(gemm(64, 3, Elem::BF16, plainWeight({64, 3}, Elem::BF16, 1), tileVariant()));
}

TEST(Tiles, MultiplyDecodedFP8) {
  expectTiles(gemm(64, 1100, Elem::BF16, fp8Weight({64, 1100}, Elem::BF16, 128, 128, 1), tileVariant()));
}

TEST(Tiles, MultiplyGatheredRows) {
  std::string w = tensorText({6, 48, 160}, Elem::BF16);
  expectTiles(instructions(Kernel::build("%x: tensor<160x160xbf16>, %g: " + w + ", %u: " + w + ", %f: tensor<7xi32>, %t: tensor<320xi32>",
                                         "%o = kernel.empty : tensor<320x48xbf16>\n%r = kernel.grouped_gated_gemm ins(%x, %g, %u, %f, %t : "
                                         "tensor<160x160xbf16>, " +
                                             w + ", " + w + ", tensor<7xi32>, tensor<320xi32>) outs(%o : tensor<320x48xbf16>) via bf16 site \"s\"",
                                         tileVariant())));
}

TEST(Tiles, LeaveFloat32Alone) {
  EXPECT_EQ(gemm(64, 96, Elem::F32, plainWeight({64, 96}, Elem::BF16, 1), tileVariant())["tdpbf16ps"], 0);
  EXPECT_EQ(gemm(64, 96, Elem::F32, plainWeight({64, 96}, Elem::F32, 1), tileVariant())["ldtilecfg"], 0);
}

TEST(Tiles, AreOfOneVariantOnly) {
  for (const CpuVariant &v : cpuVariants())
    if (!v.bf16Tile)
      EXPECT_EQ(gemm(64, 96, Elem::BF16, plainWeight({64, 96}, Elem::BF16, 1), v)["tdpbf16ps"], 0) << v.name.str();
}

/// Says whether the other tests of this program ran the processor's tiles or emulated ones.
TEST(Tiles, AreOfTheProcessor) {
  std::string name = tileVariant().name.str();
  if (Result<size_t> chosen = chooseVariant({name}, cpuFeatures(), name); !chosen)
    GTEST_SKIP() << chosen.error().message << ": tiles are emulated";
}

/// Emulated tiles or true ones: sums of even and of odd k, then both, then the accumulator.
TEST(Tiles, RoundAsTheManualSays) {
  if (!llvm::is_contained(usableVariants(), &tileVariant()))
    GTEST_SKIP() << "this cpu has no avx512bf16";
  // Even k: 1 + 2^-24 + 2^-24, where each addition alone falls to the even 1; odd k: 2^-24, twice. Then 1 + 2^-23.
  Weight w = plainWeight({16, 32}, Elem::BF16, 1);
  for (double &v : w.values.data)
    v = 1;
  Array<double> x({1, 32});
  x.data[0] = 1, x.data[2] = x.data[4] = x.data[1] = x.data[3] = 0x1p-24;
  auto kernel = Kernel::compile("%x: tensor<160x32xbf16>, %w: " + w.type,
                                "%o = kernel.empty : tensor<160x16xf32>\n%r = kernel.gemm ins(%x, %w : tensor<160x32xbf16>, " + w.type +
                                    ") outs(%o : tensor<160x16xf32>) site \"s\"");
  ASSERT_TRUE(kernel);
  Buffer in = Buffer::of(x, Elem::BF16);
  std::vector<Buffer> weights = kernel->pack(1, w);
  for (const Code &code : kernel->codes())
    if (code.variant == tileVariant().name) {
      Buffer out(16 * 4);
      kernel->run(code, Buffers().add(in).add(weights).add(out).list, {1});
      EXPECT_EQ(out.values({16}, Elem::F32).data, std::vector<double>(16, 1 + 0x1p-23));
    }
}

} // namespace
} // namespace dsv3::codegen::test
