// One reader per kind of weight source. Internal to WeightData.
#pragma once

#include "codegen/emit/WeightData.h"

namespace dsv3 {

using ReaderPtr = std::unique_ptr<WeightReader>;

/// A plain checkpoint tensor.
Result<ReaderPtr> readTensor(const hf::Checkpoint *checkpoint, llvm::StringRef tensor);
/// An FP8 matrix of a checkpoint without files, with one scale per block; `powersOfTwo`: how scales are drawn.
Result<ReaderPtr> readDrawn(const hf::Checkpoint *checkpoint, llvm::StringRef tensor, llvm::StringRef scale, int64_t blockRows,
                            int64_t blockCols, bool powersOfTwo);

/// `readers` stacked along a new leading dim. Internal error when shapes differ.
Result<ReaderPtr> readStack(std::vector<ReaderPtr> readers);
Result<ReaderPtr> readConcat(std::vector<ReaderPtr> readers, int64_t dim);
Result<ReaderPtr> readSlice(ReaderPtr reader, int64_t dim, int64_t offset, int64_t size);
Result<ReaderPtr> readTranspose(ReaderPtr reader);
Result<ReaderPtr> readReshape(ReaderPtr reader, std::vector<int64_t> shape);
/// Values rounded to `type`; codes and scales pass when `keepCodes`.
ReaderPtr readRounded(ReaderPtr reader, DType type, bool keepCodes);
/// Dummy values: std * n. Encoded: codes of 64 n under one scale of std / 64.
ReaderPtr readDummy(std::vector<int64_t> shape, llvm::StringRef name, double std, bool encoded);
/// cos and sin of a rotary embedding, [positions, dims].
Result<ReaderPtr> readRopeTable(ir::RopeAttr rope, int64_t positions);

} // namespace dsv3
