// Rings, gates, clusters, waits.
#ifndef DSV3_DIALECTS_TILE_SYNC_OPS
#define DSV3_DIALECTS_TILE_SYNC_OPS

include "dialects/tile/TileOpBase.td"

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
    Region arguments: the group's buffers. T15: only copies, gathers, loops, scf.if and scalar ops inside. T16: every part of
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

#endif
