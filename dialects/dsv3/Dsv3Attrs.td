// Attributes: quantisation schemes, weight sources, rotary tables.
#ifndef DSV3_DIALECTS_DSV3_ATTRS
#define DSV3_DIALECTS_DSV3_ATTRS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"
include "dialects/dsv3/Dsv3Dialect.td"
include "dialects/dsv3/Dsv3Interfaces.td"

class Dsv3_Attr<string name, string mn, list<Trait> traits = []> : AttrDef<Dsv3_Dialect, name, traits> {
  let mnemonic = mn;
}

//===-- Schemes -----------------------------------------------------------===//

def Dsv3_BlockedAttr : Dsv3_Attr<"Blocked", "blocked",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>, DeclareAttrInterfaceMethods<Dsv3_QuantScheme>]> {
  let summary = "Storage with one scale, and perhaps one zero point, per block";
  let description = [{
    `#dsv3.blocked<storage, block, scale[, zero type][, pow2_scale][, indexed]>`:
    value = (stored - zero) * scale, scale and zero being those of the block. `block` is right-aligned to the
    tensor's dims (leading dims have block 1); `?` spans the whole dim. Edge blocks may be partial: 576 rows in
    blocks of 128 have 5 scale rows. Scales are f32, bf16 or f16, and are multiplied as f32.

    Integers are signed, i4 from -8 to 7, whatever their checkpoint calls them: an unsigned code q with zero
    point z (AWQ, GPTQ) is q - 8 here, and its zero point z - 8 (q - 128 and z - 128 for 8 bits). Zero points
    are i8, and belong to integers alone. How codes are packed is no part of a scheme: in a checkpoint it is the
    source's `packed`, in an artifact the layout of `#kernel.packed`.

    `pow2_scale` promises scales that are powers of two (DeepSeek-V3.1's `ue8m0`). `indexed` (GPTQ's act_order):
    the block of column k along the last dim is not k / block but stands in a part of its own, `index`; such a
    tensor cannot be cut or joined along K, nor transposed.

    | weights `[N, K]` | scheme |
    | --- | --- |
    | native FP8 (DeepSeek-V3 technical report, section 3.3) | `<f8E4M3FN, 128x128, f32>` |
    | FP8 per channel, per tensor | `<f8E4M3FN, 1x?, f32>`, `<f8E4M3FN, ?x?, f32>` |
    | int8 per channel (W8A8) | `<i8, 1x?, f32>` |
    | int4 per channel, in groups | `<i4, 1x?, f32>`, `<i4, 1x128, f16>` |
    | AWQ, GPTQ | `<i4, 1x128, f16, zero i8>` |
  }];
  let parameters = (ins "::mlir::Type":$storage, ArrayRefParameter<"int64_t">:$block,
                        "::mlir::Type":$scale, DefaultValuedParameter<"bool", "false">:$pow2Scale,
                        OptionalParameter<"::mlir::Type">:$zero, DefaultValuedParameter<"bool", "false">:$indexed);
  let builders = [AttrBuilder<(ins "::mlir::Type":$storage, "::llvm::ArrayRef<int64_t>":$block, "::mlir::Type":$scale,
                                   "bool":$pow2Scale),
                              [{ return $_get($_ctxt, storage, block, scale, pow2Scale, ::mlir::Type(), false); }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

//===-- Weight sources ----------------------------------------------------===//

class Dsv3_SourceAttr<string name, string mn> : Dsv3_Attr<name, mn,
    [DeclareAttrInterfaceMethods<Dsv3_WeightSource>]>;

def Dsv3_PackingAttr : I32EnumAttr<"Packing", "how a checkpoint tensor holds the codes of a matrix [N, K]", [
    I32EnumAttrCase<"Plain", 0, "plain">, I32EnumAttrCase<"Words", 1, "words">, I32EnumAttrCase<"Gptq", 2, "gptq">,
    I32EnumAttrCase<"GptqV2", 3, "gptq_v2">, I32EnumAttrCase<"Awq", 4, "awq">, I32EnumAttrCase<"HighFirst", 5, "high_first">]> {
  let cppNamespace = "::dsv3::ir";
  let genSpecializedAttr = 0;
}

def Dsv3_FileSourceAttr : Dsv3_SourceAttr<"FileSource", "file"> {
  let summary = "One checkpoint tensor, with the tensors of its scales, zero points and group index if it is quantised";
  let description = [{
    `#dsv3.file<"a.weight"[, scale "a.weight_scale"][, zero "a.qzeros"][, index "a.g_idx"][, packed awq]>`. Inside
    `stack`, `{}` stands for the index. A quantised source needs the weight's scheme to be read; grids below are
    those of the scheme's part `scale`, G = number of groups along K, b = 4 or 8 bits.

    | packed | data | scales | zero points |
    | --- | --- | --- | --- |
    | `plain` | [N, K], a code per element (FP8 or I8) | the grid | I8, the grid |
    | `words` | I32 [N, ceil(K b / 32)], k ascending from the low bits, code + 2^(b-1) | the grid | I32 [ceil(N b / 32), G], n ascending, + 2^(b-1) |
    | `gptq` | I32 [K b / 32, N], k ascending from the low bits, unsigned | [G, N] | I32 [G, N b / 32], n ascending, stored one less |
    | `gptq_v2` | the same | the same | the same, stored as they are |
    | `awq` | I32 [K, N / 8]: 8 columns n from the low bits in the order 0 2 4 6 1 3 5 7, unsigned | [G, N] | I32 [G, N / 8], in that order |
    | `high_first` | I8 [N, K / 2], signed nibbles, the even k in the high one | the grid, times 1/16 | none |

    `words` is pack-quantized of compressed-tensors (its `pack_to_int32`), `gptq` the layout of AutoGPTQ's linears,
    `awq` the GEMM version of AutoAWQ's. `high_first` is SlimQuant's: its kernels leave an even code in the
    high half of an int8, and the factor 1/16 that this costs is in the stored scale; readers multiply it by 16.
  }];
  let parameters = (ins "::mlir::StringAttr":$tensor, OptionalParameter<"::mlir::StringAttr">:$scale,
                        OptionalParameter<"::mlir::StringAttr">:$zero, OptionalParameter<"::mlir::StringAttr">:$index,
                        DefaultValuedParameter<"::dsv3::ir::Packing", "::dsv3::ir::Packing::Plain">:$packing);
  let builders = [AttrBuilder<(ins "::mlir::StringAttr":$tensor, CArg<"::mlir::StringAttr", "{}">:$scale),
                              [{ return $_get($_ctxt, tensor, scale, ::mlir::StringAttr(), ::mlir::StringAttr(), Packing::Plain); }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
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
def Dsv3_ClipAttr : I32EnumAttr<"Clip", "how the scales of a weight that the compiler quantises are chosen", [
    I32EnumAttrCase<"Absmax", 0, "absmax">, I32EnumAttrCase<"Mse", 1, "mse">]> {
  let cppNamespace = "::dsv3::ir";
  let genSpecializedAttr = 0;
}
def Dsv3_QuantizedSourceAttr : Dsv3_SourceAttr<"QuantizedSource", "quantized"> {
  let summary = "The numbers of another weight, rounded to the scheme of this one's type";
  let description = [{
    `#dsv3.quantized<@l3.q_a.stored, mse>`. What is rounded are the numbers of that weight, dequantised if it has a scheme, in its
    element type (f32 loses nothing). `absmax`: the largest number of a block becomes the largest code; `mse`: the best of 31
    scales down to 0.4 of that (`frontends/quantize/RoundToNearest.h` has the rules). Symmetric schemes only. Evaluated row by row
    where weights are packed.
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$weight, EnumParameter<Dsv3_ClipAttr>:$clip);
  let assemblyFormat = "`<` $weight `,` $clip `>`";
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
