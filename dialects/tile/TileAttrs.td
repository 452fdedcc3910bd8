// Layouts of shared memory, fragments, rings, and small enums.
#ifndef DSV3_DIALECTS_TILE_ATTRS
#define DSV3_DIALECTS_TILE_ATTRS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"
include "dialects/tile/TileDialect.td"

class Tile_Attr<string name, string mn, list<Trait> traits = []> : AttrDef<Tile_Dialect, name, traits> {
  let mnemonic = mn;
}
class Tile_Enum<string name, string text, list<I32EnumAttrCase> cases> : I32EnumAttr<name, text, cases> {
  let cppNamespace = "::dsv3::tile";
}

def Tile_LayoutAttr : Tile_Attr<"Layout", "layout"> {
  let summary = "Where elements of a shared memory buffer lie";
  let description = [{
    One of (dialects/tile/SmemLayout.h evaluates it: coordinate -> bit):
    - `linear`: row-major. `pad<k>`: row-major, k bytes after each row (innermost dim).
    - `sw32`, `sw64`, `sw128`: what TMA writes and wgmma reads. Rows of an atom are 32, 64 or 128 bytes wide; atoms of
      [rows x width] lie side by side, so that a 64x576 bf16 buffer is nine atoms of 64 x 128 bytes; then address
      bits are exchanged: swizzle<1,4,3>, <2,4,3> or <3,4,3>.
    - `swizzle<B,M,S>`: row-major, then byte ^= ((byte >> (M + S)) & (2^B - 1)) << M.
    - `frag<kind>`: the last two dims (one for row and col) in register order of that fragment, 16-byte words
      contiguous over the 128 threads: weights packed offline, partial sums. Free of conflicts by construction.
    - `auto`: not chosen yet; `--dsv3-tile-choose-layouts` replaces it.

    A closed list instead of a general map: kernels stay readable, and each member has been checked against the
    hardware's rules.
  }];
  let parameters = (ins "::dsv3::tile::SmemKind":$kind, "int64_t":$a, "int64_t":$b, "int64_t":$c);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let builders = [AttrBuilder<(ins "::dsv3::tile::SmemKind":$kind), [{ return $_get($_ctxt, kind, 0, 0, 0); }]>];
  let extraClassDeclaration = [{
    /// Evaluator for a buffer of this shape.
    ::dsv3::tile::SmemLayout layoutOf(::llvm::ArrayRef<int64_t> shape, unsigned elementBits) const;
  }];
}

def Tile_FragAttr : Tile_Attr<"Frag", "frag", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "Which thread of a warpgroup holds which element";
  let description = [{
    A map (register, lane, warp) -> coordinate, evaluated by dialects/tile/Fragment.h. With l the lane and w the warp:
    - `acc` (64 x N, N a multiple of 8): wgmma's D. Register 4j + 2h + i holds row 16w + l/4 + 8h, column
      8j + 2(l%4) + i. For 16-bit elements it *is* wgmma's A operand, packed in pairs.
    - `opA` (64 x N, 8-bit, N a multiple of 32): wgmma's A. Register 16b + 4(h + 2c) + i holds row 16w + l/4 + 8h,
      column 32b + 16c + 4(l%4) + i.
    - `opA4` (64 x N, i4, N a multiple of 32): packed so that `expand` is two ands and a shift. Nibble 8(2b + c) + 2i + p
      holds row 16w + l/4 + 8p, column 32b + 16c + 4(l%4) + i.
    - `opA4t` (64 x N, i4, N a multiple of 32): packed so that half a word is the selector of a look-up of four codes. Nibble
      8(2b + c) + 4p + i holds row 16w + l/4 + 8p, column 32b + 16c + 4(l%4) + i.
    - `acc4` (64 x N, i4, N a multiple of 16): packed so that `expand` yields pairs of 16 bits. Nibble 8b + 4i + 2c + h holds
      row 16w + l/4 + 8h, column 16b + 8c + 2(l%4) + i.
    - `row` (64), `col` (N): a value per row, the same in the four threads of a quad; a value per column, the same in all
      rows. `quad` (64 x 4): a row's four per-thread partial values.
    - `line` (N, 8 or a multiple of 16): a value per row of lines of 128 bytes, which eight lanes copy together: register i holds row
      16i + 4w + l/8, of 8 rows modulo 8.
    - `lin<vec, threads>` (any shape): vectors of `vec` elements of the row-major order, dealt to threads in turn.

    Nothing converts from one to another implicitly: `reduce`, `bcast`, `load` and `expand` do.
  }];
  let parameters = (ins "::dsv3::tile::FragKind":$kind, "int64_t":$vec, "int64_t":$threads);
  let hasCustomAssemblyFormat = 1;
  let builders = [AttrBuilder<(ins "::dsv3::tile::FragKind":$kind), [{ return $_get($_ctxt, kind, 0, 0); }]>];
  let extraClassDeclaration = [{
    /// Evaluator for a fragment of this shape (rank 1 for row, col and line).
    ::dsv3::tile::Fragment fragmentOf(::llvm::ArrayRef<int64_t> shape) const;
  }];
}

def Tile_FreeAttr : Tile_Attr<"Free", "free"> {
  let summary = "Which roles free which columns of a stage";
  let description = [{
    Inside a ring: `all by @mma`, `0:256 + 512:576 by @wg0`, `all by @wg0 and @wg1 count 8`. `cols` are pairs [from, to) of
    the innermost dim, empty for all; `count` is the number of arrivals where it is not every warp (or warpgroup) of the
    roles, else 0.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$cols, ArrayRefParameter<"::mlir::FlatSymbolRefAttr">:$roles,
                        "int64_t":$count);
  let hasCustomAssemblyFormat = 1;
  let builders = [
    AttrBuilder<(ins "::llvm::ArrayRef<::llvm::StringRef>":$roles, CArg<"::llvm::ArrayRef<int64_t>", "{}">:$cols, CArg<"int64_t", "0">:$count)>
  ];
}

def Tile_Landed : Tile_Enum<"Landed", "when a stage's parts are there", [
    I32EnumAttrCase<"All", 0, "all">, I32EnumAttrCase<"Cols", 1, "cols">, I32EnumAttrCase<"Other", 2, "other">]>;
def Tile_Arrive : Tile_Enum<"Arrive", "who arrives at a free barrier", [
    I32EnumAttrCase<"Warp", 0, "warp">, I32EnumAttrCase<"Warpgroup", 1, "warpgroup">]>;

def Tile_RingAttr : Tile_Attr<"Ring", "ring"> {
  let summary = "A circular buffer between roles: what a stage holds, who fills it, who frees it";
  let description = [{
    `#tile.ring<"kv", stages = 4, bufs = [!A, !B], free = [all by @mma], arrive = warpgroup>`. Fields:
    - a name, optional. **The attribute identifies the ring**: a kernel has one `ring` op per attribute, and two rings that
      look alike carry different names. So a slot's type says to which ring it belongs, whatever path the slot took
      through `iter` lists, and no pass has to trace it.
    - `stages`: 1 or more. `lanes` (default 1): that many independent rings, chosen by index at `next`.
    - `bufs`: types of a stage's buffers.
    - `landed` (default `all`): one full barrier per stage; `cols(n)`: one per n columns of the only buffer, in order;
      `other`: none of its own, each copy says on which slot's barrier it completes (`on %slot`), and readers `peek`.
    - `free`: list of groups. One free barrier per group. Several groups partition the columns of the only buffer,
      in the order in which they are filled.
    - `fill = tx` (default): bytes of copies; `arrive(n)`: n warps store and then `release full`.
    - `arrive` (default `warp`): each warp of the freeing roles arrives, or one thread per warpgroup, which is legal only
      if all reads between wait and release are wgmma operands (T13).
  }];
  let parameters = (ins StringRefParameter<"name">:$name, "int64_t":$stages, "int64_t":$lanes,
                        ArrayRefParameter<"::mlir::Type">:$bufs, "::dsv3::tile::Landed":$landed, "int64_t":$landedCols,
                        ArrayRefParameter<"::dsv3::tile::FreeAttr">:$free, "int64_t":$fillWarps, "::dsv3::tile::Arrive":$arrive);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    ::dsv3::tile::BufType getBuf(unsigned i) const;
    /// Buffers that a `fill` of this group sees: all of the stage for -1 or a group of all columns, else the group's columns.
    ::llvm::SmallVector<::mlir::Type> getGroupBufs(int64_t group) const;
    /// Column ranges [from, to) of a group, or of the whole stage for -1.
    ::llvm::SmallVector<std::pair<int64_t, int64_t>> getGroupCols(int64_t group) const;
    /// Full barriers of a stage: 1, or one per part; 0 for `other`.
    int64_t getParts() const;
  }];
  let builders = [
    AttrBuilder<(ins "::llvm::StringRef":$name, "int64_t":$stages, "::llvm::ArrayRef<::mlir::Type>":$bufs, "::llvm::ArrayRef<::dsv3::tile::FreeAttr>":$free,
                     CArg<"::dsv3::tile::Arrive", "::dsv3::tile::Arrive::Warp">:$arrive), [{
      return $_get($_ctxt, name, stages, 1, bufs, Landed::All, 0, free, 0, arrive);
    }]>
  ];
}

def Tile_Barrier : Tile_Enum<"Barrier", "barrier of a slot", [
    I32EnumAttrCase<"Full", 0, "full">, I32EnumAttrCase<"Free", 1, "free">]>;
def Tile_Scope : Tile_Enum<"Scope", "threads that meet", [
    I32EnumAttrCase<"Warpgroup", 0, "warpgroup">, I32EnumAttrCase<"Warp", 1, "warp">, I32EnumAttrCase<"Cta", 2, "cta">,
    I32EnumAttrCase<"Cluster", 3, "cluster">]>;
def Tile_Form : Tile_Enum<"Form", "how b is stored", [I32EnumAttrCase<"Nt", 0, "nt">, I32EnumAttrCase<"Nn", 1, "nn">]>;
def Tile_Combine : Tile_Enum<"Combine", "reduction", [
    I32EnumAttrCase<"Add", 0, "add">, I32EnumAttrCase<"Max", 1, "max">, I32EnumAttrCase<"Min", 2, "min">]>;
def Tile_Hint : Tile_Enum<"Hint", "L2 policy of a copy", [
    I32EnumAttrCase<"Normal", 0, "evict_normal">, I32EnumAttrCase<"First", 1, "evict_first">, I32EnumAttrCase<"Last", 2, "evict_last">]>;
def Tile_Peel : Tile_Enum<"Peel", "trip that becomes its own copy", [
    I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"First", 1, "first">, I32EnumAttrCase<"Last", 2, "last">]>;
def Tile_PdlEvent : Tile_Enum<"PdlEvent", "programmatic dependent launch", [
    I32EnumAttrCase<"Trigger", 0, "trigger">, I32EnumAttrCase<"Wait", 1, "wait">]>;

#endif
