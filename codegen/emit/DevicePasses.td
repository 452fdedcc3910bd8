// Device code as passes, for people and tests.
#ifndef DSV3_DEVICE_PASSES
#define DSV3_DEVICE_PASSES

include "mlir/Pass/PassBase.td"

def PrintDeviceCodePass : Pass<"dsv3-print-device-code"> {
  let summary = "Print PTX and resources of the kernels of a module";
  let description = [{
    In: a gpu.module or builtin module with `nvvm.kernel` functions. Prints a line per kernel with what ptxas says of it, and
    its PTX with `ptx`. Changes nothing. Fails as a compilation would: spills, serialised wgmma, library calls.
  }];
  let options = [Option<"ptx", "ptx", "bool", "false", "Print the PTX too">,
                 Option<"folder", "folder", "std::string", "", "Write KERNEL.ptx and KERNEL.cubin there, if the folder exists">];
}

#endif
