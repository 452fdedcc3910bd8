// Buffers, rings, slots, accumulators, tokens, and kernel arguments.
#ifndef DSV3_DIALECTS_TILE_TYPES
#define DSV3_DIALECTS_TILE_TYPES

include "mlir/IR/AttrTypeBase.td"
include "dialects/tile/TileAttrs.td"

class Tile_TypeDef<string name, string mn> : TypeDef<Tile_Dialect, name> { let mnemonic = mn; }

// A type without parameters, which ops need not spell.
class Tile_Plain<string name, string mn> : Tile_TypeDef<name, mn>, BuildableType<"$_builder.getType<::dsv3::tile::" # name # "Type>()">;

def Tile_Buf : Tile_TypeDef<"Buf", "buf"> {
  let summary = "A buffer in shared memory, or a view of one";
  let description = [{
    `!tile.buf<64x576xbf16, sw128>`: shape, element (i4 to f32), layout; without one it is `linear`. At run time a byte
    offset from the kernel's shared memory.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$element, "::dsv3::tile::LayoutAttr":$layout);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let builders = [
    TypeBuilderWithInferredContext<(ins "::llvm::ArrayRef<int64_t>":$shape, "::mlir::Type":$element, "::dsv3::tile::SmemKind":$kind), [{
      return $_get(element.getContext(), shape, element, LayoutAttr::get(element.getContext(), kind));
    }]>
  ];
  let extraClassDeclaration = [{
    unsigned getElementBits() const { return getElement().getIntOrFloatBitWidth(); }
    int64_t getRank() const { return getShape().size(); }
    /// Evaluator: bit and byte of a coordinate, size, alignment. Not for `auto`.
    ::dsv3::tile::SmemLayout getSmem() const { return getLayout().layoutOf(getShape(), getElementBits()); }
    int64_t getBytes() const { return getSmem().bytes(); }
  }];
}

def Tile_Ring : Tile_TypeDef<"Ring", "ring"> {
  let summary = "A ring's barriers and buffers; nothing at run time";
  let parameters = (ins "::dsv3::tile::RingAttr":$ring);
  let assemblyFormat = "`<` $ring `>`";
}

def Tile_Slot : Tile_TypeDef<"Slot", "slot"> {
  let summary = "A stage of a ring in one turn";
  let description = [{Stage and parity, two i32 (and the lane of a ring with several). Waiting for full uses the parity, for free its complement, so that the first pass of whoever fills goes through.}];
  let parameters = (ins "::dsv3::tile::RingAttr":$ring);
  let assemblyFormat = "`<` $ring `>`";
}

def Tile_Acc : Tile_TypeDef<"Acc", "acc"> {
  let summary = "An accumulator in flight: unreadable until `await`";
  let description = [{`!tile.acc<64x256xf32>`; N/2 scalars per thread.}];
  let parameters = (ins "int64_t":$rows, "int64_t":$cols, "::mlir::Type":$element);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let builders = [
    TypeBuilderWithInferredContext<(ins "int64_t":$rows, "int64_t":$cols, "::mlir::Type":$element), [{
      return $_get(element.getContext(), rows, cols, element);
    }]>
  ];
  let extraClassDeclaration = [{
    /// The tensor that `await` makes of it.
    ::mlir::RankedTensorType getTensor() const;
  }];
}

def Tile_Token : Tile_Plain<"Token", "token"> {
  let summary = "An mma or a put in flight; its age becomes the N of a wait; nothing at run time";
}

def Tile_Tma : Tile_TypeDef<"Tma", "tma"> {
  let summary = "A tensor map argument: 128 bytes, grid constant, 64-byte aligned";
  let description = [{
    `!tile.tma<?x?xbf16, box 64x64, sw128>`, outermost dim first. The host's descriptor is made from this type, so that
    kernel and descriptor cannot disagree. A box is what one TMA instruction moves: its inner dim is at most the swizzle's
    width, each dim 1 to 256 (T17); a copy of a larger buffer issues several.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$element, ArrayRefParameter<"int64_t">:$box,
                        "::dsv3::tile::LayoutAttr":$layout);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let builders = [
    TypeBuilderWithInferredContext<(ins "::llvm::ArrayRef<int64_t>":$shape, "::mlir::Type":$element, "::llvm::ArrayRef<int64_t>":$box, "::dsv3::tile::SmemKind":$kind), [{
      return $_get(element.getContext(), shape, element, box, LayoutAttr::get(element.getContext(), kind));
    }]>
  ];
  let extraClassDeclaration = "int64_t getRank() const { return getShape().size(); }";
}

def Tile_Gmem : Tile_TypeDef<"Gmem", "gmem"> {
  let summary = "A typed pointer to global memory, row-major";
  let description = [{
    `!tile.gmem<?x512xbf16>`. An argument of this type becomes a pointer, and an i32 for each `?` but the first, in order:
    strides follow from the shape.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$element);
  let hasCustomAssemblyFormat = 1;
  let builders = [
    TypeBuilderWithInferredContext<(ins "::llvm::ArrayRef<int64_t>":$shape, "::mlir::Type":$element), [{
      return $_get(element.getContext(), shape, element);
    }]>
  ];
  let extraClassDeclaration = "int64_t getRank() const { return getShape().size(); }";
}

def Tile_Gate : Tile_Plain<"Gate", "gate"> {
  let summary = "A hand-over between roles by named barrier; ids 1 to 15 are given by `--dsv3-tile-allocate`";
}

def Tile_Work : Tile_Plain<"Work", "work"> {
  let summary = "An iteration space over this CTA's items; `raster`, `list` or `groups` defines it and names its fields";
}

#endif
