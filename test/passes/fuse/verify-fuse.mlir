// What must not be left after fuse.
// RUN: dsv3-opt %s --dsv3-verify-stage="stage=fuse" -split-input-file -verify-diagnostics

dsv3.program @p(%x: tensor<1x8xbf16>, %g: tensor<8xbf16>) attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  // expected-error @+1 {{'dsv3.add' op expected the add before norm "l0.post_norm" to be fused}}
  %a = dsv3.add %x, %x site "l0.mid" : tensor<1x8xbf16>, tensor<1x8xbf16> -> tensor<1x8xbf16>
  %n = dsv3.rms_norm %a, %g eps 1.0e-06 site "l0.post_norm" : tensor<1x8xbf16>, tensor<8xbf16> -> tensor<1x8xbf16>
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<1x8xbf16>, %ids: tensor<1x2xi32>, %wt: tensor<1x2xf32>) attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  // expected-error @+1 {{'dsv3.dispatch' op expected the routed layer at "l0.dispatch" to be fused}}
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 8 site "l0.dispatch" : tensor<1x8xbf16>, tensor<1x2xi32> -> tensor<2x8xbf16>, tensor<9xi32>, tensor<1x2xi32>
  %y = dsv3.combine %rows, %of, %wt site "l0.mlp" : tensor<2x8xbf16>, tensor<1x2xi32>, tensor<1x2xf32> -> tensor<1x8xbf16>
  dsv3.tap "l0.mlp", %y : tensor<1x8xbf16>
  dsv3.return
}

// -----

// A tap of an inner value is the reason that counts.
dsv3.program @p(%x: tensor<1x8xbf16>, %w: tensor<8x4x8xbf16>, %ids: tensor<1x2xi32>) attributes {phase = "prefill", tokens = 1 : i64, seqs = 1 : i64} {
  %rows, %off, %of = dsv3.dispatch %x, %ids experts 8 site "l0.dispatch" : tensor<1x8xbf16>, tensor<1x2xi32> -> tensor<2x8xbf16>, tensor<9xi32>, tensor<1x2xi32>
  %g = dsv3.grouped_linear %rows, %w, %off site "l0.gate" : tensor<2x8xbf16>, tensor<8x4x8xbf16>, tensor<9xi32> -> tensor<2x4xf32>
  dsv3.tap "l0.gate", %g : tensor<2x4xf32>
  dsv3.return
}
