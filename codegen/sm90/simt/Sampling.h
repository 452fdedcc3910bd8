// The body of kernel.sample: the next token of a sequence from its row of logits, as runtime/core/TokenChoice.h defines it.
#pragma once

#include "codegen/sm90/simt/SimtEmitter.h"

namespace dsv3::codegen {

/// By one cluster of blocks: the token of one sequence. `row`: what `logits` gives for it, `vocab` tokens, read `width` at a time,
/// which divides `vocab`; `how`, `out`: addresses of its dsv3_sampling and dsv3_sampled (runtime/core/Abi.h).
void buildSampling(SimtBuilder &k, const Rows &logits, mlir::Value row, mlir::Value how, mlir::Value out, int64_t vocab, int64_t width);

} // namespace dsv3::codegen
