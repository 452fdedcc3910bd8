// Attributes: quantisation schemes, weight sources, rotary tables.
#ifndef DSV3_DIALECTS_DSV3_ATTRS
#define DSV3_DIALECTS_DSV3_ATTRS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/TensorEncoding.td"
include "dialects/dsv3/Dsv3Dialect.td"
include "dialects/dsv3/Dsv3Interfaces.td"

class Dsv3_Attr<string name, string mn, list<Trait> traits = []> : AttrDef<Dsv3_Dialect, name, traits> {
  let mnemonic = mn;
}

//===-- Schemes -----------------------------------------------------------===//

def Dsv3_BlockedAttr : Dsv3_Attr<"Blocked", "blocked",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>, DeclareAttrInterfaceMethods<Dsv3_QuantScheme>]> {
  let summary = "Storage with one scale per block";
  let description = [{
    `#dsv3.blocked<storage, block, scale[, pow2_scale]>`: value = stored * scale of its block. `block`
    is right-aligned to the tensor's dims (leading dims have block 1); `?` spans the whole dim. Edge
    blocks may be partial: 576 rows in blocks of 128 have 5 scale rows. `pow2_scale` promises scales
    that are powers of two (DeepSeek-V3.1's `ue8m0`).

    Native FP8 weights `[N, K]`: `#dsv3.blocked<f8E4M3FN, 128x128, f32>` (DeepSeek-V3 technical
    report, section 3.3).
  }];
  let parameters = (ins "::mlir::Type":$storage, ArrayRefParameter<"int64_t">:$block,
                        "::mlir::Type":$scale, DefaultValuedParameter<"bool", "false">:$pow2Scale);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

//===-- Weight sources ----------------------------------------------------===//

class Dsv3_SourceAttr<string name, string mn> : Dsv3_Attr<name, mn,
    [DeclareAttrInterfaceMethods<Dsv3_WeightSource>]>;

def Dsv3_FileSourceAttr : Dsv3_SourceAttr<"FileSource", "file"> {
  let summary = "One checkpoint tensor, with the tensor of its scales if it is quantised";
  let description = [{`#dsv3.file<"a.weight", scale "a.weight_scale_inv">`. Inside `stack`, `{}` stands for the index.}];
  let parameters = (ins "::mlir::StringAttr":$tensor, OptionalParameter<"::mlir::StringAttr">:$scale);
  let assemblyFormat = "`<` $tensor (`,` `scale` $scale^)? `>`";
}
def Dsv3_StackSourceAttr : Dsv3_SourceAttr<"StackSource", "stack"> {
  let summary = "A source repeated over an index, stacked along a new leading dim";
  let description = [{`#dsv3.stack<0 to 256, #dsv3.file<"model.layers.3.mlp.experts.{}.up_proj.weight">>`: entry i reads the source with `{}` replaced by i; `to` is exclusive.}];
  let parameters = (ins "int64_t":$begin, "int64_t":$end, "::mlir::Attribute":$source);
  let assemblyFormat = "`<` $begin `to` $end `,` $source `>`";
  let genVerifyDecl = 1;
}
def Dsv3_ConcatSourceAttr : Dsv3_SourceAttr<"ConcatSource", "concat"> {
  let summary = "Sources joined along a dim";
  let parameters = (ins "int64_t":$dim, ArrayRefParameter<"::mlir::Attribute">:$sources);
  let assemblyFormat = "`<` $dim `,` `[` $sources `]` `>`";
  let genVerifyDecl = 1;
}
def Dsv3_SliceSourceAttr : Dsv3_SourceAttr<"SliceSource", "slice"> {
  let summary = "`size` entries from `offset` along a dim";
  let parameters = (ins "int64_t":$dim, "int64_t":$offset, "int64_t":$size, "::mlir::Attribute":$source);
  let assemblyFormat = "`<` $dim `,` $offset `,` $size `,` $source `>`";
  let genVerifyDecl = 1;
}
def Dsv3_TransposeSourceAttr : Dsv3_SourceAttr<"TransposeSource", "transpose"> {
  let summary = "The last two dims swapped";
  let parameters = (ins "::mlir::Attribute":$source);
  let assemblyFormat = "`<` $source `>`";
  let genVerifyDecl = 1;
}
def Dsv3_ReshapeSourceAttr : Dsv3_SourceAttr<"ReshapeSource", "reshape"> {
  let summary = "The same numbers in row-major order under another shape";
  let description = [{Only splits or joins leading dims: the last dim stays, so that block scales keep their meaning.}];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Attribute":$source);
  let assemblyFormat = "`<` `[` $shape `]` `,` $source `>`";
  let genVerifyDecl = 1;
}
def Dsv3_RefSourceAttr : Dsv3_SourceAttr<"RefSource", "ref"> {
  let summary = "The numbers of another weight";
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$weight);
  let assemblyFormat = "`<` $weight `>`";
}
def Dsv3_DummySourceAttr : Dsv3_SourceAttr<"DummySource", "dummy"> {
  let summary = "A counter-based function of (name, index), for tests without a checkpoint";
  let description = [{Values are `std * n` with n close to normal; the same bits in the interpreter and in the emitter (`runtime/core/Dummy.h`).}];
  let parameters = (ins "::mlir::StringAttr":$name, DefaultValuedParameter<"::dsv3::ir::Real", "0.02">:$std);
  let assemblyFormat = "`<` $name (`,` `std` $std^)? `>`";
}
def Dsv3_RopeTableSourceAttr : Dsv3_SourceAttr<"RopeTableSource", "rope_table"> {
  let summary = "cos and sin of a rotary embedding for positions [0, positions)";
  let description = [{A float32 tensor [positions, dims]: dims / 2 cosines, then dims / 2 sines.}];
  let parameters = (ins "::mlir::Attribute":$rope, "int64_t":$positions);
  let assemblyFormat = "`<` $rope `,` $positions `>`";
  let genVerifyDecl = 1;
}

//===-- Rotary embedding --------------------------------------------------===//

def Dsv3_RopeAttr : Dsv3_Attr<"Rope", "rope"> {
  let summary = "Parameters of a rotary position embedding";
  let description = [{
    `dims` lanes are turned in pairs, `(2i, 2i+1)` when `interleaved`, else `(i, i + dims/2)`; rotated
    lanes stay where they were. `factor` > 0 selects YaRN (Peng et al., 2023, as in the DeepSeek-V3
    release); `scale` multiplies cos and sin (m(mscale) / m(mscale_all_dim)). The angle is the float32
    inverse frequency times the position in float64; cos and sin are rounded to float32.
  }];
  let parameters = (ins "int64_t":$dims, "::dsv3::ir::Real":$theta, "bool":$interleaved,
    DefaultValuedParameter<"::dsv3::ir::Real", "0.0">:$factor, DefaultValuedParameter<"int64_t", "0">:$original,
    DefaultValuedParameter<"::dsv3::ir::Real", "0.0">:$betaFast, DefaultValuedParameter<"::dsv3::ir::Real", "0.0">:$betaSlow,
    DefaultValuedParameter<"::dsv3::ir::Real", "1.0">:$scale);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif
