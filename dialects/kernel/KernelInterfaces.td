// The interface of every op that becomes a launch.
#ifndef DSV3_DIALECTS_KERNEL_INTERFACES
#define DSV3_DIALECTS_KERNEL_INTERFACES

include "mlir/IR/OpBase.td"

def Kernel_KernelOp : OpInterface<"KernelOp"> {
  let cppNamespace = "::dsv3::kernel";
  let description = [{
    A device kernel call. Its operands are the inputs followed by `getNumOuts()` destinations; result i
    is tied to destination i. `site`, `numerics` and `schedule` are attributes of these names.
  }];
  let methods = [
    InterfaceMethod<"Name of the operation in the model.", "::llvm::StringRef", "getSiteName", (ins), [{
      return $_op->template getAttrOfType<::mlir::StringAttr>("site").getValue();
    }]>,
    InterfaceMethod<"What changes bits, or null before bind.", "::dsv3::kernel::NumericsAttr", "getKernelNumerics", (ins), [{
      return $_op->template getAttrOfType<::dsv3::kernel::NumericsAttr>("numerics");
    }]>,
    InterfaceMethod<"What changes speed, or null before bind.", "::dsv3::kernel::ScheduleAttr", "getKernelSchedule", (ins), [{
      return $_op->template getAttrOfType<::dsv3::kernel::ScheduleAttr>("schedule");
    }]>,
    InterfaceMethod<"Number of destinations: the last operands, one per result.", "unsigned", "getNumOuts", (ins), [{
      return $_op->getNumResults();
    }]>,
    InterfaceMethod<"Destinations.", "::mlir::OperandRange", "getOuts", (ins), [{
      return $_op->getOperands().take_back($_op->getNumResults());
    }]>,
    InterfaceMethod<"Inputs.", "::mlir::OperandRange", "getIns", (ins), [{
      return $_op->getOperands().drop_back($_op->getNumResults());
    }]>
  ];
}

#endif
