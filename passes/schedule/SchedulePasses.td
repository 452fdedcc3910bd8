// Passes of the stages tile and schedule: what goes in, what comes out, what is refused.
#ifndef DSV3_SCHEDULE_PASSES
#define DSV3_SCHEDULE_PASSES

include "mlir/Pass/PassBase.td"

def OutlineKernelsPass : Pass<"dsv3-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "One kernel body per distinct launch and code variant";
  let description = [{
    In: programs of bound kernel ops with packed weights. Out, on a CPU: a nested module per code variant
    (`module @avx512`) with one `llvm.func` of type `dsv3_cpu_fn` for each distinct `kernelKey`, its body written
    by the op's emitter. On a device: one `gpu.module @sm_90a` with one kernel for each key, a `tile.kernel` or an
    `llvm.func` with `nvvm.kernel`. On each launch the attribute `kernel.symbol` names its kernel. Names are readable:
    mnemonic, element types, weight dimensions, a number (`gemm_bf16_f8e4m3fn_n256_k256_0`).

    Refused: an op that no emitter knows, or that its emitter calls illegal (with the reason); an unknown
    variant or target.
  }];
  let options = [Option<"target", "target", "std::string", "", "Target; empty: the module's">,
                 ListOption<"variants", "variants", "std::string", "Code variants; empty: all of the target">];
  let dependentDialects = ["::mlir::gpu::GPUDialect", "::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect", "::mlir::math::MathDialect"];
}

def LowerToRtPass : Pass<"dsv3-lower-to-rt", "::mlir::ModuleOp"> {
  let summary = "Memory plan and host programs";
  let description = [{
    In: outlined programs. Out: one `rt.module`, named after the target (`@x86_64`, `@sm_90a_host`), with pools, the fields of the step buffer (from
    `dsv3.capacities`), an `rt.kernel` per kernel, tap points, and an `rt.program` per program; the
    `dsv3.program`s are gone, weights stay. Addresses:

    | value | pool |
    |---|---|
    | `ids`, `next_ids`, sequences | step, by field |
    | packed weights | weights, one reference per part |
    | results `logits`, `hidden` | persist, one place per name for all programs; `hidden` as an argument reads it |
    | the cache | kv |
    | everything else | arena, planned per program (PlanMemory.h), its size the maximum over programs |

    A launch becomes `rt.launch_range` on a CPU and `rt.launch_grid` on a device, as its emitter's `tiles` or `launch` says.

    A remark per program says planned bytes and the live-set bound; a warning, that they are more than 5% apart.

    Refused: an argument with another name, an in-place launch whose old value is read later, a tap of a view,
    a tensor map or grid that its op's verifier refuses.
  }];
  let options = [Option<"target", "target", "std::string", "", "Target; empty: the module's">];
  let dependentDialects = ["::dsv3::rt::RtDialect"];
}

def VerifyRtPass : Pass<"dsv3-verify-rt", "::mlir::ModuleOp"> {
  let summary = "Proves the host programs again, from the rt ops alone";
  let description = [{
    Views lie inside their pools and are 64-byte aligned (weights: 256); fields do not overlap; launches name
    kernels with as many references and constants; weights, step and kv references are written only where that
    is legal; each byte of the arena that a launch or tap reads was written before in the same program; outputs
    are written; tile counts use a number of the step that the program has. Of a grid, pointers lie inside their
    buffers and tensor maps with their whole extent (in the kv pool their outermost dim is open), and shared memory fits
    the module's `#target.gpu`. Changes nothing.
  }];
}

#endif
