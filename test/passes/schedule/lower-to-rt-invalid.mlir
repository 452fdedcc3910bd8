// RUN: dsv3-opt %s --dsv3-outline-kernels="variants=avx2" --dsv3-lower-to-rt -split-input-file -verify-diagnostics

#num = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
#add = #kernel.schedule<"x86.add", {}>
!kv = !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, f32>
module attributes {dsv3.capacities = {tokens = 4 : i64, seqs = 2 : i64, pages = 4 : i64, qblocks = 4 : i64, kblocks = 6 : i64, max_model_len = 256 : i64}} {
dsv3.program @p(%h: tensor<4x32xf32> {dsv3.name = "x"}, %kv: !kv {dsv3.name = "kv"}) -> (tensor<4x32xf32> {dsv3.name = "logits"}, !kv) attributes {phase = "score", tokens = 4 : i64, seqs = 2 : i64} {
  %d = kernel.empty : tensor<4x32xf32>
  %a = kernel.add ins(%h, %h : tensor<4x32xf32>, tensor<4x32xf32>) outs(%d : tensor<4x32xf32>) numerics #num schedule #add site "a"
  %b = kernel.add ins(%a, %a : tensor<4x32xf32>, tensor<4x32xf32>) outs(%a : tensor<4x32xf32>) numerics #num schedule #add site "b"
  // expected-error @+1 {{reads a value that was overwritten in place before}}
  %c = kernel.add ins(%a, %b : tensor<4x32xf32>, tensor<4x32xf32>) outs(%d : tensor<4x32xf32>) numerics #num schedule #add site "c"
  dsv3.return %c, %kv : tensor<4x32xf32>, !kv
}
}

// -----

#num = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
#add = #kernel.schedule<"x86.add", {}>
!kv = !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, f32>
module attributes {dsv3.capacities = {tokens = 4 : i64, seqs = 2 : i64, pages = 4 : i64, qblocks = 4 : i64, kblocks = 6 : i64, max_model_len = 256 : i64}} {
dsv3.program @p(%h: tensor<4x32xf32> {dsv3.name = "x"}, %kv: !kv {dsv3.name = "kv"}) -> (tensor<4x32xf32> {dsv3.name = "logits"}, !kv) attributes {phase = "score", tokens = 4 : i64, seqs = 2 : i64} {
  // expected-error @+1 {{expected destination 2 to be a kernel.empty or an intermediate value}}
  %b = kernel.add ins(%h, %h : tensor<4x32xf32>, tensor<4x32xf32>) outs(%h : tensor<4x32xf32>) numerics #num schedule #add site "b"
  dsv3.return %b, %kv : tensor<4x32xf32>, !kv
}
}

// -----

#num = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
#add = #kernel.schedule<"x86.add", {}>
!kv = !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, f32>
module attributes {dsv3.capacities = {tokens = 4 : i64, seqs = 2 : i64, pages = 4 : i64, qblocks = 4 : i64, kblocks = 6 : i64, max_model_len = 256 : i64}} {
dsv3.program @p(%kv: !kv {dsv3.name = "kv"}) -> (tensor<4x32xf32> {dsv3.name = "logits"}, !kv) attributes {phase = "score", tokens = 4 : i64, seqs = 2 : i64} {
  %d = kernel.empty : tensor<4x32xf32>
  // expected-error @+1 {{expected inputs with a value, got an uninitialised kernel.empty}}
  %b = kernel.add ins(%d, %d : tensor<4x32xf32>, tensor<4x32xf32>) outs(%d : tensor<4x32xf32>) numerics #num schedule #add site "b"
  dsv3.return %b, %kv : tensor<4x32xf32>, !kv
}
}

// -----

// Nobody yields a `context`.
#num = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
#add = #kernel.schedule<"x86.add", {}>
!kv = !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, f32>
module attributes {dsv3.capacities = {tokens = 4 : i64, seqs = 2 : i64, pages = 4 : i64, qblocks = 4 : i64, kblocks = 6 : i64, max_model_len = 256 : i64}} {
// expected-remark @+1 {{arena of @p: 0 bytes}}
dsv3.program @p(%h: tensor<4x32xf32> {dsv3.name = "context"}, %kv: !kv {dsv3.name = "kv"}) -> (tensor<4x32xf32> {dsv3.name = "logits"}, !kv) attributes {phase = "score", tokens = 4 : i64, seqs = 2 : i64} {
  %d = kernel.empty : tensor<4x32xf32>
  // expected-error @+1 {{reads argument 'context', which is neither a field of the step nor the output of a program}}
  %b = kernel.add ins(%h, %h : tensor<4x32xf32>, tensor<4x32xf32>) outs(%d : tensor<4x32xf32>) numerics #num schedule #add site "b"
  dsv3.return %b, %kv : tensor<4x32xf32>, !kv
}
}

// -----

#num = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
#add = #kernel.schedule<"x86.add", {}>
!kv = !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, f32>
module attributes {dsv3.capacities = {tokens = 4 : i64, seqs = 2 : i64, pages = 4 : i64, qblocks = 4 : i64, kblocks = 6 : i64, max_model_len = 256 : i64}} {
dsv3.program @p(%h: tensor<4x32xf32> {dsv3.name = "x"}, %kv: !kv {dsv3.name = "kv"}) -> (tensor<4x32xf32> {dsv3.name = "logits"}, tensor<4x32xf32> {dsv3.name = "hidden"}, !kv) attributes {phase = "score", tokens = 4 : i64, seqs = 2 : i64} {
  %d = kernel.empty : tensor<4x32xf32>
  %b = kernel.add ins(%h, %h : tensor<4x32xf32>, tensor<4x32xf32>) outs(%d : tensor<4x32xf32>) numerics #num schedule #add site "b"
  // expected-error @+1 {{returns one buffer as 'logits' and as 'hidden'}}
  dsv3.return %b, %b, %kv : tensor<4x32xf32>, tensor<4x32xf32>, !kv
}
}

// -----

#num = #kernel.numerics<acc = f32, mul = f32, chain = "k_ascending">
!kv = !dsv3.kv<layers = 1, page = 64, latent = 128, rope = 64, f32>
// expected-error @+1 {{expected a module with attribute dsv3.capacities, got none}}
module {
dsv3.program @p(%kv: !kv {dsv3.name = "kv"}) -> !kv attributes {phase = "score", tokens = 4 : i64, seqs = 2 : i64} {
  dsv3.return %kv : !kv
}
}
