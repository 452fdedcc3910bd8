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

    `elem` says what the numbers mean. With `stored #dsv3.blocked<f8E4M3FN, 1x?, f32>` (or f8E5M2) the latent is kept as
    codes with one scale per token: absmax / 448 (57344) when the row is appended, never changed after; a row of zeros has
    scale 1. Who reads the latent as numbers reads code * scale rounded to `elem`. The rotated key stays in `elem`.

    A page in one layer, in bytes:

        plain:      page rows of [latent | rope] in elem
        quantised:  codes [page][latent] | rope [page][rope] in elem | scales [page] f32

    Of 64 tokens with latent 512 and rope 64, bf16: 73728 and 41216.
  }];
  let parameters = (ins "int64_t":$layers, "int64_t":$page, "int64_t":$latent, "int64_t":$rope,
                        "::mlir::Type":$elem, OptionalParameter<"::mlir::Attribute">:$scheme);
  let assemblyFormat = "`<` `layers` `=` $layers `,` `page` `=` $page `,` `latent` `=` $latent `,` `rope` `=` $rope `,` $elem (`,` `stored` $scheme^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Type of the latent's codes; null where the latent is stored in `elem`.
    ::mlir::Type getCodes() const;
    // Bytes: from one token's latent (rotated key) to the next one's, and where the first stands in its page.
    int64_t getLatentPitch() const;
    int64_t getRopePitch() const;
    int64_t getRopeAt() const;
    int64_t getScaleAt() const; ///< only with codes; scales are neighbours
    /// Bytes of a page in one layer.
    int64_t getPageBytes() const;
  }];
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
