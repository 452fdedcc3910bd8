// How a kernel op becomes code: the interface between bind, pack, schedule and the emitters.
//
// An emitter knows one `kernel` op on one target family. It says what it accepts (with the reason
// when it does not), which numerics and schedules it offers, how it wants weights laid out, how many
// tiles a launch has, and writes the body. A new kernel is one emitter and one line in the registry.
#pragma once

#include "dialects/kernel/KernelDialect.h"
#include "runtime/core/Abi.h"

#include <memory>
#include <string>

namespace dsv3::codegen {

/// Capacities of the step buffer, the same for all programs of a module: set by `make-programs` as the
/// module attribute `dsv3.capacities`.
struct Capacities {
  int64_t tokens = 0;  ///< T
  int64_t seqs = 0;    ///< S
  int64_t pages = 0;   ///< P, pages of one sequence
  int64_t qblocks = 0; ///< query tiles of at most `kQueryTile` rows
  int64_t kblocks = 0; ///< key blocks of `kKeyBlock` keys that one step may expand
  int64_t maxModelLen = 0;

  static constexpr int64_t kQueryTile = 16;
  static constexpr int64_t kKeyBlock = 64;

  /// What `tokens`, `seqs` and `maxModelLen` imply: every sequence may waste one partial query tile; a
  /// step expands the keys of at least one whole sequence, and of all sequences when they are short.
  static Capacities derive(int64_t tokens, int64_t seqs, int64_t maxModelLen);
  mlir::DictionaryAttr toAttr(mlir::MLIRContext *) const;
  static mlir::FailureOr<Capacities> fromModule(mlir::Operation *inModule);
};
inline constexpr llvm::StringLiteral kCapacitiesAttr = "dsv3.capacities";

/// Number of tiles of a launch: ceil(scalars[scalar] / div) * mul, or `mul` when scalar is -1.
struct TileCount {
  int scalar = -1; ///< DSV3_SCALAR_*
  int64_t div = 1, mul = 1;
};

/// The rows of a value are counted by this scalar: DSV3_SCALAR_TOKENS, or DSV3_SCALAR_SEQS below `select_rows`.
int rowScalar(mlir::Value value);

/// One code variant of a CPU target.
struct CpuVariant {
  llvm::StringLiteral name;     ///< "avx512"
  llvm::StringLiteral cpu;      ///< LLVM's -mcpu
  llvm::StringLiteral features; ///< LLVM's -mattr
  int vectorBits;
  int registers;   ///< vector registers
  bool bf16Dot;    ///< vdpbf16ps
  bool int8Dot;    ///< vpdpbusd
  bool bf16Tile;   ///< tdpbf16ps, with tiles of 16 rows of 64 bytes
};
/// The table of variants; every row reads the same packed weights.
llvm::ArrayRef<CpuVariant> cpuVariants();
const CpuVariant *findCpuVariant(llvm::StringRef name);

/// What a launch passes besides its tensors.
struct LaunchSignature {
  llvm::SmallVector<unsigned> stepFields; ///< DSV3_FIELD_*, in the order of the references that replace `!dsv3.seq`
  llvm::SmallVector<int64_t> consts;      ///< appended to the step scalars
};

class CpuEmitter;
class DeviceEmitter;

/// References of a launch, in this order: for each operand (inputs, then destinations): a plain tensor one
/// reference (to the base buffer of a view), a packed weight one per part (data, scale), a cache one (start of the
/// KV pool), a `!dsv3.seq` one per `stepFields` entry. A destination that is the same value as an input is
/// passed twice.
class KernelEmitter {
public:
  virtual ~KernelEmitter() = default;

  /// How its kernels run: exactly one of the two is not null.
  virtual const CpuEmitter *asCpu() const { return nullptr; }
  virtual const DeviceEmitter *asDevice() const { return nullptr; }

  /// The op this emitter implements: "kernel.gemm".
  virtual llvm::StringRef opName() const = 0;
  /// "x86.gemm": stands in the schedule.
  virtual llvm::StringRef name() const = 0;

  /// Empty when the op can be emitted, else why not: "K = 200 is not a multiple of 32".
  virtual std::string whyIllegal(mlir::Operation *op) const { return {}; }
  /// The numerics of every candidate (the same in all buckets by construction).
  virtual kernel::NumericsAttr numerics(mlir::Operation *op) const = 0;
  /// The schedule chosen for this op; reads only what must not change bits.
  virtual kernel::ScheduleAttr schedule(mlir::Operation *op) const = 0;
  /// Encoding wanted for operand `index`, a weight of logical type `type`; null leaves it row-major.
  virtual kernel::PackedAttr weightEncoding(mlir::Operation *op, unsigned index, mlir::RankedTensorType type) const;

  virtual LaunchSignature signature(mlir::Operation *op) const { return {}; }
};

/// A kernel that the threads of a CPU run tile by tile.
class CpuEmitter : public KernelEmitter {
public:
  const CpuEmitter *asCpu() const final { return this; }
  virtual TileCount tiles(mlir::Operation *op) const = 0;
  /// Bytes of thread-private scratch, for any variant.
  virtual int64_t scratchBytes(mlir::Operation *op) const { return 0; }

  /// Writes the body of `fn`, an empty llvm.func of type dsv3_cpu_fn, for one variant. `op` has packed weights.
  virtual mlir::LogicalResult emit(mlir::Operation *op, mlir::Operation *fn, const CpuVariant &variant) const = 0;
};

/// Emitters of one target family by op name.
class KernelRegistry {
public:
  void add(std::unique_ptr<KernelEmitter> emitter);
  const KernelEmitter *lookup(mlir::Operation *op) const;
  llvm::ArrayRef<std::unique_ptr<KernelEmitter>> all() const { return emitters; }

  /// Why no kernel reads a weight in the scheme of its type; empty: some do. A registry without such a check takes all.
  using StoredCheck = std::string (*)(mlir::RankedTensorType);
  void checkStored(StoredCheck check) { storedCheck = check; }
  std::string whyNotStored(mlir::RankedTensorType weight) const { return storedCheck ? storedCheck(weight) : std::string(); }

private:
  StoredCheck storedCheck = nullptr;
  llvm::SmallVector<std::unique_ptr<KernelEmitter>> emitters;
};

/// Emitters of the x86-64 target.
const KernelRegistry &x86Registry();

/// Two ops with the same key share one kernel body: op, operand types with row capacities left out, row strides,
/// attributes but for `site` and constants, numerics, schedule. Readable text.
std::string kernelKey(mlir::Operation *op);

} // namespace dsv3::codegen
