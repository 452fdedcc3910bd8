// The importer: a checkpoint that was read and checked becomes a module of the dsv3 dialect.
#pragma once

#include "frontends/huggingface/Model.h"
#include "runtime/core/DType.h"
#include "runtime/core/Result.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace dsv3 {

/// How the latent of a cached row is stored: in the compute type, or as FP8 codes with a scale per token.
enum class KvCacheType { Plain, F8E4M3, F8E5M2 };

struct ImportOptions {
  /// F32 or BF16, called T below: the type that values are rounded to between ops, of cached rows, and that
  /// dequantised weights are rounded to.
  DType computeType = DType::BF16;
  KvCacheType kvCache = KvCacheType::Plain;
};

/// One program per entry of the model, in terms of weights as recipes; reads no weight data. D = hidden_size,
/// V = vocab_size, L = num_hidden_layers:
///
///   @trunk(ids [?] i32, seq, kv) -> (hidden [?, D] T, kv)   embedding, decoder layers, final norm
///   @head(hidden) -> logits [?, V] f32
///   @mtp(next_ids, hidden, seq, kv) -> (logits, kv)         when the checkpoint has an MTP module: layer L
///
/// Every computing op has a site of its own: "embed", "l3.q_a", "l3.attn", "final_norm", "logits", "mtp_logits".
/// Weights are called as in hf::WeightSpec; FP8 weights stay encoded. Plain matrices stay bf16, or become T when they
/// are stored in more bits; norms and the router are never rounded. The leaves of all weights and the
/// `dsv3.ignored` ops are exactly the checkpoint's tensors.
///
/// Only the first MTP module is imported; tensors of later ones are ignored as "later_mtp_module", with a warning.
/// Usage error: another compute type. Internal error: the module does not verify.
Result<mlir::OwningOpRef<mlir::ModuleOp>> importModel(mlir::MLIRContext &context, const hf::Model &model,
                                                      const ImportOptions &options = {});

} // namespace dsv3
