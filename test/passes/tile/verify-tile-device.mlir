// What stage tile promises on a device.
// RUN: dsv3-opt %s --dsv3-verify-stage=stage=tile -split-input-file -verify-diagnostics

#num = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
#sch = #kernel.schedule<"testgpu.add", {}>

// Named, but a declaration.
module {
dsv3.program @p(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %d = kernel.empty : tensor<4x8xf32>
  // expected-error @+1 {{expected a kernel of its own in gpu.module @sm_90a}}
  %y = kernel.add ins(%x, %x : tensor<4x8xf32>, tensor<4x8xf32>) outs(%d : tensor<4x8xf32>) numerics #num schedule #sch site "s" {kernel.symbol = @k}
  dsv3.return %y : tensor<4x8xf32>
}
gpu.module @sm_90a {
  llvm.func @k(!llvm.ptr<1>) attributes {nvvm.kernel}
}
}

// -----

#num = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
#sch = #kernel.schedule<"testgpu.add", {}>

// A function, but no kernel.
module {
dsv3.program @p(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %d = kernel.empty : tensor<4x8xf32>
  // expected-error @+1 {{expected a kernel of its own in gpu.module @sm_90a}}
  %y = kernel.add ins(%x, %x : tensor<4x8xf32>, tensor<4x8xf32>) outs(%d : tensor<4x8xf32>) numerics #num schedule #sch site "s" {kernel.symbol = @k}
  dsv3.return %y : tensor<4x8xf32>
}
gpu.module @sm_90a {
  llvm.func @k(%a: !llvm.ptr<1>) {
    llvm.return
  }
}
}

// -----

// expected-error @+1 {{expected a module per code variant or a gpu.module, got none}}
module {
}
