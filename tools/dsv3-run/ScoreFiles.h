// --logits-out and --taps-out: what the prompts score, as safetensors.
#pragma once

#include "Options.h"
#include "Requests.h"
#include "runtime/engine/Engine.h"

#include <vector>

namespace dsv3::run {

/// Refuses paths of the two files that would destroy something. Usage errors:
/// not a regular file, both the same file, a file inside the artifact.
Status checkScoreFiles(const Options &options);

/// Scores the prompts if one of the files was asked for, and writes them.
/// Tensors: `logits` float32 [T, vocab], `mtp_logits` [T-1, vocab] when the
/// artifact has an MTP module, and each tap [rows, cols] in float32 (integers
/// as they are); with --batch every name ends in ".INDEX". Usage errors: a path
/// that cannot be written, --taps-out for an artifact without taps.
Status writeScoreFiles(Engine &engine, const Options &options, const std::vector<TextRequest> &requests);

} // namespace dsv3::run
