// Numerics, schedules, layouts.
#ifndef DSV3_DIALECTS_KERNEL_ATTRS
#define DSV3_DIALECTS_KERNEL_ATTRS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/TensorEncoding.td"
include "dialects/dsv3/Dsv3Interfaces.td"
include "dialects/kernel/KernelDialect.td"

class Kernel_Attr<string name, string mn, list<Trait> traits = []> : AttrDef<Kernel_Dialect, name, traits> {
  let mnemonic = mn;
}

def Kernel_NumericsAttr : Kernel_Attr<"Numerics", "numerics"> {
  let summary = "What changes the bits of a result";
  let description = [{
    A closed list; a new field is a reviewed change. `acc`: accumulation type. `mul`: type of the
    multiplied values. `chain`: "k_ascending" (one chain of additions per result, k ascending) or
    "lanesN" (N interleaved chains, lane i takes k = i, i + N, ..., then a tree that N fixes: "lanes16"), "k_blocksN"
    (one chain per N k, times the scale of its block; these added in ascending order), "k_splitN" and
    "k_blocks128_splitN" (N ranges of k, each a multiple of 128, added in ascending order). `key_block`: keys per online
    softmax step, counted from position 0; 0 where there is no softmax.
  }];
  let parameters = (ins "::mlir::Type":$acc, "::mlir::Type":$mul, StringRefParameter<"order of additions">:$chain,
                        DefaultValuedParameter<"int64_t", "0">:$keyBlock);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kernel_ScheduleAttr : Kernel_Attr<"Schedule", "schedule"> {
  let summary = "What changes speed only";
  let description = [{`#kernel.schedule<"x86.gemm", {mb = 64, nb = 32}>`: the emitter's name and its parameters, whose meaning and legality the emitter decides.}];
  let parameters = (ins StringRefParameter<"emitter">:$emitter, "::mlir::DictionaryAttr":$config);
  let assemblyFormat = "`<` $emitter `,` $config `>`";
}

def Kernel_SplitAttr : Kernel_Attr<"Split", "split"> {
  let summary = "Where attention may cut a sequence: changes bits, so it is equal in all buckets";
  let description = [{
    Cuts are between pages of 64 tokens. `#kernel.split<max = 8, pages = 4>`: by length alone. A sequence of n pages is
    cut every `s` pages from position 0, s = max(pages, ceil(n / max)) rounded up to an even number, so it has the same bits
    alone and among others (`--determinism=batch`). `#kernel.split<max = 0, pages = 4>`: even. Partitions are filled in the
    order of sequences up to a budget, and a sequence is cut, at an even number of pages, only where a partition is full.
    An item costs its pages, rounded up to an even number, plus `pages` (at most 14) for its start; the budget is the
    least that holds everything. The same step has the same bits (`--determinism=run`).
  }];
  let parameters = (ins "int64_t":$max, "int64_t":$pages);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isEven() const { return getMax() == 0; }
    /// Pages between two cuts of a sequence of `n` pages, by length.
    int64_t span(int64_t n) const {
      int64_t s = std::max(getPages(), (n + getMax() - 1) / getMax());
      return s + s % 2;
    }
  }];
}

def Kernel_LayoutAttr : Kernel_Attr<"Layout", "layout"> {
  let summary = "A map from logical indices to places in memory";
  let description = [{
    `#kernel.layout<"(n, k) -> [n/16, k/4, n%16, k%4] pad n:16 k:4">`. Each term is `dim [/ c] [% m]
    [^ term or constant]`, outermost first; `pad` rounds dims up first. The text is the same in IR,
    manifest and report; `dsv3::Layout` (dialects/kernel/Layout.h) evaluates it.
  }];
  let parameters = (ins StringRefParameter<"map">:$map);
  let assemblyFormat = "`<` $map `>`";
  let genVerifyDecl = 1;
}

def Kernel_PackedAttr : Kernel_Attr<"Packed", "packed",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "Encoding of a weight in its final layout";
  let description = [{
    `#kernel.packed<scheme, data layout[, scale = layout]>`. `scheme` is the tensor's `QuantScheme` or
    `none`. Parts follow each other, each 256-byte aligned: data, then scales in f32, then zero points in i8 at the
    places of the scales if the scheme has them. Leading dims that a layout does not name are outermost in row-major
    order. Data of i4 are two's complement nibbles: element 2i of the layout is the low half of byte i.
  }];
  let parameters = (ins OptionalParameter<"::mlir::Attribute">:$scheme, "::dsv3::kernel::LayoutAttr":$layout,
                        OptionalParameter<"::dsv3::kernel::LayoutAttr">:$scale);
  let assemblyFormat = "`<` (`none`) : ($scheme^)? `,` $layout (`,` `scale` `=` $scale^)? `>`";
}

#endif
