module attributes {dsv3.capacities = {tokens = 512, seqs = 8, pages = 64, qblocks = 40, kblocks = 72, max_model_len = 4096}} {
dsv3.program @prefill(%q: tensor<512x128x192xbf16>, %k: tensor<72x128x64x192xbf16>, %v: tensor<72x128x64x128xbf16>, %seq: !dsv3.seq) {
  %o = kernel.empty : tensor<512x128x128xbf16>
  %r = kernel.attn_prefill ins(%q, %k, %v, %seq : tensor<512x128x192xbf16>, tensor<72x128x64x192xbf16>, tensor<72x128x64x128xbf16>) outs(%o : tensor<512x128x128xbf16>) scale 0.125 key_rows site "attn"
  dsv3.return
}
}
