!kv = !dsv3.kv<layers = 4, page = 64, latent = 512, rope = 64, bf16>
module attributes {dsv3.capacities = {tokens = 512, seqs = 8, pages = 64, qblocks = 40, kblocks = 72, max_model_len = 4096}} {
dsv3.program @decode(%ql: tensor<8x128x512xbf16>, %q: tensor<8x128x192xbf16>, %items: tensor<64x5xi32>, %parts: tensor<67xi32>, %seq: !dsv3.seq, %kv: !kv) {
  %qr = kernel.view %q at 128 : tensor<8x128x192xbf16> -> tensor<8x128x64xbf16>
  %o = kernel.empty : tensor<8x128x512xbf16>
  %p = kernel.empty : tensor<64x128x512xf32>
  %l = kernel.empty : tensor<64x128xf32>
  %r:3 = kernel.attn_split ins(%ql, %qr, %kv[1], %seq, %items, %parts : tensor<8x128x512xbf16>, tensor<8x128x64xbf16>, !kv, tensor<64x5xi32>, tensor<67xi32>) outs(%o, %p, %l : tensor<8x128x512xbf16>, tensor<64x128x512xf32>, tensor<64x128xf32>) scale 0.125 site "attn" -> tensor<8x128x512xbf16>, tensor<64x128x512xf32>, tensor<64x128xf32>
  dsv3.return
}
}
