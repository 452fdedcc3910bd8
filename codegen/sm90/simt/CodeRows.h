// Rows as 8-bit floats with one scale each: a cached latent, or the query that meets it.
#pragma once

#include "codegen/sm90/simt/SimtEmitter.h"

namespace dsv3::codegen {

/// The scale of a row whose largest magnitude is `most`: most / largest, 1 where that is zero.
Value codeScale(SimtBuilder &k, Type codes, Value most);

} // namespace dsv3::codegen
