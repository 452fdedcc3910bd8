// One compilation, from a checkpoint folder to an artifact.
#pragma once

#include "tools/compile-model/Options.h"

namespace dsv3 {

/// Makes the targets of this compiler known by name. Called once, first.
void registerTargets();

/// Reads and imports once; for each target runs the stages and emits. Returns the line to print: what was written, its size, the time taken.
/// Nothing is left at the output on an error.
Result<std::string> compileModel(const CommandLine &line);

/// What `compile-model inspect` prints about an artifact.
Result<std::string> inspectArtifact(const std::string &folder);

} // namespace dsv3
