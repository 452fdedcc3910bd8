// Matrix products, fragments, conversions, reductions.
#ifndef DSV3_DIALECTS_TILE_COMPUTE_OPS
#define DSV3_DIALECTS_TILE_COMPUTE_OPS

include "dialects/tile/TileOpBase.td"

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
    T35. i4 `opA4` -> i8 `opA`: 16 times the value (the 1/16 belongs in a scale). i4 `opA4t` -> f8E4M3FN `opA`, i4 `acc4` -> bf16
    `acc`, and f8E4M3FN or f8E5M2 `acc` -> bf16 or f16 `acc`: the value, exactly. `less %z` (i4 to bf16): less a whole number per
    row, -16 to 16.
  }];
  let arguments = (ins Tile_Frag:$source, Optional<Tile_Frag>:$zero);
  let results = (outs Tile_Frag:$result);
  let assemblyFormat = "$source (`less` $zero^ `:` qualified(type($zero)) `,`)? attr-dict `:` qualified(type($source)) `->` qualified(type($result))";
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

def Tile_ReduceRowsOp : Tile_Op<"reduce_rows"> {
  let summary = "Reduces fragments of neighbouring warpgroups along their rows";
  let description = [{
    `%m = reduce_rows max %f over 2 via %b : !F, !B -> !C`: per column, over the 64 * 2 rows that warpgroups g and g + 1 of the role
    hold (g a multiple of 2), the same value for both. `via`: 4 rows of N columns per warpgroup of the role, row-major, for this op
    alone; the warpgroups wait for each other. T39: f32 `acc` to f32 `col` of the same columns, `over` divides the role's
    warpgroups. The order is fixed: rows l / 4 and l / 4 + 8 of a thread, lane xor 4, 8, 16, then warps ascending.
  }];
  let arguments = (ins Tile_Combine:$kind, Tile_Frag:$source, I64Attr:$over, Tile_Buf:$via);
  let results = (outs Tile_Frag:$result);
  let assemblyFormat = "$kind $source `over` $over `via` $via attr-dict `:` qualified(type($source)) `,` qualified(type($via)) `->` qualified(type($result))";
}

def Tile_ClusterSumOp : Tile_Op<"cluster_sum"> {
  let summary = "Sum of a fragment over the blocks of a cluster, in the order of their ranks";
  let description = [{
    `%s = cluster_sum %f via %b : !F, !B -> !S`: the block of rank r gets columns [n r, n (r + 1)) of ((f0 + f1) + f2) + ..., with n
    the columns of the result; where these lie past the last column it gets nothing (undefined). `via`: a buffer of n columns
    per block in register order, one per warpgroup and sum, at the same place in all blocks, where the others' columns
    arrive. A warp waits until those of the same warp of all blocks are there, and from the second time on first until all
    have read the time before. T38: `acc` of f32 or i32 in a kernel with a cluster of 2 or more; n a multiple of 8, and n times the
    cluster's size at least the fragment's columns; every block comes here equally often.
  }];
  let arguments = (ins Tile_Frag:$value, Tile_Buf:$via);
  let results = (outs Tile_Frag:$result);
  let assemblyFormat = "$value `via` $via attr-dict `:` qualified(type($value)) `,` qualified(type($via)) `->` qualified(type($result))";
}

#endif
