// RUN: dsv3-opt %s --dsv3-bind-kernels=target=test -split-input-file -verify-diagnostics

dsv3.program @p(%x: tensor<4x16xbf16>) {
  // expected-error @+1 {{'kernel.swiglu' op expected an emitter for kernel.swiglu on test at "l0.act", got none}}
  %y = kernel.swiglu ins(%x, %x : tensor<4x16xbf16>, tensor<4x16xbf16>) outs(%x : tensor<4x16xbf16>) site "l0.act"
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<4x20xbf16>, %w: tensor<8x20xbf16>, %o: tensor<4x8xbf16>) {
  // expected-error @+1 {{'kernel.gemm' op expected an op that test.gemm accepts at "l0.q": K = 20 is not a multiple of 8}}
  %y = kernel.gemm ins(%x, %w : tensor<4x20xbf16>, tensor<8x20xbf16>) outs(%o : tensor<4x8xbf16>) site "l0.q"
  dsv3.return
}
