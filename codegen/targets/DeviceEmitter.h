// How a kernel op becomes a launch of a grid on a device (KernelEmitter.h has what all targets share).
//
// A device kernel's parameters are: the address of the step's scalars (const int64_t[DSV3_SCALAR_COUNT] in
// device memory), then `DeviceLaunch::params` in order. A grid is fixed at compile time, from the capacities in
// the op's types, so that a program can be captured as a graph; true counts are read from the scalars, and
// blocks beyond them return.
#pragma once

#include "codegen/targets/KernelEmitter.h"

#include <array>
#include <variant>

namespace mlir {
class OpPassManager;
}

namespace dsv3::codegen {

/// A tensor map (CUtensorMap) that the runtime encodes once, at load. Innermost dim first, as the driver wants it.
struct TensorMap {
  enum class Elem { U8, BF16, F32, I32 };
  Elem elem = Elem::BF16;
  llvm::SmallVector<int64_t, 5> dims;    ///< elements; 0 in the outermost dim: as many as the pool holds (KV cache)
  llvm::SmallVector<int64_t, 4> strides; ///< bytes between elements of dim 1, 2, ...: multiples of 16
  llvm::SmallVector<int64_t, 5> box;     ///< elements, each 1..256
  int64_t swizzle = 0;                   ///< bytes: 0, 32, 64 or 128; the box's inner dim is at most that wide
};

/// One parameter of a device kernel.
struct DeviceParam {
  /// Address of reference `ref` of the launch plus `offset` bytes.
  struct Pointer {
    unsigned ref;
    int64_t offset = 0;
  };
  /// A tensor map over reference `ref` plus `offset` bytes (16-byte aligned), passed by value, 64-byte aligned.
  struct Map {
    unsigned ref;
    TensorMap map;
    int64_t offset = 0;
  };
  /// A 64-bit number.
  struct Const {
    int64_t value;
  };
  std::variant<Pointer, Map, Const> value;
};

/// One launch: what the program passes to the driver.
struct DeviceLaunch {
  std::array<int64_t, 3> grid = {1, 1, 1};
  int64_t threads = 128; ///< per block, in x
  int64_t smem = 0;      ///< bytes of dynamic shared memory
  int64_t cluster = 1;   ///< blocks of a cluster, in x
  llvm::SmallVector<DeviceParam> params;
};

/// What one launch costs at least: the report's roofline.
struct DeviceCost {
  double bytes = 0; ///< each input read once, each output written once, at the capacities of the types
  double flops = 0; ///< multiply and add count as two
};

/// A kernel that runs as a grid of thread blocks. References of a launch are ordered as KernelEmitter says.
class DeviceEmitter : public KernelEmitter {
public:
  const DeviceEmitter *asDevice() const final { return this; }
  /// The launch of `op`; grids may depend on row capacities, which the kernel body does not see (kernelKey).
  virtual DeviceLaunch launch(mlir::Operation *op) const = 0;
  virtual DeviceCost cost(mlir::Operation *op) const { return {}; }

  /// Writes kernel `symbol` at the builder's insertion point, inside a gpu.module: a `tile.kernel`, or an llvm.func
  /// with attribute `nvvm.kernel`. `op` has packed weights, numerics and a schedule.
  virtual mlir::LogicalResult emit(mlir::Operation *op, llvm::StringRef symbol, mlir::OpBuilder &builder) const = 0;
};

/// Emitters of the sm_90a target, the dialects of what they write, and the passes on a gpu.module that lower it to functions
/// of one thread (what codegen/emit/Cubin.h takes).
const KernelRegistry &sm90Registry();
void sm90Dialects(mlir::DialectRegistry &dialects);
void sm90Lowering(mlir::OpPassManager &pm);

} // namespace dsv3::codegen
