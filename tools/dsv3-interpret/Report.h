// What the user sees of an output: text, files, comparisons.
#pragma once

#include "Run.h"

namespace dsv3::interpret {

/// 128-bit hash (runtime/core/Hash.h) of the values' bits in their element type, row-major, little-endian.
std::string hashOf(const NamedTensor &tensor);

/// One line a tensor: "logits: [34, 3584] f32 hash 0123.. values 0.5 -1.25 .."; with `hashOnly` "logits: 0123..".
struct PrintOptions {
  bool hashOnly = false;
  int64_t values = 4; ///< of the first ones
};
void print(const NamedTensor &tensor, const char *prefix, const PrintOptions &options);

/// A safetensors file; numbers as float32, ids as int32.
Status save(const std::string &path, const std::vector<const NamedTensor *> &tensors);

/// Compares the tensors that both lists name, and prints a line for each: "logits: equal", or "logits: row 3
/// differs by 2.1e-06 (tolerance 1e-05)". The difference of a row is |b - a| / |a| in the Euclidean norm; with
/// tolerance 0 the bits are compared instead. False when one is too different. Usage errors: no common name, or
/// unequal shapes or types under tolerance 0.
Result<bool> compare(const std::vector<NamedTensor> &a, const std::vector<NamedTensor> &b, double tolerance,
                     const char *prefix);

} // namespace dsv3::interpret
