// The host program: when and where.
#ifndef DSV3_DIALECTS_RT
#define DSV3_DIALECTS_RT

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/DialectBase.td"

def Rt_Dialect : Dialect {
  let name = "rt";
  let cppNamespace = "::dsv3::rt";
  let summary = "The host program: buffers in static pools and launches in order";
  let description = [{
    What `schedule` produces and `emit` translates to the tables and program functions of
    runtime/core/Abi.h. Every address is a pool and a constant offset; programs are straight lines.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::dsv3::target::TargetDialect"];
  let extraClassDeclaration = "void registerAttributes();";
}

def Rt_BufType : TypeDef<Rt_Dialect, "Buf"> {
  let mnemonic = "buf";
  let summary = "An address in a pool";
}

#endif
