// RUN: dsv3-opt %s --dsv3-pack-weights=target=test -split-input-file -verify-diagnostics

#num = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
// expected-error @+1 {{expected all readers of @w to want one packing, got #kernel.packed<none, <"(n, k) -> [n, k]">> for "embed" in @prefill_t1; #kernel.packed<none, <"(n, k) -> [n/16, k, n%16] pad n:16">> for "head" in @decode_b1}}
dsv3.weight @w : tensor<32x128xbf16> from #dsv3.file<"table">
dsv3.program @prefill_t1(%ids: tensor<1xi32>, %x: tensor<1x128xbf16>) attributes {phase = "prefill", tokens = 1 : i64, seqs = 1 : i64} {
  %t = dsv3.use @w : tensor<32x128xbf16>
  %e = kernel.embed ins(%ids, %t : tensor<1xi32>, tensor<32x128xbf16>) outs(%x : tensor<1x128xbf16>) numerics #num schedule #kernel.schedule<"test.embed", {}> site "embed"
  dsv3.return
}
dsv3.program @decode_b1(%x: tensor<1x128xbf16>, %o: tensor<1x32xbf16>) attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  %t = dsv3.use @w : tensor<32x128xbf16>
  %y = kernel.gemm ins(%x, %t : tensor<1x128xbf16>, tensor<32x128xbf16>) outs(%o : tensor<1x32xbf16>) numerics #num schedule #kernel.schedule<"test.gemm", {}> site "head"
  dsv3.return
}

// -----

dsv3.weight @w : tensor<32x128xbf16> from #dsv3.file<"table">
dsv3.program @p() -> tensor<32x128xbf16> {
  // expected-error @+1 {{'dsv3.use' op expected weight @w to be read by launches, got dsv3.return}}
  %t = dsv3.use @w : tensor<32x128xbf16>
  dsv3.return %t : tensor<32x128xbf16>
}

// -----

dsv3.weight @w : tensor<16xbf16> from #dsv3.file<"gamma">
dsv3.program @p(%x: tensor<1x16xbf16>) {
  %g = dsv3.use @w : tensor<16xbf16>
  // expected-error @+1 {{'kernel.norm' op expected a schedule of test at "n"}}
  %n = kernel.norm ins(%x, %g : tensor<1x16xbf16>, tensor<16xbf16>) outs(%x : tensor<1x16xbf16>) eps 1.0e-06 site "n"
  dsv3.return
}
