// Operations: structure, memory, synchronisation, compute.
#ifndef DSV3_DIALECTS_TILE_OPS
#define DSV3_DIALECTS_TILE_OPS

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

//===-- Structure ---------------------------------------------------------===//

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
  let summary = "The program of one thread (producer) or of some warpgroups";
  let description = [{
    `role @load producer regs(40) {...}` runs in one elected thread of a warpgroup of its own; `role @mma warpgroups(2) as
    %g regs(232) {...}` runs in each of its warpgroups, `%g` (i32, the region's argument) counts them from 0. Roles take
    warpgroups in order, producers first. `regs`: registers per thread after setmaxnreg. T3: a multiple of 8 in 24..256; the
    sum of 128 regs over all warpgroups at most 65536. T4: a producer needs 40, 32 beside four consumer warpgroups, 56 in a cluster.
  }];
  let arguments = (ins StrAttr:$name, UnitAttr:$producer, DefaultValuedAttr<I64Attr, "1">:$warpgroups, OptionalAttr<I64Attr>:$regs);
  let skipDefaultBuilders = 1;
  let builders = [
    // Makes the region's block, with the warpgroup's index unless `warpgroups` is 0, which means a producer.
    OpBuilder<(ins "::llvm::StringRef":$name, "int64_t":$warpgroups, CArg<"int64_t", "0">:$regs)>
  ];
  let extraClassDeclaration = [{
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
    ctaid, + nctaid, ... Fields: group, rows in this tile, first row, first column.
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

//===-- Memory ------------------------------------------------------------===//

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

def Tile_LoadOp : Tile_Op<"load", [MemoryEffects<[MemRead]>]> {
  let summary = "A fragment from shared memory";
  let description = [{
    `%f = load %b : !B -> !F`: shapes are equal (T30; a column or row vector has one dim), elements too. A buffer of one element
    loads as a scalar. `trans`: the fragment is the buffer's transpose.
  }];
  let arguments = (ins Tile_Buf:$source, UnitAttr:$trans);
  let results = (outs Tile_FragOrUniform:$result);
  let assemblyFormat = "$source (`trans` $trans^)? attr-dict `:` qualified(type($source)) `->` qualified(type($result))";
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
    is 4 times the role's warpgroups. A scalar is written by one thread of the role.
  }];
  let arguments = (ins Tile_FragOrUniform:$value, Tile_Gmem:$dest, Variadic<I32>:$coords, DenseI64ArrayAttr:$place, Optional<I32>:$rows, Optional<I32>:$cols,
                       Optional<Tile_Buf>:$via, UnitAttr:$trans);
  let assemblyFormat = [{
    $value `,` $dest `` custom<Coords>($coords, $place) (`trans` $trans^)? (`rows` `(` $rows^ `)`)? (`cols` `(` $cols^ `)`)? (`via` $via^ `:` qualified(type($via)))?
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

//===-- Synchronisation ---------------------------------------------------===//

def Tile_RingOp : Tile_NamedOp<"ring", [HasParent<"KernelOp">, InferTypeOpAdaptor]> {
  let summary = "Makes a ring: its buffers and barriers";
  let description = [{`%r = ring #kv`. One op per ring attribute in a kernel. T11: 1 stage or more. T12: free groups partition the columns. T13: `arrive = warpgroup` only if all reads between wait and release are wgmma operands.}];
  let arguments = (ins Tile_RingAttr:$ring);
  let results = (outs Tile_Ring:$result);
  let assemblyFormat = "$ring attr-dict";
}

def Tile_NextOp : Tile_NamedOp<"next", [Pure, TypesMatchWith<"result is a slot of the same ring", "from", "result", "::dsv3::tile::slotOf($_self)">]> {
  let summary = "The first slot of a ring, or the slot after a slot";
  let description = [{`%s = next %r : !tile.ring<#kv>`, `%u = next %s : !tile.slot<#kv>`; `next %r[%lane] : ...` for a ring with lanes.}];
  let arguments = (ins AnyTypeOf<[Tile_Ring, Tile_Slot]>:$from, Optional<I32>:$lane);
  let results = (outs Tile_Slot:$result);
  let assemblyFormat = "$from (`[` $lane^ `]`)? attr-dict `:` qualified(type($from))";
  let builders = [OpBuilder<(ins "::mlir::Value":$from), [{ build($_builder, $_state, slotOf(from.getType()), from, ::mlir::Value()); }]>];
}

def Tile_GateOp : Tile_NamedOp<"gate", [HasParent<"KernelOp">]> {
  let summary = "A named barrier between two roles";
  let description = [{`gate from @a to @b`: a signals, b meets. `gate between @a, @b`: both meet. T14: at most 15 with the roles' own.}];
  let arguments = (ins FlatSymbolRefAttr:$a, FlatSymbolRefAttr:$b, UnitAttr:$mutual);
  let results = (outs Tile_Gate:$gate);
  let assemblyFormat = "custom<Ends>($a, $b, $mutual) attr-dict";
}

def Tile_FillOp : Tile_RegionOp<"fill", [NoTerminator]> {
  let summary = "Fills a slot, or a group of its columns, by copies";
  let description = [{
    `fill %s[1] as (%b) : !S {...}`: waits until the group is free, announces the bytes of the region's copies, issues them.
    Region arguments: the group's buffers. T15: only copies, loops, scf.if and scalar ops inside. T16: every part of
    the group is copied. The buffer of a group that is not one range of columns can only be copied into, with `*`.
  }];
  let arguments = (ins Tile_Slot:$slot, OptionalAttr<I64Attr>:$group);
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    // Makes the region's block; group -1 is the whole stage.
    OpBuilder<(ins "::mlir::Value":$slot, CArg<"int64_t", "-1">:$group)>
  ];
}

def Tile_WaitOp : Tile_Op<"wait", [InferTypeOpAdaptor]> {
  let summary = "Blocks until a slot's parts have landed (`full`), or are free";
  let description = [{
    `%a, %b = wait full %s[g] : !S` yields the stage's buffers; a group only narrows what is waited for. T20: `free` only in
    a role that fills the ring. There is no form that polls.
  }];
  let arguments = (ins Tile_Barrier:$barrier, Tile_Slot:$slot, OptionalAttr<I64Attr>:$group);
  let results = (outs Variadic<Tile_Buf>:$bufs);
  let assemblyFormat = "$barrier $slot (`[` $group^ `]`)? attr-dict `:` qualified(type($slot))";
  let builders = [OpBuilder<(ins "::dsv3::tile::Barrier":$barrier, "::mlir::Value":$slot, CArg<"int64_t", "-1">:$group)>];
}

def Tile_PeekOp : Tile_Op<"peek", [Pure, InferTypeOpAdaptor]> {
  let summary = "A slot's buffers without waiting: an earlier wait, a gate or the role's own fill orders it";
  let arguments = (ins Tile_Slot:$slot);
  let results = (outs Variadic<Tile_Buf>:$bufs);
  let assemblyFormat = "$slot attr-dict `:` qualified(type($slot))";
  let hasVerifier = 0;
}

def Tile_ReleaseOp : Tile_Op<"release"> {
  let hasCanonicalizer = 1;
  let summary = "Arrives at a slot's free barrier, or at the full one of a ring filled by stores";
  let description = [{
    `release %s[g] : !S`, `release full %s : !S`. T21: the role frees (fills) that group. T22: after peeling, every slot is
    released once on every path, unless its group has a `count`. T23: no mma in flight reads it.
  }];
  let arguments = (ins DefaultValuedAttr<Tile_Barrier, "::dsv3::tile::Barrier::Free">:$barrier, Tile_Slot:$slot, OptionalAttr<I64Attr>:$group);
  let assemblyFormat = "($barrier^)? $slot (`[` $group^ `]`)? attr-dict `:` qualified(type($slot))";
  let builders = [OpBuilder<(ins "::mlir::Value":$slot, CArg<"int64_t", "-1">:$group, CArg<"::dsv3::tile::Barrier", "::dsv3::tile::Barrier::Free">:$barrier)>];
}

def Tile_SignalOp : Tile_Op<"signal"> {
  let summary = "Arrives at a gate without waiting";
  let arguments = (ins Tile_Gate:$gate);
  let assemblyFormat = "$gate attr-dict";
}

def Tile_MeetOp : Tile_Op<"meet"> {
  let summary = "Waits at a gate";
  let arguments = (ins Tile_Gate:$gate);
  let assemblyFormat = "$gate attr-dict";
}

def Tile_SyncOp : Tile_Op<"sync"> {
  let summary = "Barrier of this warpgroup, or of the warp, the block, the cluster";
  let arguments = (ins DefaultValuedAttr<Tile_Scope, "::dsv3::tile::Scope::Warpgroup">:$scope);
  let assemblyFormat = "($scope^)? attr-dict";
  let hasVerifier = 0;
}

def Tile_PdlOp : Tile_Op<"pdl"> {
  let summary = "Programmatic dependent launch: lets the next kernel start, or waits for the one before";
  let description = [{T37: nothing that an earlier kernel wrote is read before `pdl wait`.}];
  let arguments = (ins Tile_PdlEvent:$event);
  let assemblyFormat = "$event attr-dict";
  let hasVerifier = 0;
}

//===-- Compute -----------------------------------------------------------===//

def Tile_MmaOp : Tile_NamedOp<"mma", [InferTypeOpAdaptor]> {
  let summary = "result = acc + a b, asynchronous";
  let description = [{
    `%d, %t = mma nt %a, %b into %acc : !A, !B, !D`. `nt`: b is [n, k]; `nn`: b is [k, n]; a is [m, k].
    `into` a fragment (encoding `acc`) starts from its values; into an `!tile.acc` it continues what is in flight; into `none`
    from zero. `a` is a buffer or a
    fragment (register operand: `acc` of 16 bits, `opA` of 8). A slot as `b` streams: each landed part is waited for just before
    its k-steps, in the order of loading; with a group (`%s[1]`), the group's columns of b and the same columns of a.
    T24: M = 64, N a multiple of 8 up to 256 (s8: 8, 24, or a multiple of 16), a legal triple of types. T25: `nn` only for 16-bit
    elements. T26: layouts that wgmma reads. T27: the kind of a fragment `a`.
  }];
  let arguments = (ins Tile_Form:$form, AnyTypeOf<[Tile_Buf, Tile_Frag]>:$a, AnyTypeOf<[Tile_Buf, Tile_Slot]>:$b, AnyTypeOf<[Tile_Acc, Tile_Frag]>:$acc, OptionalAttr<I64Attr>:$group);
  let results = (outs Tile_Acc:$result, Tile_Token:$token);
  let assemblyFormat = "$form $a `,` $b (`[` $group^ `]`)? `into` $acc attr-dict `:` qualified(type($a)) `,` qualified(type($b)) `,` qualified(type($acc))";
  let builders = [OpBuilder<(ins "::dsv3::tile::Form":$form, "::mlir::Value":$a, "::mlir::Value":$b, "::mlir::Value":$acc, CArg<"int64_t", "-1">:$group)>];
}

def Tile_AwaitOp : Tile_Op<"await", [InferTypeOpAdaptor]> {
  let hasCanonicalizer = 1;
  let summary = "Waits for an mma or a put";
  let description = [{
    `%f = await %acc : !D` makes the accumulator a fragment (encoding `acc`); `await %t : !tile.token` says that the mma's
    reads are over, or the put is complete (`reads`: has read its buffer). T28: a token's age is the same on all paths. T29: a
    register operand stays tied through the await that retires its mma.
  }];
  let arguments = (ins AnyTypeOf<[Tile_Acc, Tile_Token]>:$source, UnitAttr:$reads);
  let results = (outs Optional<Tile_Frag>:$result);
  let assemblyFormat = "$source (`reads` $reads^)? attr-dict `:` qualified(type($source))";
  let builders = [
    OpBuilder<(ins "::mlir::Value":$source), [{ build($_builder, $_state, source, ::mlir::UnitAttr()); }]>
  ];
}

def Tile_ReduceOp : Tile_Op<"reduce", [Pure]> {
  let summary = "Reduces a fragment along a dim";
  let description = [{
    `%r = reduce max %f dim 1 : !F -> !R`. T33: from `acc` along dim 1 to `quad` (each thread's own values, no traffic) or `row`;
    from `quad` to `row`; along dim 0 not supported. The order is fixed: in the thread by a tree over its registers in
    ascending order of columns, then lane xor 1, then xor 2.
  }];
  let arguments = (ins Tile_Combine:$kind, Tile_Frag:$source, I64Attr:$dim);
  let results = (outs Tile_Frag:$result);
  let assemblyFormat = "$kind $source `dim` $dim attr-dict `:` qualified(type($source)) `->` qualified(type($result))";
}

def Tile_BcastOp : Tile_Op<"bcast", [Pure]> {
  let summary = "A scalar, row or column value to every element of a fragment";
  let description = [{`%b = bcast %x : !R -> !F`: from a scalar to anything; from `row` to `acc` or `quad`, from `col` to `acc`. T34: no data moves between threads.}];
  let arguments = (ins Tile_FragOrUniform:$source);
  let results = (outs Tile_Frag:$result);
  let assemblyFormat = "$source attr-dict `:` qualified(type($source)) `->` qualified(type($result))";
}

def Tile_IotaOp : Tile_Op<"iota", [Pure]> {
  let summary = "Each element's index along a dim, i32";
  let arguments = (ins I64Attr:$dim);
  let results = (outs Tile_Frag:$result);
  let assemblyFormat = "`dim` $dim attr-dict `:` qualified(type($result))";
}

def Tile_SliceOp : Tile_Op<"slice", [Pure]> {
  let hasCanonicalizer = 1;
  let summary = "Columns of an `acc` fragment";
  let description = [{`%s = slice %f[8] : !F -> !H`: columns from a multiple of 8, as many as the result has. A value as the start must be a constant after unrolling.}];
  let arguments = (ins Tile_Frag:$source, Variadic<I32>:$coords, DenseI64ArrayAttr:$place);
  let results = (outs Tile_Frag:$result);
  let assemblyFormat = "$source `` custom<Coords>($coords, $place) attr-dict `:` qualified(type($source)) `->` qualified(type($result))";
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$source, "::mlir::OpFoldResult":$col)>];
  let extraClassDeclaration = "::mlir::OpFoldResult getCol();";
}

def Tile_ExpandOp : Tile_Op<"expand", [Pure]> {
  let summary = "Packed weights to a register operand";
  let description = [{
    T35. i4 `opA4` -> i8 `opA`: 16 times the value (the 1/16 belongs in a scale). f8E4M3FN `acc` -> bf16 `acc`: the value, exactly.
  }];
  let arguments = (ins Tile_Frag:$source);
  let results = (outs Tile_Frag:$result);
  let assemblyFormat = "$source attr-dict `:` qualified(type($source)) `->` qualified(type($result))";
}

def Tile_AnyOp : Tile_Op<"any", [Pure]> {
  let summary = "True if any element that this warp holds is";
  let description = [{
    The one value that differs between warps. T36: what it guards holds no barrier, mma, wait or release (checked for an
    `scf.if` on it, not through arithmetic).
  }];
  let arguments = (ins Tile_Frag:$mask);
  let results = (outs I1:$result);
  let assemblyFormat = "$mask attr-dict `:` qualified(type($mask))";
}

def Tile_ClusterSumOp : Tile_Op<"cluster_sum"> {
  let summary = "Sum of a fragment over the blocks of a cluster, in the order of their ranks";
  let description = [{
    `%s = cluster_sum %f via %b : !F, !B -> !S`: the block of rank r gets columns [n r, n (r + 1)) of ((f0 + f1) + f2) + ..., with n
    the columns of the result; where these lie past the last column it gets nothing (undefined). `via`: a buffer of n columns
    per block in register order, one per warpgroup and sum, at the same place in all blocks, where the others' columns
    arrive. A warp waits until those of the same warp of all blocks are there, and from the second time on first until all
    have read the time before. T38: f32 `acc` in a kernel with a cluster of 2 or more; n a multiple of 8, and n times the
    cluster's size at least the fragment's columns; every block comes here equally often.
  }];
  let arguments = (ins Tile_Frag:$value, Tile_Buf:$via);
  let results = (outs Tile_Frag:$result);
  let assemblyFormat = "$value `via` $via attr-dict `:` qualified(type($value)) `,` qualified(type($via)) `->` qualified(type($result))";
}

#endif
