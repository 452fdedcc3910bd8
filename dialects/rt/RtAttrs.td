// Parameters of device kernels.
#ifndef DSV3_DIALECTS_RT_ATTRS
#define DSV3_DIALECTS_RT_ATTRS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "dialects/rt/RtDialect.td"

class Rt_Attr<string name, string mn> : AttrDef<Rt_Dialect, name> {
  let mnemonic = mn;
  let genVerifyDecl = 1;
}

// The numbers are those of DSV3_MAP_* in runtime/core/Abi.h.
def Rt_MapElem : I32EnumAttr<"MapElem", "element type of a tensor map", [
    I32EnumAttrCase<"U8", 0, "u8">, I32EnumAttrCase<"BF16", 1, "bf16">, I32EnumAttrCase<"F32", 2, "f32">, I32EnumAttrCase<"I32", 3, "i32">]> {
  let cppNamespace = "::dsv3::rt";
  let genSpecializedAttr = 0;
}

def Rt_PtrAttr : Rt_Attr<"Ptr", "ptr"> {
  let summary = "The address of a reference of the launch";
  let description = [{`#rt.ptr<1>`, or with bytes added `#rt.ptr<1 + 256>`.}];
  let parameters = (ins "int64_t":$ref, DefaultValuedParameter<"int64_t", "0">:$offset);
  let assemblyFormat = "`<` $ref (`+` $offset^)? `>`";
}

def Rt_NumberAttr : Rt_Attr<"Number", "number"> {
  let summary = "A 64-bit number";
  let parameters = (ins "int64_t":$value);
  let assemblyFormat = "`<` $value `>`";
  let genVerifyDecl = 0;
}

def Rt_TensorMapAttr : Rt_Attr<"TensorMap", "tensor_map"> {
  let summary = "A tensor map over a reference of the launch, encoded once at load";
  let description = [{
    `#rt.tensor_map<0, bf16, dims = [576, 64, 0] strides = [1152, 73728] box = [64, 64, 1] swizzle = 128>`, innermost dim
    first: `dims` in elements, `strides` in bytes between elements of dim 1, 2, ..., `box` the elements that one copy moves.
    0 as the outermost dim: as many as the pool holds (the kv pool, whose size is decided at load). `swizzle` in bytes.

    Refused, because the hardware cannot do it: a rank over 5; strides that are no multiples of 16 bytes; boxes over
    256 elements in a dim, or of a row that is not a multiple of 16 bytes, or wider than the swizzle; an address that is
    not a multiple of 16.
  }];
  let parameters = (ins "int64_t":$ref, DefaultValuedParameter<"int64_t", "0">:$offset, "::dsv3::rt::MapElem":$elem,
                        ArrayRefParameter<"int64_t">:$dims, OptionalArrayRefParameter<"int64_t">:$strides,
                        ArrayRefParameter<"int64_t">:$box, DefaultValuedParameter<"int64_t", "0">:$swizzle);
  let assemblyFormat = [{`<` $ref (`+` $offset^)? `,` $elem `,` `dims` `=` `[` $dims `]` (`strides` `=` `[` $strides^ `]`)?
                         `box` `=` `[` $box `]` (`swizzle` `=` $swizzle^)? `>`}];
  let extraClassDeclaration = [{
    /// Bytes from the map's address to the end of its last element; 0 when its outermost dim is open.
    int64_t getExtent() const;
    int64_t getElemBytes() const { return getElem() == MapElem::U8 ? 1 : getElem() == MapElem::BF16 ? 2 : 4; }
  }];
}

#endif
