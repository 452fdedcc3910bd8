// The model on tensors: what is computed.
#ifndef DSV3_DIALECTS_DSV3
#define DSV3_DIALECTS_DSV3

include "mlir/IR/DialectBase.td"

def Dsv3_Dialect : Dialect {
  let name = "dsv3";
  let cppNamespace = "::dsv3::ir";
  let summary = "DeepSeek-V3 on tensors: what is computed, independent of kernels and devices";
  let description = [{
    Two rules carry the dialect.

    *A rounding is a type.* Every value is rounded to its result's element type (and then to its
    encoding's storage), and nowhere else; inside an op arithmetic is float32. A fusion therefore
    never moves a rounding, and the interpreter gives the same bits before and after it.

    *A weight is a recipe.* `dsv3.weight` binds a symbol to a source expression over checkpoint
    tensors; no bytes are in the IR. A quantised tensor is one SSA value: its element type says what
    the numbers mean, its encoding (`QuantScheme`) how they are stored.

    A `?` dimension means tokens of the call (T) or routed rows (R = T x experts per token) until
    `specialize` makes every shape static. Every computing op carries `site`, a name that survives
    all passes: taps, numerics and messages use it.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::dsv3::target::TargetDialect"];
  let extraClassDeclaration = "void registerAttributes();";
}

#endif
