// What the operations of all groups share.
#ifndef DSV3_DIALECTS_TILE_OP_BASE
#define DSV3_DIALECTS_TILE_OP_BASE

include "mlir/Dialect/LLVMIR/LLVMOpBase.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/tile/TileTypes.td"

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits> {
  let hasVerifier = 1;
}

// An op in whose region `tile.` is elided.
class Tile_RegionOp<string mnemonic, list<Trait> traits = []>
    : Tile_Op<mnemonic, !listconcat([DeclareOpInterfaceMethods<OpAsmOpInterface, ["getDefaultDialect", "getAsmBlockArgumentNames"]>, SingleBlock], traits)> {
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
}

// Results print under a name that says what they are.
class Tile_NamedOp<string mnemonic, list<Trait> traits = []>
    : Tile_Op<mnemonic, !listconcat([DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>], traits)>;

// One value for the whole warpgroup.
def Tile_Frag : Type<CPred<"::dsv3::tile::isFragment($_self)">, "fragment (tensor with a #tile.frag encoding)", "::mlir::RankedTensorType">;
def Tile_Uniform : AnyTypeOf<[I1, I8, I16, I32, I64, BF16, F16, F32], "scalar">;
def Tile_FragOrUniform : AnyTypeOf<[Tile_Frag, Tile_Uniform], "fragment or scalar">;
def Tile_StepScalars : LLVM_PointerInAddressSpace<1>;

#endif
