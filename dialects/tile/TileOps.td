// Operations, in groups.
#ifndef DSV3_DIALECTS_TILE_OPS
#define DSV3_DIALECTS_TILE_OPS

include "dialects/tile/TileStructureOps.td"
include "dialects/tile/TileMemoryOps.td"
include "dialects/tile/TileSyncOps.td"
include "dialects/tile/TileComputeOps.td"

#endif
