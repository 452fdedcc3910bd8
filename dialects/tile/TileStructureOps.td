// Kernels, roles, loops over work, scalars.
#ifndef DSV3_DIALECTS_TILE_STRUCTURE_OPS
#define DSV3_DIALECTS_TILE_STRUCTURE_OPS

include "dialects/tile/TileOpBase.td"

def Tile_KernelOp : Tile_RegionOp<"kernel", [FunctionOpInterface, IsolatedFromAbove, NoTerminator]> {
  let summary = "A device kernel: setup ops, then one region per role";
  let description = [{
    `tile.kernel @gemm(%scalars: !llvm.ptr<1>, %ta: !tile.tma<...>, %out: !tile.gmem<...>, %n: i32) cluster(1) {...}`.
    Arguments: tensor maps, global pointers, i32, i64 and f32 numbers, and `!llvm.ptr<1>` for the step's scalars; they
    become the parameters in order. Setup ops (`alloc`, `ring`, `gate`, schedules, scalar arithmetic, `count`, `read` of
    scalars) run in every thread. T1: shared memory at most 232448 bytes. T2: threads = 128 x (warpgroups of all roles,
    a producer counts as one), at most 1024.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type, DefaultValuedAttr<I64Attr, "1">:$cluster,
                       OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::TypeRange":$args, CArg<"int64_t", "1">:$cluster)>];
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// Threads of a block: 128 per warpgroup.
    int64_t getThreads();
    /// Bytes of all rings and allocs, each aligned to what its layout needs, without barriers.
    int64_t getBufferBytes();
    /// The role of this name, or null.
    ::dsv3::tile::RoleOp getRole(::llvm::StringRef name);
    /// The op that made this ring, or null: a ring's attribute identifies it in a kernel.
    ::dsv3::tile::RingOp getRing(::dsv3::tile::RingAttr ring);
  }];
}

def Tile_RoleOp : Tile_RegionOp<"role", [HasParent<"KernelOp">, NoTerminator]> {
  let summary = "The program of one thread (producer; of a warpgroup if it gathers) or of some warpgroups";
  let description = [{
    `role @load producer regs(40) {...}` runs in one elected thread of a warpgroup of its own; `role @mma warpgroups(2) as
    %g regs(232) {...}` runs in each of its warpgroups, `%g` (i32, the region's argument) counts them from 0. Roles take
    warpgroups in order, producers first. `regs`: registers per thread after setmaxnreg. T3: a multiple of 8 in 24..256; the
    sum of 128 regs over all warpgroups at most 65536. T4: a producer needs 40, 32 beside three or more consumer warpgroups, 56 in a cluster.
  }];
  let arguments = (ins StrAttr:$name, UnitAttr:$producer, DefaultValuedAttr<I64Attr, "1">:$warpgroups, OptionalAttr<I64Attr>:$regs);
  let skipDefaultBuilders = 1;
  let builders = [
    // Makes the region's block, with the warpgroup's index unless `warpgroups` is 0, which means a producer.
    OpBuilder<(ins "::llvm::StringRef":$name, "int64_t":$warpgroups, CArg<"int64_t", "0">:$regs)>
  ];
  let extraClassDeclaration = [{
    /// Whether it copies picked rows, which takes all threads of its warpgroup, not one.
    bool gathers();
    /// Index of the warpgroup in its role; null in a producer.
    ::mlir::Value getIndex() { return getProducer() ? ::mlir::Value() : ::mlir::Value(getBody().getArgument(0)); }
  }];
}

class Tile_WorkOp<string mnemonic, list<Trait> traits = []> : Tile_NamedOp<mnemonic, !listconcat([HasParent<"KernelOp">], traits)> {
  let results = (outs Tile_Work:$work);
}

def Tile_RasterOp : Tile_WorkOp<"raster"> {
  let summary = "Work: tiles of a grid of numbers, taken by persistent CTAs";
  let description = [{
    `%w = raster [%M, %N] tile [128, 256] group 8 -> (m, n)`. Fields: each item's start (a multiple of the tile). Items are
    numbered with the last two dims innermost, in bands of `group` tiles of the second last dim (8 bands of rows share L2),
    leading dims outermost; a CTA takes item ctaid, then + nctaid. An extent may be a number read on the device. One kernel op
    per kind of work, not one with a kind: their operands have nothing in common.
  }];
  let arguments = (ins Variadic<I32>:$extents, DenseI64ArrayAttr:$place, DenseI64ArrayAttr:$tile, DefaultValuedAttr<I64Attr, "1">:$group, StrArrayAttr:$fields);
  let assemblyFormat = "custom<Coords>($extents, $place) `tile` custom<Sizes>($tile) (`group` $group^)? `->` custom<Fields>($fields) attr-dict";
  let builders = [OpBuilder<(ins "::llvm::ArrayRef<::mlir::OpFoldResult>":$extents, "::llvm::ArrayRef<int64_t>":$tile, "int64_t":$group, "::llvm::ArrayRef<::llvm::StringRef>":$fields)>];
  let extraClassDeclaration = "::llvm::SmallVector<::mlir::OpFoldResult> getMixedExtents();";
}

def Tile_ListOp : Tile_WorkOp<"list"> {
  let summary = "Work: a list of items in memory, cut in parts";
  let description = [{
    `%w = list %items, %parts lanes(%HT) -> (ht, req, b0, b1, slot) : !tile.gmem<?x4xi32>, !tile.gmem<?xi32>`. Row i of `items`
    holds the fields of an item; part p is items parts[p] up to parts[p + 1]. CTA c works on part c / lanes in lane
    c % lanes; the first field is the lane, the others are the columns.
  }];
  let arguments = (ins Tile_Gmem:$items, Tile_Gmem:$parts, I32:$lanes, StrArrayAttr:$fields);
  let assemblyFormat = "$items `,` $parts `lanes` `(` $lanes `)` `->` custom<Fields>($fields) attr-dict `:` qualified(type($items)) `,` qualified(type($parts))";
  let builders = [OpBuilder<(ins "::mlir::Value":$items, "::mlir::Value":$parts, "::mlir::Value":$lanes, "::llvm::ArrayRef<::llvm::StringRef>":$fields)>];
}

def Tile_GroupsOp : Tile_WorkOp<"groups"> {
  let summary = "Work: tiles of groups of rows whose offsets lie on the device";
  let description = [{
    `%w = groups %off experts(%E) rows 16 cols(%N, 128) max 512 -> (e, cnt, row0, n) : !tile.gmem<?xi32>`. Group e is rows
    off[e] up to off[e + 1]. Items are (group, tile of `tile` columns, tile of at most `rows` rows), the last innermost; each CTA
    builds the list of row tiles in shared memory by a prefix sum (at most `max` row tiles, 16 bytes each), then takes item
    ctaid, + nctaid, ... Fields: group, rows in this tile, first row, first column; in a kernel with a cluster maybe a fifth,
    the block's rank: then the blocks of a cluster share an item.
  }];
  let arguments = (ins Tile_Gmem:$offsets, I32:$experts, I64Attr:$rows, I32:$cols, I64Attr:$tile, I64Attr:$max, StrArrayAttr:$fields);
  let assemblyFormat = "$offsets `experts` `(` $experts `)` `rows` $rows `cols` `(` $cols `,` $tile `)` `max` $max `->` custom<Fields>($fields) attr-dict `:` qualified(type($offsets))";
  let builders = [OpBuilder<(ins "::mlir::Value":$offsets, "::mlir::Value":$experts, "int64_t":$rows, "::mlir::Value":$cols, "int64_t":$tile, "int64_t":$max, "::llvm::ArrayRef<::llvm::StringRef>":$fields)>];
}

def Tile_ForeachOp : Tile_RegionOp<"foreach", [SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "Runs its region for every item of this CTA, in the same order in every role";
  let description = [{
    `%r = foreach (%m, %n) at %c in %w iter(%s = %s0) : !S {...}`. Region arguments: a field each (i32, T5), the item's
    ordinal in this CTA (i32; written `at %c` only where it is used), then what is carried. Ends with `yield`.
  }];
  let arguments = (ins Tile_Work:$work, Variadic<AnyType>:$inits);
  let results = (outs Variadic<AnyType>:$results);
  let skipDefaultBuilders = 1;
  let builders = [
    // Makes the region's block without a terminator; the number of fields is that of `work`.
    OpBuilder<(ins "::mlir::Value":$work, "::mlir::ValueRange":$inits)>
  ];
  let extraClassDeclaration = [{
    unsigned getNumFields() { return getBody().getNumArguments() - getInits().size() - 1; }
    ::mlir::Block::BlockArgListType getFieldArgs() { return getBody().getArguments().take_front(getNumFields()); }
    ::mlir::BlockArgument getOrdinal() { return getBody().getArgument(getNumFields()); }
    ::mlir::Block::BlockArgListType getIterArgs() { return getBody().getArguments().drop_front(getNumFields() + 1); }
    ::dsv3::tile::YieldOp getYield();
  }];
}

def Tile_LoopOp : Tile_RegionOp<"loop", [AttrSizedOperandSegments, SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "A counted loop that may be peeled or unrolled";
  let description = [{
    `%r = loop %i = 0 to %K step 64 peel(first) as %fin iter(%t = %s) : !S {...}`. Bounds are i32, numbers or values.
    `peel(first|last)`: `--dsv3-tile-peel` makes that trip a copy of its own, where `%fin` (i1) is true; there must be at
    least one trip (T6). `unroll`: constant bounds, at most 8 trips (T7). Afterwards no `loop` is left, only scf.for.
    Region arguments: index, `%fin` if peeled, what is carried.
  }];
  let arguments = (ins Variadic<I32>:$bounds, DenseI64ArrayAttr:$place, DefaultValuedAttr<Tile_Peel, "::dsv3::tile::Peel::None">:$peel,
                       UnitAttr:$unroll, Variadic<AnyType>:$inits);
  let results = (outs Variadic<AnyType>:$results);
  let skipDefaultBuilders = 1;
  let builders = [
    // Makes the region's block without a terminator.
    OpBuilder<(ins "::mlir::OpFoldResult":$lower, "::mlir::OpFoldResult":$upper, "::mlir::OpFoldResult":$step, "::mlir::ValueRange":$inits,
                   CArg<"::dsv3::tile::Peel", "::dsv3::tile::Peel::None">:$peel, CArg<"bool", "false">:$unroll)>
  ];
  let extraClassDeclaration = [{
    ::mlir::OpFoldResult getLower();
    ::mlir::OpFoldResult getUpper();
    ::mlir::OpFoldResult getStep();
    ::mlir::BlockArgument getIndex() { return getBody().getArgument(0); }
    /// `%fin`, or null if the loop is not peeled.
    ::mlir::Value getFin() { return getPeel() == Peel::None ? ::mlir::Value() : ::mlir::Value(getBody().getArgument(1)); }
    ::mlir::Block::BlockArgListType getIterArgs() { return getBody().getArguments().take_back(getInits().size()); }
    ::dsv3::tile::YieldOp getYield();
  }];
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, Terminator, ParentOneOf<["ForeachOp", "LoopOp"]>]> {
  let summary = "What the next item or trip starts with, and the results after the last";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
  let hasVerifier = 0;
}

def Tile_NoneOp : Tile_NamedOp<"none", [Pure]> {
  let summary = "Not yet: an accumulator, slot or token of nothing";
  let description = [{
    T8: only for those three types. `mma into none` starts a fresh accumulator; `await` and `release` of none vanish when
    `--dsv3-tile-peel` can see it, else they test at run time. Never zeros.
  }];
  let results = (outs AnyType:$result);
  let assemblyFormat = "attr-dict `:` qualified(type($result))";
}

#endif
