// RUN: dsv3-opt %s --dsv3-make-programs="max-batch=2 prefill-chunk=16" -split-input-file -verify-diagnostics

// expected-error @+1 {{expected a program @trunk, got none}}
module {
  dsv3.program @head(%hidden: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    dsv3.return %hidden : tensor<?x8xbf16>
  }
}

// -----

// expected-error @+1 {{expected a program @head, got none}}
module {
  dsv3.program @trunk(%ids: tensor<?xi32>, %seq: !dsv3.seq, %kv: !dsv3.kv<layers = 1, page = 64, latent = 8, rope = 8, bf16>)
      -> (tensor<?xi32>, !dsv3.kv<layers = 1, page = 64, latent = 8, rope = 8, bf16>) {
    dsv3.return %ids, %kv : tensor<?xi32>, !dsv3.kv<layers = 1, page = 64, latent = 8, rope = 8, bf16>
  }
}

// -----

// expected-error @+1 {{'dsv3.program' op expected signature (ids, seq, kv) -> (hidden, kv), got '(tensor<?xi32>, !dsv3.seq) -> tensor<?xi32>'}}
dsv3.program @trunk(%ids: tensor<?xi32>, %seq: !dsv3.seq) -> tensor<?xi32> {
  dsv3.return %ids : tensor<?xi32>
}
dsv3.program @head(%hidden: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  dsv3.return %hidden : tensor<?x8xbf16>
}

// -----

!kv = !dsv3.kv<layers = 1, page = 64, latent = 8, rope = 8, bf16>
dsv3.program @trunk(%ids: tensor<?xi32>, %seq: !dsv3.seq, %kv: !kv) -> (tensor<?xi32>, !kv) {
  dsv3.return %ids, %kv : tensor<?xi32>, !kv
}
// expected-error @+1 {{'dsv3.program' op expected ? in the first dimension only, got argument 'tensor<?x?xbf16>'}}
dsv3.program @head(%hidden: tensor<?x?xbf16>) -> tensor<?x?xbf16> {
  dsv3.return %hidden : tensor<?x?xbf16>
}
