// Shared memory: buffers, copies, reads and writes.
#ifndef DSV3_DIALECTS_TILE_MEMORY_OPS
#define DSV3_DIALECTS_TILE_MEMORY_OPS

include "dialects/tile/TileOpBase.td"

def Tile_AllocOp : Tile_Op<"alloc", [HasParent<"KernelOp">]> {
  let summary = "A buffer for the kernel's lifetime; uninitialised";
  let results = (outs Tile_Buf:$buf);
  let assemblyFormat = "attr-dict `:` qualified(type($buf))";
  let hasVerifier = 0;
}

def Tile_ViewOp : Tile_Op<"view", [Pure]> {
  let hasCanonicalizer = 1;
  let summary = "A part of a buffer, in place";
  let description = [{
    `%v = view %b[%row, 0] : !A -> !Aw`. Coordinates of the part's first element, missing ones are 0; leading dims of the
    source that the result lacks are dropped. T9: the part starts where the pattern of exchanged bits starts: in sw* at a
    multiple of 8 rows and of an atom's width; a number is checked, a value promises it. T10: the result's layout is the
    source's, restricted: same kind, same distance between rows. So a result of several atoms needs all rows of the
    source: its type has no other place for the distance between atoms. A view of a view folds.
  }];
  let arguments = (ins Tile_Buf:$source, Variadic<I32>:$coords, DenseI64ArrayAttr:$place);
  let results = (outs Tile_Buf:$result);
  let assemblyFormat = "$source `` custom<Coords>($coords, $place) attr-dict `:` qualified(type($source)) `->` qualified(type($result))";
  let builders = [OpBuilder<(ins "::dsv3::tile::BufType":$result, "::mlir::Value":$source, "::llvm::ArrayRef<::mlir::OpFoldResult>":$coords)>];
  let extraClassDeclaration = "::llvm::SmallVector<::mlir::OpFoldResult> getMixedCoords();";
}

def Tile_CopyOp : Tile_Op<"copy", [AttrSizedOperandSegments]> {
  let hasCanonicalizer = 1;
  let summary = "Asynchronous copy from global to shared memory, in a `fill`";
  let description = [{
    `copy %t[%m, %k] -> %a : !Tma -> !A`: one TMA per box, zeros beyond the tensor's edges; `*` stands for the part's own
    offset in the dim that a group of columns cuts. From `gmem`: one bulk copy of the destination's size from
    contiguous bytes. `on %slot`: completes on that slot's full barrier instead of the filled one's. `multicast m`: to the
    CTAs of mask m in the cluster. T17: box and layout are what TMA writes. T18: bulk start and size are multiples of
    16 bytes. T19: source alignment is provable.
  }];
  let arguments = (ins AnyTypeOf<[Tile_Tma, Tile_Gmem]>:$source, Variadic<I32>:$coords, DenseI64ArrayAttr:$place, Tile_Buf:$dest, Optional<Tile_Slot>:$on,
                       DefaultValuedAttr<Tile_Hint, "::dsv3::tile::Hint::Normal">:$hint, OptionalAttr<I64Attr>:$multicast);
  let assemblyFormat = [{
    $source `` custom<Coords>($coords, $place) `->` $dest (`on` $on^ `:` qualified(type($on)))? (`hint` $hint^)? (`multicast` $multicast^)?
    attr-dict `:` qualified(type($source)) `->` qualified(type($dest))
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$source, "::llvm::ArrayRef<::mlir::OpFoldResult>":$coords, "::mlir::Value":$dest,
                                 CArg<"::mlir::Value", "{}">:$on, CArg<"::dsv3::tile::Hint", "::dsv3::tile::Hint::Normal">:$hint)>];
  let extraClassDeclaration = "::llvm::SmallVector<::mlir::OpFoldResult> getMixedCoords();";
}

def Tile_GatherOp : Tile_Op<"gather"> {
  let summary = "Asynchronous copy of picked rows of a matrix to shared memory, in a `fill`";
  let description = [{
    `gather %x[%ids, %k] rows(%n) -> %a : !G, tensor<160xi32, #tile.frag<line>> -> !A`: row r of the buffer becomes columns from %k on
    of row ids[r], in words of 16 bytes. Rows from %n on and columns past the matrix's last become zeros. No tensor map of Hopper picks
    rows, so threads copy (`cp.async`): a producer that gathers runs in all 128 threads of its warpgroup, of which one issues the
    other copies, and all arrive at the slot's full barrier as their words land. T38: a ring that lands as a whole, a buffer in
    sw128, whole 16-byte words in the matrix's rows.
  }];
  let arguments = (ins Tile_Gmem:$source, Tile_Frag:$ids, I32:$column, I32:$rows, Tile_Buf:$dest);
  let assemblyFormat = [{
    $source `[` $ids `,` $column `]` `rows` `(` $rows `)` `->` $dest attr-dict `:` qualified(type($source)) `,` qualified(type($ids)) `->` qualified(type($dest))
  }];
}

def Tile_LookupOp : Tile_Op<"lookup", [MemoryEffects<[MemRead]>]> {
  let summary = "Numbers of a column of a matrix, picked by row";
  let description = [{`%f = lookup %g[%ids, %c] : !G, F -> F'`: each element is that of row `ids` and column %c. T39: ids are i32 in the same places, elements have 32 bits.}];
  let arguments = (ins Tile_Gmem:$source, Tile_Frag:$ids, I32:$column);
  let results = (outs Tile_Frag:$result);
  let assemblyFormat = "$source `[` $ids `,` $column `]` attr-dict `:` qualified(type($source)) `,` qualified(type($ids)) `->` qualified(type($result))";
}

def Tile_LoadOp : Tile_Op<"load", [MemoryEffects<[MemRead]>]> {
  let summary = "A fragment from shared memory";
  let description = [{
    `%f = load %b : !B -> !F`: shapes are equal (T30; a column or row vector has one dim), elements too. A buffer of one element
    loads as a scalar. `trans`: the fragment is the buffer's transpose; one of one dim lies along the second last dim of a buffer
    whose last one is 1.

    `paired 128`: 64 columns of a buffer of 8-bit elements from column 128 on, transposed, their order changed within
    each 16: row r of the `acc` fragment is column 2r, row r + 8 column 2r + 1 (r < 8). That is what a transposing load of
    16-bit pairs and one permutation of bytes give; `write ... paired` puts them back in order.
  }];
  let arguments = (ins Tile_Buf:$source, UnitAttr:$trans, OptionalAttr<I64Attr>:$paired);
  let results = (outs Tile_FragOrUniform:$result);
  let assemblyFormat = "$source (`trans` $trans^)? (`paired` $paired^)? attr-dict `:` qualified(type($source)) `->` qualified(type($result))";
}

def Tile_StoreOp : Tile_Op<"store"> {
  let summary = "A fragment to shared memory";
  let description = [{`store %f, %b : !F, !B`; of a value that several threads hold, one of them stores. `trans`: the buffer is the fragment's transpose. T30 as `load`.}];
  let arguments = (ins Tile_Frag:$value, Tile_Buf:$dest, UnitAttr:$trans);
  let assemblyFormat = "$value `,` $dest (`trans` $trans^)? attr-dict `:` qualified(type($value)) `,` qualified(type($dest))";
}

def Tile_ZeroOp : Tile_Op<"zero"> {
  let hasCanonicalizer = 1;
  let summary = "Clears rows [from, to) of a buffer with 16-byte stores of the whole warpgroup";
  let description = [{`zero %b rows [%n, 64] : !B`. Rows are those of dim 0 of a buffer of rank 2.}];
  let arguments = (ins Tile_Buf:$dest, Variadic<I32>:$coords, DenseI64ArrayAttr:$place);
  let assemblyFormat = "$dest `rows` custom<Coords>($coords, $place) attr-dict `:` qualified(type($dest))";
  let builders = [OpBuilder<(ins "::mlir::Value":$dest, "::mlir::OpFoldResult":$from, "::mlir::OpFoldResult":$to)>];
  let extraClassDeclaration = "::llvm::SmallVector<::mlir::OpFoldResult> getMixedRows();";
}

def Tile_PutOp : Tile_NamedOp<"put"> {
  let hasCanonicalizer = 1;
  let summary = "Asynchronous copy from shared to global memory by the warpgroup's leader";
  let description = [{
    `%t = put %b -> %t[%m, %n] : !B -> !Tma`: one TMA store per box; what lies beyond the tensor's edges is not written.
    T31: a `sync` between the last `store` and it, another between `await reads` and the next `store`.
  }];
  let arguments = (ins Tile_Buf:$source, Tile_Tma:$dest, Variadic<I32>:$coords, DenseI64ArrayAttr:$place);
  let results = (outs Tile_Token:$token);
  let assemblyFormat = "$source `->` $dest `` custom<Coords>($coords, $place) attr-dict `:` qualified(type($source)) `->` qualified(type($dest))";
  let builders = [OpBuilder<(ins "::mlir::Value":$source, "::mlir::Value":$dest, "::llvm::ArrayRef<::mlir::OpFoldResult>":$coords)>];
  let extraClassDeclaration = "::llvm::SmallVector<::mlir::OpFoldResult> getMixedCoords();";
}

def Tile_ReadOp : Tile_Op<"read", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let hasCanonicalizer = 1;
  let summary = "A scalar or fragment from global memory";
  let description = [{
    `%x = read %g[%i, %j] rows(%n) : !G -> !F`. A fragment's dims are the last ones of the tensor (in exchanged order with
    `trans`; one of one dim then lies along the second last), from the coordinates; missing coordinates are 0. `rows(%n)`, `cols(%n)`: of the part, only the first n along the tensor's
    second last and last dim exist, the rest reads as zero and is not touched.
  }];
  let arguments = (ins Tile_Gmem:$source, Variadic<I32>:$coords, DenseI64ArrayAttr:$place, Optional<I32>:$rows, Optional<I32>:$cols, UnitAttr:$trans);
  let results = (outs Tile_FragOrUniform:$result);
  let assemblyFormat = "$source `` custom<Coords>($coords, $place) (`trans` $trans^)? (`rows` `(` $rows^ `)`)? (`cols` `(` $cols^ `)`)? attr-dict `:` qualified(type($source)) `->` qualified(type($result))";
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$source, "::llvm::ArrayRef<::mlir::OpFoldResult>":$coords,
                                 CArg<"::mlir::Value", "{}">:$rows, CArg<"::mlir::Value", "{}">:$cols, CArg<"bool", "false">:$trans)>];
  let extraClassDeclaration = "::llvm::SmallVector<::mlir::OpFoldResult> getMixedCoords();";
}

def Tile_WriteOp : Tile_Op<"write", [AttrSizedOperandSegments]> {
  let hasCanonicalizer = 1;
  let summary = "A scalar or fragment to global memory";
  let description = [{
    `write %f, %g[%i, %j] trans rows(%n) cols(%m) via %s : !F, !G, !S`. Dims, `trans`, `rows` and `cols` as in `read`; what does not
    exist is not written. `via`: restaged through this buffer for 16-byte stores, each warp using its own quarter (T32): dim 0
    is 4 times the role's warpgroups. A scalar is written by one thread of the role. `paired` (with `trans`, of an `acc`
    fragment of 16 or 32 bits): rows r and r + 8 of each 16 are columns 2r and 2r + 1 of the tensor's last dim.
  }];
  let arguments = (ins Tile_FragOrUniform:$value, Tile_Gmem:$dest, Variadic<I32>:$coords, DenseI64ArrayAttr:$place, Optional<I32>:$rows, Optional<I32>:$cols,
                       Optional<Tile_Buf>:$via, UnitAttr:$trans, UnitAttr:$paired);
  let assemblyFormat = [{
    $value `,` $dest `` custom<Coords>($coords, $place) (`trans` $trans^)? (`paired` $paired^)? (`rows` `(` $rows^ `)`)? (`cols` `(` $cols^ `)`)? (`via` $via^ `:` qualified(type($via)))?
    attr-dict `:` qualified(type($value)) `,` qualified(type($dest))
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$value, "::mlir::Value":$dest, "::llvm::ArrayRef<::mlir::OpFoldResult>":$coords,
                                 CArg<"::mlir::Value", "{}">:$rows, CArg<"::mlir::Value", "{}">:$cols, CArg<"bool", "false">:$trans, CArg<"::mlir::Value", "{}">:$via)>];
  let extraClassDeclaration = "::llvm::SmallVector<::mlir::OpFoldResult> getMixedCoords();";
}

def Tile_CountOp : Tile_Op<"count", [MemoryEffects<[MemRead]>]> {
  let summary = "Number `index` of the step's scalars (DSV3_SCALAR_*), as i32";
  let description = [{`%t = count %scalars[0]`. The runtime keeps them in int64; counts of tokens and blocks fit an i32.}];
  let arguments = (ins Tile_StepScalars:$scalars, I64Attr:$index);
  let results = (outs I32:$result);
  let assemblyFormat = "$scalars `[` $index `]` attr-dict";
}

#endif
