// Runs one layer with our kernels and keeps what its linears read.
#pragma once

#include "frontends/quantize/Matrix.h"
#include "runtime/core/Result.h"

#include <map>
#include <string>
#include <vector>

namespace dsv3 {

/// States of a layer by the names of their observers, [R, columns]. Chosen experts are numbers too.
using LayerStates = std::map<std::string, quantize::Matrix>;

/// Compiles the checkpoint `folder` (LayerFolder.h) with observers, to `folder`/artifact, and runs its rows: documents of `lengths` rows
/// each, one after the other, in float32. Errors of the compiler and the engine.
Result<LayerStates> observeLayer(const std::string &folder, const std::vector<int64_t> &lengths, int jobs);

} // namespace dsv3
