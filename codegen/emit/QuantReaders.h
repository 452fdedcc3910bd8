// Readers of quantised checkpoint tensors. Internal to WeightData.
#pragma once

#include "codegen/emit/WeightReaders.h"

namespace dsv3 {

/// The tensors of one quantised matrix; names of parts that it has not are empty.
struct QuantNames {
  std::string data, scale, zero, index;
};

/// What the names do not say of a matrix [rows, cols].
struct QuantLayout {
  ir::BlockedAttr scheme; ///< storage, blocks, whether there are zero points and an index
  ir::Packing packing;
  int64_t rows, cols;
};

/// A matrix whose element (n, k) is (code - zero point) * scale, in float32; FP8 codes are bytes as stored, integers
/// one signed byte each. Tensors, dtypes and shapes are checked here; while reading, BadCheckpoint names tensor and
/// element of a NaN code, of a scale that is not finite or below 0, of a scale of 0 under codes that are not the zero
/// point (a row of zeros may have scale 0), and of a zero point that GPTQ's first format cannot hold.
Result<ReaderPtr> readQuantised(const hf::Checkpoint *checkpoint, const QuantNames &names, const QuantLayout &layout);

/// The numbers of `reader` in `scheme` (symmetric), by frontends/quantize/RoundToNearest: scales are found when a block is first asked
/// for, from all its rows, and kept; codes are made anew each time. `name` is the weight's, for errors.
Result<ReaderPtr> readRoundedToNearest(const std::string &name, ReaderPtr reader, ir::BlockedAttr scheme, ir::Clip clip);

} // namespace dsv3
