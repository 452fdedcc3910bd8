// One op per device kernel call.
#ifndef DSV3_DIALECTS_KERNEL
#define DSV3_DIALECTS_KERNEL

include "mlir/IR/DialectBase.td"

def Kernel_Dialect : Dialect {
  let name = "kernel";
  let cppNamespace = "::dsv3::kernel";
  let summary = "Which kernel computes what, and how it is configured";
  let description = [{
    One op is one device kernel call in destination-passing style: `ins` are read, `outs` are written
    and come back as results. What changes bits (`numerics`) is apart from what does not (`schedule`),
    so that two batch buckets of one op can be compared and tuning cannot change results.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::dsv3::ir::Dsv3Dialect"];
  let extraClassDeclaration = "void registerAttributes();";
}

#endif
