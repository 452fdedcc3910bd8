// The tensors of one quantised linear: found, and held to the format's layout.
#pragma once

#include "frontends/huggingface/Checkpoint.h"
#include "frontends/huggingface/QuantConfig.h"
#include "frontends/huggingface/TensorList.h"

namespace dsv3::hf {

/// A linear [n, k] as a checkpoint names it.
struct LinearTensors {
  std::string module; ///< "model.layers.0.mlp.up_proj"
  int64_t n, k;
  const CheckpointTensor *data = nullptr;
  const CheckpointTensor *scale = nullptr;
  const CheckpointTensor *zero = nullptr;  ///< null: the format has none, or the checkpoint leaves them out
  const CheckpointTensor *index = nullptr; ///< the group of each column, when there is one
  const CheckpointTensor *shape = nullptr; ///< [n, k] as numbers

  std::string name(const std::string &part) const { return module + "." + part; }
};

/// Whether the checkpoint holds `module` in `scheme`: its codes, or its scales, are there.
bool isStored(const Checkpoint &checkpoint, const std::string &module, const StoredScheme &scheme);

/// The shapes of the parts of a linear [n, k], by the table of `#dsv3.file`. Unsupported: n or k that the packing
/// has no place for ("AWQ packs 8 rows a word").
struct PartShapes {
  std::vector<int64_t> data, scale, zero;
};
Result<PartShapes> partShapes(const std::string &module, int64_t n, int64_t k, const StoredScheme &scheme);

/// Types and shapes of all parts. BadCheckpoint names the tensor, what was expected and why.
Status checkParts(const LinearTensors &linear, const StoredScheme &scheme);

/// Whether the index sends some column to another group than its place does (act_order). BadCheckpoint: an entry
/// that is no group.
Result<bool> permutesGroups(const LinearTensors &linear, const StoredScheme &scheme);

/// Zero points of a symmetric linear must all stand for 0, `shape` for [n, k]; scales must be finite, above 0
/// for FP8, and powers of two where the format promises it. Those of integers may be below 0: AutoRound (Cheng et al. 2023) makes the
/// largest number of a group the code -8, whatever its sign. Packed groups have too many scales to look at
/// here: they are checked as they are read.
Status checkPartValues(const LinearTensors &linear, const StoredScheme &scheme);

} // namespace dsv3::hf
