// Passes that analyse kernels of the tile dialect. Their contracts are in TileAnalysis.td.
#pragma once

#include "dialects/tile/TileDialect.h"

#include "mlir/Pass/Pass.h"

namespace dsv3 {

#define GEN_PASS_DECL
#include "passes/tile/TileAnalysis.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/tile/TileAnalysis.h.inc"

} // namespace dsv3
