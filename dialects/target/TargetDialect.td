// Targets as attributes: what a device can do, never which one it is.
#ifndef DSV3_DIALECTS_TARGET
#define DSV3_DIALECTS_TARGET

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/DialectBase.td"

def Target_Dialect : Dialect {
  let name = "target";
  let cppNamespace = "::dsv3::target";
  let summary = "Devices as lists of capabilities";
  let description = [{
    What a module is compiled for is its attribute `dsv3.target`. It names an architecture and rows of a table
    in `codegen/targets/`; the rows hold capabilities (vector width, bf16 dot products, tiles, bulk copies), which is what
    emitters ask for. Adding a device means adding rows, and no pass compares names.
  }];
  let useDefaultAttributePrinterParser = 1;
}

def Target_CpuAttr : AttrDef<Target_Dialect, "Cpu"> {
  let mnemonic = "cpu";
  let summary = "A CPU architecture and the code variants compiled for it";
  let description = [{
    `variants` are names of rows of the CPU variant table; all of them read one packed copy of the
    weights. Example: `#target.cpu<"x86-64", variants = ["avx2", "avx512"]>`.
  }];
  let parameters = (ins StringRefParameter<"architecture">:$arch,
                        ArrayRefParameter<"::mlir::StringAttr", "code variants">:$variants);
  let assemblyFormat = "`<` $arch `,` `variants` `=` `[` $variants `]` `>`";
  let genVerifyDecl = 1;
}

def Target_GpuAttr : AttrDef<Target_Dialect, "Gpu"> {
  let mnemonic = "gpu";
  let summary = "A GPU: sizes that kernels are built for, and what its instructions can do";
  let description = [{
    `sm_count` multiprocessors (grids of persistent kernels are this large; another number runs, slower), `smem` bytes of
    shared memory that a block may use, `has` capabilities: "tma" (bulk tensor copies), "wgmma" (asynchronous products of a
    warpgroup), "setmaxnreg" (registers moved between warpgroups), "cluster" (blocks that share memory), "fp8" (e4m3
    and e5m2 products). Example:
    `#target.gpu<"sm_90a", sm_count = 132, smem = 232448, has = ["tma", "wgmma", "setmaxnreg", "cluster", "fp8"]>`.
  }];
  let parameters = (ins StringRefParameter<"architecture">:$arch, "int64_t":$smCount, "int64_t":$smem,
                        ArrayRefParameter<"::mlir::StringAttr", "capabilities">:$has);
  let assemblyFormat = "`<` $arch `,` `sm_count` `=` $smCount `,` `smem` `=` $smem `,` `has` `=` `[` $has `]` `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool can(::llvm::StringRef capability) const {
      return ::llvm::any_of(getHas(), [&](::mlir::StringAttr a) { return a.getValue() == capability; });
    }
  }];
}

#endif
