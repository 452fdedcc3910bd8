// What every emitter of the sm_90a target shares.
#pragma once

#include "codegen/targets/BodyBuilder.h"
#include "codegen/targets/DeviceEmitter.h"
#include "codegen/targets/RefMap.h"

namespace dsv3::codegen {

/// An emitter of the target: what is left are `launch` and `emit`, and what differs from the defaults.
class Sm90Emitter : public DeviceEmitter {
public:
  Sm90Emitter(llvm::StringRef op, llvm::StringRef name) : op(op), emitterName(name) {}
  llvm::StringRef opName() const override { return op; }
  llvm::StringRef name() const override { return emitterName; }
  /// f32, one chain, k ascending.
  kernel::NumericsAttr numerics(mlir::Operation *op) const override;
  /// The emitter's name and `config`.
  kernel::ScheduleAttr schedule(mlir::Operation *op) const override;
  /// Bytes: what the operands and results hold; an operand that is read and written counts twice. No FLOPs.
  DeviceCost cost(mlir::Operation *op) const override;

protected:
  /// Parameters of the schedule; empty when there is nothing to choose.
  virtual mlir::DictionaryAttr config(mlir::Operation *op) const;

  RefMap refs(mlir::Operation *op) const { return RefMap(op, signature(op).stepFields.size()); }
  /// The address of lane 0 of row 0 of a plain operand, a view's offset included.
  DeviceParam address(mlir::Operation *op, unsigned operand) const;

  static mlir::RankedTensorType tensorType(mlir::Value v) { return llvm::cast<mlir::RankedTensorType>(v.getType()); }
  static int64_t lastDim(mlir::Value v) { return tensorType(v).getShape().back(); }
  /// A packed weight's scales and padding included.
  static double tensorBytes(mlir::RankedTensorType type);
  /// An integer of the op's schedule.
  static int64_t param(mlir::Operation *op, llvm::StringRef name);
  /// A schedule's parameters from names and numbers.
  static mlir::DictionaryAttr dictionary(mlir::Operation *op, llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> entries);

private:
  llvm::StringRef op, emitterName;
};

/// Kernels of threads without tensor cores: rows, rotations, the cache, the router (codegen/sm90/simt).
void addSimtEmitters(KernelRegistry &);
/// Dense, gated and batched products on tensor cores (codegen/sm90/gemm).
void addGemmEmitters90(KernelRegistry &);
/// The same with int4 weights.
void addInt4Emitters90(KernelRegistry &);
/// Attention on tensor cores (codegen/sm90/attention).
void addAttentionEmitters90(KernelRegistry &);

} // namespace dsv3::codegen
