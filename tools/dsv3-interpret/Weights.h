// Evaluates weight recipes, as plainly as can be: the oracle of what codegen/emit streams.
#pragma once

#include "frontends/huggingface/Checkpoint.h"
#include "runtime/reference/Quantize.h"
#include "runtime/reference/Rope.h"

#include "dialects/dsv3/Dsv3Dialect.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace dsv3::interpret {

/// The reference's table of a rope attribute.
Result<reference::RopeTable> ropeTableOf(ir::RopeAttr rope);

class WeightReader {
public:
  /// With `dummy` every checkpoint tensor is drawn from `dsv3::Dummy` by its name. Without, and without a
  /// checkpoint (null), a recipe that reads one is a usage error.
  WeightReader(mlir::ModuleOp module, const hf::Checkpoint *checkpoint, bool dummy)
      : module(module), checkpoint(checkpoint), dummy(dummy) {}

  /// The numbers of a dsv3.weight or kernel.weight: its recipe in float32, rounded to the element type, unless `exact`: codes times
  /// scales, as they meet activations in codes. A
  /// packed weight has the numbers of the recipe it names: a layout moves numbers and changes none.
  /// BadCheckpoint errors name the tensor that is missing or has another shape.
  Result<reference::Array<float>> read(llvm::StringRef symbol, bool exact = false) const;

private:
  /// What an inner source needs to know of the weight it is part of.
  struct Place {
    std::optional<int64_t> index;    ///< of the surrounding stack
    ir::BlockedAttr scheme;          ///< of the weight, or null
    reference::Shape shape;          ///< expected; empty when an outer source hides it
    bool exact = false;              ///< weights that it names are not rounded either
  };
  using Numbers = Result<reference::Array<float>>;

  Numbers evaluate(mlir::Attribute source, const Place &place) const;
  Numbers file(ir::FileSourceAttr source, const Place &place) const;
  Numbers stored(llvm::StringRef name) const;
  Numbers quantized(ir::QuantizedSourceAttr source, const Place &place) const;
  Numbers drawn(ir::FileSourceAttr source, const std::string &name, const Place &place) const;
  Numbers stack(ir::StackSourceAttr source, const Place &place) const;
  Numbers concat(ir::ConcatSourceAttr source, const Place &place) const;
  Numbers slice(ir::SliceSourceAttr source, const Place &place) const;
  Numbers transpose(ir::TransposeSourceAttr source, const Place &place) const;
  Numbers reshape(ir::ReshapeSourceAttr source, const Place &place) const;

  mlir::ModuleOp module;
  const hf::Checkpoint *checkpoint;
  bool dummy;
};

} // namespace dsv3::interpret
