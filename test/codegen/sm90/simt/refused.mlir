// Launches that thread-level kernels cannot do, with the reason.
// RUN: dsv3-opt %s --dsv3-bind-kernels="target=sm_90a" -split-input-file -verify-diagnostics

dsv3.program @p(%x: tensor<4x20000xbf16>, %g: tensor<20000xbf16>) {
  %d = kernel.empty : tensor<4x20000xbf16>
  // expected-error @+1 {{rows of more than 16384 values}}
  %n = kernel.norm ins(%x, %g : tensor<4x20000xbf16>, tensor<20000xbf16>) outs(%d : tensor<4x20000xbf16>) eps 1.0e-06 site "s"
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x64xf16>) {
  %d = kernel.empty : tensor<4x64xf16>
  // expected-error @+1 {{operand 0 must be plain f32 or bf16}}
  %n = kernel.add ins(%x, %x : tensor<4x64xf16>, tensor<4x64xf16>) outs(%d : tensor<4x64xf16>) site "s"
  dsv3.return
}

// -----

dsv3.program @p(%l: tensor<4x2048xf32>, %b: tensor<2048xf32>) {
  %i = kernel.empty : tensor<4x8xi32>
  %w = kernel.empty : tensor<4x8xf32>
  // expected-error @+1 {{more than 1024 experts}}
  %r, %q = kernel.route ins(%l, %b : tensor<4x2048xf32>, tensor<2048xf32>) outs(%i, %w : tensor<4x8xi32>, tensor<4x8xf32>)
    groups 8 keep 4 top 8 norm true scale 2.5 site "s" -> tensor<4x8xi32>, tensor<4x8xf32>
  dsv3.return
}

// -----

#rows = #dsv3.blocked<f8E4M3FN, 1x64, f32>
dsv3.program @p(%x: tensor<4x256xbf16>) {
  %d = kernel.empty : tensor<4x256xbf16, #rows>
  // expected-error @+1 {{out must be stored as f8E4M3FN or i8 in blocks of 1x128 or 1x? with f32 scales}}
  %q = kernel.quantize ins(%x : tensor<4x256xbf16>) outs(%d : tensor<4x256xbf16, #rows>) site "s"
  dsv3.return
}

// -----

#group = #dsv3.blocked<f8E4M3FN, 1x128, f32>
dsv3.program @p(%x: tensor<4x258xbf16>) {
  %d = kernel.empty : tensor<4x258xbf16, #group>
  // expected-error @+1 {{rows of 258 values do not lie on multiples of 4}}
  %q = kernel.quantize ins(%x : tensor<4x258xbf16>) outs(%d : tensor<4x258xbf16, #group>) site "s"
  dsv3.return
}

// -----

dsv3.program @p(%p: tensor<8x2x96xf32>, %l: tensor<8x2xf32>, %s: tensor<5xi32>, %seq: !dsv3.seq, %o: tensor<4x2x96xbf16>) {
  // expected-error @+1 {{rows of 96 values are not a multiple of 128 up to 4096}}
  %r = kernel.attn_combine ins(%p, %l, %s, %seq : tensor<8x2x96xf32>, tensor<8x2xf32>, tensor<5xi32>) outs(%o : tensor<4x2x96xbf16>) site "s"
  dsv3.return
}
