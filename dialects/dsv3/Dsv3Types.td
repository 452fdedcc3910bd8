// Types: the paged cache and the sequences of a step.
#ifndef DSV3_DIALECTS_DSV3_TYPES
#define DSV3_DIALECTS_DSV3_TYPES

include "mlir/IR/AttrTypeBase.td"
include "dialects/dsv3/Dsv3Dialect.td"

def Dsv3_KvType : TypeDef<Dsv3_Dialect, "Kv"> {
  let mnemonic = "kv";
  let summary = "The paged MLA cache of all layers";
  let description = [{
    `!dsv3.kv<layers = 62, page = 64, latent = 512, rope = 64, bf16>`: one row per token and layer, the
    normalised latent followed by the rotated shared key, in pages of `page` tokens; one page id
    serves all layers. The handle is SSA-threaded: `kv_append` consumes it and yields the next, so
    that ordering is plain def-use.
  }];
  let parameters = (ins "int64_t":$layers, "int64_t":$page, "int64_t":$latent, "int64_t":$rope,
                        "::mlir::Type":$elem);
  let assemblyFormat = "`<` `layers` `=` $layers `,` `page` `=` $page `,` `latent` `=` $latent `,` `rope` `=` $rope `,` $elem `>`";
  let genVerifyDecl = 1;
}

def Dsv3_SeqType : TypeDef<Dsv3_Dialect, "Seq"> {
  let mnemonic = "seq";
  let summary = "The sequences of a step";
  let description = [{
    For each token its sequence, position and cache slot; for each sequence its rows, context length
    and block table. Opaque until `schedule`, where it becomes the fields of the step buffer
    (runtime/core/Abi.h).
  }];
}

#endif
