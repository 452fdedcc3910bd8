// Code variants of the x86-64 target.
#include "codegen/targets/KernelEmitter.h"

using namespace mlir;

namespace dsv3::codegen {

// From the narrowest to the widest: the loader takes the last that the processor supports. Features are spelled
// out where the -mcpu level does not imply what kernels rely on.
static constexpr CpuVariant variants[] = {
    {"avx2", "x86-64-v3", "+f16c,+fma", 256, 16, /*bf16Dot=*/false, /*int8Dot=*/false, /*bf16Tile=*/false},
    {"avx512", "x86-64-v4", "+f16c,+fma", 512, 32, /*bf16Dot=*/false, /*int8Dot=*/false, /*bf16Tile=*/false},
    {"avx512-vnni-bf16", "x86-64-v4", "+f16c,+fma,+avx512vnni,+avx512bf16", 512, 32, /*bf16Dot=*/true, /*int8Dot=*/true, /*bf16Tile=*/false},
    {"amx", "x86-64-v4", "+f16c,+fma,+avx512vnni,+avx512bf16,+amx-tile,+amx-bf16,+amx-int8", 512, 32, /*bf16Dot=*/true, /*int8Dot=*/true,
     /*bf16Tile=*/true},
};

ArrayRef<CpuVariant> cpuVariants() { return variants; }

const CpuVariant *findCpuVariant(StringRef name) {
  const CpuVariant *found = llvm::find_if(variants, [&](const CpuVariant &v) { return v.name == name; });
  return found == std::end(variants) ? nullptr : found;
}

} // namespace dsv3::codegen
