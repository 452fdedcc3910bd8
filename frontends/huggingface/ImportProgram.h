// Builds the body of one imported program, op by op.
#pragma once

#include "frontends/huggingface/ImportWeights.h"

namespace dsv3 {

/// What all programs of a module share.
struct ImportContext {
  const hf::ModelConfig &config;
  const WeightTable &weights;
  mlir::FloatType compute; ///< T: of values between ops
  ir::KvType kv;
  ir::RopeAttr rope;
};

/// An argument or result; an empty name for the cache and the sequences, which are found by their types.
struct Port {
  mlir::Type type;
  llvm::StringRef name;
};

/// A program under construction. The methods append one op (and the uses of its weights) named by `site` and return its
/// result; `weight` is a symbol of the weight table. Row counts are `?` throughout.
class ProgramBuilder {
public:
  ProgramBuilder(mlir::OpBuilder &module, const ImportContext &context, llvm::StringRef name, llvm::ArrayRef<Port> arguments,
                 llvm::ArrayRef<Port> results);

  mlir::Value argument(unsigned i) { return program.getBody().getArgument(i); }
  void finish(mlir::ValueRange results);

  mlir::Value use(llvm::StringRef weight);
  mlir::Value embed(mlir::Value ids, llvm::StringRef weight, llvm::StringRef site);
  mlir::Value norm(mlir::Value x, llvm::StringRef weight, double eps, llvm::StringRef site);
  /// The result is [?, N], or [?, row...] when `row` cuts N into heads.
  mlir::Value linear(mlir::Value x, llvm::StringRef weight, llvm::StringRef site, mlir::Type elem,
                     llvm::ArrayRef<int64_t> row = {});
  mlir::Value groupedLinear(mlir::Value x, llvm::StringRef weight, mlir::Value offsets, llvm::StringRef site,
                            mlir::Type elem);
  mlir::Value swiglu(mlir::Value gate, mlir::Value up, llvm::StringRef site);
  mlir::Value add(mlir::Value x, mlir::Value y, llvm::StringRef site);
  mlir::Value concat(mlir::ValueRange parts, llvm::StringRef site);
  mlir::Value rope(mlir::Value x, int64_t at, llvm::StringRef site);

  /// tensor<? x row... x elem>
  mlir::RankedTensorType rows(llvm::ArrayRef<int64_t> row, mlir::Type elem);
  /// An op's location is derived from its site.
  mlir::Location loc(llvm::StringRef site) { return mlir::NameLoc::get(b.getStringAttr(site)); }

  const ImportContext &context;
  mlir::OpBuilder b;
  mlir::Value seq; ///< the argument of sequence type, if there is one
  mlir::Value kv;  ///< the cache as of now; kv_append replaces it

private:
  ir::ProgramOp program;
};

/// One decoder layer on x [?, D], with cache layer `layer` and sites "l{layer}.*". Returns the residual after it.
mlir::Value decoderLayer(ProgramBuilder &p, int64_t layer, bool moe, mlir::Value x);

} // namespace dsv3
