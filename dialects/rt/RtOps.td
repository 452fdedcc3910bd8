// Operations of the host program.
#ifndef DSV3_DIALECTS_RT_OPS
#define DSV3_DIALECTS_RT_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/rt/RtAttrs.td"
include "dialects/rt/RtDialect.td"

class Rt_Op<string mnemonic, list<Trait> traits = []> : Op<Rt_Dialect, mnemonic, traits>;

// The numbers are those of runtime/core/Abi.h.
def Rt_Pool : I32EnumAttr<"Pool", "memory pool", [
    I32EnumAttrCase<"Weights", 0, "weights">, I32EnumAttrCase<"Kv", 1, "kv">, I32EnumAttrCase<"Arena", 2, "arena">,
    I32EnumAttrCase<"Step", 3, "step">, I32EnumAttrCase<"Persist", 4, "persist">]> {
  let cppNamespace = "::dsv3::rt";
}
def Rt_Scalar : I32EnumAttr<"Scalar", "number that changes from step to step", [
    I32EnumAttrCase<"Tokens", 0, "tokens">, I32EnumAttrCase<"Seqs", 1, "seqs">, I32EnumAttrCase<"QBlocks", 2, "qblocks">,
    I32EnumAttrCase<"KBlocks", 3, "kblocks">, I32EnumAttrCase<"One", 15, "one">]> {
  let cppNamespace = "::dsv3::rt";
}
def Rt_Elem : I32EnumAttr<"Elem", "element type of an output, tap or field", [
    I32EnumAttrCase<"F32", 0, "f32">, I32EnumAttrCase<"BF16", 1, "bf16">, I32EnumAttrCase<"I32", 2, "i32">, I32EnumAttrCase<"I64", 3, "i64">]> {
  let cppNamespace = "::dsv3::rt";
}

def Rt_ModuleOp : Rt_Op<"module", [Symbol, SymbolTable, IsolatedFromAbove, NoTerminator, SingleBlock]> {
  let summary = "Everything one target needs to run: pools, fields, kernels, programs";
  let description = [{
    `abi` is DSV3_ABI. `tokens`, `seqs`, `pages` are the capacities T, S, P of the step buffer; the kv numbers
    describe a cache row; `latent 512 as "fp8_e4m3"`: so many of its numbers are stored as codes of 8 bits with one f32
    scale per row. Becomes `dsv3_module_desc`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$target, I64Attr:$abi, I64Attr:$tokens, I64Attr:$seqs, I64Attr:$pages,
                       I64Attr:$kv_layers, I64Attr:$kv_page, I64Attr:$kv_row, Rt_Elem:$kv_elem,
                       OptionalAttr<I64Attr>:$kv_latent, OptionalAttr<StrAttr>:$kv_codes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `target` $target `abi` $abi `step` `(` `tokens` $tokens `,` `seqs` $seqs `,` `pages` $pages `)`
    `kv` `(` `layers` $kv_layers `,` `page` $kv_page `,` `row` $kv_row `,` $kv_elem (`,` `latent` $kv_latent^ `as` $kv_codes)? `)` attr-dict-with-keyword $body
  }];
  let extraClassDeclaration = [{
    /// Bytes of a page of the cache in one layer.
    int64_t getKvPageBytes();
  }];
}

def Rt_PoolOp : Rt_Op<"pool", [HasParent<"ModuleOp">]> {
  let summary = "Size of a pool in bytes; the KV pool's is decided at load and stands as 0";
  let arguments = (ins Rt_Pool:$pool, I64Attr:$bytes);
  let assemblyFormat = "$pool `size` $bytes attr-dict";
  let hasVerifier = 1;
}

def Rt_FieldOp : Rt_Op<"field", [HasParent<"ModuleOp">]> {
  let summary = "A field of the step buffer: `kind` is DSV3_FIELD_*, offset in bytes, count in elements";
  let arguments = (ins StrAttr:$name, I64Attr:$kind, Rt_Elem:$elem, I64Attr:$offset, I64Attr:$count);
  let assemblyFormat = "$name `kind` $kind `at` $offset `count` $count `:` $elem attr-dict";
}

def Rt_KernelOp : Rt_Op<"kernel", [Symbol, HasParent<"ModuleOp">]> {
  let summary = "A kernel that programs launch";
  let description = [{
    `symbol` names the function in every variant's module, or the kernel in the gpu.module; `key` is readable text that says
    op, types, numerics and schedule; `scratch` bytes are private to each thread, none on a device. `consts` follow the
    scalars on a CPU; a device kernel has none here, its parameters stand at each launch.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$key, I64Attr:$refs, I64Attr:$consts, I64Attr:$scratch);
  let assemblyFormat = "$sym_name `key` $key `refs` $refs `consts` $consts `scratch` $scratch attr-dict";
}

def Rt_TapPointOp : Rt_Op<"tap_point", [HasParent<"ModuleOp">]> {
  let summary = "A named state that programs keep: rows of `cols` values";
  let arguments = (ins StrAttr:$name, Rt_Elem:$elem, I64Attr:$cols);
  let assemblyFormat = "$name `cols` $cols `:` $elem attr-dict";
}

def Rt_ProgramOp : Rt_Op<"program", [Symbol, HasParent<"ModuleOp">, IsolatedFromAbove, NoTerminator, SingleBlock]> {
  let summary = "A straight line of launches";
  let description = [{`phase` is DSV3_PHASE_*; the capacities bound what the runtime may put in a step.}];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$phase, I64Attr:$tokens, I64Attr:$seqs, I64Attr:$qblocks, I64Attr:$kblocks);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `phase` $phase `tokens` $tokens `seqs` $seqs `qblocks` $qblocks `kblocks` $kblocks attr-dict-with-keyword $body";
}

def Rt_OutputOp : Rt_Op<"output", [HasParent<"ProgramOp">]> {
  let summary = "A result of the program: row-major rows of `cols` values";
  let arguments = (ins StrAttr:$name, Rt_BufType:$buf, Rt_Elem:$elem, I64Attr:$cols);
  let assemblyFormat = "$name `,` $buf `cols` $cols `:` $elem attr-dict";
}

def Rt_ViewOp : Rt_Op<"view", [Pure, HasParent<"ProgramOp">]> {
  let summary = "`size` bytes of a pool from `offset`; size 0 in the kv pool, whose size is not known yet";
  let arguments = (ins Rt_Pool:$pool, I64Attr:$offset, I64Attr:$size);
  let results = (outs Rt_BufType:$buf);
  let assemblyFormat = "$pool `at` $offset `size` $size attr-dict";
  let hasVerifier = 1;
}

def Rt_LaunchRangeOp : Rt_Op<"launch_range", [HasParent<"ProgramOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs tiles [0, ceil(scalar / div) * mul) of a kernel on all threads";
  let description = [{
    `scalar` `one` means a constant count (`mul`). `bufs` are the kernel's references in order; `writes` are
    the indices of those it writes (the rest is read); `consts` follow the step scalars.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Rt_Scalar:$scalar, I64Attr:$div, I64Attr:$mul, Variadic<Rt_BufType>:$bufs,
                       DenseI64ArrayAttr:$writes, DenseI64ArrayAttr:$consts, StrAttr:$site);
  let assemblyFormat = "$kernel `tiles` `(` $scalar `div` $div `mul` $mul `)` `(` $bufs `)` `writes` $writes `consts` $consts `site` $site attr-dict";
}

def Rt_LaunchGridOp : Rt_Op<"launch_grid", [HasParent<"ProgramOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a device kernel as a grid of blocks";
  let description = [{
    The grid is fixed, from the capacities of the program; blocks past the true counts return. `block` threads, `smem`
    bytes of dynamic shared memory, `cluster` blocks that share memory (1: none), all in x. The kernel's first
    parameter is the address of the step's scalars, then come `params`, each a `#rt.ptr` or `#rt.tensor_map` of one of
    `bufs` or an `#rt.number`. `writes` are indices of bufs that the kernel writes (the rest is read).
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, DenseI64ArrayAttr:$grid, I64Attr:$block, I64Attr:$smem, I64Attr:$cluster,
                       Variadic<Rt_BufType>:$bufs, ArrayAttr:$params, DenseI64ArrayAttr:$writes, StrAttr:$site);
  let assemblyFormat = "$kernel `grid` $grid `block` $block `smem` $smem `cluster` $cluster ` ` `(` $bufs `)` `params` $params `writes` $writes `site` $site attr-dict";
  let hasVerifier = 1;
}

def Rt_TapOp : Rt_Op<"tap", [HasParent<"ProgramOp">]> {
  let summary = "Keeps the first rows of a buffer under the name of a tap point";
  let description = [{`rows` is the number of the step that counts them: `tokens`, or `seqs` below a selection of rows.}];
  let arguments = (ins StrAttr:$name, Rt_BufType:$buf, Rt_Scalar:$rows);
  let assemblyFormat = "$name `,` $buf `rows` $rows attr-dict";
}

#endif
