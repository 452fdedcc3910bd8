// AMX tiles in software, so that their kernels are tested on processors without them.
#pragma once

namespace dsv3::codegen::test {

/// From now on the tile instructions that kernels use (ldtilecfg, tilerelease, tileloadd, tilestored, tdpbf16ps), which this
/// processor refuses, are carried out by a handler of SIGILL. Any other refused instruction ends the process as before.
void emulateTiles();

} // namespace dsv3::codegen::test
