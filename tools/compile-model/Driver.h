// One compilation, from a checkpoint folder to an artifact.
#pragma once

#include "tools/compile-model/Options.h"

namespace dsv3 {

/// Reads, imports, runs the stages, emits. Returns the line to print: what was written, its size, the time taken.
/// Nothing is left at the output on an error.
Result<std::string> compileModel(const CommandLine &line);

/// What `compile-model inspect` prints about an artifact.
Result<std::string> inspectArtifact(const std::string &folder);

} // namespace dsv3
