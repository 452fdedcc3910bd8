// What must hold after specialize.
// RUN: dsv3-opt %s --dsv3-verify-stage="stage=specialize" -split-input-file -verify-diagnostics

// expected-error @+1 {{'dsv3.program' op expected a phase after specialize, got none}}
dsv3.program @p() {
  dsv3.return
}

// -----

// expected-error @+1 {{'dsv3.program' op expected static shapes after specialize, got argument 'tensor<?xi32>'}}
dsv3.program @p(%x: tensor<?xi32>) attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  dsv3.return
}

// -----

dsv3.program @decode_b1(%x: tensor<1x8xbf16>) -> tensor<1x8xbf16> attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  %y = dsv3.add %x, %x site "l0.out" : tensor<1x8xbf16>, tensor<1x8xbf16> -> tensor<1x8xbf16>
  dsv3.return %y : tensor<1x8xbf16>
}
dsv3.program @decode_b2(%x: tensor<2x8xbf16>) -> tensor<2x8xbf16> attributes {phase = "decode", tokens = 2 : i64, seqs = 2 : i64} {
  // expected-error @+1 {{'dsv3.add' op expected @decode_b2 to differ from @decode_b1 of the same phase in rows only, got dsv3.add "l1.out" where that has dsv3.add "l0.out"}}
  %y = dsv3.add %x, %x site "l1.out" : tensor<2x8xbf16>, tensor<2x8xbf16> -> tensor<2x8xbf16>
  dsv3.return %y : tensor<2x8xbf16>
}

// -----

// A rounding that only one bucket does.
dsv3.program @decode_b1(%x: tensor<1x8xbf16>) attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  %y = dsv3.add %x, %x site "l0.out" : tensor<1x8xbf16>, tensor<1x8xbf16> -> tensor<1x8xbf16>
  dsv3.return
}
dsv3.program @decode_b2(%x: tensor<2x8xbf16>) attributes {phase = "decode", tokens = 2 : i64, seqs = 2 : i64} {
  // expected-error @+1 {{expected @decode_b2 to differ from @decode_b1 of the same phase in rows only}}
  %y = dsv3.add %x, %x site "l0.out" : tensor<2x8xbf16>, tensor<2x8xbf16> -> tensor<2x8xf32>
  dsv3.return
}

// -----

// Another phase may do as it likes.
dsv3.program @decode_b1(%x: tensor<1x8xbf16>) attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  dsv3.return
}
dsv3.program @prefill_t2(%x: tensor<2x8xbf16>) attributes {phase = "prefill", tokens = 2 : i64, seqs = 2 : i64} {
  %y = dsv3.add %x, %x site "l0.out" : tensor<2x8xbf16>, tensor<2x8xbf16> -> tensor<2x8xf32>
  dsv3.return
}
