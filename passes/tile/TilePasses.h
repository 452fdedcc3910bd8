// Passes on the inside of kernels. Their contracts are in TilePasses.td.
#pragma once

#include "dialects/tile/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace dsv3 {

#define GEN_PASS_DECL
#include "passes/tile/TilePasses.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/tile/TilePasses.h.inc"

} // namespace dsv3
