// Quantised checkpoint tensors to numbers, written as the formats define them: the oracle of codegen/emit's readers,
// with which it shares no code.
#pragma once

#include "frontends/huggingface/Checkpoint.h"
#include "runtime/reference/Array.h"

#include "dialects/dsv3/Dsv3Dialect.h"

namespace dsv3::interpret {

/// Names of the tensors of one matrix; empty: it has none of that kind.
struct QuantisedNames {
  std::string data, scale, zero, index;
};

/// (code - zero) * scale of a matrix [N, K] in float32, one product. BadCheckpoint: a tensor is missing or too small.
Result<reference::Array<float>> readQuantised(const hf::Checkpoint &checkpoint, const QuantisedNames &names, ir::Packing packing,
                                              ir::BlockedAttr scheme, int64_t n, int64_t k);

} // namespace dsv3::interpret
