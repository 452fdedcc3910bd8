// Writes the weights file: every `kernel.weight` in its layout at its place.
#pragma once

#include "codegen/emit/FillPlan.h"
#include "codegen/emit/WeightData.h"
#include "dialects/kernel/KernelDialect.h"

#include <functional>
#include <string>
#include <vector>

namespace dsv3 {

struct PackedWeight {
  kernel::WeightOp op;
  std::string hash; ///< of its bytes, 128-bit XXH3; empty when drawn
  std::vector<DummyFill> fills; ///< of a drawn weight
  int64_t storedAt = -1;        ///< in a file of what is not drawn: where its bytes are
};

struct PackedFile {
  std::vector<PackedWeight> weights; ///< in the order of the module
  int64_t bytes = 0; ///< of the file
  std::string hash;
  bool drawn = false; ///< by writeDrawn
};

/// Packs one weight into `out`, `getPackedBytes` zeroed bytes. Parts: data (codes, or values in the element type), then
/// float32 scales, then zero points, each at the place its layout gives the indices of the data it belongs to. Padding
/// stays zero. Internal error when the scale's layout joins elements that have different scales.
Status packWeight(const WeightReader &reader, mlir::RankedTensorType type, char *out);

/// Writes all weights of the module to `path`, which gets `bytes` bytes, `jobs` weights at a time. DoesNotFit when
/// the disk is full; errors of the data as WeightData's. `progress` hears of bytes done, from any thread.
Result<PackedFile> packWeights(mlir::ModuleOp module, const WeightData &data, const std::string &path, int64_t bytes, int jobs,
                               const std::function<void(int64_t)> &progress = {});

/// The counterpart of packWeights for a checkpoint that is drawn: weights get `fills`, and `path` holds the few that read no
/// checkpoint tensor (rope tables), one after the other. Errors as planFills' and packWeights'.
Result<PackedFile> writeDrawn(mlir::ModuleOp module, const WeightData &data, const hf::Checkpoint &checkpoint, const std::string &path);

} // namespace dsv3
