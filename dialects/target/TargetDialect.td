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
    in `codegen/targets/`; the rows hold capabilities (vector width, bf16 dot products, tiles), which is what
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

#endif
