// Equal bits in all buckets: equal numerics for a site and op, equal lists of launches in a phase.
// RUN: dsv3-opt %s --dsv3-verify-numerics -split-input-file -verify-diagnostics

#up = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
#other = #kernel.numerics<acc = f32, mul = bf16, chain = "k_ascending">
#lanes = #kernel.numerics<acc = f32, mul = f32, chain = "lanes16">

// Other schedules, other phases, and other ops of a site may differ.
dsv3.program @decode_b1(%x: tensor<1x16xbf16>, %g: tensor<16xbf16>) attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  %a = kernel.add ins(%x, %x : tensor<1x16xbf16>, tensor<1x16xbf16>) outs(%x : tensor<1x16xbf16>) numerics #up schedule #kernel.schedule<"a", {}> site "s"
  %n = kernel.norm ins(%x, %g : tensor<1x16xbf16>, tensor<16xbf16>) outs(%x : tensor<1x16xbf16>) eps 1.0e-06 numerics #lanes site "s"
  dsv3.return
}
dsv3.program @decode_b2(%x: tensor<2x16xbf16>, %g: tensor<16xbf16>) attributes {phase = "decode", tokens = 2 : i64, seqs = 2 : i64} {
  %a = kernel.add ins(%x, %x : tensor<2x16xbf16>, tensor<2x16xbf16>) outs(%x : tensor<2x16xbf16>) numerics #up schedule #kernel.schedule<"b", {}> site "s"
  %n = kernel.norm ins(%x, %g : tensor<2x16xbf16>, tensor<16xbf16>) outs(%x : tensor<2x16xbf16>) eps 1.0e-06 numerics #lanes site "s"
  dsv3.return
}
dsv3.program @prefill_t2(%x: tensor<2x16xbf16>) attributes {phase = "prefill", tokens = 2 : i64, seqs = 2 : i64} {
  %a = kernel.add ins(%x, %x : tensor<2x16xbf16>, tensor<2x16xbf16>) outs(%x : tensor<2x16xbf16>) numerics #other site "s"
  dsv3.return
}

// -----

#up = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
#lanes = #kernel.numerics<acc = f32, mul = f32, chain = "lanes16">
dsv3.program @decode_b1(%x: tensor<1x16xbf16>) attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  %a = kernel.add ins(%x, %x : tensor<1x16xbf16>, tensor<1x16xbf16>) outs(%x : tensor<1x16xbf16>) numerics #up site "l0.mid"
  dsv3.return
}
dsv3.program @decode_b2(%x: tensor<2x16xbf16>) attributes {phase = "decode", tokens = 2 : i64, seqs = 2 : i64} {
  // expected-error @+1 {{'kernel.add' op expected the numerics of @decode_b1 in @decode_b2 at "l0.mid": #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">, got #kernel.numerics<acc = f32, mul = f32, chain = "lanes16">}}
  %a = kernel.add ins(%x, %x : tensor<2x16xbf16>, tensor<2x16xbf16>) outs(%x : tensor<2x16xbf16>) numerics #lanes site "l0.mid"
  dsv3.return
}

// -----

// Prefill and score write the same cache, so they are one family; score may lack launches.
#up = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
#lanes = #kernel.numerics<acc = f32, mul = f32, chain = "lanes16">
dsv3.program @prefill_t2(%x: tensor<2x16xbf16>) attributes {phase = "prefill", tokens = 2 : i64, seqs = 2 : i64} {
  %a = kernel.add ins(%x, %x : tensor<2x16xbf16>, tensor<2x16xbf16>) outs(%x : tensor<2x16xbf16>) numerics #up site "l0.mid"
  %b = kernel.add ins(%x, %x : tensor<2x16xbf16>, tensor<2x16xbf16>) outs(%x : tensor<2x16xbf16>) numerics #up site "l0.out"
  dsv3.return
}
dsv3.program @score_t2(%x: tensor<2x16xbf16>) attributes {phase = "score", tokens = 2 : i64, seqs = 2 : i64} {
  // expected-error @+1 {{expected the numerics of @prefill_t2 in @score_t2 at "l0.out"}}
  %b = kernel.add ins(%x, %x : tensor<2x16xbf16>, tensor<2x16xbf16>) outs(%x : tensor<2x16xbf16>) numerics #lanes site "l0.out"
  dsv3.return
}

// -----

// Another form of one site in another bucket would never be compared by numerics alone.
dsv3.program @decode_b1(%x: tensor<1x16xbf16>) attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  %a = kernel.add ins(%x, %x : tensor<1x16xbf16>, tensor<1x16xbf16>) outs(%x : tensor<1x16xbf16>) site "l0.act"
  dsv3.return
}
dsv3.program @decode_b2(%x: tensor<2x16xbf16>) attributes {phase = "decode", tokens = 2 : i64, seqs = 2 : i64} {
  // expected-error @+1 {{'kernel.swiglu' op expected @decode_b2 to launch what @decode_b1 of the same phase does, got kernel.swiglu "l0.act" where that has kernel.add "l0.act"}}
  %a = kernel.swiglu ins(%x, %x : tensor<2x16xbf16>, tensor<2x16xbf16>) outs(%x : tensor<2x16xbf16>) site "l0.act"
  dsv3.return
}

// -----

dsv3.program @decode_b1(%x: tensor<1x16xbf16>) attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  %a = kernel.add ins(%x, %x : tensor<1x16xbf16>, tensor<1x16xbf16>) outs(%x : tensor<1x16xbf16>) site "l0.act"
  dsv3.return
}
// expected-error @+1 {{'dsv3.program' op expected 1 launches as in @decode_b1 of the same phase, got 0}}
dsv3.program @decode_b2(%x: tensor<2x16xbf16>) attributes {phase = "decode", tokens = 2 : i64, seqs = 2 : i64} {
  dsv3.return
}
